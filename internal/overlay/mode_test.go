package overlay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/limits"
)

// laid is limits with an overlay that knows their places.
type laid struct {
	*overlay.Overlay
	lim *weir.Limiter
	log *logs
}

var operator = overlay.Author{By: "ann from 10.0.0.1", Reason: "a sale"}

func newLaid(t testing.TB, store weir.Store, board documents.Board, now func() int64, rules weir.Rules, places ...*limits.Limit) *laid {
	t.Helper()
	n := &laid{log: &logs{}}
	var err error
	n.Overlay, err = overlay.New(context.Background(), overlay.Options{
		Rules: rules, Board: board, Now: now, Logger: n.log.logger(), Node: "n1", Limits: func() []*limits.Limit { return places },
	})
	if err != nil {
		t.Fatal(err)
	}
	if n.lim, err = weir.New(store, n.Overlay, weir.Options{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// withMode returns a limit in a mode, compiled, with its place.
func withMode(t testing.TB, m weir.Mode) (weir.Limits, *limits.Limit) {
	t.Helper()
	l := &weir.Limit{Name: "permin", Scope: "api/user", Algorithm: algorithm.TokenBucket, Count: 10, Period: time.Minute, Mode: m}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return weir.Limits{l}, &limits.Limit{Limit: l, Rule: &limits.Rule{Domain: "api", Path: "user", File: "rules.yaml"}}
}

func ask(user string) *weir.Request {
	return &weir.Request{Priority: 1, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: user}}}}}
}

