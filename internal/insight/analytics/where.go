package analytics

import (
	"strconv"
	"strings"
)

// where is the end of a statement with its arguments.
type where struct {
	text string
	args []any
}

// rowsOf are the rows of a grain in a range.
func rowsOf(g Grain, from, to int64) *where {
	w := &where{}
	w.and("grain = ? AND at >= ? AND at < ?", int64(g), from, to)
	return w
}

// and adds a condition, in which ? stands for an argument.
func (w *where) and(condition string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(w.args)), 1)
	}
	if w.text == "" {
		w.text = " WHERE " + condition
		return
	}
	w.text += " AND " + condition
}

// in adds that a column has one of some words. A word that ends in * is a prefix
// where that is said.
func (w *where) in(column string, words []string, prefixes bool) {
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
	w.and("("+strings.Join(either, " OR ")+")", args...)
}

func ids(list []int64) string {
	if len(list) == 0 {
		return "-1"
	}
	out := make([]string, len(list))
	for i, id := range list {
		out[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(out, ", ")
}
