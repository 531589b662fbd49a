package history

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/histories with those given now")

// Decide answers one op at now, microseconds since the Unix epoch: it fills
// op.Decision and op.Now, and op.Charged if the cost was taken.
type Decide func(now int64, op *weir.Op) error

// Run replays every history of the project, each against a Decide of its own,
// but for those that only a store can answer. With -update it rewrites the
// answers instead of comparing them.
func Run(t *testing.T, open func(t *testing.T) Decide) {
	t.Helper()
	replay(t, "*.txt", open)
}

// RunStore is Run with the histories that only a store can answer, too: those
// of algorithms whose keys have no state of their own.
func RunStore(t *testing.T, open func(t *testing.T) Decide) {
	t.Helper()
	replay(t, "*.txt", open)
	replay(t, filepath.Join("store", "*.txt"), open)
}

func replay(t *testing.T, pattern string, open func(t *testing.T) Decide) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(moduleRoot(t), "testdata", "histories", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no histories %s found: %v", pattern, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			h := read(t, name)
			answers, err := h.Replay(open(t))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(name, []byte(h.With(answers)), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, wrong := range h.Differences(answers) {
				t.Error(wrong)
			}
		})
	}
}

func read(t *testing.T, name string) *History {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := Parse(filepath.Base(name), f)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// moduleRoot returns the folder of go.mod, above the package under test.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = up
	}
}

// Replay asks decide for every line that is a decision and returns the answers
// in order.
func (h *History) Replay(decide Decide) ([]string, error) {
	var answers []string
	spends := map[string]weir.Op{}
	for i, ln := range h.lines {
		s := ln.step
		if s == nil {
			continue
		}
		op := weir.Op{Key: s.key, Limit: s.limit, Cost: s.cost, Role: weir.Enforce, Verb: s.verb}
		if s.limit.Algorithm.Traits()&weir.Leases != 0 {
			op.ID = (&weir.Request{Lease: s.as}).LeaseID()
		} else if spend, ok := spends[s.of]; ok {
			undo := spend.UndoRest(s.cost)
			op.ID, op.FlowsFrom = undo.ID, undo.FlowsFrom
		}
		switch err := decide(s.at, &op); {
		case errors.Is(err, weir.ErrRefund):
			answers = append(answers, noRefund)
			continue
		case err != nil:
			return nil, fmt.Errorf("%s:%d: %w", h.Name, i+1, err)
		}
		if s.as != "" {
			spends[s.as] = op
		}
		answers = append(answers, s.answer(op.Decision))
	}
	return answers, nil
}

// noRefund is the answer of a limit that takes nothing back.
const noRefund = "no refund"

// answer states a decision as histories do.
func (s *step) answer(d weir.Decision) string {
	var b strings.Builder
	b.WriteString("allow")
	if !d.Allowed() {
		b.Reset()
		b.WriteString("deny")
	}
	fmt.Fprintf(&b, " left %d", d.Remaining)
	switch {
	case d.RetryAfter == weir.Never:
		b.WriteString(" retry never")
	case !d.Allowed():
		fmt.Fprintf(&b, " retry %s", short(d.RetryAfter))
	}
	if delay := d.Delay(s.cost); delay > 0 && s.verb != weir.Refund {
		fmt.Fprintf(&b, " delay %s", short(delay))
	}
	if s.reset {
		fmt.Fprintf(&b, " reset %s", short(d.ResetAfter))
	}
	return b.String()
}

// short writes a duration without its zero parts: 1h, not 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Differences returns what is wrong with answers, a line for each.
func (h *History) Differences(answers []string) []string {
	var wrong []string
	for i, ln := range h.lines {
		if ln.step == nil {
			continue
		}
		if len(answers) == 0 {
			return append(wrong, fmt.Sprintf("%s:%d: no answer", h.Name, i+1))
		}
		if answers[0] != ln.step.want {
			wrong = append(wrong, fmt.Sprintf("%s:%d: %s-> %s, want %s",
				h.Name, i+1, ln.step.ask, answers[0], ln.step.want))
		}
		answers = answers[1:]
	}
	return wrong
}

// With returns the history with other answers. Comments and spacing stay.
func (h *History) With(answers []string) string {
	var b strings.Builder
	for _, ln := range h.lines {
		text := ln.text
		if s := ln.step; s != nil && len(answers) > 0 {
			text = strings.TrimRight(s.ask+"-> "+answers[0]+"  "+s.comment, " ")
			answers = answers[1:]
		}
		b.WriteString(text)
		b.WriteByte('\n')
	}
	return b.String()
}

// Carry returns the row under l of a counter whose row under was is cells: those, or a
// new one where l has another price. Nil stands for no earlier version.
func Carry(l *weir.Limit, cells []int64, was *weir.Limit, now int64) []int64 {
	if was == nil || was.Price == l.Price {
		return cells
	}
	carried := make([]int64, l.Cells)
	l.Algorithm.(weir.Carrier).Carry(carried, l, cells, was, now)
	return carried
}

// Cells returns a Decide that runs Step on rows of its own, as a store does.
func Cells() Decide {
	type row struct{ key, layout string }
	type version struct {
		l     *weir.Limit
		cells []int64
	}
	rows := map[row]version{}
	return func(now int64, op *weir.Op) error {
		l := op.Limit
		at := row{op.Key, l.Algorithm.Name() + l.Layout}
		cells := Carry(l, rows[at].cells, rows[at].l, now)
		if len(cells) == 0 {
			cells = make([]int64, 1)
		}
		ask := weir.Ask{Now: now, Cost: op.Cost, ID: op.AskID(), Verb: op.Verb}
		need := l.Cells
		if g, ok := l.Algorithm.(weir.Grower); ok {
			need = g.Room(cells, l, ask)
		}
		if need > len(cells) {
			cells = append(cells, make([]int64, need-len(cells))...)
		}
		d := l.Algorithm.Step(cells, l, ask)
		op.Answer = weir.Answer{Decision: d, Now: now, Charged: op.Verb != weir.Peek && (d.Allowed() || op.Verb == weir.Force)}
		rows[at] = version{l, cells}
		return nil
	}
}
