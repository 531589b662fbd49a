package redis

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
)

//go:embed rows.lua
var rowsLua string

// maxOps is how many plain spends a row has. There is a script for each row of
// twins: with three and five twins that can stand in it, 160 at most.
const maxOps = 3

// rowOf tells a row of plain spends by their twins and the number of their
// constants, and false if g is none.
func rowOf(g []*asked) (row uint32, ok bool) {
	if len(g) > maxOps {
		return 0, false
	}
	for _, a := range g {
		if !a.isSpend() || a.shared || a.plan.twin.Collection {
			return 0, false
		}
		row = row<<8 | a.plan.inRow()
	}
	return row, len(g) > 0
}

// inRow tells the op of a row: its twin, and the number of its constants.
func (p *plan) inRow() uint32 { return uint32(p.twin.number)<<4 | uint32(len(p.consts)) }

// ofRow returns the script for a row.
func (s *scripts) ofRow(row uint32, ops []*asked) *script {
	return once(&s.rows, row, func() *script {
		var text strings.Builder
		text.WriteString(s.time)
		text.WriteString(withoutComments(saneLua))
		for _, t := range twins {
			for _, a := range ops {
				if a.plan.twin == t {
					text.WriteString(withoutComments(t.Text))
					break
				}
			}
		}
		body, words := rowText(ops)
		fill := strings.NewReplacer("ROW", body, "OPS", strconv.Itoa(len(ops)), "WORDS", strconv.Itoa(words))
		text.WriteString(fill.Replace(withoutComments(rowsLua)))
		fresh := newScript(text.String())
		fresh.words = words
		if len(ops) == 1 {
			fresh.alone = ops[0].plan.single
		}
		return fresh
	})
}

// rowText returns what decides the row whose first key is KEYS[i] and writes its
// answer after out[n], and how many words that has.
func rowText(ops []*asked) (text string, words int) {
	var step, passes, check, put, peek, bits, result strings.Builder
	words = 1
	at := 0
	for i, a := range ops {
		k, t := i+1, a.plan.twin
		state := make([]string, t.States)
		for j := range state {
			state[j] = fmt.Sprintf("s%d_%d", k, j+1)
		}
		decide := func(verb string) string {
			return fmt.Sprintf("w%d, e%d, ok%d, %s = %s(k%d, row%d, now, '%s', '0', A, %d, %d)",
				k, k, k, strings.Join(state, ", "), t.Name, k, k, verb, at+t.Spans, at)
		}
		fmt.Fprintf(&step, "local k%d = KEYS[i + %d]\n  local row%d = call('GET', k%d)\n  local %s\n  ", k, i, k, k, decide(verbs[weir.Spend]))
		fmt.Fprintf(&passes, " and ok%d == 1", k)
		fmt.Fprintf(&check, "  if w%d then sane(%s) end\n", k, strings.Join(state, ", "))
		fmt.Fprintf(&put, "  put(k%d, w%d, e%d)\n", k, k, k)
		fmt.Fprintf(&peek, "    if ok%d == 1 then %s end\n", k, decide(verbs[weir.Peek]))
		fmt.Fprintf(&bits, " + %d * ok%d", 1<<k, k)
		for _, name := range state {
			words++
			fmt.Fprintf(&result, "  out[n + %d] = %s\n", words, name)
		}
		at += t.Spans + len(a.plan.consts)
	}
	if len(ops) == 1 {
		return step.String() + "out[n + 1] = ok1\n" + check.String() + put.String() + result.String(), words
	}
	// If not all pass each says what a Peek says; what is written then is the repair
	// of rows too far ahead.
	return fmt.Sprintf("%sif%s then\n    out[n + 1] = %d\n  else\n%s    out[n + 1] =%s\n  end\n%s%s%s", step.String(), passes.String()[4:],
		1<<(len(ops)+1)-1, peek.String(), bits.String()[2:], check.String(), put.String(), result.String()), words
}

// encodeRow makes the keys and arguments of the script of a row.
func (d driver) encodeRow(c *call, g []*asked) {
	for _, a := range g {
		c.keys = append(c.keys, d.opt.Prefix+":{"+a.tag+a.plan.suffix)
		c.args = a.plan.appendSpan(c.args, a.Limit, a.Cost)
		c.args = append(c.args, a.plan.consts...)
	}
}

// decodeRow reads the answer of a row.
func decodeRow(c *call, g []*asked) error {
	now, pass, rest := c.reply[0]>>1, c.reply[0]&1 == 1, c.reply[1:]
	for i, a := range g {
		n := a.plan.twin.States
		if len(rest) < n {
			return errReply
		}
		if isInsane(rest[:n]) {
			return errSpoilt
		}
		a.now, a.charged = now, pass
		a.fits = pass || c.bits>>(i+1)&1 == 1
		ask := weir.Ask{Now: now, Cost: a.Cost, ID: a.ID, Verb: weir.Peek}
		if pass {
			ask.Verb = weir.Spend
		}
		a.decision = a.plan.algorithm.Describe(a.Limit, ask, a.fits, rest[:n])
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return errReply
	}
	return nil
}
