package remote

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(t.Context())
	if errors.Is(err, ErrNoServer) && os.Getenv("WEIR_REQUIRE_SERVERS") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Every subject decides as it is measured to: allowed, or refused where that is
// measured, by the server where each decision asks it.
func TestSubjects(t *testing.T) {
	s := start(t)
	for i, subject := range Subjects {
		session, err := Open(subject, s.Addr, i, 100)
		if err != nil {
			t.Fatalf("%s: %v", subject.Name, err)
		}
		r, err := session.Round(640)
		if err != nil || r.Wrong != 0 || r.Ops != 640 || r.Rate <= 0 || r.Client <= 0 {
			t.Errorf("%s: %+v, %v", subject.Name, r, err)
		}
		if asks := r.Commands >= 1; asks != (subject.Kind == Wide) {
			t.Errorf("%s: %g commands a decision", subject.Name, r.Commands)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A comparison is fair only if all limit: of one burst each admits exactly the burst,
// however many ask at once, and keeps it in its own database.
func TestEveryLimiterAdmitsExactlyTheBurst(t *testing.T) {
	const burst = 50
	s := start(t)
	for i, name := range []string{Ours, Rate, Throttled} {
		subject, ok := ByName(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		allow, end, err := subject.Open(s.Addr, i, burst)
		if err != nil {
			t.Fatal(err)
		}
		var admitted atomic.Int64
		var all sync.WaitGroup
		for range InFlight {
			all.Go(func() {
				for range 5 {
					if allow("k") {
						admitted.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := admitted.Load(); n != burst {
			t.Errorf("%s admitted %d of a burst of %d", name, n, burst)
		}
		client := goredis.NewClient(&goredis.Options{Addr: s.Addr, DB: i})
		if n, err := client.DBSize(t.Context()).Result(); err != nil || n == 0 {
			t.Errorf("%s keeps nothing in its database: %d, %v", name, n, err)
		}
		if err := errors.Join(client.Close(), end()); err != nil {
			t.Error(err)
		}
	}
}

func TestFleetAdmitsTheLimit(t *testing.T) {
	s := start(t)
	f, err := Lease(s.Addr, 0, 1)
	if err != nil || f.Offered != fleetLimit || f.Allowed > fleetLimit || f.Allowed < fleetLimit/2 || f.Calls == 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestUsageCountsCommands(t *testing.T) {
	s := start(t)
	before, err := Used(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var set atomic.Int64
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if _, err := Do(s.Addr, "SET k"+strconv.Itoa(i)+" v"); err == nil {
				set.Add(1)
			}
		})
	}
	all.Wait()
	after, err := Used(s.Addr)
	if err != nil || after.Commands-before.Commands != 10 || set.Load() != 10 {
		t.Errorf("%d commands were counted of %d, %v", after.Commands-before.Commands, set.Load(), err)
	}
	if after.CPU < before.CPU || after.CPU > time.Minute {
		t.Errorf("processor time %s after %s", after.CPU, before.CPU)
	}
}
