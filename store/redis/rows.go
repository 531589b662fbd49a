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

// rowScript returns the script for a row.
func (s *scripts) rowScript(row uint32, ops []*asked) *script {
	return loadOrCreate(&s.rows, row, func() *script {
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
