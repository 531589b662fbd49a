package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/internal/replay/cases"
)

// explainRequest explains a request by a configuration.
func (c *explainCmd) explainRequest(s streams) error {
	switch {
	case c.Config == "":
		return errors.New("--request needs --config FILE, a configuration of weir serve: its routes say what a request is asked by")
	case c.Request == "":
		return errors.New("--config needs --request, such as --request 'POST /login'")
	case len(c.Entries)+len(c.Rules) > 0 || c.Admin != "" || c.Domain != "api" || c.Cost != 1 || c.Lease != "":
		return errors.New("--config names the rules, and its routes make entries, domain and cost: give neither them nor --admin with it")
	}
	r, err := cases.ReadRequest(c.Request, c.Header, c.From)
	if err != nil {
		return err
	}
	conf, err := loadConfig(c.Config)
	if err != nil {
		return err
	}
	x, err := node.ExplainRequest(conf, r)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Config, err)
	}
	if err = s.writeReport(x, c.JSON, explainedText(x, c.Verbose)); err == nil && len(x.Limits) == 0 && (x.Rules == nil || !isLimited(x.Rules)) {
		err = errNo
	}
	return err
}

// explainedText writes x for a person, with or without theorems.
func explainedText(x *node.Explained, withTheorems bool) string {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("request", "%s %s, host %s", live.Printable(x.Method), live.Printable(x.Path), live.Printable(x.Host))
	line("client", "%s", x.Client)
	if x.User != "" {
		line("user", "%s", live.Printable(x.User))
	}
	if x.Tier != "" {
		line("tier", "%s", live.Printable(x.Tier))
	}
	for _, note := range x.Notes {
		line("note", "%s", live.Printable(note))
	}
	if r := x.Route; r == nil {
		line("route", "none matches")
	} else {
		line("route", "%s", strings.Join(strings.Fields(fmt.Sprintf("%d %s %s%s", r.Number, r.Name, r.Host, r.Path)), " "))
	}
	switch {
	case x.Status != 0:
		line("response", "%d, whatever the limits say: %s", x.Status, live.Printable(x.Detail))
		return b.String()
	case x.Unlimited:
		line("limits", "none, as the route is unlimited; forwarded to %s", x.Upstream)
		return b.String()
	}
	line("upstream", "%s, if the limits allow it", x.Upstream)
	if x.Priority > 0 {
		line("priority", "%d", x.Priority)
	}
	if x.Rules != nil {
		b.WriteString(explanation(x.Rules, x.FileLimits, withTheorems))
	} else {
		for i, d := range x.Descriptors {
			fmt.Fprintf(&b, "descriptor %d\n", i+1)
			for _, e := range d.Entries {
				fmt.Fprintf(&b, "  %s=%s\n", live.Printable(e.Key), live.Printable(e.Value))
			}
		}
	}
	for _, l := range x.Limits {
		if !l.OfRules {
			fmt.Fprintf(&b, "limit %s of the configuration\n    counts     %s under the key %q\n", l.Name, units(l.Cost), l.Key)
		}
	}
	return b.String()
}
