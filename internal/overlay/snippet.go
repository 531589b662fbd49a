package overlay

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/period"
)

// Pages that explain what a snippet is about.
const (
	pageOfLists    = "docs/reference/rules.md#tiers-overrides-lists"
	pageOfSettings = "docs/reference/rules.md#settings"
)

// maxQuoted bounds a text in quotes in bytes: YAML takes no key of more than 1024 in a line.
const maxQuoted = 1000

// Snippet returns lines of a rules file to start from for what e does, after a comment that
// says where they belong. Where a file cannot hold it, the comment says why, and it is all
// there is.
//
// The rules are not looked at: lines that do exactly the same would have to know tiers,
// other limits of the rule, aliases. Whoever puts them into the file sees these.
func (e *Entry) Snippet() string {
	if e.Kind == KindMode {
		return modeSnippet(e.Setting(), e.endTime(), []string{limitWords(e.Domain, e.Rule, e.Limit)})
	}
	if why := e.unwritable(); why != "" {
		return fmt.Sprintf("# no lines of a rules file for this %s: %s; see %s\n", e.Kind, why, pageOfLists)
	}
	p := e.Entries[0]
	where, line := fmt.Sprintf("beside the key of the rule for %s that has the limit %s, or into its overrides", quoteBeginning(p.Key), quoteBeginning(e.Limit)),
		fmt.Sprintf("overrides: {%q: %s}", p.Value, e.override())
	if e.Kind == BanDomain {
		where, line = "beside domain:, or into its deny", fmt.Sprintf("deny: {%q: [%q]}", p.Key, p.Value)
	}
	return snippet(fmt.Sprintf("%s, to start from: in domain %s, %s", e.Kind, quoteBeginning(e.Domain), where), pageOfLists, line, e.endTime())
}

// override returns what an override of the key says in a file.
func (e *Entry) override() string {
	switch {
	case e.Kind == Ban:
		return "{limit: 0, mode: hard}"
	case e.Kind == Allow:
		return "unlimited"
	case e.Algorithm == "concurrency":
		return fmt.Sprintf("{limit: %d, algorithm: concurrency, ttl: %s}", e.Count, period.Format(time.Duration(e.Period)*time.Microsecond))
	case e.Burst > 0:
		return fmt.Sprintf("{limit: %s, algorithm: %s, burst: %d}", e.Rate(), e.Algorithm, e.Burst)
	}
	return e.Rate()
}

// unwritable returns why no line of a file is about the key of e.
func (e *Entry) unwritable() string {
	if len(e.Entries) != 1 {
		return "the key is of several entries, and lines are about one value"
	}
	p := e.Entries[0]
	isOdd := func(s string) bool { return !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) }
	switch {
	case p.Value == "":
		return "a file has no word for an empty value"
	case strings.Contains(p.Key+p.Value, "*"):
		return "a * is a wildcard in a file"
	case isOdd(p.Key) || isOdd(p.Value):
		return "the entry has bytes that a file cannot hold"
	case max(len(strconv.Quote(p.Key)), len(strconv.Quote(p.Value))) > maxQuoted:
		return "the entry is too long"
	}
	return ""
}

// modeSnippet returns the snippet of a mode of limits.
func modeSnippet(s Setting, end *time.Time, limits []string) string {
	old, line := "its mode", "mode: "+string(s.Mode)
	switch {
	case s.Mode == Off:
		old, line = "all but its name", "unlimited: true"
	case s.Mode == Enforced && s.Percent == 100:
		old, line = "its mode and rollout", "mode: hard"
	case s.Mode == Enforced:
		old, line = "its rollout and of mode: shadow", fmt.Sprintf("rollout: %d%%", s.Percent)
	}
	what := fmt.Sprintf("mode, to start from: %s: into its block, in the place of %s", strings.Join(limits, "; "), old)
	return snippet(what, pageOfSettings, line, end)
}

// limitWords names a limit of a rule.
func limitWords(domain, rule, limit string) string {
	return fmt.Sprintf("domain %s, rule %s, limit %s", quoteBeginning(domain), quoteBeginning(rule), quoteBeginning(limit))
}

// quoteBeginning quotes the beginning of a name for a comment.
func quoteBeginning(name string) string {
	const most = 200
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return strconv.Quote(name)
}

// snippet returns a line under a comment that says what it is for, and which page explains
// it. A file knows no end, so that another comment says it.
func snippet(what, page, line string, end *time.Time) string {
	text := fmt.Sprintf("# %s; see %s\n%s\n", what, page, line)
	if end != nil {
		text += "# a file knows no end: take this out again at " + end.Format(time.RFC3339) + "\n"
	}
	return text
}
