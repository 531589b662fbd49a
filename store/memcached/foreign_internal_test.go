package memcached

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// number is what a server takes for one, and may have been a count: after white space it
// reads on behind the value.
var number = regexp.MustCompile(`^\s*([+]?[0-9]+(\s|\x00|$)|$)`)

// A key that holds what this store does not write begins anew, in requests of every
// shape: nothing panics, no call fails, and from then on no more than the count passes.
func TestFamilyForeignValues(t *testing.T) {
	addr, _ := servertest.Memcached(t, "")
	s, err := New(Options{Servers: []string{addr}, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	direct := memcache.New(addr)
	defer direct.Close()
	values := []string{
		"", " ", "hello", "-1", "+1", "1.5", "9e300", "0x10", " 7", "7 x", "7\r\n", "\x00\x00\x00\x07", "7\x00",
		"9007199254740993", "4611686018427387904", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
		strings.Repeat("9", 100), strings.Repeat("x", 100_000), "v2:7", `{"count":7}`,
	}
	rounds := 20
	if os.Getenv("WEIR_SOAK") != "" {
		rounds = 5000
	}
	r := rand.New(rand.NewPCG(seeds.Of(t), 1))
	for range rounds {
		b := make([]byte, r.IntN(24))
		for i := range b {
			b[i] = "0123456789 -x\x00\xff"[r.IntN(15)]
		}
		values = append(values, string(b))
	}
	l := &weir.Limit{Name: "l", Algorithm: algorithm.FixedWindow, Count: 5, Period: 20 * 24 * time.Hour}
	beside := &weir.Limit{Name: "beside", Scope: "beside", Algorithm: algorithm.FixedWindow, Count: 1000, Period: 20 * 24 * time.Hour}
	for _, l := range []*weir.Limit{l, beside} {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	for i, value := range values {
		for _, shape := range []string{"one", "several", "look", "reserve", "force", "refund"} {
			key := fmt.Sprint(shape, i)
			var k counter
			c := call{Store: s, now: s.now()}
			s.locateCounter(&k, key, l, c.windowEnd(l))
			if err := direct.Set(&memcache.Item{Key: k.key, Value: []byte(value), Expiration: 1000}); err != nil {
				t.Fatal(err)
			}
			ops := []weir.Op{{Key: key, Limit: l, Cost: 1}}
			switch shape {
			case "several":
				ops = append(ops, weir.Op{Key: key, Limit: beside, Cost: 1})
			case "look":
				ops[0].Verb = weir.Peek
			case "reserve":
				ops[0].Headroom = 1
			case "force":
				ops[0].Verb, ops[0].Role = weir.Force, weir.Always
			case "refund":
				ops[0].Verb, ops[0].Role = weir.Refund, weir.Always
			}
			if err := s.Take(t.Context(), ops); err != nil {
				t.Errorf("%.20q, %s: %v", value, shape, err)
				continue
			}
			passed := int64(0)
			if ops[0].Charged && ops[0].Verb == weir.Spend && ops[0].Decision.Allowed() {
				passed++
			}
			for range 10 {
				d, err := s.TakeOne(t.Context(), key, l, 1)
				if err != nil {
					t.Errorf("%.20q, %s: then %v", value, shape, err)
				}
				if d.Allowed() {
					passed++
				}
			}
			if passed > l.Count || !number.MatchString(value) && passed < l.Count-1 {
				t.Errorf("%.20q, %s: %d passed of %d", value, shape, passed, l.Count)
			}
		}
	}
	if n := s.Stats().Foreign; n == 0 {
		t.Error("none was counted")
	}
}
