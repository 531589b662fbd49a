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
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Ranges are those that the dashboard offers.
var Ranges = []string{"-15m", "-1h", "-6h", "-24h", "-7d", "-30d"}

// promptly is how long a question may take at the documented size.
const promptly = time.Second

// newest is of how many seconds rows are read, by grain: those of the span that goes on,
// and of the one before, which is written a few minutes after its end.
var newest = map[int64]int64{1: 2 * 3600, 2: 2 * 6 * 3600}

// filledUntil is when the newest rows are of that questions are timed by.
var filledUntil = start.Add(40*24*time.Hour + 17*time.Hour + 23*time.Minute)

// Times asks each question of the dashboard of each range, and fails for one that reads the
// rows of clients of more than the newest blocks, which are not written yet. At the
// documented size, in the long form alone, it fails for one that takes a second, too. It
// asks all of them again after analyze, if that is not nil: then the database has
// statistics of its tables.
func Times(t *testing.T, db analytics.Database, analyze func()) {
	a, s, oldest := filledToAsk(t, db)
	askAll(t, a, s, oldest, promptly)
	if analyze == nil {
		return
	}
	analyze()
	s, err := analytics.New(a, retained(func() time.Time { return filledUntil }, -1)) // it has counted nothing yet
	if err != nil {
		t.Fatal(err)
	}
	t.Log("with statistics")
	askAll(t, a, s, oldest, promptly)
}

// TimesWhileCounting is Times while another process counts what comes, now and late, and
// blocks are written again. A question may then take several times as long.
func TimesWhileCounting(t *testing.T, db analytics.Database) {
	now := filledUntil
	a, s, oldest := filledToAsk(t, db)
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
	askAll(t, a, s, oldest, 5*promptly)
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

// filledToAsk makes rows and their blocks, in the long form of the documented size, and
// returns a service that notes what it asks, and when the oldest rows of each grain are of.
func filledToAsk(t *testing.T, db analytics.Database) (*Asked, *analytics.Service, map[int64]int64) {
	t.Helper()
	size := Size{Limits: 3, Clients: 20, Hours: 24 * 9, Minutes: 10}
	if Long() {
		size = Documented
		size.Minutes = 15
	}
	before := time.Now()
	Fill(t, db, filledUntil, size)
	t.Logf("%s on %d processors: rows of %v made in %s", db.Dialect().Kind, runtime.NumCPU(), rows(t, db), time.Since(before).Round(time.Millisecond))
	a := &Asked{Database: db, Statements: map[string][]any{}}
	s, err := analytics.New(a, retained(func() time.Time { return filledUntil }, -1))
	if err != nil {
		t.Fatal(err)
	}
	before = time.Now()
	if err := s.Tidy(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	t.Logf("tidied in %s", time.Since(before).Round(time.Millisecond))
	oldest := map[int64]int64{}
	for g := range newest {
		oldest[g] = count(t, db, fmt.Sprint("SELECT MIN(at), 0 FROM clients WHERE grain = ", g))
	}
	return a, s, oldest
}

// askAll asks each question of the dashboard of each range, and fails for one that reads
// the rows of clients since oldest of more than the newest blocks, and in the long form for one that
// takes as long as most.
func askAll(t *testing.T, a *Asked, s *analytics.Service, oldest map[int64]int64, most time.Duration) {
	t.Helper()
	h := s.Handler()
	for _, q := range Questions {
		for _, from := range Ranges {
			path := "/v1/analytics/" + q
			if strings.Contains(q, "?") {
				path += "&from=" + from
			} else if from != Ranges[0] {
				continue
			}
			rec := httptest.NewRecorder()
			clear(a.Statements)
			asked, worked := time.Now(), processorTime(t)
			h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			took := time.Since(asked)
			if rec.Code != 200 {
				t.Errorf("GET %s: %d %s", path, rec.Code, rec.Body)
			}
			t.Logf("%6d ms, of them %6d of this process: %7d bytes: %s", took.Milliseconds(), (processorTime(t) - worked).Milliseconds(), rec.Body.Len(), path)
			for statement, args := range a.Statements {
				if strings.Contains(statement, "FROM clients") && strings.Contains(statement, "at >= $2 AND at < $3") && !strings.Contains(statement, "client = ") {
					g := args[0].(int64)
					if n := args[2].(int64) - max(args[1].(int64), oldest[g]); n > newest[g] {
						t.Errorf("%s reads the rows of %d seconds: blocks have them\n%.300s", path, n, statement)
					}
				}
			}
			if Long() && took >= most {
				t.Errorf("%s took %s: at the documented size a question is answered in %s", path, took, most)
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
