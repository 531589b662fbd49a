package node

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/check"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
)

// exampleQuestion is the body of a question to the API that meets a limit.
type exampleQuestion struct {
	Domain      string                `json:"domain"`
	Descriptors []ExplainedDescriptor `json:"descriptors"`
	Lease       string                `json:"lease,omitempty"`
}

// A guide writes commands that meet the rules of a node.
type guide struct {
	conf  *config.Config
	token string
	rules *ruleSet
}

// howToAsk returns a command that asks the API at a URL of urlOf and meets the first
// limit in force; or why there is none, in parentheses.
func (s *guide) howToAsk(url string) string {
	if s.conf.IsAsked() && !s.conf.Forwards() {
		return "" // proxies ask here, and howToAskAsProxy shows how
	}
	auth := ""
	if s.conf.Forwards() && !trustsLoopback(s.conf) {
		switch {
		case s.token != "":
			auth = `-H "Authorization: Bearer $WEIR_ADMIN_TOKEN" `
		case len(s.conf.Trust) > 0:
			return "(answers --trust " + strings.Join(s.conf.Trust, ",") + ")"
		default:
			return "(answers nobody: start with --trust 127.0.0.1 to ask from this machine)"
		}
	}
	q := s.exampleQuestion()
	switch {
	case q == nil && len(s.rules.words.OfRoute) > 0:
		return "(no limit is in force but those of routes)"
	case q == nil:
		return "(no limit is in force)"
	}
	path, question := "/v1/check", any(q)
	if e := q.Descriptors[0].Entries; q.Domain == s.conf.API.Domain && q.Lease == "" && len(e) == 1 && e[0].Key == words.ClientID {
		path, question = "/shouldAllowRequest", map[string]string{"clientId": e[0].Value}
	}
	body, err := json.Marshal(question)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	if s.conf.Forwards() && !trusts(s.conf, netip.IPv6Loopback()) {
		url = onLoopback4(url)
	}
	return "curl " + auth + "-d " + quoteShell(string(body)) + " " + curlTo(url, path)
}

// howToForward returns a command that sends the gateway at a URL of urlOf a request
// which the first rule is for, as far as a path, a method and a host say it.
func (s *guide) howToForward(url string) string {
	path, flags := s.exampleRequest()
	return "curl -i " + flags + curlTo(url, quoteWord(path))
}

// howToAskAsProxy returns a command that asks, as a proxy on this machine does, about
// the request of howToForward. Empty where nobody on this machine may ask so.
func (s *guide) howToAskAsProxy(url string) string {
	c := &s.conf.Identity
	trusted, err := config.ParsePrefixes("--trusted-proxies", c.Proxies.Trusted)
	if s.conf.ForwardAuth.Prefix == "" || err != nil || c.ClientHeader() != config.DefaultClientHeader || c.Proxies.Form != "" || c.Proxies.Hops != 0 || strings.HasPrefix(url, config.UnixPrefix) {
		return ""
	}
	switch {
	case !config.ContainsAddr(trusted, loopback4):
		return ""
	case !config.ContainsAddr(trusted, netip.IPv6Loopback()):
		url = onLoopback4(url)
	}
	path, flags := s.exampleRequest()
	return "curl -i -H '" + config.DefaultClientHeader + ": 203.0.113.7' " + flags + curlTo(url, quoteWord(s.conf.ForwardAuth.Prefix+path))
}

// howToAskRedis returns a command that asks over the Redis protocol at a URL of urlOf,
// by the first limit in force if there is one. Empty where redis-cli needs certificates.
func (s *guide) howToAskRedis(url string) string {
	c := &s.conf.RESP
	if c.Listen == "" || c.TLS.Cert != "" {
		return ""
	}
	cli := "redis-cli " + redisTo(url)
	if c.Password != "" || c.PasswordFile != "" {
		if cli = `REDISCLI_AUTH="$WEIR_RESP_PASSWORD" ` + cli; c.User != "" {
			cli += " --user " + quoteWord(c.User)
		}
	}
	q := s.exampleQuestion()
	if q == nil {
		return cli + " CL.THROTTLE user123 15 30 60"
	}
	words := []string{cli, "WEIR.CHECK", quoteWord(q.Domain)}
	for _, e := range q.Descriptors[0].Entries {
		words = append(words, quoteWord(e.Key), quoteWord(e.Value))
	}
	if q.Lease != "" {
		words = append(words, "LEASE", q.Lease)
	}
	return strings.Join(words, " ")
}

