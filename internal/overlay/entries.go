package overlay

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
)

// entries are the document of entries, and what is in use of it.
type entries struct {
	page[Entry]
	// set is replaced, never changed. Nil means that there are no entries.
	set atomic.Pointer[set]
	// here are the entries of this node alone. Requires: mu.
	here []Entry
	// unknown is how many entries are of kinds of a later version. Requires: mu.
	unknown int
}

func newEntries(b *board) *entries {
	s := &entries{page: page[Entry]{board: b, name: documentName, decode: DecodeEntries, encode: encodeEntries}}
	s.install = func(all []Entry) {
		s.set.Store(newSet(slices.Concat(all, s.here), s.set.Load()))
		s.warnOfUnknown(all)
	}
	return s
}

// warnOfUnknown logs how many entries a later version has written that this one does not
// know, each time that there are more. Requires: mu.
func (s *entries) warnOfUnknown(all []Entry) {
	kinds := map[Kind]int{}
	n := 0
	for i := range all {
		if !all[i].isKnown() {
			kinds[all[i].Kind]++
			n++
		}
	}
	if n > s.unknown {
		s.board.logger.Warn("operator changes of a later version are kept and not enforced here; upgrade this node", "entries", n, "kinds", slices.Sorted(maps.Keys(kinds)))
	}
	s.unknown = n
}

// inUse returns the set in use, an empty one if there are no entries.
func (s *entries) inUse() *set {
	if set := s.set.Load(); set != nil {
		return set
	}
	return &set{}
}

// inForce returns those of a list, without the nil ones, that are in force.
func (s *entries) inForce(list ...*Entry) []Entry {
	now := s.board.storeTime()
	var all []Entry
	for _, e := range list {
		if e != nil && !e.hasEnded(now) {
			all = append(all, *e)
		}
	}
	return all
}

// replace puts what create makes, nil for nothing, in the place of the entries that isOld
// chooses of those that have not ended, and returns these.
func (s *entries) replace(ctx context.Context, isOld func(Entry) bool, create func(now int64) []Entry) (old []Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.changeEntries(ctx, func(all []Entry) (next []Entry, changed bool) {
		next, old, changed = replaced(all, s.board.storeTime(), isOld, create)
		return next, changed
	})
	return old, err
}

// replaceHere is replace for the entries of this node alone.
func (s *entries) replaceHere(isOld func(Entry) bool, create func(now int64) []Entry) (old []Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, old, _ := replaced(slices.Clone(s.here), s.board.storeTime(), isOld, create)
	if _, _, err := encodeEntries(next); err != nil {
		return nil, err
	}
	s.here = next
	s.install(s.list)
	return old, nil
}

// replaced returns the entries with what create makes in the place of those that isOld
// chooses, and these; those that have ended are left out.
func replaced(all []Entry, now int64, isOld func(Entry) bool, create func(now int64) []Entry) (next, old []Entry, changed bool) {
	next = slices.DeleteFunc(all, func(e Entry) bool {
		switch {
		case e.hasEnded(now):
			return true
		case !isOld(e):
			return false
		}
		old = append(old, e)
		return true
	})
	if create == nil {
		return next, old, len(old) > 0
	}
	return append(next, create(now)...), old, true
}
