#include "textflag.h"

// func readCounter() uint64
//
// The fence keeps the processor from reading ahead: a lock that is taken first must
// be held when the time is told.
TEXT ·readCounter(SB), NOSPLIT, $0-8
	LFENCE
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
