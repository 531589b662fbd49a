package redis

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A plan is what every decision under a limit needs: made once, then immutable.
type plan struct {
	algorithm algorithm.Scripted
	twin      *twin
	single    *script  // decides an op that stands alone
	row       *script  // the same, of a plain spend; nil if the twin keeps a collection
	suffix    string   // of the key's name, from the brace on
	consts    []string // what the twin is told of the limit, between the times below
	from      int64
	until     int64
	one       []string // the span of a cost of 1
	// Of the row, if anything is carried to or from it; for how long it matters, and how
	// many units it has room for.
	family      *family
	version     *version
	reach, room int64
}

// plans are those of a store. Limits can be made on the fly, so that there is no
// end to them: when there are too many, all are forgotten. Safe for concurrent
// use.
type plans struct {
	scripts scripts
	made    sync.Map // *weir.Limit -> *plan
	count   atomic.Int64
	singles sync.Map // number of a twin -> *script

	families sync.Map // name, see familyOf -> *family
	list     list
}

const maxPlans = 1 << 16

// planForLimit returns the plan for l as of now, for which the clock is asked where it
// matters: few limits go by the calendar.
func (p *plans) planForLimit(l *weir.Limit, clock func() int64) (*plan, error) {
	if found, ok := p.made.Load(l); ok {
		pl := found.(*plan)
		if pl.until == math.MaxInt64 {
			return pl, nil
		}
		if now := clock(); pl.from <= now && now < pl.until {
			return pl, nil
		}
	}
	return p.makePlan(l, clock())
}

func (p *plans) makePlan(l *weir.Limit, now int64) (*plan, error) {
	if err := Check(l); err != nil {
		return nil, err
	}
	if l.Cells == 0 {
		return nil, fmt.Errorf("store redis: limit %q was not compiled: call its Compile, or give it to weir.New", l.Name)
	}
	a := l.Algorithm.(algorithm.Scripted)
	t := findTwin(twins, a.Script().Name)
	single := loadOrCreate(&p.singles, t.number, func() *script { return p.scripts.singleScript(t) })
	consts, until := a.Consts(nil, l, now)
	// Should this machine's clock go back, the edges of its calendar do too.
	pl := &plan{algorithm: a, twin: t, single: single, suffix: "}:" + limitTag(l),
		consts: formatNumbers(consts), from: now, until: until, one: formatNumbers(a.Span(nil, l, 1))}
	if !t.Collection {
		pl.row = p.scripts.rowScript(pl.numberInRow(), []*asked{{plan: pl}})
	}
	if p.count.Add(1) > maxPlans {
		p.made.Clear()
		p.families.Clear()
		p.count.Store(1)
	}
	p.joinFamily(pl, l, now)
	p.made.Store(l, pl)
	return pl, nil
}

// elderPlans returns the plans of the rows that a key may have too, nil of most limits.
func (p *plan) elderPlans(clock func() int64) []*plan {
	if p.family == nil {
		return nil
	}
	return p.family.elderPlans(p.version, clock)
}

// appendSpan appends what the twin is told of a cost.
func (p *plan) appendSpan(dst []string, l *weir.Limit, cost int64) []string {
	if cost == 1 {
		return append(dst, p.one...)
	}
	var buf [4]int64
	for _, n := range p.algorithm.Span(buf[:0], l, cost) {
		dst = append(dst, strconv.FormatInt(n, 10))
	}
	return dst
}

func formatNumbers(numbers []int64) []string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = strconv.FormatInt(n, 10)
	}
	return out
}

// Check says why a store of this kind cannot serve l, nil if it can: an
// approximate limit keeps one sketch for all keys, which is for the memory of one
// process.
func Check(l *weir.Limit) error {
	if _, ok := l.Algorithm.(algorithm.Scripted); ok {
		return nil
	}
	return fmt.Errorf("limit %q: %s cannot be kept in Redis: use sliding_window, which takes some 100 bytes a key, or the memory store",
		l.Name, l.Algorithm.Name())
}

// numberInRow tells the op of a row: its twin, and the number of its constants.
func (p *plan) numberInRow() uint32 { return uint32(p.twin.number)<<4 | uint32(len(p.consts)) }
