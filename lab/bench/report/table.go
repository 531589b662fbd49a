// Package report writes measured figures as Markdown tables into documents.
package report

import (
	"strings"
	"unicode/utf8"
)

// Table is a Markdown table. Columns after the first are aligned right.
type Table struct {
	head []string
	rows [][]string
}

// NewTable returns an empty table with the given column heads.
func NewTable(head ...string) *Table { return &Table{head: head} }

// Row adds a row. Missing cells are empty.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.head))
	copy(row, cells)
	t.rows = append(t.rows, row)
}

// String returns the table, padded so that it reads well as plain text.
func (t *Table) String() string {
	width := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	line := func(cells []string) {
		for i, cell := range cells {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + pad + " |")
			} else {
				b.WriteString(" " + pad + cell + " |")
			}
		}
		b.WriteByte('\n')
	}
	line(t.head)
	rule := make([]string, len(width))
	for i, w := range width {
		rule[i] = strings.Repeat("-", w-1) + ":"
		if i == 0 {
			rule[i] = strings.Repeat("-", w)
		}
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}
