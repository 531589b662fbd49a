package answer

import (
	"net/http"

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
	if len(f.policies) == 0 && d.Allowed() && (d.Limit == nil || IsHidden(ops, d)) {
		return
	}
	w.writeFields(h, &f)
}

// factsOf returns what there is to tell of d, made of ops at now. room takes the
// policies.
func (w *Writer) factsOf(room []policy, ops []weir.Op, d weir.Decision, refused bool, now int64) facts {
	f := facts{policies: statedPolicies(room, ops, d, refused), now: now, style: w.style, degraded: d.Degraded()}
	if refused {
		f.hidden = IsHidden(ops, d)
		w.fillDelay(&f, d)
	}
	return f
}

// fillDelay fills in what the refusal d makes clients wait.
func (w *Writer) fillDelay(f *facts, d weir.Decision) {
	if f.retry = retrySeconds(f.policies, d); f.retry == 0 || w.jitter == 0 {
		return
	}
	// All that a refusal tells to wait moves by as much, so that Retry-After is
	// still no earlier than what stands beside it.
	more := w.random(divideUp(f.retry*w.jitter, 100) + 1)
	f.retry += more
	for i := range f.policies {
		if p := &f.policies[i]; p.refused && p.until >= 0 {
			p.until += more * 1_000_000
		}
	}
}

// prepareFacts makes f ready to be written: it signs the counters, and moves now to where
// instants can be told.
func (w *Writer) prepareFacts(f *facts) {
	f.now = min(max(f.now, 0), lastInstant)
	if w.partition != nil {
		for i := range f.policies {
			f.policies[i].signCounter(w.partition)
		}
	}
}

func (w *Writer) writeFields(h http.Header, f *facts) {
	w.prepareFacts(f)
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
			buf = f.appendValue(buf, fd.value)
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
		case len(theirs) > 0 && joinsList(theirs, fd, verdicts[fd.voice]):
			h[fd.key] = append(theirs, v[0])
		case f.letsStand(theirs, fd, verdicts[fd.voice]):
		default:
			h[fd.key] = v
		}
	}
}
