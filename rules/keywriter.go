package rules

import "slices"

// keyWriter writes the lines of one KeyChange.
type keyWriter struct {
	KeyChange
	set    *Set
	domain *domain
	// leaf is the rule of the limit, value what selects the key there.
	leaf  *Rule
	value string
	// copied is the outermost rule that must be copied for a value of its own, nil
	// for none; values are by the rules from there to leaf.
	copied *Rule
	values map[*Rule]string
	// tiersDiffer: the limits of the rule's tiers differ, so that one override cannot
	// stand for all.
	tiersDiffer bool
}

// isTarget reports whether l is what the change is about. Limits of one scope share
// the counters of a key.
func (w *keyWriter) isTarget(l *Limit) bool { return l.Limit != nil && l.Scope == w.Scope }

// shadowed reports whether the rule as it is written refuses nothing, so that a ban
// has no effect there.
func (w *keyWriter) shadowed() bool { return w.Action == BanKey && w.leaf.Shadow }

// choices returns the lists of limits that can hold for the value: those of its
// override, else those of the rule and of each of its tiers.
func (w *keyWriter) choices() [][]*Limit {
	if w.leaf.overrides != nil {
		if ls, ok := w.leaf.overrides.find(w.value); ok {
			return [][]*Limit{ls}
		}
	}
	all := [][]*Limit{w.leaf.Limits}
	for _, t := range w.leaf.Tiers {
		all = append(all, t.Limits)
	}
	return all
}

func (w *keyWriter) isOpen(r *Rule) bool {
	_, open := w.values[r]
	return open
}

// takes reports whether a setting of the rule has an effect on l.
func (l *Limit) takes(setting string) bool {
	switch by := takes[setting]; {
	case l.Unlimited, l.Denies && slices.Contains(needsCount, setting):
		return false
	case by != nil && !slices.Contains(by, l.Algorithm.Name()):
		return false
	}
	switch needsMode[setting] {
	case "soft":
		return l.Excess > 0
	case "elastic":
		return l.Pool != nil
	}
	return true
}
