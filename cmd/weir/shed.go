package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/remote"

	"github.com/weirlimit/weir/shed"
)

type shedCmd struct {
	Settings []string `arg:"" optional:"" name:"setting" help:"off and on throw the kill switch; NAME=VALUE changes one setting. Nothing changes nothing."`
	Admin    []string `name:"admin" was:"server" env:"-" default:"http://127.0.0.1:6070" placeholder:"URL" help:"Admin addresses of the nodes to ask, separated by commas or given several times: from the same machine, or any with a token."`
	tokenFlags
	Timeout time.Duration `name:"timeout" env:"-" default:"5s" placeholder:"DURATION" help:"Longest time to wait for each answer."`
	JSON    bool          `name:"json" help:"Print the answers as they are."`
}

// Run asks every server, also when one does not answer.
func (c *shedCmd) Run(s streams) error {
	settings, err := shedSettings(c.Settings)
	if err != nil {
		return err
	}
	token, err := c.readToken()
	if err != nil {
		return err
	}
	var errs []error
	for i, url := range c.Admin {
		if err := c.askServer(s, remote.Server{URL: url, Token: token, Timeout: c.Timeout}, settings, i > 0); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// askServer asks one server and prints its answer.
func (c *shedCmd) askServer(s streams, srv remote.Server, settings map[string]string, further bool) error {
	method, body := http.MethodGet, any(nil)
	if len(settings) > 0 {
		method, body = http.MethodPatch, settings
	}
	var st shed.State
	data, err := srv.Read(method, "/v1/admin/shed", body, &st, "the state of load shedding")
	if err != nil {
		return err
	}
	text := shedState(&st)
	if len(c.Admin) > 1 {
		text = srv.URL + "\n" + text
		if further {
			text = "\n" + text
		}
	}
	return s.writeAnswer(data, c.JSON, text)
}

// shedSettings reads what stands on the command line.
func shedSettings(words []string) (map[string]string, error) {
	settings := map[string]string{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		switch {
		case w == "off":
			name, value = "off", "true"
		case w == "on":
			name, value = "off", "false"
		case !ok:
			return nil, fmt.Errorf("%q is neither off, on nor NAME=VALUE; names are %s", w, strings.Join(shed.Settings(), ", "))
		}
		if _, again := settings[name]; again {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		settings[name] = value
	}
	return settings, nil
}

// shedState writes st for a person.
func shedState(st *shed.State) string {
	var b strings.Builder
	if st.Off {
		b.WriteString("load shedding is off: nothing is refused (weir shed on)\n")
	} else {
		b.WriteString("load shedding is on\n")
	}
	for i := range st.Limiters {
		l := &st.Limiters[i]
		fmt.Fprintf(&b, "%-17s %-8s %s\n", l.Name, st.Settings[l.Name], limitInWords(l))
		for _, c := range l.Classes {
			b.WriteString("  ")
			if c.Class != "" {
				fmt.Fprintf(&b, "%-11s ", c.Class)
			}
			if c.Threshold != nil {
				fmt.Fprintf(&b, "below %-6d ", *c.Threshold)
			}
			fmt.Fprintf(&b, "allowed %d, refused %d", c.Allowed, c.Refused)
			if c.ShadowRefused > 0 {
				fmt.Fprintf(&b, ", would have refused %d", c.ShadowRefused)
			}
			b.WriteByte('\n')
		}
	}
	if st.UnknownUsers > 0 {
		fmt.Fprintf(&b, "%s of nobody known met no limit per user\n", pluralize(int64(st.UnknownUsers), "request"))
	}
	if st.WithoutLease > 0 {
		fmt.Fprintf(&b, "%s without a lease did not meet user_concurrency\n", pluralize(int64(st.WithoutLease), "request"))
	}
	return b.String()
}

// limitInWords says what a limiter allows.
func limitInWords(l *shed.LimiterState) string {
	text := "no limit"
	if l.Limit != "" {
		text = l.Limit
	}
	switch {
	case l.Burst > 0:
		text += fmt.Sprintf(", burst %d", l.Burst)
	case l.TTL > 0:
		text += fmt.Sprintf(" at once, forgotten after %s", time.Duration(l.TTL*float64(time.Second)))
	case l.Reserved > 0:
		text += fmt.Sprintf(", %d kept for critical", l.Reserved)
	case l.InFlight != nil:
		text += fmt.Sprintf(", %d under way", *l.InFlight)
		if *l.ShadowInFlight > 0 {
			text += fmt.Sprintf(" and %d that would have been refused", *l.ShadowInFlight)
		}
	}
	return text
}
