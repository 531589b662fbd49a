package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/overlay"
)

type auditCmd struct {
	Limit  int64 `name:"limit" env:"-" default:"20" placeholder:"N" help:"How many changes, 1 to 1000."`
	Before int64 `name:"before" env:"-" placeholder:"NUMBER" help:"Only changes with a lower number."`

	operatorFlags
}

// audit is the answer of GET /v1/admin/audit.
type audit struct {
	Changes []overlay.ChangeView `json:"changes"`
	Before  *int64               `json:"before"`
}

// Run prints the changes, the latest first.
func (c *auditCmd) Run(s streams) error {
	q := url.Values{"limit": {strconv.FormatInt(c.Limit, 10)}}
	if c.Before != 0 {
		q.Set("before", strconv.FormatInt(c.Before, 10))
	}
	var a audit
	data, err := c.callServer(http.MethodGet, "/v1/admin/audit?"+q.Encode(), nil, &a, "an audit log")
	if err != nil {
		return err
	}
	return s.writeAnswer(data, c.JSON, a.String())
}

// String writes the changes for a person.
func (a *audit) String() string {
	if len(a.Changes) == 0 {
		return "nothing was changed\n"
	}
	var b strings.Builder
	for i := range a.Changes {
		c := &a.Changes[i]
		number := "-"
		if c.Number != nil {
			number = strconv.FormatInt(*c.Number, 10)
		}
		what := formatEntries(c.Entries)
		if what == "" {
			what = c.Rule
		}
		if c.Domain != "" {
			what = c.Domain + "/" + what
		}
		if c.Limit != "" {
			what += ", limit " + c.Limit
		}
		fmt.Fprintf(&b, "%s  %s  %s  %s\n", number, c.At.Format(time.RFC3339), c.Action, what)
		fmt.Fprintf(&b, "    from   %s\n    to     %s\n    by     %s on %s\n", live.Printable(c.Before), live.Printable(c.After), live.Printable(c.By), live.Printable(c.Node))
		if c.Reason != "" {
			fmt.Fprintf(&b, "    reason %s\n", live.Printable(c.Reason))
		}
	}
	if a.Before != nil {
		fmt.Fprintf(&b, "more with --before %d\n", *a.Before)
	}
	return b.String()
}
