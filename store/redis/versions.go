package redis

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// A family is the versions of a limit between whose rows what was spent is carried, see
// changed.lua: those that a node was asked by and that have rows of their own, as
// their algorithm or period differs. Of a limit that nobody changed it has one.
type family struct {
	hold     int64      // by how much rows outlast what is said of them, microseconds
	mu       sync.Mutex // held while versions is replaced
	versions atomic.Pointer[[]*version]
}

// A version is limits that have one row of a key.
type version struct {
	suffix string
	plan   atomic.Pointer[plan] // of the largest of them, whose rows have room for all
	until  atomic.Int64         // when its last row may be over, while there are others
}

// maxVersions is how many versions are known of a limit, those that were asked for last.
const maxVersions = 6

// joinFamily makes the plan of l one of the family of its counter, if anything is carried to or
// from it. A family that is new here has the versions that the servers list.
func (p *plans) joinFamily(pl *plan, l *weir.Limit, now int64) {
	if weir.CounterID(l) == 0 {
		return
	}
	name := familyOf(l)
	pl.reach, pl.room = reachOf(l), l.Burst
	others := p.list.announceVersion(name, pl)
	found, ok := p.families.Load(name)
	if !ok {
		f := new(family)
		if p.scripts.time != serverTime { // a test's: rows go by the server's clock
			f.hold = micros.Of(weir.MaxPeriod)
		}
		for _, o := range others {
			f.addPlan(o, now)
		}
		found, _ = p.families.LoadOrStore(name, f)
	}
	pl.family = found.(*family)
	pl.version = pl.family.addPlan(pl, now)
}

// learnVersion notes a version that the servers list. Requires: list.mu.
func (p *plans) learnVersion(name string, pl *plan, now int64) {
	if !p.list.rememberVersion(name, pl) {
		return
	}
	if f, ok := p.families.Load(name); ok {
		f.(*family).addPlan(pl, now)
	}
}

// reachOf returns for how many microseconds a row matters after it was charged.
func reachOf(l *weir.Limit) int64 {
	whole := time.Duration(min(float64(l.Period)*max(1, float64(l.Burst)/float64(l.Count)), float64(weir.MaxPeriod)*4))
	return 2*micros.Of(whole) + micros.Of(time.Minute)
}

// knownVersions returns the versions that are known.
func (f *family) knownVersions() []*version {
	if all := f.versions.Load(); all != nil {
		return *all
	}
	return nil
}

// addPlan makes a plan that of its version, and returns that.
func (f *family) addPlan(pl *plan, now int64) *version {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &version{suffix: pl.suffix}
	for _, o := range f.knownVersions() {
		if o.suffix == pl.suffix {
			v = o
		}
	}
	if was := v.plan.Load(); was == nil || was.room <= pl.room {
		v.plan.Store(pl)
	}
	f.addVersion(v, now)
	return v
}

// addVersion has v be known: the others may have been asked for until now. Requires: mu.
func (f *family) addVersion(v *version, now int64) {
	all := f.knownVersions()
	if slices.Contains(all, v) {
		return
	}
	if len(all) == 1 {
		all[0].until.Store(now + f.hold + all[0].plan.Load().reach)
	}
	v.until.Store(now + f.hold + v.plan.Load().reach)
	all = append(slices.Clone(all), v)
	if len(all) > maxVersions {
		first := slices.MinFunc(all[:maxVersions], func(a, b *version) int { return cmp.Compare(a.until.Load(), b.until.Load()) })
		all = slices.DeleteFunc(all, func(o *version) bool { return o == first })
	}
	f.versions.Store(&all)
}

// isChanged reports whether there are other versions than v, which is asked for.
func (f *family) isChanged(v *version) bool {
	all := *f.versions.Load()
	return len(all) != 1 || all[0] != v
}

// elderPlans returns the plans of the rows that a key may have beside that of v, which is asked
// for.
func (f *family) elderPlans(v *version, clock func() int64) (elders []*plan) {
	if !f.isChanged(v) {
		return nil
	}
	all, now := f.versions.Load(), clock()
	if !slices.Contains(*all, v) {
		f.mu.Lock()
		f.addVersion(v, now)
		all = f.versions.Load()
		f.mu.Unlock()
	}
	v.until.Store(now + f.hold + v.plan.Load().reach)
	for _, o := range *all {
		if o != v && o.until.Load() > now {
			elders = append(elders, o.plan.Load())
		}
	}
	if elders == nil { // unless one was added meanwhile
		f.versions.CompareAndSwap(all, &[]*version{v})
	}
	return elders
}
