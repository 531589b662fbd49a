package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
	"github.com/weirlimit/weir/limits"
)

// flood makes the events of so many records a second: each of ten refusals of one
// of so many clients, one in a hundred that is allowed, and a roll-up of each limit
// every second, which is exact.
type flood struct {
	perSecond, clients, limits int
	sequence                   uint64
	told                       map[string]uint64
}

func (f *flood) second(at time.Time) [][]event.Event {
	place := func(i int) event.LimitRef {
		return event.LimitRef{Name: limits.Name{Domain: "api", Rule: fmt.Sprint("rule", i), Limit: "l"}, Algorithm: "fixed_window", Allowance: 100, PeriodMS: 60000, Burst: 100}
	}
	var all []event.Event
	next := func() *event.Event {
		f.sequence++
		all = append(all, event.Event{Source: "n/1", Sequence: f.sequence, Time: at})
		return &all[len(all)-1]
	}
	counts := make([]map[string]uint64, f.limits)
	for i := range f.perSecond {
		l, outcome, n := i%f.limits, "refused", int64(10)
		if i%100 == 99 {
			outcome, n = "allowed", 1
		}
		if counts[l] == nil {
			counts[l] = map[string]uint64{}
		}
		counts[l][outcome] += uint64(n)
		f.told[outcome] += uint64(n)
		key := fmt.Sprintf("%032x", (int(f.sequence)*7919)%f.clients)
		next().Record = &event.Record{First: at, Last: at.Add(900 * time.Millisecond), LimitRef: place(l), Key: key, Outcome: outcome, Count: n, Cost: n, Decisive: n,
			Every: 1, Source: "store", About: &event.About{Address: key, Method: "GET", Path: "/poll", Agent: "curl", Agents: 1, Paths: 1, Addresses: 1}}
	}
	for l, c := range counts {
		next().Rollup = &event.Rollup{From: at, To: at.Add(time.Second), LimitRef: place(l), Counts: c}
	}
	var batches [][]event.Event
	for len(all) > 0 {
		n := min(1000, len(all))
		batches, all = append(batches, all[:n]), all[n:]
	}
	return batches
}

// run floods a database for some seconds, as fast as it takes the events or, with
// paced, each second's in a second, and returns how long that took and the most
// memory.
func (f *flood) run(t *testing.T, path string, seconds int, paced bool) (took time.Duration, memory uint64) {
	t.Helper()
	db := opened(t, path)
	defer db.Close()
	s, err := analytics.New(db, analytics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	local := event.NewLocal(64)
	var life sync.WaitGroup
	life.Go(func() {
		if err := s.Run(ctx, local); err != nil {
			t.Error(err)
		}
	})
	start, worked := time.Now(), cpu(t)
	from := start.Truncate(time.Minute).Add(-time.Duration(seconds) * time.Second)
	waited := time.Duration(0)
	for i := range seconds {
		for _, batch := range f.second(from.Add(time.Duration(i) * time.Second)) {
			if err := local.Publish(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		memory = max(memory, resident(t))
		if !paced {
			continue
		}
		if ahead := time.Until(start.Add(time.Duration(i+1) * time.Second)); ahead > 0 {
			timer := time.NewTimer(ahead)
			<-timer.C
		} else {
			waited = max(waited, -ahead)
		}
	}
	local.Close()
	life.Wait()
	cancel()
	took, worked = time.Since(start), cpu(t)-worked
	memory = max(memory, resident(t))
	if paced {
		t.Logf("the furthest that it was behind: %s", waited)
	}
	if err := s.Tidy(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	// Nothing is lost in the roll-ups, and the clients add up to the same.
	span := fmt.Sprintf("from=%d&to=%d", from.Add(-time.Minute).Unix(), from.Add(time.Duration(seconds+60)*time.Second).Unix())
	var o report.Overview
	began := time.Now()
	analyticstest.Get(t, s, "overview?"+span, &o)
	t.Logf("overview in %s", time.Since(began))
	for outcome, n := range f.told {
		if o.Totals.Counts[outcome] != int64(n) {
			t.Errorf("%s: %d of %d", outcome, o.Totals.Counts[outcome], n)
		}
	}
	began = time.Now()
	var list report.ClientList
	analyticstest.Get(t, s, "clients?top=1000&"+span, &list)
	t.Logf("clients in %s", time.Since(began))
	sys := analyticstest.System(t, s)
	t.Logf("%s of processor time, that of making the events included", worked.Round(time.Millisecond))
	t.Logf("%d events in %s: %.0f a second; rows take %.0f MiB; %+v", f.sequence, took.Round(time.Millisecond), float64(f.sequence)/took.Seconds(), float64(sys.Bytes)/(1<<20), sys.Service)
	for _, x := range sys.Tables {
		if x.Name == "clients" && x.Grain == "minute" {
			t.Logf("%d rows of clients by minute", x.Rows)
			limits := int64(f.limits) * int64(seconds/60+2)
			if most := limits * 1251; x.Rows > most {
				t.Errorf("%d rows of clients by minute: at most %d are kept", x.Rows, most)
			}
		}
	}
	if int64(f.sequence) != sys.Service.Events {
		t.Errorf("%d of %d events were counted", sys.Service.Events, f.sequence)
	}
	return took, memory
}

// resident returns how much memory the process has, in bytes: SQLite's is not Go's.
func resident(t *testing.T) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("how much memory there is cannot be read: %v", err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * uint64(os.Getpagesize())
}

// cpu returns how long the process has worked.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maxFlooded is the most memory that a flood may add, in bytes.
const maxFlooded = 512 << 20

func TestFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("a flood takes seconds")
	}
	for name, f := range map[string]*flood{
		"few clients":  {perSecond: 5000, clients: 500, limits: 4},
		"many clients": {perSecond: 5000, clients: 1 << 30, limits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			f.told = map[string]uint64{}
			runtime.GC()
			before := resident(t)
			if _, most := f.run(t, sqlite.Memory, 3, false); most > before+maxFlooded {
				t.Errorf("memory grew from %d MiB to %d MiB", before>>20, most>>20)
			}
		})
	}
}

// 20,000 records a second for a minute, as 200,000 refusals a second are told.
func TestSoakFlood(t *testing.T) {
	if os.Getenv("WEIR_SOAK") == "" {
		t.Skip("a minute for each: WEIR_SOAK=1")
	}
	for name, f := range map[string]*flood{
		"20000 clients":  {perSecond: 20_000, clients: 20_000, limits: 4},
		"random clients": {perSecond: 20_000, clients: 1 << 30, limits: 1},
	} {
		for _, path := range []string{sqlite.Memory, "file"} {
			t.Run(name+" "+path, func(t *testing.T) {
				if path == "file" {
					path = filepath.Join(t.TempDir(), "flood.db")
				}
				f := *f
				f.told = map[string]uint64{}
				runtime.GC()
				before := resident(t)
				_, most := f.run(t, path, 60, true)
				t.Logf("memory: %d MiB before, at most %d MiB", before>>20, most>>20)
				if most > before+maxFlooded {
					t.Errorf("memory grew from %d MiB to %d MiB", before>>20, most>>20)
				}
			})
		}
	}
}
