package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/boardtest"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/params"
)

// node is a limiter with an overlay on a board.
type node struct {
	*overlay.Overlay
	lim   *weir.Limiter
	limit *weir.Limit
	log   *logs
}

func newLimit(t testing.TB) *weir.Limit {
	t.Helper()
	l := &weir.Limit{Name: "permin", Scope: "api/user", Algorithm: algorithm.TokenBucket, Count: 100, Period: time.Minute}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// newNode returns a node on a store and a board.
func newNode(t testing.TB, store weir.Store, board documents.Board, now func() int64) *node {
	t.Helper()
	n := &node{limit: newLimit(t), log: &logs{}}
	var err error
	n.Overlay, err = overlay.New(context.Background(), overlay.Options{
		Rules: weir.Limits{n.limit}, Board: board, Now: now, Logger: n.log.logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if n.lim, err = weir.New(store, n.Overlay, weir.Options{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// of is a key of the node's limit.
func (n *node) of(user string) overlay.Target {
	return overlay.Target{Domain: "api", Entries: []weir.Entry{{Key: "user", Value: user}}, Limit: n.limit, Key: user}
}

func (n *node) take(t testing.TB, user string, cost int64) weir.Decision {
	t.Helper()
	d, err := n.lim.Decide(context.Background(), &weir.Request{Cost: cost, Descriptors: []weir.Descriptor{{Entries: n.of(user).Entries}}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (n *node) refresh(t testing.TB) {
	t.Helper()
	if err := n.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestBan(t *testing.T) {
	store := clocked.New(t)
	a, b := newNode(t, store, store, store.Now.Load), newNode(t, store, store, store.Now.Load)
	ctx := t.Context()
	if err := a.Keys.Set(ctx, a.of("ann"), overlay.Ban, 30*time.Second, overlay.Author{By: "test"}); err != nil {
		t.Fatal(err)
	}
	if d := b.take(t, "ann", 1); !d.Allowed() {
		t.Errorf("banned on a node that has not looked: %+v", d)
	}
	b.refresh(t)
	before := store.Takes.Load()
	for _, n := range []*node{a, b} {
		d := n.take(t, "ann", 1)
		if d.Allowed() || d.RetryAfter != 30*time.Second || d.Limit.Name != "permin (banned)" {
			t.Errorf("got %+v, want a refusal for 30 s", d)
		}
		if got := n.limit.Counters().Load(weir.Refused); got != 1 {
			t.Errorf("%d refusals are counted, want 1", got)
		}
	}
	if store.Takes.Load() != before {
		t.Error("the store was asked about a banned key")
	}
	if d := b.take(t, "bob", 1); !d.Allowed() {
		t.Errorf("bob is banned with ann: %+v", d)
	}
	// A cost that was incurred, and what is given back, is counted all the same.
	r := &weir.Request{Verb: weir.Force, Descriptors: []weir.Descriptor{{Entries: a.of("ann").Entries}}}
	if d, err := a.lim.Decide(ctx, r); err != nil || !d.Allowed() {
		t.Errorf("a cost that was incurred: %+v, %v", d, err)
	}
	store.Advance(30*time.Second - time.Microsecond)
	if d := b.take(t, "ann", 1); d.Allowed() || d.RetryAfter != time.Microsecond {
		t.Errorf("got %+v a microsecond before the end", d)
	}
	for _, more := range []time.Duration{time.Microsecond, time.Hour} {
		store.Advance(more)
		// It passes, and it is charged.
		if d := b.take(t, "ann", 1); !d.Allowed() || d.Limit.Name != "permin" {
			t.Errorf("got %+v after the end", d)
		}
	}
	if n := len(b.Keys.ListEntries()); n != 0 {
		t.Errorf("%d entries are in force, want none", n)
	}
	// A new one takes the place of the old one; it is lifted on another node.
	for _, d := range []time.Duration{time.Hour, 10 * time.Second} {
		if err := a.Keys.Set(ctx, a.of("ann"), overlay.Ban, d, overlay.Author{By: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	if d := a.take(t, "ann", 1); d.RetryAfter != 10*time.Second {
		t.Errorf("got %+v, want 10 s", d)
	}
	for _, want := range []bool{true, false} {
		if was, err := b.Keys.LiftEntry(ctx, b.of("ann"), overlay.Ban, overlay.Author{By: "test"}); err != nil || was != want {
			t.Errorf("lifted %t, %v, want %t", was, err, want)
		}
	}
	a.refresh(t)
	if d := a.take(t, "ann", 1); !d.Allowed() {
		t.Errorf("lifted on another node: %+v", d)
	}
}

func TestOverride(t *testing.T) {
	store := clocked.New(t)
	a, b := newNode(t, store, store, store.Now.Load), newNode(t, store, store, store.Now.Load)
	ctx := t.Context()
	a.take(t, "acme", 40)
	if err := a.Keys.Override(ctx, a.of("acme"), overlay.Numbers{Count: 5000, Period: time.Minute, Burst: 6000}, time.Hour, overlay.Author{By: "token from 10.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	b.refresh(t)
	for i, n := range []*node{a, b} {
		if d := n.take(t, "acme", 1000); !d.Allowed() || d.Limit.Count != 5000 || d.Limit.Burst != 6000 || d.Limit.Name != "permin" {
			t.Errorf("node %d: got %+v", i, d)
		}
	}
	if d := a.take(t, "other", 101); d.Allowed() {
		t.Errorf("another key got the override: %+v", d)
	}
	if e := b.Keys.EntriesOf(b.limit, "acme"); len(e) != 1 || e[0].Rate() != "5000/minute" || e[0].By != "token from 10.0.0.1" {
		t.Errorf("in force: %+v", e)
	}
	want := "limit: 5000/minute, algorithm: token_bucket, burst: 6000"
	for _, word := range []string{"limit of a key overridden", "token from 10.0.0.1", "user=acme", want} {
		if !a.log.has(word) {
			t.Errorf("no %q in the log: %v", word, a.log.lines())
		}
	}
	store.Advance(time.Hour)
	if d := b.take(t, "acme", 101); d.Allowed() {
		t.Errorf("the override holds after its end: %+v", d)
	}
	// One without an end, taken back.
	if err := b.Keys.Override(ctx, b.of("acme"), overlay.Numbers{Count: 200}, 0, overlay.Author{By: "test"}); err != nil {
		t.Fatal(err)
	}
	store.Advance(1000 * time.Hour)
	if d := b.take(t, "acme", 150); !d.Allowed() {
		t.Errorf("got %+v", d)
	}
	if was, err := b.Keys.LiftEntry(ctx, b.of("acme"), overlay.Override, overlay.Author{By: "test"}); err != nil || !was {
		t.Errorf("lifted %t, %v", was, err)
	}
	store.Advance(time.Hour)
	if d := b.take(t, "acme", 101); d.Allowed() {
		t.Errorf("the override holds after it was taken back: %+v", d)
	}
}

// What cannot be is refused before anything is written.
func TestNumbersThatCannotBe(t *testing.T) {
	store := clocked.New(t)
	n := newNode(t, store, store, nil)
	for _, x := range []overlay.Numbers{{Count: 0}, {Count: -1}, {Count: weir.MaxCost + 1}, {Count: 1, Period: weir.MaxPeriod + 1}, {Count: 1, Burst: -1}} {
		if err := n.Keys.Override(t.Context(), n.of("a"), x, 0, overlay.Author{}); err == nil {
			t.Errorf("%+v was taken", x)
		}
	}
	if err := n.Keys.Override(t.Context(), n.of("a"), overlay.Numbers{Count: 1}, -1, overlay.Author{}); err == nil {
		t.Error("an override for less than nothing was taken")
	}
	for _, d := range []time.Duration{0, -1, weir.MaxPeriod + 1} {
		if err := n.Keys.Set(t.Context(), n.of("a"), overlay.Ban, d, overlay.Author{}); err == nil {
			t.Errorf("a ban of %s was taken", d)
		}
	}
	if err := n.Keys.Set(t.Context(), n.of(strings.Repeat("k", 50<<10)), overlay.Ban, time.Hour, overlay.Author{}); err == nil {
		t.Error("a key of 50 KiB was taken")
	}
	if d, err := store.ReadDocument(t.Context(), "overlay", 0); err != nil || d.Version != 0 {
		t.Errorf("a document was written: %+v, %v", d, err)
	}
}

// Changes made at once on several nodes are all there after.
func TestConcurrentChanges(t *testing.T) {
	store := clocked.New(t)
	var all sync.WaitGroup
	var nodes []*node
	for i := range 8 {
		n := newNode(t, store, store, store.Now.Load)
		nodes = append(nodes, n)
		all.Go(func() {
			for j := range 10 {
				key := fmt.Sprint(i, "-", j)
				if err := n.Keys.Set(context.Background(), n.of(key), overlay.Ban, time.Hour, overlay.Author{By: "test"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i, n := range nodes {
		n.refresh(t)
		if got := len(n.Keys.ListEntries()); got != 80 {
			t.Errorf("node %d knows %d of 80 bans", i, got)
		}
	}
}

// A rules reload gives other limits of the same place: bans and overrides go on.
func TestRulesReloaded(t *testing.T) {
	store := clocked.New(t)
	rules := &swapped{}
	rules.limits.Store(&weir.Limits{newLimit(t)})
	log := &logs{}
	o, err := overlay.New(t.Context(), overlay.Options{Rules: rules, Board: store, Now: store.Now.Load, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	target := overlay.Target{Entries: []weir.Entry{{Key: "user", Value: "ann"}}, Limit: (*rules.limits.Load())[0], Key: "ann"}
	if err := o.Keys.Override(t.Context(), target, overlay.Numbers{Count: 500}, 0, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	r := &weir.Request{Descriptors: []weir.Descriptor{{Entries: target.Entries}}}
	count := func() int64 { return o.Match(nil, r)[0].Limit.Count }
	for range 6 { // more than are remembered
		rules.limits.Store(&weir.Limits{newLimit(t)})
		if n := count(); n != 500 {
			t.Errorf("count %d after a reload, want 500", n)
		}
	}
	// A limit that cannot have the numbers keeps its own, and the log says so.
	logOf := &weir.Limit{Name: "log", Scope: "api/user", Algorithm: algorithm.SlidingLog, Count: 10, Period: time.Minute, Params: params.Params{MaxLog: 100}}
	if err := logOf.Compile(); err != nil {
		t.Fatal(err)
	}
	rules.limits.Store(&weir.Limits{logOf})
	if n := count(); n != 10 || !log.has("does not fit its limit any more") {
		t.Errorf("count %d, want the limit's own; log: %v", n, log.lines())
	}
}

// swapped is rules that are reloaded.
type swapped struct{ limits atomic.Pointer[weir.Limits] }

func (s *swapped) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	return s.limits.Load().Match(dst, r)
}

func TestMatchDoesNotAllocate(t *testing.T) {
	store := clocked.New(t)
	n := newNode(t, store, store, store.Now.Load)
	r := &weir.Request{Descriptors: []weir.Descriptor{{Entries: n.of("ann").Entries}}}
	ops := make([]weir.Op, 0, 4)
	f := func(what string, want int) {
		t.Helper()
		if got := testing.AllocsPerRun(100, func() { ops = n.Match(ops[:0], r) }); got != 0 || len(ops) != want {
			t.Errorf("%s: %v allocations, %d ops, want none and %d", what, got, len(ops), want)
		}
	}
	f("nothing", 1)
	if err := n.Keys.Override(t.Context(), n.of("ann"), overlay.Numbers{Count: 500}, 0, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	f("an override", 1)
	if err := n.Keys.Set(t.Context(), n.of("ann"), overlay.Ban, time.Hour, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	f("both", 2)
}

// What a node has loaded holds while the board is away, ends by the clock, and is
// put back when the board has lost it.
func TestBoardGoesAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		board := &shaky{}
		board.Board = newMemory()
		n := newNode(t, newMemory(), board, nil)
		ctx, stop := context.WithCancel(context.Background())
		var done sync.WaitGroup
		done.Go(func() { n.WatchBoard(ctx) })
		if err := n.Keys.Set(ctx, n.of("ann"), overlay.Ban, time.Minute, overlay.Author{}); err != nil {
			t.Fatal(err)
		}
		if err := n.Keys.Override(ctx, n.of("acme"), overlay.Numbers{Count: 500}, 0, overlay.Author{}); err != nil {
			t.Fatal(err)
		}
		asked := board.calls.Load()
		wait(10 * time.Second)
		if got := board.calls.Load() - asked; got < 8 || got > 12 {
			t.Errorf("the board was asked %d times in ten seconds, want once a second", got)
		}
		board.away.Store(true)
		asked = board.calls.Load()
		wait(40 * time.Second)
		if got := board.calls.Load() - asked; got > 12 {
			t.Errorf("a board that is away was asked %d times in 40 seconds", got)
		}
		if n.take(t, "ann", 1).Allowed() || !n.take(t, "acme", 200).Allowed() {
			t.Error("what was known does not hold while the board is away")
		}
		if err := n.Keys.Set(ctx, n.of("bob"), overlay.Ban, time.Minute, overlay.Author{}); !errors.As(err, new(*overlay.StoreError)) {
			t.Errorf("a change while the board is away: %v", err)
		}
		wait(10 * time.Second)
		if !n.take(t, "ann", 1).Allowed() {
			t.Error("the ban did not end while the board was away")
		}
		// It comes back empty.
		board.Board = newMemory()
		board.away.Store(false)
		wait(7 * time.Second)
		other := newNode(t, newMemory(), board, nil)
		if len(other.Keys.EntriesOf(other.limit, "acme")) != 1 {
			t.Error("the override is lost with the board")
		}
		if !n.log.has("were restored") {
			t.Errorf("no word of it in the log: %v", n.log.lines())
		}
		stop()
		done.Wait()
	})
}

// A ban ends by the store's clock, however the node's own is set, and goes on by
// the monotonic one while the store says nothing.
func TestStoresClock(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		board := newMemory()
		board.ahead = -100 * time.Hour
		n := newNode(t, newMemory(), board, nil)
		ctx, stop := context.WithCancel(context.Background())
		var done sync.WaitGroup
		done.Go(func() { n.WatchBoard(ctx) })
		if err := n.Keys.Set(ctx, n.of("ann"), overlay.Ban, time.Minute, overlay.Author{}); err != nil {
			t.Fatal(err)
		}
		if e := n.Keys.ListEntries(); len(e) != 1 || time.Until(time.UnixMicro(e[0].Until)).Round(time.Second) != time.Minute-100*time.Hour {
			t.Errorf("%+v, want an end by the store's clock", e)
		}
		wait(59 * time.Second)
		if n.take(t, "ann", 1).Allowed() {
			t.Error("the ban ended early")
		}
		wait(time.Second)
		if !n.take(t, "ann", 1).Allowed() {
			t.Error("the ban ended late")
		}
		// The store's clock is set: the next look shows.
		if err := n.Keys.Set(ctx, n.of("ann"), overlay.Ban, time.Hour, overlay.Author{}); err != nil {
			t.Fatal(err)
		}
		board.set(-98 * time.Hour)
		wait(time.Second + time.Millisecond)
		if !n.take(t, "ann", 1).Allowed() {
			t.Error("the ban does not go by the store's clock")
		}
		stop()
		done.Wait()
	})
}

// What could not be read and is gone is no fault any more.
func TestHostileDocumentLeaves(t *testing.T) {
	board := newMemory()
	if _, err := board.SwapDocument(t.Context(), "overlay", 0, documents.Document{Data: []byte("garbage")}); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, newMemory(), board, nil)
	if err := n.Refresh(t.Context()); !errors.Is(err, overlay.ErrUnread) {
		t.Errorf("garbage: %v", err)
	}
	board.clear()
	n.refresh(t)
	n.refresh(t)
}

// newMemory is a store without background work of its own: it is closed at once.
func newMemory() *boardOnly { return &boardOnly{all: map[string]documents.Document{}} }

// wait lets time pass in a bubble.
func wait(d time.Duration) { <-time.After(d) }

// Hostile documents change nothing and end no process; the next good one holds.
func TestHostileDocuments(t *testing.T) {
	store := clocked.New(t)
	n := newNode(t, store, store, store.Now.Load)
	if err := n.Keys.Set(t.Context(), n.of("ann"), overlay.Ban, time.Hour, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	put := func(text string) {
		t.Helper()
		d, err := store.ReadDocument(t.Context(), "overlay", 0)
		if err == nil {
			_, err = store.SwapDocument(t.Context(), "overlay", d.Version, documents.Document{Data: []byte(text)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range hostile() {
		put(text)
		for range 2 { // the second time the version is known
			if err := n.Refresh(t.Context()); !errors.Is(err, overlay.ErrUnread) {
				t.Errorf("%.60q: %v", text, err)
			}
		}
		if n.take(t, "ann", 1).Allowed() || !n.take(t, "bob", 1).Allowed() {
			t.Fatalf("%.60q took effect", text)
		}
		if err := n.Keys.Set(t.Context(), n.of("bob"), overlay.Ban, time.Hour, overlay.Author{}); !errors.Is(err, overlay.ErrUnread) {
			t.Errorf("%.60q was replaced: %v", text, err)
		}
		// A node that starts now goes by its rules.
		if fresh := newNode(t, store, store, store.Now.Load); !fresh.take(t, "ann", 1).Allowed() || !fresh.log.has("cannot be read") {
			t.Errorf("%.60q: a new node has %+v, log %v", text, fresh.Keys.ListEntries(), fresh.log.lines())
		}
	}
	put(`{"format":1,"entries":[]}`)
	n.refresh(t)
	if !n.take(t, "ann", 1).Allowed() {
		t.Error("the next good document does not hold")
	}
}

// hostile are documents that must not be taken.
func hostile() []string {
	const good = `"domain":"api","entries":[{"key":"user","value":"bob"}],"limit":"permin","scope":"api/user","key":"bob","algorithm":"token_bucket","made_us":1,"by":""`
	doc := func(entry string) string { return `{"format":1,"entries":[` + entry + `]}` }
	ban := `{"kind":"ban",` + good + `,"until_us":9000000000000000}`
	return []string{
		``, `null x`, `[]`, `{"format":2,"entries":[]}`, `{"entries":[]}`, `{"format":1,"entries":[]} {}`, `{"format":1,"extra":1}`,
		doc(`{"kind":"ban",` + good + `}`), doc(ban + "," + ban),
		doc(`{"kind":"ban",` + good + `,"until_us":-1}`), doc(`{"kind":"ban",` + good + `,"until_us":1e99}`),
		doc(`{"kind":"override",` + good + `,"count":0,"period_us":1}`), doc(`{"kind":"override",` + good + `,"count":9007199254740993,"period_us":1}`),
		doc(`{"kind":"override",` + good + `,"count":1,"period_us":9000000000000000000}`), doc(`{"kind":"override",` + good + `,"count":1,"period_us":1,"burst":-1}`),
		`{"format":1,"entries":` + strings.Repeat("[", 100_000), strings.Repeat(`{"entries":`, 20_000),
		doc(strings.TrimSuffix(strings.Repeat(`{},`, overlay.MaxEntries+1), ",")),
	}
}

// As many as can be are taken, and one more is refused with what to do.
func TestFull(t *testing.T) {
	store := clocked.New(t)
	n := newNode(t, store, store, store.Now.Load)
	var b strings.Builder
	for i := range overlay.MaxEntries {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"kind":"ban","domain":"api","entries":[{"key":"user","value":"u%d"}],"limit":"permin","scope":"api/user","key":"u%d","algorithm":"token_bucket","until_us":9000000000000000,"made_us":1,"by":""}`, i, i)
	}
	if _, err := store.SwapDocument(t.Context(), "overlay", 0, documents.Document{Data: []byte(`{"format":1,"entries":[` + b.String() + `]}`)}); err != nil {
		t.Fatal(err)
	}
	n.refresh(t)
	if n.take(t, "u9999", 1).Allowed() || len(n.Keys.ListEntries()) != overlay.MaxEntries {
		t.Errorf("%d entries are in force", len(n.Keys.ListEntries()))
	}
	if err := n.Keys.Set(t.Context(), n.of("one more"), overlay.Ban, time.Hour, overlay.Author{}); !errors.Is(err, overlay.ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	if err := n.Keys.Set(t.Context(), n.of("u5"), overlay.Ban, time.Hour, overlay.Author{}); err != nil {
		t.Errorf("one in the place of another: %v", err)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overlay.json")
	b, err := overlay.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	boardtest.Run(t, b, func(n int) []byte {
		return fmt.Appendf(nil, `{"format":1,"entries":[]}%*s`, n, "")
	})
	store := clocked.New(t)
	n := newNode(t, store, b, nil)
	if err := n.Keys.Set(t.Context(), n.of("ann"), overlay.Ban, time.Hour, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	again, err := overlay.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n = newNode(t, store, again, nil); n.take(t, "ann", 1).Allowed() {
		t.Error("the ban is lost with the process")
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) != 1 || left[0] != path+".audit" {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, text := range hostile() {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := overlay.OpenFile(path); err == nil || !strings.Contains(err.Error(), "repair the file or remove it") {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	if _, err := overlay.OpenFile(filepath.Join(t.TempDir(), "none", "x")); err == nil {
		t.Error("a file in no folder was opened")
	}
}
