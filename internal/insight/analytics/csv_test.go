package analytics

import (
	"encoding/csv"
	"strings"
	"testing"
)

// Nothing that a client has sent is a formula in a spreadsheet: neither as it stands, nor
// behind a break or a byte order mark, nor where the spreadsheet splits at semicolons.
func TestFamilyTableIsText(t *testing.T) {
	type row struct {
		A string `json:"a"`
		B string `json:"b"`
	}
	var rows []row
	for _, sign := range []string{"=", "+", "-", "@", "＝", "＋", "－", "＠"} {
		for _, before := range []string{"", "\t", "\r", "\n", "\r\n", "\ufeff", ";", "a;", "a\n", "a,", "\"", "\";"} {
			rows = append(rows, row{before + sign + "cmd()", "x"})
		}
	}
	var b strings.Builder
	if err := writeCSV(&b, rows); err != nil {
		t.Fatal(err)
	}
	// As RFC 4180 has it nothing is lost but for the quote in front.
	all, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(all) != len(rows)+1 {
		t.Fatalf("%d lines of %d: %v", len(all), len(rows)+1, err)
	}
	for i, r := range rows {
		got := all[i+1][0]
		if want := strings.ReplaceAll(r.A, "\r\n", "\n"); strings.TrimPrefix(got, "'") != want { // as the reader has it
			t.Errorf("%q became %q", r.A, got)
		}
		if strings.ContainsAny(got[:1], "=+-@\t\r\n") || strings.ContainsRune("＝＋－＠\ufeff", []rune(got)[0]) {
			t.Errorf("%q begins a formula", got)
		}
	}
	// A reader that splits at semicolons finds quotes around them.
	semicolons := csv.NewReader(strings.NewReader(strings.ReplaceAll(b.String(), ",x\n", "\n")))
	semicolons.Comma, semicolons.LazyQuotes, semicolons.FieldsPerRecord = ';', true, -1
	split, err := semicolons.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range split {
		for _, cell := range line {
			if strings.HasPrefix(cell, "=") || strings.HasPrefix(cell, "@") {
				t.Errorf("split at semicolons, %q is a formula", cell)
			}
		}
	}
}
