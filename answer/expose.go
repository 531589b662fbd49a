package answer

import (
	"net/http"
	"strings"
)

// exposeFields makes w list its fields in Access-Control-Expose-Headers, but for what is
// told to operators and not to pages.
func (w *Writer) exposeFields() {
	for _, f := range w.fields {
		if f.value != degraded {
			w.names = append(w.names, f.key)
		}
	}
	w.allNames = []string{strings.Join(w.names, ", ")}
	w.fields = append(w.fields, field{exposeKey, exposed, alone})
}

// appendExposed appends the value of the list that h must have so that it
// names all fields of w: nothing, if it names them already.
func (w *Writer) appendExposed(b []byte, h http.Header) []byte {
	lines, from := h[exposeKey], len(b)
	for _, name := range w.names {
		if listsField(lines, name) {
			continue
		}
		if len(b) == from { // the first that is missing
			for _, line := range lines {
				if line = strings.Trim(line, " \t,"); line != "" {
					b = append(append(b, line...), ", "...)
				}
			}
		} else {
			b = append(b, ", "...)
		}
		b = append(b, name...)
	}
	return b
}

// listsField reports whether one of lines names the field.
func listsField(lines []string, name string) bool {
	for _, line := range lines {
		for more := true; more; {
			var item string
			item, line, more = strings.Cut(line, ",")
			if strings.EqualFold(strings.Trim(item, " \t"), name) {
				return true
			}
		}
	}
	return false
}
