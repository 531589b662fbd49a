package weir_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A variant of a limit has its counters and its mode, and other numbers.
func TestVariant(t *testing.T) {
	pool := &weir.Limit{Name: "pool", Algorithm: algorithm.FixedWindow, Count: 1000, Period: time.Minute}
	for _, tt := range []struct {
		name  string
		mode  weir.Mode
		roles []weir.Role
	}{
		{"hard", weir.Mode{}, []weir.Role{weir.Enforce}},
		{"soft", weir.Mode{Excess: 10}, []weir.Role{weir.Enforce, weir.Soft}},
		{"elastic", weir.Mode{Pool: pool, PoolKey: "p", Ceiling: 200}, []weir.Role{weir.Enforce, weir.Own, weir.Pool}},
		{"shadow", weir.Mode{Shadow: true}, []weir.Role{weir.Shadow}},
		{"ban", weir.Mode{Ban: &weir.Limit{Name: "ban", Algorithm: algorithm.Lockout, Count: 3, Period: time.Minute}}, []weir.Role{weir.Ban, weir.Enforce}},
		{"reserve", weir.Mode{Reserve: []int64{0, 20}}, []weir.Role{weir.Enforce}},
	} {
		l := &weir.Limit{Name: tt.name, Scope: "api/x", Algorithm: algorithm.TokenBucket, Count: 100, Period: time.Minute, Mode: tt.mode}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		v, err := l.Variant(500, time.Minute, 0)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if v.ID() != l.ID() || v.Counters() != l.Counters() || v.Name != l.Name {
			t.Errorf("%s: the variant counts elsewhere", tt.name)
		}
		r := &weir.Request{Priority: 1}
		got, want := l.Append(nil, "k", 1, r), v.Append(nil, "k", 1, r)
		at := 0
		for got[at].Limit != l {
			at++
		}
		weir.Replace(got, at, v)
		if len(got) != len(want) || len(got) != len(tt.roles) {
			t.Fatalf("%s: %d ops, want %d", tt.name, len(got), len(tt.roles))
		}
		for i := range want {
			if got[i].Limit != want[i].Limit || got[i].Reserve != want[i].Reserve || got[i].Role != tt.roles[i] {
				t.Errorf("%s: op %d is %+v, want %+v", tt.name, i, got[i], want[i])
			}
		}
		if tt.name == "reserve" && got[0].Reserve != 100 {
			t.Errorf("%d are kept for priority 0, want a fifth of 500", got[0].Reserve)
		}
	}
}

func TestVariantThatCannotBe(t *testing.T) {
	l := &weir.Limit{Name: "l", Algorithm: algorithm.FixedWindow, Count: 100, Period: time.Minute}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		count  int64
		period time.Duration
		burst  int64
	}{{0, time.Minute, 0}, {weir.MaxCost + 1, time.Minute, 0}, {1, 0, 0}, {1, weir.MaxPeriod + 1, 0}, {1, time.Minute, -1}} {
		if v, err := l.Variant(tt.count, tt.period, tt.burst); err == nil {
			t.Errorf("%+v: got %d per %s", tt, v.Count, v.Period)
		}
	}
}
