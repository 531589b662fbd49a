package tier_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/servertest"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/tier"
)

// A store that can do nothing but count has no register of nodes: it decides all
// the same, and the nodes are those that are configured.
func TestStoreThatOnlyCounts(t *testing.T) {
	addr, _ := servertest.Memcached(t, "")
	opt, err := memcached.ParseURL("memcached://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	opt.Timeout = 5 * time.Second
	shared, err := memcached.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	f := &fleet{T: t}
	for range 2 {
		local := memory.New(memory.Options{MaxBytes: 1 << 20})
		s, err := tier.New(shared, tier.Options{Local: local, Nodes: 2, Timeout: 5 * time.Second, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, s)
		t.Cleanup(func() {
			for _, c := range []weir.Store{s, local} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, m := range []weir.ConsistencyMode{weir.ConsistencyStrict, weir.ConsistencyLeased, weir.ConsistencyEventual} {
		l := weir.PerDay(200, algorithm.FixedWindow)
		l.Name, l.Consistency.Mode = "counted "+m.String(), m
		compiled(t, l, nil)
		passed := 0
		for n := range 600 {
			d := f.take(f.nodes[n%2], "k", l, 1)
			if d.Guarantee().Degraded {
				t.Fatalf("%s: %+v", m, d)
			}
			if d.Allowed() {
				passed++
			}
		}
		// What the other node holds is not lost, but comes back when it is idle.
		if passed > 200 || passed < 150 {
			t.Errorf("%s: %d of 200 passed", m, passed)
		}
	}
	if st := f.nodes[0].Stats(); st.Away || st.Nodes != 2 {
		t.Errorf("%+v", st)
	}
}
