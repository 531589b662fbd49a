// Package linear checks that the decisions of a limit are linearizable: that they are
// those of one store which made them one after the other, each between its question and
// its answer, at the time that it says.
package linear

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/history"
)

// History is what was asked and answered. Safe for concurrent use; the zero value is
// empty.
type History struct {
	// Late is for how long after its end an op that has no answer of the store may still
	// be carried out; a refund or a cost that was incurred, which a node keeps for the store
	// until it answers again, may be at any time. It is set before use.
	Late time.Duration

	mu         sync.Mutex
	operations []porcupine.Operation
	unknown    int
	began      time.Time
}

// answer is what an op was answered. An unknown one may have been carried out, once, or
// not at all.
type answer struct {
	unknown  bool
	charged  bool
	decision weir.Decision
	now      int64
}

// Take has a store decide one op, and keeps question and answer. It returns the op as
// answered. An error, or a decision that was made without the store, is kept as unknown.
func (h *History) Take(client int, s weir.Store, o weir.Op) (weir.Op, error) {
	ops := []weir.Op{o}
	h.mu.Lock()
	if h.began.IsZero() {
		h.began = time.Now()
	}
	h.mu.Unlock()
	call := time.Since(h.began)
	err := s.Take(context.Background(), ops)
	out := porcupine.Operation{ClientId: client, Input: o, Call: int64(call), Return: int64(time.Since(h.began))}
	got := answer{charged: ops[0].Charged, decision: ops[0].Decision, now: ops[0].Now}
	if err != nil || got.decision.Guarantee().Degraded {
		out.Return, got = out.Return+int64(h.Late), answer{unknown: true}
		if o.Verb == weir.Refund || o.Verb == weir.Force {
			out.Return = math.MaxInt64
		}
	}
	out.Output = got
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, out)
	if got.unknown {
		h.unknown++
	}
	return ops[0], err
}

// Unknown returns how many ops have no answer of the store.
func (h *History) Unknown() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unknown
}

// Check fails t if the history is not linearizable, or if that is not known within a
// minute. No op may be under way.
//
// Of an op without an answer it is assumed that what it leaves in the cells does not
// depend on when it was carried out: a window that is not over when the history ends, a
// bucket that is not full.
func (h *History) Check(t testing.TB) {
	t.Helper()
	if got := h.check(); got != porcupine.Ok {
		t.Errorf("%d operations: %s", len(h.operations), got)
	}
}

func (h *History) check() porcupine.CheckResult {
	for _, all := range byCounter(h.operations) {
		o, ok := inOrder(all)
		if !ok {
			return porcupine.Illegal
		}
		model := porcupine.Model{
			Init:              func() any { return states{{}: {}} },
			Step:              func(s, in, out any) (bool, any) { return o.step(s.(states), in.(weir.Op), out.(ranked)) },
			Equal:             func(a, b any) bool { return maps.Equal(a.(states), b.(states)) },
			DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
		}
		if got := porcupine.CheckOperationsTimeout(model, o.operations, time.Minute); got != porcupine.Ok {
			return got
		}
	}
	return porcupine.Ok
}

// byCounter divides a history by what is counted: each counter has an order of its own.
func byCounter(all []porcupine.Operation) [][]porcupine.Operation {
	type counter struct {
		key   string
		limit uint64
	}
	parts := map[counter][]porcupine.Operation{}
	for _, o := range all {
		in := o.Input.(weir.Op)
		c := counter{in.Key, in.Limit.ID()}
		parts[c] = append(parts[c], o)
	}
	return slices.Collect(maps.Values(parts))
}

// decide is what a store does with one op at now.
func decide(s state, o weir.Op, now int64) (charged bool, d weir.Decision, next state) {
	cells := make([]int64, max(o.Limit.Cells, len(s.cells)/8))
	for i := range min(cap(cells), len(s.cells)/8) {
		cells[i] = int64(binary.LittleEndian.Uint64([]byte(s.cells[8*i:])))
	}
	cells = history.Carry(o.Limit, cells, s.l, now)
	ask := weir.Ask{Now: now, Cost: o.Cost + o.Headroom, ID: o.AskID(), Verb: weir.Peek}
	ops := []weir.Op{o}
	ops[0].Decision = o.Limit.Algorithm.Step(cells, o.Limit, ask)
	weir.Resolve(ops)
	if ops[0].Charged {
		peeked := ops[0].Decision
		ask.Cost, ask.Verb = o.Cost, ops[0].Commit()
		ops[0].Decision = o.Limit.Algorithm.Step(cells, o.Limit, ask)
		if !peeked.Allowed() && ops[0].Decision.Allowed() && o.Verb != weir.Refund {
			ops[0].Decision.RetryAfter = peeked.RetryAfter
		}
	}
	row := make([]byte, 0, 8*len(cells))
	for _, c := range cells {
		row = binary.LittleEndian.AppendUint64(row, uint64(c))
	}
	return ops[0].Charged, ops[0].Decision, state{string(row), now, o.Limit, s.due}
}
