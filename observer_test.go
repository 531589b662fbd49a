package weir_test

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

// told is one thing that an observer heard.
type told struct {
	key     string
	limit   *weir.Limit
	verb    weir.Verb
	user    string
	allowed bool
	charged bool
	err     error
	res     weir.Result
}

func tell(r *weir.Request) told {
	t := told{}
	if r.Facts != nil {
		t.user = r.Facts.User()
	}
	for _, o := range r.Ops() {
		t.key, t.limit, t.verb, t.charged = string([]byte(o.Key)), o.Limit, o.Verb, o.Charged
	}
	return t
}

// listener hears decisions, hearer also results.
type listener struct{ heard []told }

func (l *listener) Observe(r *weir.Request, d weir.Decision, err error) {
	t := tell(r)
	t.allowed, t.err = d.Allowed(), err
	l.heard = append(l.heard, t)
}

type hearer struct {
	listener
	ended []told
}

func (h *hearer) ObserveResult(r *weir.Request, res weir.Result) {
	t := tell(r)
	t.res = res
	h.ended = append(h.ended, t)
}

// someone is a client of whom the name is known.
type someone string

func (s someone) Address() netip.Addr { return netip.Addr{} }
func (s someone) Method() string      { return "" }
func (s someone) Host() string        { return "" }
func (s someone) Path() string        { return "" }
func (s someone) User() string        { return string(s) }
func (s someone) Tier() string        { return "" }
func (s someone) Agent() string       { return "" }

func TestObserversHearFactsAndResults(t *testing.T) {
	s := memory.New(memory.Options{})
	defer s.Close()
	limit := weir.PerMinute(1, algorithm.TokenBucket)
	deaf, hears := &listener{}, &hearer{}
	l, err := weir.New(s, weir.Limits{limit}, weir.Options{Observers: []weir.Observer{deaf, hears}})
	if err != nil {
		t.Fatal(err)
	}
	if !l.WantsResults() {
		t.Error("an observer of results is not noticed")
	}
	r := l.Acquire()
	r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: "k"}}})
	r.Facts = someone("ann")
	if _, err := l.Decide(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	res := weir.Result{Code: 204, Duration: time.Second}
	l.End(r, res)
	want := told{key: "k", limit: limit, user: "ann", charged: true}
	ended := want
	ended.res, want.allowed = res, true
	if !reflect.DeepEqual(deaf.heard, []told{want}) || !reflect.DeepEqual(hears.heard, []told{want}) || !reflect.DeepEqual(hears.ended, []told{ended}) {
		t.Errorf("heard %+v, %+v, %+v", deaf.heard, hears.heard, hears.ended)
	}
	r.Reset()
	if r.Facts != nil {
		t.Error("facts outlive the request")
	}
	alone, err := weir.New(s, weir.Limits{limit}, weir.Options{Observers: []weir.Observer{deaf}})
	if err != nil || alone.WantsResults() {
		t.Error("who hears no results is taken for one who does", err)
	}
	alone.End(r, res)
}

type broken struct{ weir.Store }

var errBroken = errors.New("broken")

func (broken) TakeOne(context.Context, string, *weir.Limit, int64) (weir.Decision, error) {
	return weir.Decision{}, errBroken
}

func TestTakeLimit(t *testing.T) {
	s := memory.New(memory.Options{})
	defer s.Close()
	limit := weir.PerMinute(2, algorithm.FixedWindow)
	if err := limit.Compile(); err != nil {
		t.Fatal(err)
	}
	for _, observed := range []bool{false, true} {
		hears := &hearer{}
		var opt weir.Options
		if observed {
			opt.Observers = []weir.Observer{hears}
		}
		l, err := weir.New(s, weir.Limits{}, opt)
		if err != nil {
			t.Fatal(err)
		}
		key := map[bool]string{false: "alone", true: "observed"}[observed]
		allowed, refused := limit.Counters().Load(weir.Allowed), limit.Counters().Load(weir.Refused)
		for i, want := range []bool{true, true, true, false} {
			d, err := l.TakeLimit(context.Background(), key, limit, int64(min(i, 1)))
			if err != nil || d.Allowed() != want || d.Limit != limit {
				t.Errorf("%d: %+v, %v", i, d, err)
			}
		}
		if a, r := limit.Counters().Load(weir.Allowed)-allowed, limit.Counters().Load(weir.Refused)-refused; a != 2 || r != 1 {
			t.Errorf("counted %d allowed, %d refused", a, r)
		}
		for _, cost := range []int64{-1, weir.MaxCost + 1} {
			if _, err := l.TakeLimit(context.Background(), key, limit, cost); !errors.Is(err, weir.ErrCost) {
				t.Errorf("cost %d: %v", cost, err)
			}
		}
		if !observed {
			continue
		}
		peek := told{key: key, limit: limit, verb: weir.Peek, allowed: true}
		spent := told{key: key, limit: limit, allowed: true, charged: true}
		if !reflect.DeepEqual(hears.heard, []told{peek, spent, spent, {key: key, limit: limit}}) {
			t.Errorf("heard %+v", hears.heard)
		}
		l, err = weir.New(broken{s}, weir.Limits{}, opt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.TakeLimit(context.Background(), key, limit, 1); !errors.Is(err, errBroken) {
			t.Error(err)
		}
		if last := hears.heard[len(hears.heard)-1]; !errors.Is(last.err, errBroken) {
			t.Errorf("of an error it heard %+v", last)
		}
	}
}

// timekeeper hears how long decisions take.
type timekeeper struct {
	listener
	took []time.Duration
}

func (k *timekeeper) Observe(r *weir.Request, d weir.Decision, err error) {
	k.listener.Observe(r, d, err)
	if took := r.Took(); took != 0 {
		k.took = append(k.took, took)
	}
}

// away is a store that decides nothing while it is away.
type away struct {
	weir.Store
	err error
}

func (a *away) Take(ctx context.Context, ops []weir.Op) error {
	if a.err != nil {
		return a.err
	}
	return a.Store.Take(ctx, ops)
}

// Of one decision in LatencyEvery the time is taken, and of none that was not made.
func TestTook(t *testing.T) {
	store := &away{Store: memory.New(memory.Options{})}
	defer store.Close()
	k := &timekeeper{}
	l, err := weir.New(store, weir.Limits{weir.PerDay(10, algorithm.FixedWindow)}, weir.Options{Observers: []weir.Observer{k, &listener{}}})
	if err != nil {
		t.Fatal(err)
	}
	r := &weir.Request{}
	decide := func(n int) {
		for range n {
			r.Reset()
			r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: "k"}}})
			if _, err := l.Decide(t.Context(), r); !errors.Is(err, store.err) {
				t.Fatal(err)
			}
		}
	}
	decide(3 * weir.LatencyEvery)
	if len(k.took) != 3 {
		t.Errorf("%d of %d decisions were timed", len(k.took), 3*weir.LatencyEvery)
	}
	for _, took := range k.took {
		if took < 0 {
			t.Errorf("a decision took %s", took)
		}
	}
	store.err = errors.New("away")
	decide(2 * weir.LatencyEvery)
	if len(k.took) != 3 {
		t.Error("what was not decided was timed")
	}
	if len(k.heard) != 5*weir.LatencyEvery {
		t.Errorf("%d decisions were heard", len(k.heard))
	}
}
