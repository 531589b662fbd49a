#include "textflag.h"

// func readCounter() uint64
//
// Without a fence before it, which takes longer than all the rest of telling the time,
// the processor may read ahead: clock.now says what that asks for.
TEXT ·readCounter(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
