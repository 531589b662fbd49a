package redis

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// A list is the versions of limits that all nodes were asked by, which the servers keep: so
// a node that is started with other numbers, or reloads later than others, knows of the rows
// that keys have. It is read each second. An entry is text:
//
//	FAMILY SUFFIX TWIN REACH ROOM CONSTANT...
type list struct {
	asked sync.Mutex // held while the servers are asked: one at a time
	mu    sync.Mutex
	known map[string][]*plan // by family: versions of others too
	fresh []string           // entries to be added
	mine  []string           // those that this process has added
	from  int64              // the time of the last look
	wake  chan struct{}      // there are some to be added
}

const (
	// addAfter is for how long entries are gathered before they are added.
	addAfter = 10 * time.Millisecond
	// listEvery is how often the list is read: so long others may not know of a version.
	listEvery = time.Second
	// maxListed is how many entries are kept, the newest.
	maxListed = 20_000
)

// familyOf returns the name of l's family, the same on all nodes.
func familyOf(l *weir.Limit) string {
	sum := sha256.Sum256([]byte(weir.CounterName(l)))
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}

// announceVersion notes that pl is of a family, and tells the servers if that was not known. It returns
// the versions of the family that were.
func (ls *list) announceVersion(family string, pl *plan) (others []*plan) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	others = ls.known[family]
	if !ls.rememberVersion(family, pl) {
		return others
	}
	words := append([]string{family, pl.suffix, pl.twin.Name, strconv.FormatInt(pl.reach, 10), strconv.FormatInt(pl.room, 10)}, pl.consts...)
	ls.fresh = newestListed(append(ls.fresh, strings.Join(words, " ")))
	select {
	case ls.wake <- struct{}{}:
	default:
	}
	return others
}

// rememberVersion reports whether it was not known that pl is of a family, and has it known. Requires: mu.
func (ls *list) rememberVersion(family string, pl *plan) bool {
	all := ls.known[family]
	if slices.ContainsFunc(all, func(o *plan) bool { return o.suffix == pl.suffix && o.room >= pl.room }) {
		return false
	}
	if ls.known == nil || len(ls.known) > 2*maxListed {
		ls.known = map[string][]*plan{}
	}
	all = slices.DeleteFunc(slices.Clone(all), func(o *plan) bool { return o.suffix == pl.suffix })
	ls.known[family] = append(all, pl)
	return true
}

// newestListed returns the last entries, so many as are listed.
func newestListed(entries []string) []string { return entries[max(len(entries)-maxListed, 0):] }

// parseEntry returns what an entry says; nil if no version of Weir wrote it that is known.
func parseEntry(entry string) (family string, pl *plan) {
	words := strings.Fields(entry)
	if len(words) < 6 || !strings.HasPrefix(words[1], "}:") || len(entry) > 1<<10 {
		return "", nil
	}
	pl = &plan{suffix: words[1], twin: findTwin(twins, words[2]), consts: words[5:]}
	var err1, err2 error
	pl.reach, err1 = strconv.ParseInt(words[3], 10, 64)
	pl.room, err2 = strconv.ParseInt(words[4], 10, 64)
	for _, c := range pl.consts {
		_, err := strconv.ParseInt(c, 10, 64)
		err1 = cmp.Or(err1, err)
	}
	if pl.twin == nil || pl.twin.Collection || cmp.Or(err1, err2) != nil || pl.reach <= 0 || pl.reach > 1<<60 {
		return "", nil
	}
	return words[0], pl
}

// hasFreshEntries reports whether there are entries to be added.
func (ls *list) hasFreshEntries() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.fresh) > 0
}