func (n *laid) take(t testing.TB, user string, cost int64) weir.Decision {
	t.Helper()
	r := ask(user)
	r.Cost = cost
	d, err := n.lim.Decide(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What a mode makes of the ops of a limit is what [weir.Limit.Append] makes of the
// limit in that mode: roles, limits, keys, costs, reserves and all, whatever stands
// before and behind.
func TestModeIsThatOfTheLimit(t *testing.T) {
	pool := &weir.Limit{Name: "pool", Algorithm: algorithm.FixedWindow, Count: 1000, Period: time.Minute, Mode: weir.Mode{Headroom: []int64{0, 7, 9}}}
	ban := func() *weir.Limit {
		return &weir.Limit{Name: "ban", Algorithm: algorithm.Lockout, Count: 3, Period: time.Minute}
	}
	for name, base := range map[string]func() weir.Mode{
		"hard":      func() weir.Mode { return weir.Mode{} },
		"shadow":    func() weir.Mode { return weir.Mode{Shadow: true} },
		"rollout":   func() weir.Mode { return weir.Mode{Rollout: 50} },
		"soft":      func() weir.Mode { return weir.Mode{Excess: 50, Ban: ban()} },
		"elastic":   func() weir.Mode { return weir.Mode{Pool: pool, PoolKey: "p", Ceiling: 20, Ban: ban()} },
		"penalize":  func() weir.Mode { return weir.Mode{Penalize: true, Ban: ban()} },
		"reserve":   func() weir.Mode { return weir.Mode{Headroom: []int64{0, 2, 3}, Rollout: 20} },
		"banShadow": func() weir.Mode { return weir.Mode{Shadow: true, Ban: ban(), Penalize: true} },
	} {
		for _, s := range []overlay.Setting{{Mode: overlay.Shadow}, {Mode: overlay.Off}, {Mode: overlay.Enforced, Percent: 1}, {Mode: overlay.Enforced, Percent: 50}, {Mode: overlay.Enforced, Percent: 100}} {
			own, p := withMode(t, base())
			p.Priority = 2
			other := weir.PerMinute(7, algorithm.FixedWindow)
			if err := other.Compile(); err != nil {
				t.Fatal(err)
			}
			around := weir.Limits{other, own[0], other}
			store := clocked.New(t)
			n := newLaid(t, store, store, store.Now.Load, around, p)
			if err := n.Modes.Set(t.Context(), []*limits.Limit{p}, s, 0, operator); err != nil {
				t.Fatal(err)
			}
			want := own[0]
			if s.Mode != overlay.Off {
				var err error
				if want, err = own[0].Enforced(s.Percent); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 40 {
				r, like := ask(fmt.Sprint("u", i)), ask(fmt.Sprint("u", i))
				r.Cost, like.Cost, like.Priority = 3, 3, 2
				r.Descriptors[0].Peek, like.Descriptors[0].Peek = i%2 == 0, i%2 == 0
				if i%5 == 0 && s.Mode != overlay.Off { // what was charged in the mode is given back in it
					r.Verb, like.Verb = weir.Refund, weir.Refund
				}
				got := n.Match(nil, r)
				model := weir.Limits{other, want, other}
				if s.Mode == overlay.Off {
					model = weir.Limits{other, other}
				}
				exp := model.Match(nil, like)
				if r.Priority != 1 {
					t.Fatal("the request's priority is changed")
				}
				same := slices.EqualFunc(got, exp, func(a, b weir.Op) bool {
					return a.Limit.Scope == b.Limit.Scope && a.Limit.Count == b.Limit.Count && a.Limit.Burst == b.Limit.Burst && a.Key == b.Key &&
						a.Cost == b.Cost && a.Role == b.Role && a.Verb == b.Verb && a.Headroom == b.Headroom && a.Penalize == b.Penalize
				})
				if !same {
					t.Fatalf("%s to %s, u%d:\n got %+v\nwant %+v", name, s, i, got, exp)
				}
			}
		}
	}
}

// A shadow that is promoted refuses who has spent the limit already: no count
// starts afresh, whichever node is asked, and so it goes back.
func TestPromotionKeepsCounts(t *testing.T) {
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{Shadow: true})
	other, q := withMode(t, weir.Mode{Shadow: true})
	a, b := newLaid(t, store, store, store.Now.Load, own, p), newLaid(t, store, store, store.Now.Load, other, q)
	ctx := t.Context()
	for range 12 {
		if d := a.take(t, "ann", 1); !d.Allowed() {
			t.Fatalf("a shadow refuses: %+v", d)
		}
	}
	if err := a.Modes.Set(ctx, []*limits.Limit{p}, overlay.Setting{Mode: overlay.Enforced, Percent: 100}, time.Hour, operator); err != nil {
		t.Fatal(err)
	}
	if err := b.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	for i, n := range []*laid{a, b} {
		if d := n.take(t, "ann", 1); d.Allowed() || d.RetryAfter != 6*time.Second {
			t.Errorf("node %d: %+v, want a refusal for 6 s: ten are spent", i, d)
		}
	}
	if got := own[0].Counters().Load(weir.Refused); got != 1 {
		t.Errorf("%d refusals are counted under the limit, want 1", got)
	}
	store.Advance(6 * time.Second)
	if d := b.take(t, "ann", 1); !d.Allowed() || d.Remaining != 0 {
		t.Errorf("%+v, want the one unit that is back", d)
	}
	store.Advance(time.Hour - 6*time.Second - time.Microsecond)
	if d := a.take(t, "bob", 11); d.Allowed() {
		t.Errorf("%+v a microsecond before the end", d)
	}
	store.Advance(time.Microsecond)
	if d := a.take(t, "bob", 11); !d.Allowed() {
		t.Errorf("%+v: the mode holds after its end", d)
	}
	if n := len(a.Modes.ListEntries()); n != 0 {
		t.Errorf("%d modes are in force after the end", n)
	}
}

// Whoever is in at a percentage is in at every larger one, as rollout has it in the
// rules.
func TestPercentGrows(t *testing.T) {
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{Shadow: true})
	n := newLaid(t, store, store, store.Now.Load, own, p)
	var in [2000]bool
	was := 0
	for _, percent := range []int64{1, 5, 10, 50, 99, 100} {
		if err := n.Modes.Set(t.Context(), []*limits.Limit{p}, overlay.Setting{Mode: overlay.Enforced, Percent: percent}, 0, operator); err != nil {
			t.Fatal(err)
		}
		like, err := own[0].Enforced(percent)
		if err != nil {
			t.Fatal(err)
		}
		is := 0
		for i := range in {
			key := fmt.Sprint("user-", i)
			now := n.Match(nil, ask(key))[0].Role == weir.Enforce
			if now != (like.Append(nil, key, 1, ask(key))[0].Role == weir.Enforce) {
				t.Fatalf("%s at %d%%: not as the rules have it", key, percent)
			}
			if in[i] && !now {
				t.Fatalf("%s was in, and is not at %d%%", key, percent)
			}
			if in[i] = now; now {
				is++
			}
		}
		if want := len(in) * int(percent) / 100; is < want*2/3-5 || is > want*4/3+5 || is <= was {
			t.Errorf("%d of %d keys are in at %d%%", is, len(in), percent)
		}
		was = is
	}
}

// A mode is for the limit of its place and name alone, waits while the rules have
// none, and holds for every version of it.
func TestModeOfARuleThatGoes(t *testing.T) {
	store := clocked.New(t)
	rules := &swapped{}
	own, p := withMode(t, weir.Mode{Shadow: true})
	rules.limits.Store(&own)
	n := newLaid(t, store, store, store.Now.Load, rules, p)
	if err := n.Modes.Set(t.Context(), []*limits.Limit{p}, overlay.Setting{Mode: overlay.Enforced, Percent: 100}, 0, operator); err != nil {
		t.Fatal(err)
	}
	role := func() weir.Role { return n.Match(nil, ask("u"))[0].Role }
	if got := role(); got != weir.Enforce {
		t.Errorf("role %d", got)
	}
	for _, other := range []*weir.Limit{{Name: "perhour", Scope: "api/user"}, {Name: "permin", Scope: "api/client"}} {
		other.Algorithm, other.Count, other.Period, other.Shadow = algorithm.FixedWindow, 5, time.Minute, true
		if err := other.Compile(); err != nil {
			t.Fatal(err)
		}
		rules.limits.Store(&weir.Limits{other})
		if got := role(); got != weir.Shadow {
			t.Errorf("the mode is laid over %s in %s", other.Name, other.Scope)
		}
	}
	for range 6 { // more than are remembered
		again, _ := withMode(t, weir.Mode{Shadow: true})
		rules.limits.Store(&again)
		if got := role(); got != weir.Enforce {
			t.Error("lost with a reload")
		}
	}
}

func TestModesDoNotAllocate(t *testing.T) {
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{Excess: 10})
	n := newLaid(t, store, store, store.Now.Load, own, p)
	r := ask("ann")
	ops := make([]weir.Op, 0, 8)
	for _, s := range []overlay.Setting{{Mode: overlay.Shadow}, {Mode: overlay.Off}, {Mode: overlay.Enforced, Percent: 1}, {Mode: overlay.Enforced, Percent: 100}} {
		if err := n.Modes.Set(t.Context(), []*limits.Limit{p}, s, 0, operator); err != nil {
			t.Fatal(err)
		}
		if got := testing.AllocsPerRun(100, func() { ops = n.Match(ops[:0], r) }); got != 0 {
			t.Errorf("%s: %v allocations", s, got)
		}
	}
}

