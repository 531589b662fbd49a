package analytics

import (
	"bufio"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// writeCSV writes a list of structs as a table: a column for each field by its word
// in JSON, those of structs within joined by a point, and of maps likewise.
func writeCSV(w io.Writer, list any) error {
	rows := reflect.ValueOf(list)
	var header []string
	known := map[string]bool{}
	table := make([]map[string]string, rows.Len())
	for i := range table {
		table[i] = map[string]string{}
		flatten(rows.Index(i), "", func(name, value string) {
			if !known[name] {
				known[name] = true
				header = append(header, name)
			}
			table[i][name] = value
		})
	}
	out := tableWriter{bufio.NewWriter(w)}
	if len(header) == 0 { // an empty table has its columns still
		flatten(reflect.New(rows.Type().Elem()).Elem(), "", func(name, _ string) { header = append(header, name) })
	}
	out.line(header)
	for _, row := range table {
		line := make([]string, len(header))
		for i, name := range header {
			line[i] = row[name]
		}
		out.line(line)
	}
	return out.Flush()
}

var timeType = reflect.TypeFor[time.Time]()

// flatten calls each with the names and values of a value.
func flatten(v reflect.Value, name string, each func(name, value string)) {
	if v.Type() == timeType {
		at, _ := v.Interface().(time.Time)
		each(name, at.Format(time.RFC3339Nano))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			flatten(v.Elem(), name, each)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			word, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case word == "-": // it is in no answer
			case f.Anonymous:
				flatten(v.Field(i), name, each)
			case name != "":
				flatten(v.Field(i), name+"."+word, each)
			default:
				flatten(v.Field(i), word, each)
			}
		}
	case reflect.Map:
		keys := slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			flatten(v.MapIndex(k), name+"."+k.String(), each)
		}
	case reflect.Slice:
		each(name, joined(v))
	case reflect.String:
		each(name, tame(v.String()))
	case reflect.Float64:
		each(name, strconv.FormatFloat(v.Float(), 'f', -1, 64))
	default: // numbers and booleans
		each(name, fmt.Sprint(v.Interface()))
	}
}

// joined returns a list in one cell.
func joined(v reflect.Value) string {
	parts := make([]string, v.Len())
	for i := range parts {
		e := v.Index(i)
		if e.Kind() == reflect.Struct {
			var fields []string
			flatten(e, "", func(name, value string) { fields = append(fields, name+"="+value) })
			parts[i] = strings.Join(fields, " ")
			continue
		}
		parts[i] = fmt.Sprint(e.Interface())
	}
	return tame(strings.Join(parts, "; "))
}

// formulas are what a text begins with that a spreadsheet takes for a formula, or passes
// over before one: the signs, their fullwidth forms, breaks and a byte order mark.
const formulas = "=+-@\uff1d\uff0b\uff0d\uff20\t\r\n\ufeff"

// tame keeps spreadsheets from running what a client has sent: a text that begins
// as a formula does gets a quote in front.
func tame(s string) string {
	if first, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune(formulas, first) {
		return "'" + s
	}
	return s
}

// tableWriter writes lines of cells as RFC 4180 has them. A cell with a semicolon is quoted
// too: some spreadsheets split at those.
type tableWriter struct{ *bufio.Writer }

func (w tableWriter) line(cells []string) {
	for i, cell := range cells {
		if i > 0 {
			_ = w.WriteByte(',') // an error stays until Flush
		}
		if cell == "" || !strings.ContainsAny(cell, ",;\"\r\n\t") && cell[0] != ' ' {
			_, _ = w.WriteString(cell)
			continue
		}
		_, _ = w.WriteString(`"` + strings.ReplaceAll(cell, `"`, `""`) + `"`)
	}
	_ = w.WriteByte('\n')
}
