#include "textflag.h"

// func line(p unsafe.Pointer)
TEXT ·line(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func each(base unsafe.Pointer, size uintptr, index unsafe.Pointer, stride uintptr, n int)
TEXT ·each(SB), NOSPLIT, $0-40
	MOVQ base+0(FP), DI
	MOVQ size+8(FP), DX
	MOVQ index+16(FP), SI
	MOVQ stride+24(FP), CX
	MOVQ n+32(FP), BX
	TESTQ BX, BX
	JZ   done

	// Elements of a power of two up to a line lie in one.
	LEAQ -1(DX), R8
	MOVQ R8, R9
	ANDQ DX, R9
	JNZ  both
	CMPQ R8, $64
	JAE  both

one:
	MOVLQSX (SI), AX
	IMULQ   DX, AX
	PREFETCHT0 (DI)(AX*1)
	ADDQ CX, SI
	DECQ BX
	JNZ  one
	RET

both:
	ADDQ DI, R8

more:
	MOVLQSX (SI), AX
	IMULQ   DX, AX
	PREFETCHT0 (DI)(AX*1)
	PREFETCHT0 (R8)(AX*1)
	ADDQ CX, SI
	DECQ BX
	JNZ  more

done:
	RET