// A ban holds whatever the mode of the limit; who is let through is counted, and
// limited again at the end.
func TestKeysUnderModes(t *testing.T) {
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{})
	n := newLaid(t, store, store, store.Now.Load, own, p)
	ctx := t.Context()
	key := func(user string) overlay.Target {
		return overlay.Target{Domain: "api", Entries: ask(user).Descriptors[0].Entries, Limit: own[0], Key: user}
	}
	if err := n.Keys.Set(ctx, key("bad"), overlay.Ban, time.Hour, operator); err != nil {
		t.Fatal(err)
	}
	if err := n.Keys.Set(ctx, key("good"), overlay.Allow, time.Minute, operator); err != nil {
		t.Fatal(err)
	}
	if err := n.Keys.Override(ctx, key("big"), overlay.Numbers{Count: 50}, 0, operator); err != nil {
		t.Fatal(err)
	}
	for _, s := range []overlay.Setting{{Mode: overlay.Off}, {Mode: overlay.Shadow}, {Mode: overlay.Enforced, Percent: 100}} {
		if err := n.Modes.Set(ctx, []*limits.Limit{p}, s, 0, operator); err != nil {
			t.Fatal(err)
		}
		if d := n.take(t, "bad", 1); d.Allowed() {
			t.Errorf("%s: a banned key passes", s)
		}
		if d := n.take(t, "good", 11); !d.Allowed() {
			t.Errorf("%s: a key that is let through is refused: %+v", s, d)
		}
		if d := n.take(t, "big", 15); !d.Allowed() {
			t.Errorf("%s: an override does not hold: %+v", s, d)
		}
		store.Advance(time.Second)
	}
	if got := own[0].Counters().Load(weir.ShadowRefused); got < 2 {
		t.Errorf("%d refusals that were not heard are counted", got)
	}
	store.Advance(time.Minute)
	if d := n.take(t, "good", 11); d.Allowed() {
		t.Errorf("let through after the end: %+v", d)
	}
	// Taken back before the end.
	if err := n.Keys.Set(ctx, key("good"), overlay.Allow, time.Hour, operator); err != nil {
		t.Fatal(err)
	}
	if was, err := n.Keys.LiftEntry(ctx, key("good"), overlay.Allow, operator); err != nil || !was {
		t.Errorf("%t, %v", was, err)
	}
	if d := n.take(t, "good", 11); d.Allowed() {
		t.Errorf("let through after it was taken back: %+v", d)
	}
	// What was charged before a limit was switched off is given back.
	if err := n.Modes.Set(ctx, []*limits.Limit{p}, overlay.Setting{Mode: overlay.Off}, 0, operator); err != nil {
		t.Fatal(err)
	}
	r := ask("x")
	r.Verb = weir.Refund
	if ops := n.Match(nil, r); len(ops) != 1 {
		t.Errorf("a refund meets %d ops", len(ops))
	}
}

