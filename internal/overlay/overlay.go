package overlay

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/limits"
)

// Options configures an [Overlay].
type Options struct {
	// Rules are what lies beneath. Required; their limits must be compiled.
	Rules weir.Rules
	// Board keeps the documents: "overlay" of the entries, "overlay.audit" of the
	// changes. Required.
	Board documents.Board
	// Limits returns the limits of Rules whose mode operators may change, in the
	// order of the rules. It is asked when something is changed or told, and must
	// be safe for concurrent use. Nil means none.
	Limits func() []*limits.Limit
	// Node names this node in the history of changes. Zero means no name.
	Node string
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
	// Keys are the bans, overrides and free passes, Modes the modes, and Audit is the log
	// of what operators changed. They are not to be replaced.
	Keys  *Keys
	Modes *Modes
	Audit *Audit

	rules    weir.Rules
	board    *board
	entries  *entries
	variants *variants

	outage *faults.Outage
	// failures is how often the board failed in a row.
	failures int
}

var (
	_ weir.Rules   = (*Overlay)(nil)
	_ weir.Catalog = (*Overlay)(nil)
)

// New returns the overlay with what is on the board now. That the board does not
// answer, or keeps what cannot be read, is logged and no error: the rules hold as
// they are until [Overlay.WatchBoard] finds a document.
func New(ctx context.Context, opt Options) (*Overlay, error) {
	if opt.Rules == nil || opt.Board == nil {
		return nil, errors.New("overlay: no rules or no board: set Options.Rules and Options.Board")
	}
	if opt.Limits == nil {
		opt.Limits = func() []*limits.Limit { return nil }
	}
	if opt.Restarts == nil {
		opt.Restarts = (*weir.Limit).Restarts
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	o := &Overlay{rules: opt.Rules, board: newBoard(&opt),
		variants: &variants{limits: changeable{list: opt.Limits}, check: opt.Check, logger: opt.Logger},
		outage: faults.NewOutage(opt.Logger, "operator changes cannot be read; the last known ones stay in force",
			"operator changes can be read again").Warns()}
	o.entries, o.Audit = newEntries(o.board), newAudit(o.board, opt.Node)
	o.Keys = &Keys{o.entries, o.Audit, o.variants, opt.Restarts}
	o.Modes = &Modes{o.entries, o.Audit, o.variants}
	o.logOutage(o.Refresh(ctx))
	return o, nil
}

// Match implements weir.Rules.
func (o *Overlay) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	from := len(dst)
	dst = o.rules.Match(dst, r)
	s := o.entries.set.Load()
	if s == nil {
		return dst
	}
	m, n := match{set: s, variants: o.variants, board: o.board, r: r}, len(dst)
	if len(s.byLimit) > 0 {
		dst, n = m.applyModes(dst, from)
	}
	if len(s.marks) > 0 {
		dst = m.applyKeys(dst, from, n)
	}
	if len(s.clients) > 0 {
		dst = m.refuseClient(dst)
	}
	return dst
}

// Exempts implements [weir.Catalog]: r is exempt if the rules beneath limit it, and
// the mode of their limits is [Off].
func (o *Overlay) Exempts(r *weir.Request) bool {
	if c, ok := o.rules.(weir.Catalog); ok && c.Exempts(r) {
		return true
	}
	return len(o.rules.Match(nil, r)) > 0
}

// KeyLists implements [weir.Catalog] by the rules that lie beneath; nil if they
// cannot say.
func (o *Overlay) KeyLists(domain string) []weir.KeyList {
	if c, ok := o.rules.(weir.Catalog); ok {
		return c.KeyLists(domain)
	}
	return nil
}

// Misspelt implements [weir.Catalog] by the rules that lie beneath; empty if they cannot say.
func (o *Overlay) Misspelt(r *weir.Request) string {
	if c, ok := o.rules.(weir.Catalog); ok {
		return c.Misspelt(r)
	}
	return ""
}

// Unmatched says by the rules that lie beneath why r is likely not what was meant;
// empty where it is, or they cannot say.
func (o *Overlay) Unmatched(r *weir.Request) string {
	if u, ok := o.rules.(interface{ Unmatched(*weir.Request) string }); ok {
		return u.Unmatched(r)
	}
	return ""
}

// Beneath returns the rules that lie beneath.
func (o *Overlay) Beneath() weir.Rules { return o.rules }

// SplitBans parts ops that an overlay matched into those of the rules and the bans
// that it added, in place.
func SplitBans(ops []weir.Op) (rest, bans []weir.Op) {
	n := len(ops)
	for n > 0 && ops[n-1].Role == weir.Deny && isBan(ops[n-1].Limit) {
		n--
	}
	return ops[:n], ops[n:]
}
