package event_test

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/limits"
)

// send decides a request of a key with facts and returns it, not yet recycled.
func (b *testbed) send(t *testing.T, key string, cost int64, facts weir.Facts) *weir.Request {
	t.Helper()
	r := b.Acquire()
	r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: key}}})
	r.Cost, r.Facts = cost, facts
	if _, err := b.Decide(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// records returns those that were told, by key and outcome. There must be one of
// each.
func (b *testbed) records(t *testing.T) map[string]*event.Record {
	t.Helper()
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	out := map[string]*event.Record{}
	for _, e := range b.queue.all() {
		if r := e.Record; r != nil {
			at := r.Key + " " + r.Outcome
			if out[at] != nil {
				t.Errorf("two records of %s", at)
			}
			out[at] = r
		}
	}
	return out
}

// A record tells who asked last and how many there were, how requests were
// answered, and when each came.
func TestRecordTellsOfClients(t *testing.T) {
	const noon = int64(20_454*86400+12*3600) * 1e6
	bubble.Test(t, func(t *testing.T) {
		var now atomic.Int64
		now.Store(noon)
		b := observe(t, now.Load, event.Options{Sample: 1, Unhashed: true}, perMinute(100, nil))
		results := []weir.Result{
			{Code: 200, Duration: 10 * time.Millisecond}, {Code: 101, Duration: time.Hour}, {Code: 204}, {Code: 302}, {Code: 304},
			{Code: 401}, {Code: 403}, {Code: 404}, {Code: 400}, {Code: 499, Duration: 70 * time.Millisecond}, {Code: 500}, {Code: weir.NoAnswer}, {Code: 9999},
		}
		for i, res := range results {
			c := client{addr: netip.MustParseAddr(fmt.Sprint("203.0.113.", i%3)), method: "GET", host: "api.example", path: fmt.Sprint("/", i%5),
				user: fmt.Sprint("user", i%2), tier: "gold", agent: fmt.Sprint("curl/", i)}
			r := b.send(t, "key", int64(i+1), &c)
			now.Add(1000)
			b.End(r, res)
			b.Recycle(r)
		}
		refused := b.send(t, "key", 90, nil)
		b.Recycle(refused)
		synctest.Wait()
		got := b.records(t)
		r := got["key allowed"]
		if r == nil || len(got) != 2 {
			t.Fatalf("told %v", got)
		}
		if want := (&event.About{Address: "203.0.113.0", Network: "203.0.113.0/24", Method: "GET", Host: "api.example", Path: "/2", User: "user0",
			Tier: "gold", Agent: "curl", Users: 2, Agents: 13, Paths: 5, Addresses: 3}); !reflect.DeepEqual(r.About, want) {
			t.Errorf("about\n%+v, want\n%+v", r.About, want)
		}
		if want := (&event.Answers{Count: 13, OK: 3, Redirect: 2, Denied: 3, ClientError: 2, ServerError: 3, TotalMS: 80, LongestMS: 70}); !reflect.DeepEqual(r.Answers, want) {
			t.Errorf("answers %+v, want %+v", r.Answers, want)
		}
		var want []event.Arrival
		for i := range results {
			want = append(want, event.Arrival{AtUS: int64(i) * 1000, Cost: int64(i + 1)})
		}
		if !reflect.DeepEqual(r.Arrivals, want) || r.ArrivalsCut {
			t.Errorf("arrivals %v (cut %v), want %v", r.Arrivals, r.ArrivalsCut, want)
		}
		r = got["key refused"]
		if r.About != nil || r.Answers != nil || !reflect.DeepEqual(r.Arrivals, []event.Arrival{{Cost: 90}}) {
			t.Errorf("of a refusal by nobody knows whom: %+v, %+v, %v", r.About, r.Answers, r.Arrivals)
		}
	})
}

// An answer that comes after its record is told in one of its own, of those who
// are sampled or watched.
func TestAnswersThatComeLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := observe(t, nil, event.Options{Sample: -1, Unhashed: true}, perMinute(2, nil))
		var good, bad *weir.Request
		good = b.send(t, "good", 1, nil)
		b.Recycle(b.send(t, "bad", 3, nil)) // refused, and watched from now on
		bad = b.send(t, "bad", 1, nil)
		time.Sleep(3 * time.Second)
		before := len(b.queue.all())
		b.End(good, weir.Result{Code: 200})
		b.End(bad, weir.Result{Code: 200, Duration: 3 * time.Second})
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		var late []*event.Record
		for _, e := range b.queue.all()[before:] {
			if e.Record != nil {
				late = append(late, e.Record)
			}
		}
		if len(late) != 1 || late[0].Key != "bad" || late[0].Outcome != "allowed" || late[0].Count != 0 || late[0].Least != 0 || !late[0].Watched ||
			!reflect.DeepEqual(late[0].Answers, &event.Answers{Count: 1, OK: 1, TotalMS: 3000, LongestMS: 3000}) {
			t.Errorf("late answers are told as %+v", late)
		}
		e := event.Event{Source: "n/1", Sequence: 1, Record: late[0]}
		if text, err := e.Encode(); err != nil {
			t.Error(err)
		} else if _, err := event.Decode(text); err != nil {
			t.Error(err)
		}
	})
}

