package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/spell"
)

// keyHint says what to write in the place of a key that set has not, and where it
// belongs if it is one of a rule or of a limit.
func keyHint(p *pair, set, rule, limit *fieldSet) string {
	if hint := settingHint(p); hint != "" && set.byName["mode"].Name != "" {
		return hint
	}
	_, isOfRule := rule.byName[p.name]
	_, isOfLimit := limit.byName[p.name]
	_, isRule := set.byName["rate_limit"]
	_, isFile := set.byName["domain"]
	meant := synonymsOf(p.name, limit.names)
	switch {
	case isFile && p.name == "ban" && p.value.kind == list:
		return `did you mean "deny"?`
	case isFile && (isOfRule || isOfLimit) && p.name != "value":
		return "it belongs to a rule beneath descriptors:"
	case p.name == "description" || p.name == "comment":
		return "write it behind a #"
	case p.name == "enabled" || p.name == "disabled":
		return "leave the rule out, or write mode: shadow to count and refuse nothing"
	case isRule && p.name == "by":
		return "it belongs in tiers: {by: ..., limits: ...}; what is counted is the key of the rule"
	case isRule && slices.Contains(sources, p.name):
		return ruleFor(p.name)
	case isRule && (meant == "requests_per_unit" || meant == "period" || meant == "unit"):
		return "write the number and the period as limit: 100/minute"
	}
	hint := didYouMean(p.name, set.names)
	if len(set.names) <= 20 || strings.HasPrefix(hint, "did you mean") {
		return hint
	}
	switch source := nearestSource(p.name); {
	case isOfLimit:
		return "it belongs in the block of a limit"
	case isRule && source != "":
		return ruleFor(source)
	}
	return "docs/reference/rules.md lists the keys" // nobody reads that many
}

// ruleFor says how a rule is limited to values of a source.
func ruleFor(source string) string {
	return fmt.Sprintf("write a rule with key: %s for it, and this one beneath its descriptors:", source)
}

