package memory

import (
	"slices"
	"sync"

	"github.com/weirlimit/weir"
)

// versions are the limits that keep one counter in several ways, by the CounterID that they
// share. A key has at most one row of a counter, under the version that was asked last or as
// a changed row; where a limit finds no row, it looks under the others. Limits without a
// price are not in it.
//
// A version is added under the lock of its segment before its first row is made, and the
// rows of others are looked for under the locks of both: so of two that come at once the
// second finds the row of the first.
type versions struct {
	mu  sync.Mutex // held while a list is replaced
	all sync.Map   // uint64, a CounterID -> []*weir.Limit, which never changes
}

// maxVersions is how many are known of a limit, the newest: a new key looks under each of
// them. One that is forgotten is known again with its next new key.
const maxVersions = 1000

// listWith returns the versions of l, with it, in the order in which they came.
func (v *versions) listWith(l *weir.Limit) []*weir.Limit {
	if weir.CounterID(l) == 0 {
		return nil
	}
	list, ok := v.findList(l)
	if !ok {
		v.mu.Lock()
		if list, ok = v.findList(l); !ok {
			list = append(slices.Clone(list[max(len(list)+1-maxVersions, 0):]), l)
			v.all.Store(weir.CounterID(l), list)
		}
		v.mu.Unlock()
	}
	return list
}

// findList returns the versions of l, and whether it is one of them.
func (v *versions) findList(l *weir.Limit) (list []*weir.Limit, ok bool) {
	if found, _ := v.all.Load(weir.CounterID(l)); found != nil {
		list = found.([]*weir.Limit)
	}
	return list, slices.ContainsFunc(list, func(o *weir.Limit) bool { return o.RowID() == l.RowID() })
}
