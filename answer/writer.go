package answer

import (
	"net/http"
	"strconv"

	"github.com/weirlimit/weir"
)

// Writer writes decisions into HTTP answers. Safe for concurrent use.
type Writer struct {
	fields    []field
	style     style
	jitter    int64 // percent
	random    func(n int64) int64
	status    int
	partition *partition
	// names are the fields to expose, none if they are not; allNames is the
	// list of them as a header field's values.
	names    []string
	allNames []string
	// originFields let scripts of an origin read refusals, none if there is none.
	originFields []Field
}

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
}

// until returns the microseconds until more becomes available of the most
// restrictive limit, or -1.
func (f *facts) until() int64 {
	switch {
	case len(f.policies) > 0 && f.policies[0].until >= 0:
		return f.policies[0].until
	case f.retry > 0:
		return f.retry * 1_000_000
	}
	return -1
}

// append appends v as f has it; nothing, if f has nothing to tell.
func (f *facts) append(b []byte, v value) []byte {
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
		if until := f.until(); until >= 0 {
			b = f.style.append(b, f.now, until)
		}
		return b
	case dictionary:
		return appendDictionary(b, p, f.until())
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

// Header adds to h what d, made of ops, says. now is the time of the decision
// in microseconds since the Unix epoch, for the resets that are instants.
//
// When h already holds an answer of a limiter further on, nothing of it is
// loosened: lists are added to; of other fields those stand that leave the
// client less or, where both leave as much, make it wait longer.
//
// It allocates twice, however many fields it writes, for up to four limits.
func (w *Writer) Header(h http.Header, ops []weir.Op, d weir.Decision, now int64) {
	var buf [4]policy
	f := w.factsOf(buf[:0], ops, d, !d.Allowed(), now)
	if len(f.policies) == 0 && d.Limit == nil && d.Allowed() {
		return
	}
	w.header(h, &f)
}

// factsOf returns what there is to tell of d, made of ops at now. room takes the
// policies.
func (w *Writer) factsOf(room []policy, ops []weir.Op, d weir.Decision, refused bool, now int64) facts {
	f := facts{policies: stated(room, ops, d, refused), now: now, style: w.style, degraded: d.Degraded()}
	if refused {
		w.delay(&f, d)
	}
	return f
}

// delay fills in what the refusal d makes clients wait.
func (w *Writer) delay(f *facts, d weir.Decision) {
	if f.retry = retrySeconds(f.policies, d); f.retry == 0 || w.jitter == 0 {
		return
	}
	// All that a refusal tells to wait moves by as much, so that Retry-After is
	// still no earlier than what stands beside it.
	more := w.random(ceil(f.retry*w.jitter, 100) + 1)
	f.retry += more
	for i := range f.policies {
		if p := &f.policies[i]; p.refused && p.until >= 0 {
			p.until += more * 1_000_000
		}
	}
}

func (w *Writer) header(h http.Header, f *facts) {
	f.now = min(max(f.now, 0), lastInstant)
	if len(f.policies) > 0 && w.partition != nil {
		for i := range f.policies {
			f.policies[i].sign(w.partition)
		}
	}
	// An answer that has no fields yet, as before a handler, need not be looked
	// through for what another limiter has said.
	blank := len(h) == 0
	var verdicts [numVoices]verdict
	if len(f.policies) > 0 && !blank {
		for _, fd := range w.fields {
			if fd.value.decides() {
				verdicts[fd.voice] = w.compareQuota(h, fd, f)
			}
		}
	}

	// All values share one string and one slice.
	var room [256]byte
	var mentions [maxFields]struct {
		fd  *field
		end int
	}
	buf, count := room[:0], 0
	for i := range w.fields {
		fd, from := &w.fields[i], len(buf)
		switch {
		case fd.value != exposed:
			buf = f.append(buf, fd.value)
		case !blank && readQuota(h, exposeKey) != nil:
			buf = w.appendExposed(buf, h)
		default:
			h[exposeKey] = w.allNames
		}
		if len(buf) > from {
			mentions[count].fd, mentions[count].end = fd, len(buf)
			count++
		}
	}
	all, vals, from := string(buf), make([]string, count), 0
	for i := range mentions[:count] {
		fd, v := mentions[i].fd, vals[i:i+1:i+1]
		v[0] = all[from:mentions[i].end]
		from = mentions[i].end
		if blank {
			h[fd.key] = v
			continue
		}
		switch theirs := readQuota(h, fd.key); {
		case len(theirs) > 0 && joins(theirs, fd, verdicts[fd.voice]):
			h[fd.key] = append(theirs, v[0])
		case f.stands(theirs, fd, verdicts[fd.voice]):
		default:
			h[fd.key] = v
		}
	}
}

// retrySeconds returns the Retry-After of the refusal d, see Wait: no earlier than
// any limit says, and 0 if waiting does not help.
func retrySeconds(ps []policy, d weir.Decision) int64 {
	if d.RetryAfter == weir.Never {
		return 0
	}
	s := int64(1)
	if !underWay(d) {
		s = Seconds(d.RetryAfter)
	}
	for i := range ps {
		if ps[i].refused {
			s = max(s, ceil(max(ps[i].until, 0), 1_000_000))
		}
	}
	return s
}