// clipped bounds what a message repeats of a file that may be no rules file at
// all: the first line of another file is nobody's business.
func clipped(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// settingHint says how a mode, or what holds when the store fails, is written that
// stands as a key of its own, such as "soft: 10%" or "fail_open: true".
func settingHint(p *pair) string {
	switch name := normalize(p.name); {
	case name == "soft":
		if p.value.kind == scalar && strings.HasSuffix(p.value.text, "%") {
			return "write mode: soft, exceed: " + p.value.text
		}
		return "write mode: soft, exceed: 10%"
	case name == "hard" || name == "shadow":
		return "write mode: " + name
	case name == "elastic":
		return "write mode: elastic, with pool: and the name of a pool"
	case synonymsOf(name, []string{"shadow"}) != "" && name != "test":
		return "write mode: shadow to count and refuse nothing"
	case strings.HasPrefix(name, "fail_"), strings.HasPrefix(name, "failure_"), name == "failopen", name == "failclosed",
		name == "on_error", name == "on_failure":
		return "write on_store_error: allow, deny, local or last_known"
	}
	return ""
}

// formHint says how the value of a key is written that is of another form.
func formHint(name string, n *node) string {
	switch name {
	case "limits":
		return "write limit for a single one"
	case "descriptors":
		key := "remote_address"
		if n.kind == scalar && !strings.ContainsAny(n.text, " :{}[],") {
			key = n.text
		}
		return fmt.Sprintf("write - {key: %s, limit: 100/minute}", clipped(key))
	case "value":
		return "write a rule for each"
	case "defaults":
		return "write settings of limits beneath it, such as algorithm: token_bucket"
	case "tiers":
		return "write tiers: {by: KEY, limits: {free: 10/minute}}, where KEY is the key of the entry that names the tier"
	}
	return ""
}

// blockHint says what is written beneath a key that holds names of the file's own.
func blockHint(name string) string {
	switch name {
	case "pools":
		return "write a limit beneath the name of each pool, such as shared: 1000/minute"
	case "overrides":
		return "write a limit beneath each value, such as acme: 1000/minute"
	case "limits":
		return "write a limit beneath each tier, such as free: 10/minute"
	}
	return "write each value beneath the key of its entry, such as remote_address: [10.0.0.0/8]"
}

// otherFile says which file of Weir n is that is not one of rules, and what it is
// for; "" if it is none.
func otherFile(n *node) (kind, hint string) {
	if n.kind != mapping || n.valueOf("domain") != nil || n.valueOf("descriptors") != nil {
		return "", ""
	}
	if n.valueOf("cases") != nil {
		return "cases", "play them with weir test FILE"
	}
	for _, key := range []string{"upstream", "routes", "http", "grpc", "admin", "store", "identity"} {
		if n.valueOf(key) != nil {
			return "a configuration", "give it with --config FILE"
		}
	}
	return "", ""
}

// normalize returns s in lower case, with _ between its words.
func normalize(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// synonymsOf returns the first word of known that name is another word for, or "".
func synonymsOf(name string, known []string) string {
	if meant := synonyms[normalize(name)]; !slices.Contains(known, normalize(name)) {
		for m := range strings.SplitSeq(meant, "|") {
			if m != "" && slices.Contains(known, m) {
				return m
			}
		}
	}
	return ""
}

// didYouMean returns the hint for a misspelt word, or how to choose one.
func didYouMean(name string, known []string) string {
	lower := strings.ToLower(name)
	if meant := synonymsOf(name, known); meant != "" {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	if slices.Contains(known, lower) {
		return fmt.Sprintf("did you mean %q?", lower)
	}
	return spell.Cure(lower, known)
}

// synonyms are the words that others use for a word of a rules file, with | between
// those of several keys. A hint never weakens what was meant, nor makes a trial
// refuse: who writes "warn" wants to see what would be refused.
var synonyms = map[string]string{
	// mode
	"warn": "shadow", "log": "shadow", "monitor": "shadow", "observe": "shadow", "report": "shadow", "audit": "shadow",
	"dry_run": "shadow", "dryrun": "shadow", "test": "shadow", "simulate": "shadow", "off": "shadow",
	"disabled": "shadow", "disable": "shadow", "detect": "shadow", "passive": "shadow", "log_only": "shadow", "report_only": "shadow",
	"enforce": "hard", "strict": "hard", "burstable": "elastic", "borrow": "elastic",
	"block": "hard|deny", "reject": "hard|deny",
	// on_store_error
	"open": "allow", "fail_open": "allow", "failopen": "allow", "pass": "allow", "ignore": "allow",
	"closed": "deny", "close": "deny", "fail_closed": "deny", "failclosed": "deny", "refuse": "deny",
	"fallback": "local", "degrade": "local",
	// consistency
	"global": "strict", "shared": "strict", "strong": "strict", "exact": "strict", "central": "strict", "linearizable": "strict",
	"node": "local", "per_node": "local", "lease": "leased", "async": "eventual",
	// allow and deny
	"allowlist": "allow", "allow_list": "allow", "whitelist": "allow", "exempt": "allow", "skip": "allow", "permit": "allow",
	"denylist": "deny", "deny_list": "deny", "blacklist": "deny", "blocklist": "deny", "banned": "deny",
	// limits
	"requests": "requests_per_unit", "count": "requests_per_unit", "rate": "limit", "max": "limit",
	"per": "unit", "interval": "period", "window": "period",
	"rules": "descriptors", "children": "descriptors", "match": "value", "weight": "cost", "timeout": "ttl", "id": "name",
	"algo": "algorithm", "strategy": "algorithm", "type": "algorithm",
	// algorithm
	"gcra": "token_bucket", "bucket": "token_bucket", "sliding_log_window": "sliding_log", "sliding": "sliding_window",
	"window_fixed": "fixed_window", "fixed": "fixed_window", "semaphore": "concurrency", "in_flight": "concurrency",
	"queue": "leaky_queue", "shaper": "leaky_queue",
}
