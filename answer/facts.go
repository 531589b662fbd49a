package answer

import "strconv"

// facts is what the fields are made of.
type facts struct {
	policies []policy
	// now is the time of the decision, in microseconds since the Unix epoch.
	now   int64
	style style
	// retry is the seconds of Retry-After, or 0 if there is none.
	retry int64
	// degraded: the decision was made without the guarantee that it usually has.
	degraded bool
	// hidden: the limit that refuses must not be told of.
	hidden bool
}

// microsUntilMore returns the microseconds until more becomes available of the most
// restrictive limit, or -1.
func (f *facts) microsUntilMore() int64 {
	switch {
	case len(f.policies) > 0 && f.policies[0].until >= 0:
		return f.policies[0].until
	case f.retry > 0:
		return f.retry * 1_000_000
	}
	return -1
}

// appendValue appends v as f has it; nothing, if f has nothing to tell.
func (f *facts) appendValue(b []byte, v value) []byte {
	switch {
	case v == retryAfter:
		if f.retry > 0 {
			b = strconv.AppendInt(b, f.retry, 10)
		}
		return b
	case v == degraded:
		if f.degraded {
			b = append(b, "true"...)
		}
		return b
	case len(f.policies) == 0:
		return b
	}
	switch p := &f.policies[0]; v {
	case quota:
		return appendInteger(b, p.quota)
	case remaining:
		return appendInteger(b, p.left)
	case reset:
		if until := f.microsUntilMore(); until >= 0 {
			b = f.style.appendInstant(b, f.now, until)
		}
		return b
	case dictionary:
		return appendDictionary(b, p, f.microsUntilMore())
	}
	return f.appendList(b, v)
}

// appendList appends all policies as members of a list.
func (f *facts) appendList(b []byte, v value) []byte {
	from := len(b)
	for i := range f.policies {
		p := &f.policies[i]
		if v == windowList && p.window == 0 {
			continue
		}
		if len(b) > from {
			b = append(b, ", "...)
		}
		switch v {
		case policyList:
			b = appendPolicy(b, p)
		case stateList:
			b = appendState(b, p)
		case windowList:
			b = appendWindow(b, p)
		}
	}
	return b
}
