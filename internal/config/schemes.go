package config

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/spell"
)

// isHostPort reports whether text is HOST:PORT, which looks like a URL of the scheme HOST.
func isHostPort(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// kindOfURL returns the kind that the scheme of a URL names. flag names the setting and
// example stands for its URLs in the error; also are schemes that are dealt with
// elsewhere.
func kindOfURL[K any](flag, example, url string, kinds map[string]K, also ...string) (K, error) {
	scheme, _, isURL := strings.Cut(url, ":")
	kind, ok := kinds[scheme]
	switch {
	case !isURL:
		return kind, fmt.Errorf("%s is not a URL: give one such as %s", flag, example)
	case !ok:
		known := slices.Sorted(maps.Keys(kinds))
		all := strings.Join(known, ", ")
		if len(also) > 0 {
			all = strings.Join(also, ", ") + " and " + all
		}
		return kind, fmt.Errorf("%s: unknown scheme %q%s: there are %s", flag, scheme, spell.Hint(scheme, append(known, also...)), all)
	}
	return kind, nil
}