// exampleRequest returns the path of a request that the first rule is for, and the flags
// by which curl sends it.
func (s *guide) exampleRequest() (path, flags string) {
	path = "/"
	var query []string
	var entries []weir.Entry
	if q := s.exampleQuestion(); q != nil && q.Domain == s.conf.API.Domain {
		entries = q.Descriptors[0].Entries
	} else if len(s.rules.words.OfRoute) > 0 {
		entries = s.routeExample(&s.rules.words.OfRoute[0])
	}
	if len(s.rules.words.General) > 0 {
		entries = exampleInWords(&s.rules.words.General[0], words.Address)
	}
	for _, e := range entries {
		source, name, _ := strings.Cut(e.Key, ":")
		switch {
		case e.Key == "path" && strings.HasPrefix(e.Value, "/"):
			path = e.Value
		case e.Key == "method" && e.Value != "GET":
			flags += "-X " + quoteWord(e.Value) + " "
		case e.Key == "host":
			flags += "-H " + quoteShell("Host: "+e.Value) + " "
		case source == "header":
			flags += "-H " + quoteShell(name+": "+e.Value) + " "
		case source == "cookie":
			flags += "-b " + quoteShell(name+"="+e.Value) + " "
		case source == "query":
			query = append(query, url.QueryEscape(name)+"="+url.QueryEscape(e.Value))
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return path, flags
}

// routeExample returns entries of a request that meets a limit of a route.
func (s *guide) routeExample(l *config.WordLimit) []weir.Entry {
	entries := slices.DeleteFunc(exampleInWords(l, words.Address), func(e weir.Entry) bool { return e.Key == "path" || e.Key == "host" || e.Key == "method" })
	for i := range s.conf.Routes {
		rt := &s.conf.Routes[i]
		if len(rt.Limit) == 0 || rt.LimitName() != l.Route {
			continue
		}
		entries = append(entries, weir.Entry{Key: "path", Value: check.FillPath(rt.Path)})
		if rt.Host != "" {
			entries = append(entries, weir.Entry{Key: "host", Value: strings.Replace(rt.Host, "*", "x", 1)})
		}
		if len(rt.Methods) > 0 {
			entries = append(entries, weir.Entry{Key: "method", Value: rt.Methods[0]})
		}
	}
	return entries
}

// exampleInWords returns entries that meet a limit, with this one if it has a choice of who
// the client is.
func exampleInWords(l *config.WordLimit, who string) []weir.Entry {
	keys := l.Lists[0]
	for _, list := range l.Lists {
		if slices.Contains(list, who) {
			keys = list
		}
	}
	values := map[string]string{words.ClientID: "123", words.Address: "203.0.113.7", "client": "203.0.113.7", "method": "GET", "path": "/", "host": "example.com"}
	var entries []weir.Entry
	for _, key := range keys {
		value, ok := values[key]
		if !ok {
			value = "example"
		}
		entries = append(entries, weir.Entry{Key: key, Value: value})
	}
	return entries
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// onLoopback4 returns a URL of localhost, which may be an IPv6 address, as one of IPv4.
func onLoopback4(url string) string {
	return strings.Replace(url, "://localhost:", "://127.0.0.1:", 1)
}

// trustsLoopback reports whether --trust has an address of this machine.
func trustsLoopback(c *config.Config) bool {
	return trusts(c, netip.IPv6Loopback()) || trusts(c, loopback4)
}

// trusts reports whether --trust has a.
func trusts(c *config.Config, a netip.Addr) bool {
	trusted, err := c.TrustedPrefixes()
	return err == nil && config.ContainsAddr(trusted, a)
}

// exampleQuestion returns a question that meets the first limit that can refuse it,
// nil if there is none.
func (s *guide) exampleQuestion() *exampleQuestion {
	if len(s.rules.words.General) > 0 {
		return &exampleQuestion{Domain: s.conf.API.Domain, Descriptors: []ExplainedDescriptor{{Entries: exampleInWords(&s.rules.words.General[0], words.ClientID)}}}
	}
	known := s.rules.currentLimits().Limits()
	// The domain that is asked where none is named comes first.
	for _, own := range []bool{true, false} {
		for _, r := range s.rules.currentLimits().FileRules() {
			if (r.Domain == s.conf.API.Domain) != own {
				continue
			}
			for _, entries := range exampleEntries(r) {
				if q := s.questionFor(r, entries, known); q != nil {
					return q
				}
			}
		}
	}
	return nil
}

// exampleEntries returns descriptors that may meet the limits of r.
func exampleEntries(r *limits.Rule) [][]weir.Entry {
	var entries []weir.Entry
	for _, step := range r.Chain() {
		value := step.Example()
		if step.Value == "" && step.Key == words.ClientID {
			value = "123"
		}
		entries = append(entries, weir.Entry{Key: step.Key, Value: value})
	}
	all := [][]weir.Entry{entries}
	last := len(entries) - 1
	for _, tier := range r.Tiers {
		all = append(all, append(slices.Clone(entries), weir.Entry{Key: r.TierBy, Value: strings.ReplaceAll(tier.Value, "*", "x")}))
	}
	for _, o := range r.Overrides {
		with := slices.Clone(entries)
		with[last].Value = strings.ReplaceAll(o.Value, "*", "x")
		all = append(all, with)
	}
	return all
}

// questionFor returns a question with these entries if it meets one of the known limits, of
// which load shedding has none, that can refuse it.
func (s *guide) questionFor(r *limits.Rule, entries []weir.Entry, known []*weir.Limit) *exampleQuestion {
	for _, e := range entries {
		if strings.ContainsFunc(e.Key+e.Value, unicode.IsControl) {
			return nil
		}
	}
	req := weir.Request{Domain: r.Domain, Descriptors: []weir.Descriptor{{Entries: entries}}, Lease: "example"}
	ops := slices.DeleteFunc(s.rules.currentLimits().Match(nil, &req), func(o weir.Op) bool { return !slices.Contains(known, o.Limit) })
	if !slices.ContainsFunc(ops, func(o weir.Op) bool { return o.Role == weir.Enforce || o.Role == weir.Own }) {
		return nil
	}
	q := &exampleQuestion{Domain: r.Domain, Descriptors: []ExplainedDescriptor{{Entries: entries}}}
	if slices.ContainsFunc(ops, func(o weir.Op) bool { return o.Limit.Traits()&weir.Leases != 0 }) {
		q.Lease = "example"
	}
	return q
}

// quoteWord is quoteShell for what a shell would not take as one word.
func quoteWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.,:=@%+") == "" {
		return s
	}
	return quoteShell(s)
}

// quoteShell writes s as one word of a shell.
func quoteShell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
