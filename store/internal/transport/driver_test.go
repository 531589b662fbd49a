package transport

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
)

var errDown = errors.New("connection refused")

// A fate is what becomes of one call: it is carried out at an instant or not at all, and
// ends at one.
type fate struct {
	runs   bool
	after  time.Duration
	result *Result
}

// servers is a driver before shards that count what was spent of each key. What becomes
// of a call is drawn by draw; a fate that lasts longer than the call's Within is one of
// a driver that does not keep to it.
type servers struct {
	allows int64 // units of a key; 0: all
	w      *world
	shards int
	draw   func(shard int, c *Call) fate
	probe  func(shard int) (time.Duration, error)

	// spent is the ops that were carried out per key, by the mark in Headroom those that
	// stand alone.
	spent, marked map[string]int64
	sending       []int // per shard
	most          int   // the most batches of a shard at a time
	batch         int   // the most calls of a batch
	background    []int
	mostBehind    int // the most background calls of a shard at a time
	probing       int
}

func newServers(w *world, shards int) *servers {
	return &servers{
		w: w, shards: shards, spent: map[string]int64{}, marked: map[string]int64{}, sending: make([]int, shards), background: make([]int, shards),
		draw:  func(int, *Call) fate { return fate{runs: true, after: time.Millisecond} },
		probe: func(int) (time.Duration, error) { return time.Millisecond, nil },
	}
}

func (d *servers) Shards() int { return d.shards }

func (d *servers) Shard(key string) int { return int(key[0]) % d.shards }

func (d *servers) Probe(shard int, _ time.Duration) error {
	d.probing++
	defer func() { d.probing-- }()
	lasts, err := d.probe(shard)
	d.w.sleep(lasts)
	d.w.note("probe %d %v", shard, err)
	return err
}

func (d *servers) Send(shard int, calls []*Call) {
	d.sending[shard]++
	d.most, d.batch = max(d.most, d.sending[shard]), max(d.batch, len(calls))
	left := make([]*Call, len(calls))
	ends, fates := make([]clock.Node, len(calls)), make([]fate, len(calls))
	copy(left, calls)
	for i, c := range calls {
		if c.class == Background {
			d.background[shard]++
			d.mostBehind = max(d.mostBehind, d.background[shard])
		}
		fates[i] = d.draw(shard, c)
		ends[i] = d.w.now.Add(fates[i].after.Microseconds())
	}
	for range calls {
		first := -1
		for i, c := range left {
			if c != nil && (first < 0 || ends[i] < ends[first]) {
				first = i
			}
		}
		c := left[first]
		left[first] = nil
		if ends[first] > d.w.now {
			d.w.sleep(time.Duration(ends[first]-d.w.now) * time.Microsecond)
		}
		if fates[first].runs {
			d.run(c)
		}
		d.w.note("send %d %s %v", shard, c.Ops[0].Key, fates[first].result)
		if c.class == Background {
			d.background[shard]--
		}
		c.Finish(fates[first].result)
	}
	d.sending[shard]--
}

// run carries out a call: the n-th op of a key leaves n.
func (d *servers) run(c *Call) {
	for i := range c.Ops {
		o := &c.Ops[i]
		key := strings.Clone(o.Key) // the call's own is used again
		d.spent[key]++
		if o.Headroom > 0 {
			d.marked[key]++
		}
		o.Decision, o.Now, o.Charged = weir.Decision{Limit: o.Limit, Remaining: d.spent[o.Key]}, int64(d.w.now), true
		if d.allows > 0 && d.spent[key] > d.allows {
			o.Decision.RetryAfter, o.Charged = time.Second, o.Role == weir.Always // as stores say of it
		}
	}
}

// A driver's wish of its queue comes first, it may trip shards before the first call, and
// it hears of each breaker: before the owner of the queue, who hears when the last one opens,
// and whenever one closes.
func TestTuning(t *testing.T) {
	simulate(t, 1, func(w *world) {
		var heard []string
		d, opt := newServers(w, 2), options()
		note := func(who string) func(int, error) {
			return func(shard int, err error) { heard = append(heard, fmt.Sprint(who, shard, err)) }
		}
		opt.Opened, opt.Closed = func(err error) { note("owner ")(2, err) }, func() { note("owner ")(2, nil) }
		opt.Tuning = Tuning{
			Workers: 1, Batch: 2, Waiting: 3, Bind: func(q *Queue) { q.TripBreaker(1, errDown) },
			Opened: note("driver "), Closed: func(shard int) { note("driver ")(shard, nil) },
		}
		q := New(d, w.env(), opt)
		if q.opt.Workers != 1 || q.opt.Batch != 2 || q.opt.Waiting != 3 || q.IsShardOpen(0) || !q.IsShardOpen(1) {
			t.Errorf("%+v, open %v %v", q.opt, q.IsShardOpen(0), q.IsShardOpen(1))
		}
		q.TripBreaker(0, errDown)
		d.probe = func(shard int) (time.Duration, error) {
			if shard == 0 && q.IsShardOpen(1) {
				return 0, errDown
			}
			return time.Millisecond, nil
		}
		for q.IsShardOpen(0) {
			w.sleep(opt.ProbeEvery)
		}
		want := []string{"driver 1 connection refused", "driver 0 connection refused", "owner 2 connection refused", "driver 1 <nil>", "owner 2 <nil>", "driver 0 <nil>", "owner 2 <nil>"}
		if !slices.Equal(heard, want) {
			t.Error(heard)
		}
		q.Close()
	})
}