// Who comes a thousand times a second is told of once in each record, and what is
// missing of the single decisions is said to be.
func TestHotClientsAreToldOfOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := observe(t, nil, event.Options{Sample: 1, Unhashed: true}, perMinute(1, nil))
		var facts calls
		second := func() { // a thousand decisions, the ring is emptied now and then
			for range 10 {
				for range 100 {
					b.Recycle(b.send(t, "key", 2, &facts))
				}
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(900 * time.Millisecond)
		}
		time.Sleep(502 * time.Millisecond) // so that nothing falls due while it sends
		second()
		if facts.paths < 257 || facts.paths > 401 {
			t.Errorf("before it is known to be hot it is told %d times", facts.paths)
		}
		for i := range 3 {
			facts.paths = 0
			second()
			if facts.paths != 1 {
				t.Errorf("%d: told %d times of 1000", i, facts.paths)
			}
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		total, told := int64(0), 0
		for _, e := range b.queue.all() {
			r := e.Record
			if r == nil {
				continue
			}
			total += r.Count
			told++
			if r.About == nil || r.About.Path != "/" || r.About.Paths != 1 {
				t.Errorf("about %+v", r.About)
			}
			if cut := r.Count > event.MaxArrivals; r.ArrivalsCut != cut || !cut && int64(len(r.Arrivals)) != r.Count {
				t.Errorf("%d arrivals of %d, cut %v", len(r.Arrivals), r.Count, r.ArrivalsCut)
			}
		}
		if total != 4000 || told < 4 || b.Observer.Loss() != (event.Loss{}) {
			t.Errorf("%d decisions in %d records, lost %+v", total, told, b.Observer.Loss())
		}
	})
}

// calls counts how often it is asked.
type calls struct {
	client
	paths int
}

func (c *calls) Path() string { c.paths++; return "/" }

// Nodes with one secret tell a client alike, others do not; and a key that is an
// address is told as the address is.
func TestIdentitiesAreHashed(t *testing.T) {
	abouts := func(secret string) (string, *event.About) {
		q := &kept{}
		l := perMinute(1, nil)
		o, err := event.New(event.Options{Queue: q, Secret: []byte(secret), Sample: 1, Limits: func() []limits.Ref { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		tb := &testbed{Observer: o, queue: q}
		tb.Limiter = limiterOf(t, o, nil, l)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		long := client{addr: netip.MustParseAddr("203.0.113.9"), user: strings.Repeat("u", 100), path: "/secret-free", agent: "curl/8"}
		tb.Recycle(tb.send(t, "203.0.113.9", 1, &long))
		if err := o.Run(ctx); err != nil {
			t.Fatal(err)
		}
		for _, e := range q.all() {
			if e.Record != nil {
				return e.Record.Key, e.Record.About
			}
		}
		t.Fatal("nothing was told")
		return "", nil
	}
	key, one := abouts("0123456789abcdef")
	_, same := abouts("0123456789abcdef")
	_, other := abouts("fedcba9876543210")
	if !reflect.DeepEqual(one, same) {
		t.Errorf("with one secret %+v and %+v", one, same)
	}
	if one.Address != key {
		t.Errorf("the address is %s, the key of the same text %s", one.Address, key)
	}
	for _, c := range [][2]string{{one.Address, other.Address}, {one.Network, other.Network}, {one.User, other.User}} {
		if len(c[0]) != 32 || len(c[1]) != 32 || c[0] == c[1] {
			t.Errorf("hashes under two secrets: %q", c)
		}
	}
	if one.Path != "/secret-free" || one.Agent != "curl" || one.Tier != "" {
		t.Errorf("about %+v", one)
	}
}
