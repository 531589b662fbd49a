package analyticstest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Ranges are those that the dashboard offers.
var Ranges = []string{"-15m", "-1h", "-6h", "-24h", "-7d", "-30d"}

// promptly is how long a question of a day may take at the documented size, patiently one of
// more days.
const promptly, patiently = time.Second, 10 * time.Second

// filledUntil is when the newest rows are of that questions are timed by.
var filledUntil = start.Add(40*24*time.Hour + 17*time.Hour + 23*time.Minute)

// Times asks each question of the dashboard of each range, and fails in the long form, at the
// documented size, for one that takes too long. It asks all of them again after analyze, if
// that is not nil: then the database has statistics of its tables.
func Times(t *testing.T, db rows.Database, analyze func()) {
	fillToAsk(t, db)
	askAll(t, db, 1)
	if analyze == nil {
		return
	}
	analyze()
	t.Log("with statistics")
	askAll(t, db, 1)
}

// TimesWhileCounting is Times while another process counts what comes, now and late. A
// question may then take several times as long.
func TimesWhileCounting(t *testing.T, db rows.Database) {
	now := filledUntil
	fillToAsk(t, db)
	writer, err := analytics.New(db, retained(func() time.Time { return now }, -1))
	if err != nil {
		t.Fatal(err)
	}
	local, source := event.NewLocal(2), &teller{source: "writer/1"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	published := int64(0)
	var life sync.WaitGroup
	life.Go(func() {
		if err := writer.Run(t.Context(), local); err != nil {
			t.Error(err)
		}
	})
	life.Go(func() {
		defer local.Close()
		for batch := 0; ctx.Err() == nil && (Long() || batch < 60); batch++ {
			var events []event.Event
			for k := range 100 {
				at := now.Add(-time.Duration(k%50) * time.Second)
				if k == 0 {
					at = now.Add(-3 * 24 * time.Hour) // late
				}
				p := FilledRef(int64(k%3) + 1)
				events = append(events, source.record(at, p, fmt.Sprint("client", (batch*100+k)%5000), "refused", 3),
					source.rollup(at, p, map[string]uint64{"refused": 3}))
			}
			if err := local.Publish(ctx, events); err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			published += int64(len(events))
		}
	})
	servertest.Await(t, "the first events to be counted", func() bool { return writer.Info().Events > 0 })
	before := writer.Info().Events
	askAll(t, db, 5)
	after := writer.Info().Events
	stop()
	life.Wait()
	t.Logf("%d events were counted while %d questions were asked", after-before, len(Questions)*len(Ranges))
	if after == before {
		t.Error("nothing was counted meanwhile")
	}
	if info := writer.Info(); info.Events != published || info.Rejected != 0 || info.Duplicates != 0 {
		t.Errorf("of %d events: %+v", published, info)
	}
}

// fillToAsk makes rows, in the long form of the documented size.
func fillToAsk(t *testing.T, db rows.Database) {
	t.Helper()
	size := Size{Limits: 3, Clients: 20, Hours: 24 * 9, Minutes: 10}
	if Long() {
		size = Documented
		size.Minutes = 15
	}
	before := time.Now()
	Fill(t, db, filledUntil, size)
	t.Logf("%s on %d processors: rows of %v made in %s", db.Dialect().Kind, runtime.NumCPU(), countRows(t, db), time.Since(before).Round(time.Millisecond))
}

// askAll asks a service that has counted nothing yet each question of the dashboard of each
// range, and fails in the long form for one that takes so many times what it may.
func askAll(t *testing.T, db rows.Database, times time.Duration) {
	t.Helper()
	s, err := analytics.New(db, retained(func() time.Time { return filledUntil }, -1))
	if err != nil {
		t.Fatal(err)
	}
	h := s.Handler()
	for _, q := range Questions {
		for _, from := range Ranges {
			path, most := "/v1/analytics/"+q, promptly
			if strings.Contains(q, "?") {
				path += "&from=" + from
			} else if from != Ranges[0] {
				continue
			}
			if strings.HasSuffix(from, "d") {
				most = patiently
			}
			rec := httptest.NewRecorder()
			asked, worked := time.Now(), processorTime(t)
			h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			took := time.Since(asked)
			if rec.Code != 200 {
				t.Errorf("GET %s: %d %s", path, rec.Code, rec.Body)
			}
			t.Logf("%6d ms, of them %6d of this process: %7d bytes: %s", took.Milliseconds(), (processorTime(t) - worked).Milliseconds(), rec.Body.Len(), path)
			if Long() && took >= times*most {
				t.Errorf("%s took %s: at the documented size a question is answered in %s", path, took, times*most)
			}
		}
	}
}

// processorTime is what the process has used of the processors.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
