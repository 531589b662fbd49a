package weir_test

import (
	"fmt"
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
		{"reserve", weir.Mode{Headroom: []int64{0, 20}}, []weir.Role{weir.Enforce}},
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
		if len(got) != len(want) || len(got) != len(tt.roles) {
			t.Fatalf("%s: %d ops, want %d", tt.name, len(got), len(tt.roles))
		}
		for i := range want {
			if got[i].Written() != l || want[i].Written() != v || l.Part(got[i].Part) != got[i].Limit || v.Part(got[i].Part) != want[i].Limit || got[i].Role != tt.roles[i] || want[i].Role != tt.roles[i] {
				t.Errorf("%s: op %d is %+v, of the variant %+v", tt.name, i, got[i], want[i])
			}
		}
		if tt.name == "reserve" && want[0].Headroom != 100 {
			t.Errorf("%d are kept for priority 0, want a fifth of 500", want[0].Headroom)
		}
	}
}

// A limit that is enforced for a share of its keys has its counters and numbers, and
// is otherwise what it would be with that rollout.
func TestEnforced(t *testing.T) {
	pool := &weir.Limit{Name: "pool", Algorithm: algorithm.FixedWindow, Count: 1000, Period: time.Minute}
	for _, m := range []weir.Mode{{}, {Shadow: true}, {Rollout: 20}, {Excess: 33}, {Pool: pool, PoolKey: "p", Ceiling: 201}, {Headroom: []int64{0, 7, 99}},
		{Penalize: true, Ban: &weir.Limit{Name: "ban", Algorithm: algorithm.Lockout, Count: 3, Period: time.Minute}}} {
		make := func(m weir.Mode) *weir.Limit {
			l := &weir.Limit{Name: "l", Scope: "api/x", Algorithm: algorithm.TokenBucket, Count: 101, Burst: 157, Period: time.Minute, Mode: m}
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := make(m)
		for _, percent := range []int64{0, 1, 50, 100} {
			v, err := l.Enforced(percent)
			if err != nil {
				t.Fatal(err)
			}
			if v.ID() != l.ID() || v.Counters() != l.Counters() || v.Count != l.Count || v.Burst != l.Burst || v.Ceiling != l.Ceiling || v.Excess != l.Excess {
				t.Errorf("%+v at %d%%: counts elsewhere, or other numbers: %+v", m, percent, v)
			}
			like := m
			like.Shadow, like.Rollout = percent == 0, percent
			if like.Ban != nil {
				like.Ban = &weir.Limit{Name: "ban", Algorithm: algorithm.Lockout, Count: 3, Period: time.Minute}
			}
			want := make(like)
			for i := range 50 {
				key, r := fmt.Sprint("k", i), &weir.Request{Priority: i % 3}
				a, b := v.Append(nil, key, 1, r), want.Append(nil, key, 1, r)
				if len(a) != len(b) {
					t.Fatalf("%+v at %d%%: %d ops, want %d", m, percent, len(a), len(b))
				}
				for i := range a {
					if a[i].Role != b[i].Role || a[i].Headroom != b[i].Headroom || a[i].Penalize != b[i].Penalize || a[i].Limit.Count != b[i].Limit.Count || a[i].Limit.Scope != b[i].Limit.Scope {
						t.Errorf("%+v at %d%%: op %d is %+v, want %+v", m, percent, i, a[i], b[i])
					}
				}
			}
		}
		for _, percent := range []int64{-1, 101} {
			if _, err := l.Enforced(percent); err == nil {
				t.Errorf("%d%% was taken", percent)
			}
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
