package overlay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/micros"
)

// Options configures an [Overlay].
type Options struct {
	// Rules are what lies beneath. Required; their limits must be compiled.
	Rules weir.Rules
	// Board keeps the documents. Required.
	Board documents.Board
	// Name of the document of entries on the board; that of changes has .audit behind
	// it. Zero means "overlay".
	Name string
	// LimitRefs returns the limits of Rules whose mode operators may change, in the
	// order of the rules. It is asked when something is changed or told, and must
	// be safe for concurrent use. Nil means none.
	LimitRefs func() []LimitRef
	// YAML returns the lines of the rules files that an entry amounts to, after a
	// comment that says where they belong, or a comment that says why there are none. It
	// is asked when an entry is made or told of, and must be safe for concurrent use.
	// Nil means [Entry.YAML].
	YAML func(*Entry) string
	// Node names this node in the history of changes. Zero means no name.
	Node string
	// Every is how often the board is asked for a new version. Zero means a
	// second.
	Every time.Duration
	// Check says why the store cannot serve a limit. Nil means that it can.
	Check func(*weir.Limit) error
	// Restarts says why the store counts l from zero where old, the same limit with
	// other numbers, has counted; empty if it goes on. Nil means weir.Limit.Restarts.
	Restarts func(l, old *weir.Limit) string
	// Now tells the store's time in microseconds since the Unix epoch, for tests
	// and replays. Nil means as the board has told it, and the monotonic clock
	// since.
	Now func() int64
	// Logger is told of every change, and of documents that cannot be read. Nil
	// means nobody is told.
	Logger *slog.Logger
}

// Overlay is rules with operators' bans, overrides and modes over them. Give it to weir.New in the
// place of the rules. Safe for concurrent use.
type Overlay struct {
	opt   Options
	clock clock
	// set is replaced, never changed. Nil means that there are no entries.
	set atomic.Pointer[set]
	// index is the places of the rules as they were when one was last looked for in
	// vain. Nil before.
	index atomic.Pointer[map[*weir.Limit]LimitRef]

	// state is the document of the entries that make the set.
	state   page[Entry]
	history history
	// failures is how often the board failed in a row.
	failures int
	// unknown is how many entries of the document are of kinds of a later version.
	// Guarded by state.mu.
	unknown int
	outage  *faults.Outage
}

var (
	_ weir.Rules     = (*Overlay)(nil)
	_ weir.KeyLister = (*Overlay)(nil)
)

// New returns the overlay with what is on the board now. That the board does not
// answer, or keeps what cannot be read, is logged and no error: the rules hold as
// they are until [Overlay.Watch] finds a document.
func New(ctx context.Context, opt Options) (*Overlay, error) {
	if opt.Rules == nil || opt.Board == nil {
		return nil, errors.New("overlay: no rules or no board: set Options.Rules and Options.Board")
	}
	opt.Name = cmp.Or(opt.Name, "overlay")
	if opt.Restarts == nil {
		opt.Restarts = (*weir.Limit).Restarts
	}
	if opt.Every <= 0 {
		opt.Every = time.Second
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	o := &Overlay{opt: opt, outage: faults.NewOutage(opt.Logger, "operator changes cannot be read; the last known ones stay in force",
		"operator changes can be read again").Warns()}
	o.state = page[Entry]{name: opt.Name, decode: Decode, encode: encode, install: func(all []Entry) {
		o.set.Store(newSet(all, o.set.Load()))
		o.warnOfUnknown(all)
	}}
	o.history.page = page[Change]{name: opt.Name + ".audit", decode: decodeChanges, encode: encodeChanges}
	o.clock.start(time.Now())
	o.note(o.Refresh(ctx))
	return o, nil
}

// warnOfUnknown logs how many entries a later version has written that this one does not
// know, each time that there are more. Requires: state.mu.
func (o *Overlay) warnOfUnknown(all []Entry) {
	kinds := map[Kind]int{}
	n := 0
	for i := range all {
		if !all[i].isKnown() {
			kinds[all[i].Kind]++
			n++
		}
	}
	if n > o.unknown {
		o.opt.Logger.Warn("operator changes of a later version are kept and not enforced here; upgrade this node", "entries", n, "kinds", slices.Sorted(maps.Keys(kinds)))
	}
	o.unknown = n
}

// now returns the store's time.
func (o *Overlay) now() int64 {
	if o.opt.Now != nil {
		return o.opt.Now()
	}
	return o.clock.now()
}

// Match implements weir.Rules.
func (o *Overlay) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	from := len(dst)
	dst = o.opt.Rules.Match(dst, r)
	s := o.set.Load()
	if s == nil {
		return dst
	}
	dst = o.apply(s, dst, from, r)
	if len(s.clients) > 0 {
		dst = o.refuseClient(s, dst, r)
	}
	return dst
}

