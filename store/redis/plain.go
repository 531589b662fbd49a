package redis

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/weirlimit/weir"
)

//go:embed plain.lua
var plainLua string

// maxPlain is how many plain spends a script is made for. There is one for each
// row of twins: with three and five twins that can stand in it, 150 at most.
const maxPlain = 3

// rowOf tells a row of plain spends by their twins and the number of their
// constants, and false if g is none.
func rowOf(g []*asked) (row uint32, ok bool) {
	if len(g) < 2 || len(g) > maxPlain {
		return 0, false
	}
	for _, a := range g {
		if !a.plain() || a.shared || a.plan.twin.Collection {
			return 0, false
		}
		row = row<<8 | uint32(a.plan.twin.number)<<4 | uint32(len(a.plan.consts))
	}
	return row, true
}

// plain returns the script for a row of plain spends.
func (s *scripts) plain(row uint32, g []*asked) *script {
	if found, ok := s.rows.Load(row); ok {
		return found.(*script)
	}
	var text, passes, put, peek, told strings.Builder
	text.WriteString(s.time)
	for _, t := range twins {
		for _, a := range g {
			if a.plan.twin == t {
				text.WriteString(withoutComments(t.Text))
				break
			}
		}
	}
	text.WriteString(withoutComments(plainLua))
	at := 0
	for i, a := range g {
		t, n := a.plan.twin, i+1
		state := make([]string, t.States)
		for j := range state {
			state[j] = fmt.Sprintf("s%d_%d", n, j+1)
		}
		states := strings.Join(state, ", ")
		step := func(verb string) string {
			return fmt.Sprintf("w%d, e%d, ok%d, %s = %s(KEYS[%d], row%d, now, '%s', '0', A, %d, %d)", n, n, n, states, t.Name, n, n, verb, at+t.Spans, at)
		}
		fmt.Fprintf(&text, "local row%d = call('GET', KEYS[%d])\nlocal %s\n", n, n, step(verbs[weir.Spend]))
		fmt.Fprintf(&passes, " and ok%d == 1", n)
		fmt.Fprintf(&put, "  put(KEYS[%d], w%d, e%d)\n", n, n, n)
		fmt.Fprintf(&peek, "  if ok%d == 1 then %s end\n", n, step(verbs[weir.Peek]))
		fmt.Fprintf(&told, ", ok%d, %s", n, states)
		at += t.Spans + len(a.plan.consts)
	}
	fmt.Fprintf(&text, "if %s then\n%s  return {now + now + 1%s}\nend\n", passes.String()[5:], put.String(), told.String())
	// Each as a Peek says; what is written is the repair of rows too far ahead.
	fmt.Fprintf(&text, "%s%sreturn {now + now%s}\n", peek.String(), put.String(), told.String())
	made, _ := s.rows.LoadOrStore(row, newScript(text.String()))
	return made.(*script)
}

// encodePlain makes the keys and arguments of the script of a row.
func (s *Store) encodePlain(c *call, g []*asked) {
	for _, a := range g {
		c.keys = append(c.keys, s.opt.Prefix+":{"+a.tag+a.plan.suffix)
		c.args = a.plan.appendSpan(c.args, a.Limit, a.Cost)
		c.args = append(c.args, a.plan.consts...)
	}
}

// decodePlain reads the reply of the script of a row.
func decodePlain(reply []int64, g []*asked) error {
	now, pass, rest := reply[0]>>1, reply[0]&1 == 1, reply[1:]
	for _, a := range g {
		n := a.plan.twin.States
		if len(rest) < 1+n {
			return errReply
		}
		a.now, a.fits, a.charged = now, rest[0] == 1, pass
		ask := weir.Ask{Now: now, Cost: a.Cost, ID: a.ID, Verb: weir.Peek}
		if pass {
			ask.Verb = weir.Spend
		}
		a.decision = a.plan.algorithm.Describe(a.Limit, ask, a.fits, rest[1:1+n])
		rest = rest[1+n:]
	}
	if len(rest) > 0 {
		return errReply
	}
	return nil
}
