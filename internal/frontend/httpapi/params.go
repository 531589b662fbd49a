package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/spell"
)

// readNumber reads a number from 1 to most, usual where there is none.
func readNumber(in map[string]string, fault **inputError, name string, most, usual int64) int64 {
	if in[name] == "" || *fault != nil {
		return usual
	}
	n, err := strconv.ParseInt(in[name], 10, 64)
	if err != nil || n < 1 || n > most {
		*fault = &inputError{fmt.Sprintf("must be a whole number from 1 to %d", most), "?" + name}
	}
	return n
}

// readParams reads the query of a GET: known names, each once, of bounded length.
func readParams(r *http.Request, known ...string) (map[string]string, *inputError) {
	out := map[string]string{}
	if len(r.URL.RawQuery) > maxSmallBody {
		return nil, &inputError{"is too long", "?query"}
	}
	for name, values := range r.URL.Query() {
		switch {
		case !slices.Contains(known, name):
			return nil, &inputError{"unknown parameter" + spell.Hint(name, known) + "; known are " + strings.Join(known, ", "), "?" + name}
		case len(values) != 1:
			return nil, &inputError{"is there twice", "?" + name}
		case len(values[0]) > maxRule:
			return nil, &inputError{"must have at most " + strconv.Itoa(maxRule) + " bytes", "?" + name}
		}
		out[name] = values[0]
	}
	return out, nil
}