// refuseClient appends the refusal of r if it carries an entry that is banned over
// its domain.
func (o *Overlay) refuseClient(s *set, dst []weir.Op, r *weir.Request) []weir.Op {
	if r.Verb == weir.Force || r.Verb == weir.Refund {
		return dst
	}
	for i := range r.Descriptors {
		for _, e := range r.Descriptors[i].Entries {
			b := s.banOf(r.Domain, e)
			if b == nil {
				continue
			}
			now := o.now()
			if b.entry.over(now) {
				continue
			}
			wait := micros.Duration(b.entry.Until - now)
			return append(dst, weir.Op{Key: e.Value, Limit: b.limit, Cost: 1, Role: weir.Deny, Verb: r.Verb, Descriptor: uint16(i), Now: now,
				Decision: weir.Decision{Limit: b.limit, RetryAfter: wait, ResetAfter: wait}})
		}
	}
	return dst
}

// apply puts what operators changed of limits and of keys under them over dst[from:].
func (o *Overlay) apply(s *set, dst []weir.Op, from int, r *weir.Request) []weir.Op {
	n := len(dst)
	if len(s.switches) > 0 {
		dst, n = o.shift(s, dst, from, n, r)
	}
	if len(s.marks) == 0 {
		return dst
	}
	var now int64
	for i := from; i < n; i++ {
		op := &dst[i]
		if op.Limit == nil || op.Role == weir.Deny || op.Part != weir.PartLimit {
			continue
		}
		m := s.marks[counter{op.Limit.Scope, op.Key}]
		if m == nil {
			continue
		}
		if now == 0 {
			now = o.now()
		}
		v := m.of(o, op.Limit)
		begin, end := partsOf(dst[:n], i)
		begin = max(begin, from)
		if e := m.override; e != nil && v.with != nil && !e.over(now) {
			override(dst[begin:end], v.with)
		}
		if e := m.allow; e != nil && !e.over(now) && op.Role != weir.Shadow {
			shadow := *op
			shadow.Role, shadow.Penalize = weir.Shadow, false
			dst[begin] = shadow
			dst = slices.Delete(dst, begin+1, end)
			n -= end - begin - 1
			i = begin
		}
		dst = m.refuse(v, dst, i, now, r)
	}
	return dst
}

// Exempts implements weir.Exempter: r is exempt if the rules beneath limit it, and
// the mode of their limits is [Off].
func (o *Overlay) Exempts(r *weir.Request) bool {
	if e, ok := o.opt.Rules.(weir.Exempter); ok && e.Exempts(r) {
		return true
	}
	return len(o.opt.Rules.Match(nil, r)) > 0
}

// refuse appends the refusal of dst[at] if its key is banned.
func (o *Overlay) refuse(s *set, dst []weir.Op, at int, now int64, r *weir.Request) []weir.Op {
	m := s.marks[counter{dst[at].Limit.Scope, dst[at].Key}]
	if m == nil || m.ban == nil {
		return dst
	}
	return m.refuse(m.of(o, dst[at].Limit), dst, at, now, r)
}

func (m *mark) refuse(v *made, dst []weir.Op, at int, now int64, r *weir.Request) []weir.Op {
	if e := m.ban; e != nil && v.banned != nil && !e.over(now) && r.Verb != weir.Force && r.Verb != weir.Refund {
		op := &dst[at]
		wait := micros.Duration(e.Until - now)
		dst = append(dst, weir.Op{Key: op.Key, Limit: v.banned, Cost: op.Cost, Role: weir.Deny, Verb: op.Verb, Descriptor: op.Descriptor, Now: now,
			Decision: weir.Decision{Limit: v.banned, RetryAfter: wait, ResetAfter: wait}})
	}
	return dst
}

// KeyLists implements [weir.KeyLister] by the rules that lie beneath; nil if they
// cannot say.
func (o *Overlay) KeyLists(domain string) []weir.KeyList {
	if l, ok := o.opt.Rules.(weir.KeyLister); ok {
		return l.KeyLists(domain)
	}
	return nil
}

// Unmatched says by the rules that lie beneath why r is likely not what was meant;
// empty where it is, or they cannot say.
func (o *Overlay) Unmatched(r *weir.Request) string {
	if u, ok := o.opt.Rules.(interface{ Unmatched(*weir.Request) string }); ok {
		return u.Unmatched(r)
	}
	return ""
}

// Beneath returns the rules that lie beneath.
func (o *Overlay) Beneath() weir.Rules { return o.opt.Rules }

// Split parts ops that an overlay matched into those of the rules and the bans
// that it added, in place.
func Split(ops []weir.Op) (rest, bans []weir.Op) {
	n := len(ops)
	for n > 0 && ops[n-1].Role == weir.Deny && isBan(ops[n-1].Limit) {
		n--
	}
	return ops[:n], ops[n:]
}

// A clock tells the store's time as far as the node knows it.
type clock struct {
	base  time.Time
	ahead atomic.Int64 // of the time since base, microseconds
}

func (c *clock) start(now time.Time) {
	c.base = now
	c.ahead.Store(now.UnixMicro())
}

func (c *clock) elapsed() int64 { return int64(time.Since(c.base) / time.Microsecond) }

func (c *clock) now() int64 { return c.elapsed() + c.ahead.Load() }

// adjust notes the store's time, told between two instants of elapsed.
func (c *clock) adjust(now, sent, got int64) {
	if now > 0 {
		c.ahead.Store(now - (sent+got)/2)
	}
}
