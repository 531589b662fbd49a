package sketch_test

import (
	"encoding/binary"
	"testing"

	"github.com/weirlimit/weir/internal/sketch"
)

// FuzzWindow plays a list of operations against the exact record of all that was
// admitted. The first four bytes choose the window, each further six an operation.
func FuzzWindow(f *testing.F) {
	f.Add([]byte{4, 10, 5, 0, 0, 1, 1, 0, 0, 0, 0, 1, 9, 0, 10, 0, 0, 1, 1, 0, 30, 0})
	f.Add([]byte{1, 0, 1, 1, 4, 1, 255, 0, 0, 0, 0, 1, 1, 255, 255, 0, 5, 1, 1, 1, 0, 0, 3, 1, 2, 0, 1, 9})
	f.Add([]byte{60, 255, 200, 1, 0, 1, 200, 0, 1, 0, 2, 2, 3, 0, 1, 0, 6, 0, 3, 9, 9, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 4 || len(data) > 4+6*400 {
			return
		}
		o := crowded(1+int64(data[1])*7, 1+int(data[0]%64))
		o.Shards = 1 + int(data[3]&1)
		limit := int64(data[2])
		w, err := sketch.NewWindow(o)
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger(w, o.Period)
		now := int64(0)
		for ops := data[4:]; len(ops) >= 6; ops = ops[6:] {
			step := int64(int16(binary.LittleEndian.Uint16(ops[4:])))
			if ops[3]&1 != 0 {
				step >>= 8
			}
			now += step
			play(t, w, l, ops[0]%3, hash(uint64(ops[1]%16)), now, int64(int8(ops[2])), limit)
		}
		for h := range l.entries {
			if most := l.most(h); most > limit {
				t.Fatalf("%d units admitted in one period, limit %d", most, limit)
			}
		}
	})
}

func play(t *testing.T, w *sketch.Window, l *ledger, op byte, h uint64, now, cost, limit int64) {
	at := l.tick(h, now)
	before := w.Estimate(h, now)
	if used := l.used(h, at); before < used {
		t.Fatalf("estimate %d below the %d units of the last period", before, used)
	}
	peeked := w.Peek(h, now, cost, limit)
	switch op {
	case 0, 1:
		d := w.Spend(h, now, cost, limit)
		if d.Allowed != peeked.Allowed || d.Allowed != (cost <= 0 || before+cost <= limit) {
			t.Fatalf("cost %d on %d of %d: spend %+v, peek %+v", cost, before, limit, d, peeked)
		}
		if d.Allowed && cost > 0 {
			l.add(h, now, cost)
		}
		if cost > 0 {
			checkDecision(t, w, h, now, cost, limit, d)
		}
	case 2:
		w.Force(h, now, cost, limit)
		if after := w.Estimate(h, now); after < before+max(cost, 0) {
			t.Fatalf("forced %d: estimate %d, before %d", cost, after, before)
		}
	}
	st := w.Stats(now)
	if st.MaxError < 0 || st.Overestimated > st.Sampled || st.BloomFalse > st.BloomTrials || st.CounterUnits > st.Units {
		t.Fatalf("impossible measurements: %+v", st)
	}
}
