package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
)

// WordsInFile returns a rules file that has a limit which was given in words, for
// descriptors of each of the given lists of keys. Shared: all values of an entry count
// together.
func WordsInFile(domain string, lists [][]string, w *weir.Limit, shared bool) string {
	lines := []string{"limit: " + Rate{w.Count, w.Period}.String(), "algorithm: " + w.Algorithm.Name()}
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
