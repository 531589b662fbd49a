package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
)

// File returns a rules file that limits requests of a domain as a limit in words
// does; without callers, what only callers of /shouldAllowRequest send is left out of one
// that counts by ip, as no request of the gateway or a proxy can meet it.
func File(text, domain string, callers bool) (string, error) {
	w, err := Parse(text)
	if err != nil {
		return "", err
	}
	lists := w.KeyLists()
	if !callers && len(lists) > 1 {
		lists = slices.DeleteFunc(lists, func(keys []string) bool { return slices.Contains(keys, ClientID) })
	}
	l := w.Limit()
	if err := l.Compile(); err != nil {
		return "", err
	}
	return write(domain, lists, l, w.By[0] == byAll), nil
}

// write returns a rules file that has a limit for descriptors of each of the given lists of
// keys. Shared: all values of an entry count together.
func write(domain string, lists [][]string, w *weir.Limit, shared bool) string {
	lines := []string{"limit: " + period.FormatRate(w.Count, w.Period), "algorithm: " + w.Algorithm.Name()}
	if w.Burst != w.Count {
		lines = append(lines, fmt.Sprintf("burst: %d", w.Burst))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# in the place of --limit %s\ndomain: %s\ndescriptors:\n", quote(w.Name), quote(domain))
	for _, keys := range lists {
		indent := "  "
		for i, key := range keys {
			if fmt.Fprintf(&b, "%s- key: %s\n", indent, yamlKey(key)); i < len(keys)-1 {
				fmt.Fprintf(&b, "%s  descriptors:\n", indent)
				indent += "    "
			}
		}
		if shared {
			fmt.Fprintf(&b, "%s  value: \"*\"\n%[1]s  share_threshold: true\n", indent)
		}
		fmt.Fprintf(&b, "%s  limit:\n", indent)
		for _, line := range lines {
			fmt.Fprintf(&b, "%s    %s\n", indent, line)
		}
	}
	return b.String()
}

// yamlKey writes a key, which YAML takes for itself if it is a name.
func yamlKey(key string) string {
	if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") == "" {
		return key
	}
	return quote(key)
}

// quote writes s for YAML, which reads what Go escapes; it has no line break. JSON leaves
// control characters that YAML does not take, and U+0085, which ends a line there.
func quote(s string) string { return strconv.Quote(s) }
