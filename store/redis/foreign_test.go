package redis

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// foreign puts at a key what no script of ours writes.
var foreign = map[string]func(do func(args ...string), key string){
	"text":     func(do func(...string), key string) { do("SET", key, "hello") },
	"nothing":  func(do func(...string), key string) { do("SET", key, "") },
	"16 bytes": func(do func(...string), key string) { do("SET", key, "garbage garbage!") },
	"24 bytes": func(do func(...string), key string) { do("SET", key, "garbage garbage garbage!") },
	"64 bytes": func(do func(...string), key string) { do("SET", key, fmt.Sprintf("%064d", 7)+"x") },
	"not a number": func(do func(...string), key string) {
		do("SET", key, "\x7f\xf8\x00\x00\x00\x00\x00\x01\x7f\xf8\x00\x00\x00\x00\x00\x01")
	},
	"infinity": func(do func(...string), key string) {
		do("SET", key, "\x7f\xf0\x00\x00\x00\x00\x00\x00\x7f\xf0\x00\x00\x00\x00\x00\x00")
	},
	// Three doubles: a start ahead, a count far below zero, almost nothing. What a script
	// would make of them looks like a row.
	"far below": func(do func(...string), key string) {
		do("SET", key, "\x43\x32\xc5\x12\x5f\xec\xc7\xbe\xd7\xe7\x40\x0d\x3f\x4c\xef\xbe\xb6\x73\x76\xa1\xe3\xa4\x61\x46")
	},
	"huge":     func(do func(...string), key string) { do("SET", key, "9e300") },
	"a list":   func(do func(...string), key string) { do("RPUSH", key, "a", "b", "c") },
	"a hash":   func(do func(...string), key string) { do("HSET", key, "a", "b") },
	"a set":    func(do func(...string), key string) { do("SADD", key, "a", "b") },
	"a stream": func(do func(...string), key string) { do("XADD", key, "*", "a", "b") },
}

// A key that holds what no script of ours wrote is no fault of the store: it is
// overwritten, in requests of every shape, and no other op of the request is charged
// twice or too little.
func TestFamilyForeignValues(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	s := open(t, "redis://"+server.Addr, Options{Timeout: long})
	do := func(args ...string) { server.Do(t, args...) }
	foreign, r := maps.Clone(foreign), rand.New(rand.NewPCG(seeds.Of(t), 1))
	foreign["random"] = func(do func(...string), key string) {
		b := make([]byte, r.IntN(64))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		do("SET", key, string(b))
	}
	rounds := 1
	if os.Getenv("WEIR_SOAK") != "" {
		rounds = 200
	}
	n := 0
	for range rounds {
		for _, a := range algorithm.All {
			if Check(&weir.Limit{Algorithm: a}) != nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(foreign)) {
				for _, shape := range []string{"one", "row", "several", "look"} {
					n++
					l := &weir.Limit{Name: a.Name(), Algorithm: a, Count: 5, Period: time.Hour}
					beside := perHour(t, 5, algorithm.FixedWindow)
					beside.Name, beside.Scope = "beside", "beside"
					for _, l := range []*weir.Limit{l, beside} {
						if err := l.Compile(); err != nil {
							t.Fatal(err)
						}
					}
					key := fmt.Sprint("k", n)
					ops := []weir.Op{{Key: key, Limit: l, Cost: 1, ID: 7}}
					switch shape {
					case "row":
						ops = append(ops, weir.Op{Key: key, Limit: beside, Cost: 1})
					case "several":
						ops = append([]weir.Op{{Key: key, Limit: beside, Cost: 1, Role: weir.Always}}, ops...)
					case "look":
						ops[0].Verb = weir.Peek
					}
					pl, err := s.plans.planForLimit(l, s.readClock)
					if err != nil {
						t.Fatal(err)
					}
					foreign[name](do, s.opt.Prefix+":{"+tagForKey(key)+pl.suffix)
					if err := s.Take(t.Context(), ops); err != nil {
						t.Errorf("%s, %s, %s: %v", a.Name(), name, shape, err)
						continue
					}
					d := weir.Fold(ops)
					// A bucket takes numbers too far ahead for a full one: it flows back.
					full := !d.Allowed() && d.RetryAfter > 0 && d.RetryAfter < 2*l.Period && l.Traits()&weir.Lends != 0 || a == algorithm.LeakyQueue
					// What happens to look like a row of a time to come is taken for one.
					if name != "random" && name != "far below" && !d.Allowed() && !full {
						t.Errorf("%s, %s, %s: refused: %+v", a.Name(), name, shape, d)
					}
					look := []weir.Op{{Key: key, Limit: beside, Cost: 1, Verb: weir.Peek}}
					if err := s.Take(t.Context(), look); err != nil {
						t.Fatal(err)
					}
					if left := look[0].Decision.Remaining; name != "random" && (d.Allowed() && (shape == "row" || shape == "several")) != (left == 4) {
						t.Errorf("%s, %s, %s: %d remain of the limit beside it", a.Name(), name, shape, left)
					}
				}
			}
		}
	}
}
