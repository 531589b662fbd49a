package weir_test

import (
	"fmt"
	"reflect"
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

// TestCopiesAreWhole: a copy of a limit has all that the limit has, whatever is set. A field
// that is added is set here too, by reflection.
func TestCopiesAreWhole(t *testing.T) {
	set := func(l *weir.Limit) {
		v := reflect.ValueOf(l).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillIn(t, v.Field(i))
			}
		}
		l.Algorithm = algorithm.TokenBucket
	}
	same := func(what string, got, want *weir.Limit, but ...string) {
		t.Helper()
		g, w := reflect.ValueOf(got).Elem(), reflect.ValueOf(want).Elem()
	fields:
		for i := range w.NumField() {
			f := w.Type().Field(i)
			for _, name := range but {
				if f.Name == name {
					continue fields
				}
			}
			if f.IsExported() && (w.Field(i).IsZero() || !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface())) {
				t.Errorf("%s: %s is %v, want %v, which is not zero", what, f.Name, g.Field(i), w.Field(i))
			}
		}
	}
	l := weir.PerMinute(10, algorithm.TokenBucket)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	set(l)
	same("From", l.From(weir.FromLease), l)
	same("Clone", l.Clone(), l, "Prepared", "Derived")
	if c := l.Clone(); c.Cells != 0 || c.Derived != l || c.Counters() != l.Counters() {
		t.Errorf("Clone is no version of the limit that is to be compiled: %+v", c)
	}
	soft := &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 10, Period: time.Minute, Burst: 20, Mode: weir.Mode{Excess: 50}}
	if err := soft.Compile(); err != nil {
		t.Fatal(err)
	}
	if c := soft.Clone(); soft.Count != 15 || c.Count != 10 || c.Burst != 20 {
		t.Errorf("a clone of a soft limit has %d burst %d, want what was set: 10 burst 20", c.Count, c.Burst)
	}
}

// fillIn sets v, and all that it has exported, to something that is not zero.
func fillIn(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.String:
		v.SetString("s")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillIn(t, v.Index(0))
	case reflect.Array:
		fillIn(t, v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillIn(t, v.Field(i))
			}
		}
	case reflect.Interface: // the algorithm
	default:
		t.Fatalf("say how a %s is set", v.Kind())
	}
}
