package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// saved is a queue that keeps the records of what it is given.
type saved []event.Record

func (s *saved) Publish(_ context.Context, batch []event.Event) error {
	for _, e := range batch {
		if e.Record != nil {
			*s = append(*s, *e.Record)
		}
	}
	return nil
}

func (s *saved) Close() error { return nil }

var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// played returns the records of the first part of an hour.
func played(t *testing.T, seed uint64, part time.Duration) saved {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, rulesText, 0o600); err != nil {
		t.Fatal(err)
	}
	var records saved
	p, err := newPast(start.Add(-history), path, event.Options{Queue: &records, Sample: 1, Unhashed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := p.playClients(t.Context(), newCrowd(start, seed).clients, "http://shop.example", start.Add(part-history)); err != nil {
		t.Fatal(err)
	}
	return records
}

// One seed has the clients do the same, another something else.
func TestSeed(t *testing.T) {
	words := func(seed uint64) []string {
		var all []string
		for _, r := range played(t, seed, 5*time.Minute) {
			all = append(all, fmt.Sprint(r.First, r.Rule, r.Key, r.Outcome, r.Count, r.About.Path))
		}
		slices.Sort(all) // records of one second are in no order
		return all
	}
	first := words(7)
	if len(first) < 500 {
		t.Fatalf("%d records", len(first))
	}
	if !slices.Equal(first, words(7)) {
		t.Error("one seed made other choices when played again")
	}
	if slices.Equal(first, words(8)) {
		t.Error("two seeds made the same choices")
	}
}

// The load is small, in the busiest second too.
func TestLoad(t *testing.T) {
	seconds, all := map[int64]int64{}, int64(0)
	for _, r := range played(t, 1, history) {
		if r.Rule == "remote_address" { // every request meets it
			seconds[r.First.Unix()] += r.Count
			all += r.Count
		}
	}
	most := int64(0)
	for _, n := range seconds {
		most = max(most, n)
	}
	if mean := all / int64(history/time.Second); most > 200 || mean > 50 || mean < 5 {
		t.Errorf("%d requests a second, at most %d", mean, most)
	}
}

// No made-up client has the address of somebody.
func TestAddresses(t *testing.T) {
	var reserved []netip.Prefix
	for _, p := range []string{"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"} {
		reserved = append(reserved, netip.MustParsePrefix(p))
	}
	for _, c := range newCrowd(start, 1).clients {
		a := netip.MustParseAddr(c.address)
		if !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) }) {
			t.Errorf("%s may be somebody's address", c.address)
		}
	}
}

// Run ends without an error, a goroutine or a file when its context does, before the
// clients have begun and after.
func TestRunEnds(t *testing.T) {
	for _, words := range []string{"Playing", "Ctrl-C"} {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		out := writerFunc(func(b []byte) (int, error) {
			if strings.Contains(string(b), words) {
				cancel()
			}
			return len(b), nil
		})
		err := Run(ctx, Options{Seed: 1, Out: out, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if ctx.Err() == nil || err != nil {
			t.Errorf("at %q it ended with %v, %v\n%s", words, err, ctx.Err(), &log)
		}
		cancel()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("at %q it left %v, %v", words, left, err)
		}
	}
}

// What fails ends it with an error and without files: an address that is taken, a terminal
// that is gone.
func TestRunFails(t *testing.T) {
	taken, err := openShop()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := taken.close(); err != nil {
			t.Error(err)
		}
	}()
	gone := writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
	_, port, _ := strings.Cut(strings.TrimPrefix(taken.url, "http://"), ":")
	for want, opt := range map[string]Options{
		"of the demo: with --port or --admin": {Port: port, Out: io.Discard},
		io.ErrClosedPipe.Error():              {Out: gone},
		"no port of this machine alone":       {Admin: "0.0.0.0:6070", Out: io.Discard},
	} {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		opt.Log = slog.New(slog.DiscardHandler)
		if err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%q left %v, %v", want, left, err)
		}
	}
}

// A client that is late goes on from there: what it did not send is not made up for.
func TestNobodyHurries(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	network := roundTripper(func(*http.Request) (*http.Response, error) {
		if sent++; sent == 3 {
			cancel()
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	begin := time.Now()
	late := &client{address: "192.0.2.1", at: begin.Add(-time.Hour), ask: getting("/"), wait: ignoring(100 * time.Millisecond), rng: newCrowd(begin, 1).rng}
	if err := late.sendRequests(ctx, network, "http://shop.example", 0); err != context.Canceled {
		t.Fatal(err)
	}
	// Three requests have two pauses of at least 88 ms between them.
	if took := time.Since(begin); took < 170*time.Millisecond {
		t.Errorf("three requests took %s", took)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
