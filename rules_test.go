package weir_test

import (
	"testing"

	"github.com/weirlimit/weir"
)

func TestLimitsPeekAtOneDescriptor(t *testing.T) {
	r := &weir.Request{Descriptors: []weir.Descriptor{
		{Entries: []weir.Entry{{Key: "user", Value: "ann"}}},
		{Entries: []weir.Entry{{Key: "user", Value: "bob"}}, Peek: true},
	}}
	ops := weir.Limits{mustLimit(10)}.Match(nil, r)
	if len(ops) != 2 || ops[0].Verb != weir.Spend || ops[1].Verb != weir.Peek {
		t.Errorf("got %+v, want a spend and a peek", ops)
	}
}