func TestModeThatCannotBe(t *testing.T) {
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{})
	n := newLaid(t, store, store, store.Now.Load, own, p)
	for _, s := range []overlay.Setting{{}, {Mode: "on"}, {Mode: overlay.Enforced}, {Mode: overlay.Enforced, Percent: 101}, {Mode: overlay.Enforced, Percent: -1},
		{Mode: overlay.Shadow, Percent: 10}, {Mode: overlay.Off, Percent: 1}} {
		if err := n.Modes.Set(t.Context(), []*limits.Limit{p}, s, 0, operator); !errors.As(err, new(*overlay.ModeError)) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, d := range []time.Duration{-1, weir.MaxPeriod + 1} {
		if err := n.Modes.Set(t.Context(), []*limits.Limit{p}, overlay.Setting{Mode: overlay.Shadow}, d, operator); err == nil {
			t.Errorf("for %s", d)
		}
	}
	if d, err := store.ReadDocument(t.Context(), "overlay", 0); err != nil || d.Version != 0 {
		t.Errorf("a document was written: %+v, %v", d, err)
	}
}

// A node loses nothing that a later version wrote.
func TestVersionsSideBySide(t *testing.T) {
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{Shadow: true})
	n := newLaid(t, store, store, store.Now.Load, own, p)
	ctx := t.Context()
	key := overlay.Target{Domain: "api", Entries: ask("ann").Descriptors[0].Entries, Limit: own[0], Key: "ann"}
	if err := n.Keys.Set(ctx, key, overlay.Ban, time.Hour, operator); err != nil {
		t.Fatal(err)
	}
	if err := n.Keys.Set(ctx, key, overlay.Allow, time.Hour, operator); err != nil {
		t.Fatal(err)
	}
	if err := n.Modes.Set(ctx, []*limits.Limit{p}, overlay.Setting{Mode: overlay.Enforced, Percent: 10}, 0, operator); err != nil {
		t.Fatal(err)
	}

	// A later version adds a kind, and a member to a mode.
	later, err := store.ReadDocument(ctx, "overlay", 0)
	if err != nil {
		t.Fatal(err)
	}
	const strange = `{"kind":"tilt","scope":"api/user","angle":{"deep":[1,2,{"x":null}]}}`
	text := strings.Replace(string(later.Data), `"entries":[`, `"entries":[`+strange+`,`, 1)
	text = strings.Replace(text, `"mode":"enforce"`, `"mode":"enforce","note":"kept"`, 1)
	if _, err := store.SwapDocument(ctx, "overlay", later.Version, documents.Document{Data: []byte(text)}); err != nil {
		t.Fatal(err)
	}
	if err := n.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if sw := n.Modes.ViewOfLimit(own[0]); sw == nil || *sw.Percent != 10 {
		t.Errorf("the mode is %+v", sw)
	}
	if told := n.log.String(); strings.Count(told, "of a later version") != 1 || !strings.Contains(told, "\"entries\":1,\"kinds\":[\"tilt\"]") {
		t.Errorf("that a kind is not enforced here is logged as %s", told)
	}
	if _, err := n.Keys.LiftEntry(ctx, key, overlay.Allow, operator); err != nil {
		t.Fatal(err)
	}
	if later, err = store.ReadDocument(ctx, "overlay", 0); err != nil || !strings.Contains(string(later.Data), strange) || !strings.Contains(string(later.Data), `"note":"kept"`) {
		t.Errorf("a change lost what a later version wrote: %s, %v", later.Data, err)
	}
}

