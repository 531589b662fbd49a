package query

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Where is the end of a statement with its arguments.
type Where struct {
	Text string
	Args []any
}

// whereRange are the rows of a grain in a range.
func whereRange(g rows.Grain, from, to int64) *Where {
	w := &Where{}
	w.AddCondition("grain = ? AND at >= ? AND at < ?", int64(g), from, to)
	return w
}

// AddCondition adds a condition, in which ? stands for an argument.
func (w *Where) AddCondition(condition string, args ...any) {
	for _, a := range args {
		w.Args = append(w.Args, a)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(w.Args)), 1)
	}
	if w.Text == "" {
		w.Text = " WHERE " + condition
		return
	}
	w.Text += " AND " + condition
}

// addChoice adds that a column has one of some words. A word that ends in * is a prefix
// where that is said.
func (w *Where) addChoice(column string, words []string, prefixes bool) {
	if words == nil {
		return
	}
	var either []string
	var args []any
	for _, word := range words {
		if head, ok := strings.CutSuffix(word, "*"); ok && prefixes {
			// Between the prefix and the first word that does not have it.
			either = append(either, "substr("+column+", 1, "+strconv.Itoa(len([]rune(head)))+") = ?")
			args = append(args, head)
			continue
		}
		either = append(either, column+" = ?")
		args = append(args, word)
	}
	w.AddCondition("("+strings.Join(either, " OR ")+")", args...)
}

func listIDs(list []int64) string {
	if len(list) == 0 {
		return "-1"
	}
	out := make([]string, len(list))
	for i, id := range list {
		out[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(out, ", ")
}
