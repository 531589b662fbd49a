package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
)

// rowLimits are limits whose plain spends go together.
func rowLimits(t *testing.T) []*weir.Limit {
	t.Helper()
	all := []*weir.Limit{
		{Algorithm: algorithm.TokenBucket, Count: 60, Period: time.Minute, Burst: 9},
		{Algorithm: algorithm.TokenBucket, Count: 7919, Period: 7 * time.Minute, Burst: 11},
		{Algorithm: algorithm.LeakyQueue, Count: 10, Period: time.Second, Params: params.Params{MaxDelay: time.Second}},
		{Algorithm: algorithm.FixedWindow, Count: 8, Period: time.Second},
		{Algorithm: algorithm.FixedWindow, Count: 9, Period: time.Second, Params: params.Params{Anchor: params.AnchorFirst}},
		{Algorithm: algorithm.SlidingWindow, Count: 10, Period: time.Second},
		{Algorithm: algorithm.SlidingWindow, Count: 100, Period: time.Second},
		{Algorithm: algorithm.SlidingCounter, Count: 10, Period: time.Second},
		{Algorithm: algorithm.SlidingSubwindows, Count: 10, Period: time.Second, Params: params.Params{Precision: 12}},
		{Algorithm: algorithm.Lockout, Count: 7, Period: time.Second},
	}
	for i, l := range all {
		l.Scope = fmt.Sprint("scope", i)
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Requests that meet in one script are decided as if each had come alone: the same
// as by the algorithms, of one limit and of several, allowed and refused.
func TestRowsDecideAsIfAlone(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	now := int64(1_773_500_966_535_897)
	s := openTold(t, "redis://"+r.Addr, func() int64 { return now })
	limits := rowLimits(t)
	const clients = 64
	cells := make([][][]int64, clients)
	for i := range cells {
		for _, l := range limits {
			cells[i] = append(cells[i], make([]int64, l.Cells))
		}
	}
	random := newRandom(t)
	var refused, passed int
	for range 150 {
		ops := make([][]weir.Op, clients)
		met := random.Perm(len(limits))[:1+random.IntN(maxOps)]
		if random.IntN(2) == 0 {
			met = met[:1]
		}
		for i := range ops {
			for _, j := range met {
				ops[i] = append(ops[i], weir.Op{Key: fmt.Sprint("key", i), Limit: limits[j], Cost: 1 + int64(i%2)*int64(random.IntN(2))})
			}
		}
		each(clients, func(i int) {
			if err := s.Take(t.Context(), ops[i]); err != nil {
				t.Error(err)
			}
		})
		if t.Failed() {
			return
		}
		for i, row := range ops {
			pass := true
			step := func(n int, v weir.Verb) weir.Decision {
				return row[n].Limit.Algorithm.Step(cells[i][met[n]], row[n].Limit, weir.Ask{Now: now, Cost: row[n].Cost, Verb: v})
			}
			for n := range row {
				pass = pass && step(n, weir.Peek).Allowed()
			}
			verb := weir.Peek
			if pass {
				verb = weir.Spend
				passed++
			} else {
				refused++
			}
			for n := range row {
				if want := step(n, verb); row[n].Decision != want || row[n].Charged != pass || row[n].Now != now {
					t.Fatalf("client %d, %s, cost %d, %d limits: got %+v, charged %v at %d, want %+v at %d",
						i, row[n].Limit.Algorithm.Name(), row[n].Cost, len(row), row[n].Decision, row[n].Charged, row[n].Now, want, now)
				}
			}
		}
		now += random.Int64N(100_000)
	}
	st := s.Stats()
	t.Logf("%d passed, %d were refused, %d requests in %d scripts", passed, refused, st.Calls, st.Scripts)
	if passed == 0 || refused == 0 {
		t.Errorf("%d passed and %d were refused", passed, refused)
	}
	if st.Scripts > st.Calls/2 {
		t.Errorf("%d requests took %d scripts", st.Calls, st.Scripts)
	}
}

// A row that the server cannot decide, as its key holds something else, is decided once
// that is overwritten, and those that came with it are decided once.
func TestRowFailsAlone(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: long})
	l := perHour(t, 100, algorithm.TokenBucket)
	name, err := s.Name("key7", l)
	if err != nil {
		t.Fatal(err)
	}
	r.Do(t, "RPUSH", name, "something else")
	const clients, times = 64, 20
	each(clients, func(i int) {
		for n := range int64(times) {
			if d, err := s.TakeOne(t.Context(), fmt.Sprint("key", i), l, 1); err != nil || d.Remaining != 99-n {
				t.Errorf("key%d: %+v, %v", i, d, err)
			}
		}
	})
	if st := s.Stats(); st.Scripts > st.Calls/2 {
		t.Errorf("%d requests took %d scripts: nothing was tested", st.Calls, st.Scripts)
	}
}
