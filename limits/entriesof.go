package limits

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/pattern"
)

// EntriesOf returns entries that meet the limit of a rule under a key of it: what the
// key fixes, and what the rule does. It returns false where no rule has the limit, it
// has no such key, or no entries lead there any more.
func (s *Set) EntriesOf(limit *weir.Limit, key string) (domain string, entries []weir.Entry, ok bool) {
	name := strings.TrimSuffix(limit.Name, " (banned)")
	for _, r := range s.rules {
		for _, l := range r.All() {
			isOf := l.Limit != nil && l.Name == name && (l.Scope == limit.Scope || strings.HasPrefix(limit.Scope, l.Scope+"\x1f")) // a ban or a part of the limit
			if !isOf || l.SharedKey != "" {
				continue
			}
			if entries = r.meeting(l, key); meetsLimit(s, r.Domain, entries, l, key) {
				return r.Domain, entries, true
			}
		}
	}
	return "", nil, false
}

// meetsLimit reports whether the entries meet a limit under a key.
func meetsLimit(s *Set, domain string, entries []weir.Entry, l *Limit, key string) bool {
	req := &weir.Request{Domain: domain, Lease: "lease", Descriptors: []weir.Descriptor{{Entries: entries}}}
	return slices.ContainsFunc(s.Match(nil, req), func(o weir.Op) bool {
		return o.Limit.Scope == l.Scope && o.Limit.Name == l.Name && o.Key == key
	})
}

// meeting returns the entries that make a key under a limit of r, if any do.
func (r *Rule) meeting(l *Limit, key string) []weir.Entry {
	entries, ok := r.entries(key)
	if !ok {
		return nil
	}
	for _, o := range r.Overrides {
		if r.ShareThreshold && slices.Contains(o.Limits, l) {
			entries[len(entries)-1].Value = o.Value // the key does not tell
		}
	}
	for _, t := range r.Tiers {
		if slices.Contains(t.Limits, l) {
			entries = append(entries, weir.Entry{Key: r.TierBy, Value: t.Value})
		}
	}
	return entries
}

// entries returns the entries that make a key under r.
func (r *Rule) entries(key string) ([]weir.Entry, bool) {
	var entries []weir.Entry
	var open []int
	for up := r; up != nil; up = up.Parent {
		entries = append(entries, weir.Entry{Key: up.Key, Value: up.Value})
		if up.Value == "" || up.CountsValue || pattern.Is(up.Value) && !up.ShareThreshold {
			open = append(open, len(entries)-1)
		}
	}
	parts, ok := partsOf(key, len(open))
	for i, at := range open {
		if ok {
			entries[at].Value = parts[len(open)-1-i] // the innermost comes first
		}
	}
	slices.Reverse(entries)
	return entries, ok
}

// partsOf takes a key apart that [weir.Request.Key] made of n parts. It returns false if
// the key is none of those.
func partsOf(key string, n int) ([]string, bool) {
	switch n {
	case 0:
		return nil, key == ""
	case 1:
		return []string{key}, true
	}
	sizes := make([]int, n-1)
	for i := n - 2; i >= 0; i-- {
		at := strings.LastIndexByte(key, 0x1f)
		if at < 0 {
			return nil, false
		}
		size, err := strconv.Atoi(key[at+1:])
		if err != nil || size < 0 {
			return nil, false
		}
		sizes[i], key = size, key[:at]
	}
	parts := make([]string, 0, n)
	for _, size := range sizes {
		if size >= len(key) || key[size] != 0x1f {
			return nil, false
		}
		parts, key = append(parts, key[:size]), key[size+1:]
	}
	return append(parts, key), true
}
