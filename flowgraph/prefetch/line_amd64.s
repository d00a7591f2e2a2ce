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
	LEAQ -1(DI)(DX*1), R8
	TESTQ BX, BX
	JZ   done

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
