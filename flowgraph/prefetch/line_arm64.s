#include "textflag.h"

// func line(p unsafe.Pointer)
TEXT ·line(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func each(base unsafe.Pointer, size uintptr, index unsafe.Pointer, stride uintptr, n int)
TEXT ·each(SB), NOSPLIT, $0-40
	MOVD base+0(FP), R0
	MOVD size+8(FP), R1
	MOVD index+16(FP), R2
	MOVD stride+24(FP), R3
	MOVD n+32(FP), R4
	SUB  $1, R1, R5
	CBZ  R4, done

more:
	MOVW (R2), R6
	MADD R1, R0, R6, R7
	PRFM (R7), PLDL1KEEP
	ADD  R5, R7
	PRFM (R7), PLDL1KEEP
	ADD  R3, R2
	SUB  $1, R4
	CBNZ R4, more

done:
	RET
