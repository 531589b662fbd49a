package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirlimit/weir"
)

// ModeLines returns the lines that give the limit another mode in its file, after
// a comment that says where they belong: into the block of the limit, in the place
// of those of the same keys. Mode is "shadow", "enforce" with the percent of the
// keys that are refused, or "off". What a file cannot say, the comment says.
func (l *Limit) ModeLines(mode string, percent int64) string {
	if l.Limit == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("# ")
	if l.at != nil {
		fmt.Fprintf(&b, "%s:%d, ", l.at.file, l.at.line)
	}
	fmt.Fprintf(&b, "limit %s", quote(l.Name))
	switch {
	case mode == "off":
		b.WriteString(", in the place of its numbers and all else but its name")
	case l.Denies && mode == "enforce" && percent < 100:
		b.WriteString(": a limit of 0 has no rollout in a file, it refuses all keys or none")
	case l.Rule != nil && l.Rule.Shadow && mode == "enforce":
		b.WriteString(", with shadow_mode: false beside key:")
		if len(l.Rule.All()) > 1 {
			b.WriteString(" and mode: shadow in the other limits there")
		}
	}
	b.WriteByte('\n')
	for _, line := range modeLines(l.Limit, l.Denies, l.rolls, mode, percent) {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// modeLines returns the lines that give w another mode. Rolls: the file has a rollout
// of it, which all keys have to take the place of.
func modeLines(w *weir.Limit, denies, rolls bool, mode string, of int64) []string {
	if mode == "off" {
		return []string{"unlimited: true"}
	}
	var s settings
	word, share := "hard", percent(of)
	switch {
	case w.Excess > 0 || w.Pool != nil:
		// They stay soft or elastic: a rollout of nothing is a shadow.
		s.Rollout = &share
	case mode == "shadow":
		word = "shadow"
		s.Mode = &word
	case denies, of == 100 && !rolls:
		s.Mode = &word
	default:
		s.Mode, s.Rollout = &word, &share
	}
	return s.lines()
}

// lines writes the settings that are set, as a file has them.
func (s *settings) lines() []string {
	var out []string
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsNil() {
			key := v.Type().Field(i).Tag.Get("yaml")
			switch x := f.Interface().(type) {
			case *string:
				out = append(out, key+": "+*x)
			case *percent:
				out = append(out, fmt.Sprintf("%s: %d%%", key, *x))
			case *int64:
				out = append(out, fmt.Sprintf("%s: %d", key, *x))
			default:
				panic("rules: no way to write " + key)
			}
		}
	}
	return out
}

// WordsInFile returns a rules file that has a limit which was given in words, in a mode,
// for descriptors of each of the given lists of keys. Shared: all values of an entry count
// together.
func WordsInFile(domain string, lists [][]string, w *weir.Limit, shared bool, mode string, percent int64) string {
	name := w.Algorithm.Name()
	s := settings{Algorithm: &name}
	if w.Burst != w.Count {
		s.Burst = &w.Burst
	}
	lines := append([]string{"limit: " + Rate{w.Count, w.Period}.String()}, s.lines()...)
	switch change := modeLines(w, false, false, mode, percent); {
	case mode == "off":
		lines = change
	case mode != "enforce" || percent != 100: // else it is the default
		lines = append(lines, change...)
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

// WordsKeyLines returns a rules file that has a limit which was given in words, with a
// change of one key of it.
func WordsKeyLines(c KeyChange, lists [][]string, w *weir.Limit, shared bool) string {
	switch {
	case shared:
		return noKeyLines("all clients share the counter of " + quote(w.Name))
	case len(c.Entries) != 1:
		return noKeyLines(quote(w.Name) + " counts by several entries, and an override is of one")
	}
	e := c.Entries[0]
	if why := unwritable(e.Key, e.Value, false); why != "" {
		return noKeyLines(why)
	}
	override := "{limit: 0}"
	switch c.Action {
	case AllowKey:
		override = "{mode: shadow, " + wordsNumbers(w, w.Count, w.Period, w.Burst) + "}"
	case OverrideKey:
		override = "{" + wordsNumbers(w, c.Count, c.Period, c.Burst) + "}"
	}
	text, at := WordsInFile(c.Domain, lists, w, false, "enforce", 100), "  - key: "+yamlKey(e.Key)+"\n"
	return strings.Replace(text, at, at+"    overrides: {"+strconv.Quote(e.Value)+": "+override+"}\n", 1)
}

// yamlKey writes a key, which YAML takes for itself if it is a name.
func yamlKey(key string) string {
	if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") == "" {
		return key
	}
	return quote(key)
}

func wordsNumbers(w *weir.Limit, count int64, period time.Duration, burst int64) string {
	text := "limit: " + Rate{count, period}.String() + ", algorithm: " + w.Algorithm.Name()
	if slices.Contains(takes["burst"], w.Algorithm.Name()) && burst > 0 {
		text += ", burst: " + strconv.FormatInt(burst, 10)
	}
	return text
}

// quote writes s for YAML, which reads what Go escapes; it has no line break. JSON leaves
// control characters that YAML does not take, and U+0085, which ends a line there.
func quote(s string) string { return strconv.Quote(s) }

func noKeyLines(why string) string { return "# no lines in a rules file do this: " + why + "\n" }

// unwritable returns why a file cannot name a value. Fixed: the rules name it.
func unwritable(key, value string, fixed bool) string {
	switch {
	case fixed:
		return ""
	case value == "":
		return "the value of " + key + " is empty, and a file has no word for that"
	case isPattern(value):
		return "a * in a value is a wildcard there, so none stands for " + quote(value) + " alone"
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return "the value of " + key + " has bytes that a file cannot hold"
	}
	return ""
}
