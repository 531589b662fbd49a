package linear

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/weirlimit/weir"
)

// order is the history of one counter in the order of the store's time, which does not go
// back: porcupine is left with those decisions to put in order that are of one microsecond.
// It would try a dozen ops which were under way at once in every order, and an op without
// an answer at every place, which a minute is at times not enough for.
//
// An op without an answer is due from the first place on that it may have. What is due is
// a part of the state, from which it is carried out or not before each next decision. The
// answer to that, how much is left, ends most ways.
type order struct {
	operations []porcupine.Operation // whose outputs are ranked
	due        []due
}

// due is an op that may be carried out until the decision of a rank.
type due struct {
	op    weir.Op
	until int
}

// ranked is an answer and its rank. That of an op without an answer is in due, at at.
type ranked struct {
	answer
	rank int
	at   rune
}

// state is a row of cells, the time of the last decision, and what is due, sorted. It is
// comparable.
type state struct {
	cells string
	now   int64
	l     *weir.Limit // by whose numbers the cells are
	due   string
}

// states are those which a store may be in.
type states map[state]struct{}

// inOrder returns all ops of a counter in order. It reports whether the store's time agrees
// with the clients': no decision is later than one that was asked for after its answer.
func inOrder(all []porcupine.Operation) (*order, bool) {
	var known, unknown []porcupine.Operation
	span := int64(1) // more than the clients' times
	for _, op := range all {
		span = max(span, op.Call+2)
		if op.Output.(answer).unknown {
			unknown = append(unknown, op)
		} else {
			span = max(span, op.Return+2)
			known = append(known, op)
		}
	}
	now := func(op porcupine.Operation) int64 { return op.Output.(answer).now }
	slices.SortFunc(known, func(a, b porcupine.Operation) int { return cmp.Compare(now(a), now(b)) })

	o := &order{}
	ranks := make([]int, len(known)+1)
	called, before := int64(0), int64(0) // the latest call of this rank and those before, and of those before
	for i, op := range known {
		if i > 0 && now(op) == now(known[i-1]) {
			ranks[i] = ranks[i-1]
		} else {
			ranks[i], before = i, called
		}
		if op.Return < before {
			return nil, false
		}
		called = max(called, op.Call)
		op.Output = ranked{answer: op.Output.(answer), rank: ranks[i]}
		op.Call, op.Return = int64(ranks[i])*span+op.Call+1, int64(ranks[i])*span+op.Return+1
		o.operations = append(o.operations, op)
	}
	ranks[len(known)] = len(known)
	rankOf := func(is func(porcupine.Operation) bool) int {
		if i := slices.IndexFunc(known, is); i >= 0 {
			return ranks[i]
		}
		return len(known)
	}
	for _, op := range unknown {
		// Those of lower ranks ended before it began, and those of higher ones follow on one
		// that began after it ended.
		first := rankOf(func(k porcupine.Operation) bool { return k.Return >= op.Call })
		d := due{op.Input.(weir.Op), rankOf(func(k porcupine.Operation) bool { return k.Call > op.Return })}
		at := slices.Index(o.due, d)
		if at < 0 {
			at, o.due = len(o.due), append(o.due, d)
		}
		op.Output = ranked{answer: op.Output.(answer), at: rune(at)}
		op.Call = int64(first) * span
		op.Return = op.Call
		o.operations = append(o.operations, op)
	}
	return o, true
}

// step returns what states an op leads to if it was answered so, and whether there is one.
func (o *order) step(from states, op weir.Op, p ranked) (bool, states) {
	next := states{}
	if p.unknown {
		for s := range from {
			due := append([]rune(s.due), p.at)
			slices.Sort(due)
			s.due = string(due)
			next[s] = struct{}{}
		}
		return true, next
	}
	for s := range o.carriedOut(from, p) {
		charged, d, after := decide(s, op, p.now)
		if charged == p.charged && d.Remaining == p.decision.Remaining && d.RetryAfter == p.decision.RetryAfter && d.ResetAfter == p.decision.ResetAfter {
			next[after] = struct{}{}
		}
	}
	return len(next) > 0, next
}

// carriedOut returns the states that a store may be in before the decision p: some of what
// is due was carried out, at the time of p.
func (o *order) carriedOut(from states, p ranked) states {
	var ahead []state
	seen := states{}
	see := func(s state, due []rune) {
		s.due = string(due)
		if _, ok := seen[s]; !ok {
			seen[s] = struct{}{}
			ahead = append(ahead, s)
		}
	}
	for s := range from {
		if s.now <= p.now {
			see(s, slices.DeleteFunc([]rune(s.due), func(at rune) bool { return o.due[at].until < p.rank }))
		}
	}
	for len(ahead) > 0 {
		s := ahead[len(ahead)-1]
		ahead = ahead[:len(ahead)-1]
		due := []rune(s.due)
		for i, at := range due {
			if i > 0 && at == due[i-1] {
				continue
			}
			if charged, _, after := decide(s, o.due[at].op, p.now); charged {
				see(after, slices.Delete(slices.Clone(due), i, i+1))
			}
		}
	}
	return seen
}