// Changes made at once on several nodes are all there, and all are in the history,
// once.
func TestConcurrentModes(t *testing.T) {
	store := clocked.New(t)
	const nodes, each = 6, 8
	var all sync.WaitGroup
	var list []*laid
	for i := range nodes {
		own, _ := withMode(t, weir.Mode{})
		var places []*limits.Limit
		for j := range each {
			l := &weir.Limit{Name: fmt.Sprint("l", i, "-", j), Algorithm: algorithm.FixedWindow, Count: 5, Period: time.Minute}
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			places = append(places, &limits.Limit{Limit: l, Rule: &limits.Rule{Domain: "api", Path: l.Name, File: "rules.yaml"}})
		}
		n := newLaid(t, store, store, store.Now.Load, own, places...)
		list = append(list, n)
		all.Go(func() {
			for _, p := range places {
				if err := n.Modes.Set(context.Background(), []*limits.Limit{p}, overlay.Setting{Mode: overlay.Shadow}, 0, operator); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i, n := range list {
		if err := n.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(n.Modes.ListEntries()); got != nodes*each {
			t.Errorf("node %d knows %d of %d modes", i, got, nodes*each)
		}
		changes, err := n.Audit.Changes(t.Context(), overlay.MaxChanges, 0)
		seen := map[string]bool{}
		for j, c := range changes {
			if seen[c.Rule] || c.Number != int64(nodes*each-j) {
				t.Errorf("node %d: change %d is %+v", i, j, c)
			}
			seen[c.Rule] = true
		}
		if err != nil || len(seen) != nodes*each {
			t.Errorf("node %d: %d of %d changes are in the history, %v", i, len(seen), nodes*each, err)
		}
	}
}

// racing is a board on which something happens just before a document is swapped.
type racing struct {
	documents.Board
	before func(name string)
}

func (r *racing) SwapDocument(ctx context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	if f := r.before; f != nil {
		r.before = nil
		f(name)
	}
	return r.Board.SwapDocument(ctx, name, was, d)
}

// Of two changes that are written down at the same time none is lost.
func TestHistoryOfTwoNodesAtOnce(t *testing.T) {
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{})
	board := &racing{Board: store}
	a, b := newLaid(t, store, board, store.Now.Load, own, p), newLaid(t, store, store, store.Now.Load, own, p)
	board.before = func(name string) {
		if name != "overlay.audit" {
			t.Errorf("%s is swapped", name)
		}
		b.Audit.NoteChanges(t.Context(), "x", overlay.Change{Action: "reset", By: "b"})
	}
	a.Audit.NoteChanges(t.Context(), "x", overlay.Change{Action: "reset", By: "a"})
	for _, n := range []*laid{a, b} {
		changes, err := n.Audit.Changes(t.Context(), 10, 0)
		if err != nil || len(changes) != 2 || changes[0].By != "a" || changes[0].Number != 2 || changes[1].By != "b" || changes[1].Number != 1 {
			t.Errorf("%+v, %v", changes, err)
		}
	}
}

// What stands in the history: who, when, what, before, after, and why.
func TestHistory(t *testing.T) {
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{Shadow: true})
	n := newLaid(t, store, store, store.Now.Load, own, p)
	ctx := t.Context()
	key := overlay.Target{Domain: "api", Entries: ask("ann").Descriptors[0].Entries, Limit: own[0], Key: "ann"}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		store.Advance(time.Second)
	}
	do(n.Keys.Override(ctx, key, overlay.Numbers{Count: 50, Burst: 60}, 0, operator))
	do(n.Keys.Override(ctx, key, overlay.Numbers{Count: 70}, time.Minute, operator))
	do(n.Modes.Set(ctx, []*limits.Limit{p}, overlay.Setting{Mode: overlay.Enforced, Percent: 10}, time.Hour, operator))
	do(n.Modes.Set(ctx, []*limits.Limit{p}, overlay.Setting{Mode: overlay.Off}, 0, operator))
	_, err := n.Modes.Clear(ctx, func(*overlay.Entry) bool { return true }, operator)
	do(err)
	_, err = n.Keys.LiftEntry(ctx, key, overlay.Override, operator)
	do(err)
	want := [][4]string{ // the latest first
		{"override", "70/minute until 2023-11-14T22:14:21Z", "10/minute", ""},
		{"mode", "off", "shadow by the rules", ""},
		{"mode", "10% until 2023-11-14T23:13:22Z", "off", "unlimited: true"},
		{"mode", "shadow by the rules", "10% until 2023-11-14T23:13:22Z", "rollout: 10%"},
		{"override", "50/minute burst 60", "70/minute until 2023-11-14T22:14:21Z", `overrides: {"ann": 70/minute}`},
		{"override", "10/minute", "50/minute burst 60", `overrides: {"ann": {limit: 50/minute, algorithm: token_bucket, burst: 60}}`},
	}
	changes, err := n.Audit.Changes(ctx, 100, 0)
	if err != nil || len(changes) != len(want) {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	for i, c := range changes {
		if got := [4]string{c.Action, c.Before, c.After, lineOf(c.YAML)}; got != want[i] || c.By != operator.By || c.Reason != operator.Reason || c.Node != "n1" || c.Limit != "permin" {
			t.Errorf("change %d is %+v\nwant %v", i, c, want[i])
		}
		if !n.log.has(c.ID) || strings.Count(n.log.lines(), c.ID) != 1 {
			t.Errorf("change %d is not in the log once", i)
		}
	}
	if changes[0].At-changes[1].At != time.Second.Microseconds() {
		t.Errorf("at %d and %d", changes[0].At, changes[1].At)
	}
	// Paged.
	if page, err := n.Audit.Changes(ctx, 2, changes[1].Number); err != nil || len(page) != 2 || page[0].Number != changes[2].Number {
		t.Errorf("%+v, %v", page, err)
	}
}

// Limits of one rule that are changed alike are one change, and each is changed.
func TestModeOfSeveralLimits(t *testing.T) {
	store := clocked.New(t)
	var own weir.Limits
	var places []*limits.Limit
	for _, name := range []string{"a", "b", "b", "c"} {
		l := &weir.Limit{Name: name, Scope: "api/user#" + name, Algorithm: algorithm.TokenBucket, Count: 10, Period: time.Minute}
		l.Shadow = name == "c"
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		own = append(own, l)
		places = append(places, &limits.Limit{Limit: l, Rule: &limits.Rule{Domain: "api", Path: "user", File: "rules.yaml"}})
	}
	n := newLaid(t, store, store, store.Now.Load, own, places...)
	is := func(want ...string) {
		t.Helper()
		changes, err := n.Audit.Changes(t.Context(), 100, 0)
		var got []string
		for _, c := range changes {
			got = append(got, c.Limit+": "+c.Before+" to "+c.After)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the history is %q, %v, want %q", got, err, want)
		}
	}
	if err := n.Modes.Set(t.Context(), places, overlay.Setting{Mode: overlay.Off}, 0, operator); err != nil {
		t.Fatal(err)
	}
	if ops := n.Match(nil, ask("u")); len(ops) != 0 || len(n.Modes.ListEntries()) != 3 {
		t.Errorf("%d limits are asked, %d have a mode", len(ops), len(n.Modes.ListEntries()))
	}
	is("c: shadow by the rules to off", "a, b: enforce by the rules to off")
	if took, err := n.Modes.Clear(t.Context(), func(*overlay.Entry) bool { return true }, operator); err != nil || took != 3 {
		t.Errorf("%d taken back, %v", took, err)
	}
	is("c: off to shadow by the rules", "a, b: off to enforce by the rules", "c: shadow by the rules to off", "a, b: enforce by the rules to off")
}

// The history is bounded in changes and bytes, by the oldest, and goes back on a
// board that has lost it.
func TestHistoryIsBounded(t *testing.T) {
	board := newMemory()
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{})
	n := newLaid(t, store, board, store.Now.Load, own, p)
	ctx := t.Context()
	for i := range 40 {
		n.Audit.NoteChanges(ctx, "x", overlay.Change{Action: "reset", By: fmt.Sprint(i)})
	}
	board.clear()
	n.Audit.NoteChanges(ctx, "x", overlay.Change{Action: "reset", By: "40"})
	changes, err := newLaid(t, store, board, store.Now.Load, own, p).Audit.Changes(ctx, 1000, 0)
	if err != nil || len(changes) != 41 || changes[40].By != "0" {
		t.Errorf("%d changes after a loss, %v", len(changes), err)
	}
	long := strings.Repeat("é", 1<<20)
	entry := weir.Entry{Key: long, Value: long}
	for i := range 20 {
		n.Audit.NoteChanges(ctx, "x", overlay.Change{Action: "reset", By: fmt.Sprint(i), Reason: long, YAML: long, Before: long, Subject: overlay.Subject{Entries: slices.Repeat([]weir.Entry{entry}, 40)}})
	}
	d, err := board.ReadDocument(ctx, "overlay.audit", 0)
	if err != nil || len(d.Data) > 2<<20 || len(d.Data) < 1<<20 {
		t.Errorf("the document has %d bytes, %v", len(d.Data), err)
	}
	changes, err = newLaid(t, store, board, store.Now.Load, own, p).Audit.Changes(ctx, 1000, 0)
	if err != nil || len(changes) == 0 || changes[0].By != "19" || !strings.HasSuffix(changes[0].Reason, "é…") {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	other := newLaid(t, store, newMemory(), store.Now.Load, own, p)
	for i := range overlay.MaxChanges + 5 {
		if i%100 == 0 || i >= overlay.MaxChanges-5 {
			other.Audit.NoteChanges(ctx, "x", overlay.Change{Action: "reset", By: fmt.Sprint(i)})
		}
	}
	if changes, err = other.Audit.Changes(ctx, 5, 0); err != nil || len(changes) != 5 || changes[0].By != "1004" {
		t.Errorf("%+v, %v", changes, err)
	}
}

// While the board is away a change that was made on it is in the log, waits, and is
// written down when the board is back, once.
func TestHistoryWaits(t *testing.T) {
	board := &shaky{Board: newMemory()}
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{})
	n := newLaid(t, store, board, store.Now.Load, own, p)
	ctx := t.Context()
	n.Audit.NoteChanges(ctx, "x", overlay.Change{Action: "reset", By: "1"})
	board.away.Store(true)
	n.Audit.NoteChanges(ctx, "key reset", overlay.Change{Action: "reset", By: "2"})
	if !n.log.has("audit log write failed; will retry") {
		t.Error("the log does not say that it waits")
	}
	if _, err := n.Audit.Changes(ctx, 10, 0); !errors.As(err, new(*overlay.AuditError)) || !strings.Contains(err.Error(), "when it is back: 1") {
		t.Errorf("the history while the board is away: %v", err)
	}
	board.away.Store(false)
	if changes, err := n.Audit.Changes(ctx, 10, 0); err != nil || len(changes) != 2 || changes[0].Number != 0 || changes[0].By != "2" || changes[1].Number != 1 {
		t.Errorf("%+v, %v", changes, err)
	}
	for range 2 {
		if err := n.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if changes, err := n.Audit.Changes(ctx, 10, 0); err != nil || len(changes) != 2 || changes[0].Number != 2 {
		t.Errorf("%+v, %v", changes, err)
	}
}

// Hostile documents of modes and of changes change nothing, and are left as they are.
func TestHostileModes(t *testing.T) {
	store := clocked.New(t)
	own, p := withMode(t, weir.Mode{})
	n := newLaid(t, store, store, store.Now.Load, own, p)
	if err := n.Modes.Set(t.Context(), []*limits.Limit{p}, overlay.Setting{Mode: overlay.Off}, 0, operator); err != nil {
		t.Fatal(err)
	}
	good, err := store.ReadDocument(t.Context(), "overlay", 0)
	if err != nil {
		t.Fatal(err)
	}
	mode := func(change, to string) string {
		text := strings.Replace(string(good.Data), change, to, 1)
		if text == string(good.Data) {
			t.Fatalf("no %s in %s", change, good.Data)
		}
		return text
	}
	for _, text := range []string{"", "garbage", "{}", `{"format":2,"entries":[]}`, `{"format":1,"entries":[{}]}`, `{"format":1,"entries":[{"kind":"mode"}]}`,
		`{"format":1,"entries":[1]}`, `{"format":1,"entries":[{"kind":"allow","scope":"s"}]}`, mode(`"off"`, `"on"`), mode(`"off"`, `"off","percent":5`),
		mode(`"off"`, `"enforce"`), mode(`"off"`, `"enforce","percent":101`), mode(`"api/user"`, `""`), mode(`"made_us":`, `"until_us":-1,"made_us":`),
		mode(`"a sale"`, `"`+strings.Repeat("x", 2000)+`"`), string(good.Data) + "{}", strings.Replace(string(good.Data), `[{`, `[`+string(entriesOf(t, good.Data)[0])+`,{`, 1),
		`{"format":1,"entries":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"x"},`, overlay.MaxEntries+1), ",") + `]}`} {
		d, err := store.ReadDocument(t.Context(), "overlay", 0)
		if err == nil {
			_, err = store.SwapDocument(t.Context(), "overlay", d.Version, documents.Document{Data: []byte(text)})
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := n.Refresh(t.Context()); !errors.Is(err, overlay.ErrUnread) {
				t.Errorf("%.80q: %v", text, err)
			}
		}
		if d := n.take(t, "ann", 100); !d.Allowed() {
			t.Fatalf("%.80q took effect", text)
		}
		if err := n.Modes.Set(t.Context(), []*limits.Limit{p}, overlay.Setting{Mode: overlay.Shadow}, 0, operator); !errors.Is(err, overlay.ErrUnread) {
			t.Errorf("%.80q was replaced: %v", text, err)
		}
	}
	for _, text := range []string{"x", "{}", `{"format":1,"entries":[{}]}`, `{"format":1,"entries":[{"number":2,"id":"a","at_us":1},{"number":2,"id":"b","at_us":1}]}`} {
		d, err := store.ReadDocument(t.Context(), "overlay.audit", 0)
		if err == nil {
			_, err = store.SwapDocument(t.Context(), "overlay.audit", d.Version, documents.Document{Data: []byte(text)})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Audit.Changes(t.Context(), 10, 0); !errors.Is(err, overlay.ErrUnread) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func entriesOf(t *testing.T, data []byte) []json.RawMessage {
	t.Helper()
	var d struct{ Entries []json.RawMessage }
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d.Entries
}

// Whatever stands in the documents, a node decides on, and a change keeps what it
// does not know.
func FuzzModes(f *testing.F) {
	f.Add([]byte(`{"format":1,"entries":[{"kind":"mode","domain":"api","rule":"user","limit":"permin","scope":"api/user","mode":"enforce","percent":10,"made_us":1,"by":"x","reason":"y"}]}`), "ann", int64(50))
	f.Add([]byte(`{"format":1,"entries":[{"kind":"mode","domain":"api","rule":"user","limit":"permin","scope":"api/user","mode":"off","until_us":9000000000000000,"made_us":1,"by":"x","reason":"y"},{"kind":"tilt","x":[1]}]}`), "bob", int64(1))
	f.Add([]byte(`{"format":1,"entries":[{"kind":"allow","domain":"api","entries":[{"key":"user","value":"bob"}],"limit":"permin","scope":"api/user","key":"bob","algorithm":"token_bucket","until_us":9000000000000000,"made_us":1,"by":"x"}]}`), "bob", int64(100))
	f.Fuzz(func(t *testing.T, data []byte, user string, percent int64) {
		store := clocked.New(t)
		d, err := store.SwapDocument(t.Context(), "overlay", 0, documents.Document{Data: data})
		if err != nil {
			t.Skip()
		}
		own, p := withMode(t, weir.Mode{Excess: 20})
		n := newLaid(t, store, store, store.Now.Load, own, p)
		n.take(t, user, 1+rand.Int64N(20))
		_, _ = n.Modes.Views(), n.Keys.ListEntries()
		err = n.Modes.Set(t.Context(), []*limits.Limit{p}, overlay.Setting{Mode: overlay.Enforced, Percent: percent}, 0, operator)
		after, readErr := store.ReadDocument(t.Context(), "overlay", 0)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if err != nil {
			if after.Version != d.Version {
				t.Errorf("%v, and the document was changed", err)
			}
			return
		}
		if len(n.Modes.ListEntries()) == 0 {
			t.Error("the mode that was set is not there")
		}
		for _, raw := range entriesOf(t, data) {
			var head struct{ Kind string }
			var compact bytes.Buffer
			if err := errors.Join(json.Unmarshal(raw, &head), json.Compact(&compact, raw)); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains([]string{"ban", "ban_domain", "override", "allow", "mode"}, head.Kind) && !bytes.Contains(after.Data, compact.Bytes()) {
				t.Errorf("%s is lost: %s", raw, after.Data)
			}
		}
		n.take(t, user, 1)
	})
}

// lineOf returns the line of a snippet between its comments.
func lineOf(snippet string) string {
	_, rest, _ := strings.Cut(snippet, "\n")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}
