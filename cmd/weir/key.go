package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/remote"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/rules"
)

type keyCmd struct {
	Action string   `arg:"" enum:"inspect,reset,grant,ban,unban,allow,disallow,override" help:"What to do: ${enum}."`
	Words  []string `arg:"" name:"key=value" help:"Entries that name the key, in order, or the hash by which the client is shown; then UNITS of grant, DURATION of ban and allow, LIMIT of override."`

	Limit  string `name:"limit" env:"-" placeholder:"NAME" help:"Which of the limits that the entries meet; may be left out if there is one."`
	Burst  int64  `name:"burst" env:"-" placeholder:"N" help:"Burst of an override; as many as the limit counts when left out."`
	For    string `name:"for" env:"-" placeholder:"DURATION" help:"How long a ban, a free pass or an override holds, such as 30d; an override until it is taken back when left out."`
	Remove bool   `name:"remove" env:"-" help:"Take an override back."`
	Whole  bool   `name:"whole-domain" env:"-" help:"Ban, or unban, the client over the domain: whatever carries the one entry, under every limit."`
	Here   bool   `name:"here" env:"-" help:"Ban, or unban, on this node alone, also while the store is away: until it ends or the node does."`
	Reason string `name:"reason" env:"-" placeholder:"TEXT" help:"Why, for whoever looks after this later: weir audit tells."`
	Domain string `name:"domain" env:"-" placeholder:"NAME" help:"Domain of the key; the server's own when left out."`

	Verbose bool `name:"verbose" short:"v" env:"-" help:"Print all that a ban does not refuse."`

	operatorFlags
}

// keyQuestion is the body of the paths under /v1/admin that are about one key.
type keyQuestion struct {
	remote.Question
	Client  string `json:"client,omitempty"`
	Whole   bool   `json:"whole_domain,omitempty"`
	Here    bool   `json:"here,omitempty"`
	Limit   string `json:"limit,omitempty"`
	Units   int64  `json:"units,omitempty"`
	Seconds *int64 `json:"seconds,omitempty"`
	Rate    string `json:"rate,omitempty"`
	Burst   int64  `json:"burst,omitempty"`
	End     bool   `json:"end,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// keyState is their answer.
type keyState struct {
	Allowed    bool               `json:"allowed"`
	RetryAfter *float64           `json:"retry_after"`
	Limits     []limitDecision    `json:"limits"`
	Overlay    []overlay.View     `json:"overlay"`
	Modes      []overlay.ModeView `json:"modes"`
	YAML       string             `json:"yaml"`
	Client     *struct {
		Domain  string       `json:"domain"`
		Entries []weir.Entry `json:"entries"`
	} `json:"client"`
	NotCovered []string     `json:"not_covered"`
	Warnings   []string     `json:"warnings"`
	CountedAs  []weir.Entry `json:"counted_as"`
}

// Run does what is asked and prints how the key stands.
func (c *keyCmd) Run(s streams) error {
	entries, value, err := c.splitWords()
	if err != nil {
		return err
	}
	q, path, did, err := c.buildQuestion(entries, value)
	if err != nil {
		return err
	}
	var st keyState
	data, err := c.callServer(http.MethodPost, "/v1/admin/"+path, q, &st, "the state of a key")
	if err != nil {
		return err
	}
	if err := s.writeAnswer(data, c.JSON, st.unreached()+c.describeDone(entries, did, &st)+st.formatText(c.Verbose)); err != nil || len(st.Warnings) == 0 {
		return err
	}
	return errUnreached
}

// describeDone says what was done, and to whom where front ends count them by another form of the
// entries.
func (c *keyCmd) describeDone(entries []weir.Entry, did string, st *keyState) string {
	if did == "" && st.CountedAs == nil {
		return ""
	}
	name, note := formatEntries(entries), ""
	switch {
	case st.CountedAs != nil:
		note = fmt.Sprintf("%s is counted as %s\n", name, formatEntries(st.CountedAs))
		name = formatEntries(st.CountedAs)
	case len(entries) == 0:
		name = "client " + c.Words[0]
	}
	if did == "" {
		return note
	}
	if c.Here {
		did += " on this node alone"
	}
	return name + " " + did + "\n" + note
}

// hashed matches what a client is shown by where keys are hashed.
var hashed = regexp.MustCompile(`^[0-9a-f]{32}$`)

// splitWords parts the words into the entries of the key and what follows them.
func (c *keyCmd) splitWords() (entries []weir.Entry, value string, err error) {
	words := c.Words
	if hashed.MatchString(words[0]) {
		if len(words) > 2 {
			return nil, "", fmt.Errorf("%q is one word too many after the hash of a client", words[2])
		}
		return nil, strings.Join(words[1:], ""), nil
	}
	for i, w := range words {
		if strings.Contains(w, "=") || w == splitter {
			continue
		}
		if c.Action == "override" && i > 0 && i < len(words)-1 && words[i+1] == "burst" {
			return nil, "", fmt.Errorf("the burst is a flag: write %s --burst N", w)
		}
		if i == 0 || i < len(words)-1 {
			return nil, "", fmt.Errorf("%q is not an entry: write key=value, such as client_id=123", w)
		}
		value = w
	}
	if value != "" {
		words = words[:len(words)-1]
	}
	ds, err := descriptors(words)
	if err != nil {
		return nil, "", err
	}
	if len(ds) > 1 {
		return nil, "", errors.New("one key is meant: name it by the entries of one descriptor")
	}
	return ds[0].Entries, value, nil
}

// howLong is what ban and allow need.
const howLong = "for how long, such as 2h, or --for 2h"

// keyActions are what can be done: at which path under /v1/admin, what it needs after the
// entries, and what is said when it is done.
var keyActions = map[string]struct{ path, needs, done string }{
	"inspect":  {path: "inspect"},
	"reset":    {"reset", "", "is forgotten"},
	"grant":    {"grant", "how many units, such as 100", "got back up to"},
	"ban":      {"ban", howLong, "is banned"},
	"unban":    {"ban", "", "is not banned any more"},
	"allow":    {"allow", howLong, "is let through"},
	"disallow": {"allow", "", "is limited again"},
	"override": {"override", "the limit, such as 5000/minute, or --remove", "has another limit"},
}

// buildQuestion returns what to ask at which path, and what is to be said when it is done.
func (c *keyCmd) buildQuestion(entries []weir.Entry, value string) (q keyQuestion, path, did string, err error) {
	q = keyQuestion{Question: remote.NewQuestion(c.Domain, []weir.Descriptor{{Entries: entries}}), Limit: c.Limit, Reason: c.Reason, Whole: c.Whole, Here: c.Here}
	if len(entries) == 0 {
		q.Descriptors, q.Client = nil, c.Words[0]
	}
	if value, err = c.argument(value); err != nil {
		return q, "", "", err
	}
	action := keyActions[c.Action]
	switch did = action.done; c.Action {
	case "grant":
		q.Units, err = strconv.ParseInt(value, 10, 64)
		if err != nil || q.Units < 1 || q.Units > weir.MaxCost {
			return q, "", "", fmt.Errorf("%q is not a number of units from 1 to 2^53", value)
		}
		did += " " + units(q.Units)
	case "ban", "allow":
		q.Seconds, err = wholeSeconds(value)
	case "unban", "disallow":
		q.End = true
	case "override":
		if err = c.override(&q, value); c.Remove {
			did = "has its limit as it was"
		}
	}
	return q, action.path, did, err
}

// argument returns what the action is given after the entries or by --for, or why the
// action cannot be with it and the flags.
func (c *keyCmd) argument(value string) (string, error) {
	forTime := c.Action == "ban" || c.Action == "allow"
	switch {
	case c.Action != "override" && (c.Burst != 0 || c.Remove):
		return "", fmt.Errorf("--burst and --remove belong to override, not to %s", c.Action)
	case c.Whole && c.Action != "ban" && c.Action != "unban":
		return "", fmt.Errorf("--whole-domain belongs to ban and unban, not to %s", c.Action)
	case c.Here && c.Action != "ban" && c.Action != "unban":
		return "", fmt.Errorf("--here belongs to ban and unban, not to %s", c.Action)
	case c.For != "" && c.Action != "override" && !forTime:
		return "", fmt.Errorf("--for belongs to ban, allow and override, not to %s", c.Action)
	case c.Reason != "" && c.Action == "inspect":
		return "", errors.New("--reason belongs to what changes something: inspect looks")
	case forTime && c.For != "" && value != "":
		return "", fmt.Errorf("duration set twice, by %s and --for %s: keep one", value, c.For)
	case forTime && c.For != "":
		value = c.For
	}
	switch needs := keyActions[c.Action].needs; {
	case needs == "" && value != "":
		return "", fmt.Errorf("%s takes nothing after the entries: leave %q out", c.Action, value)
	case needs != "" && value == "" && !c.Remove:
		return "", fmt.Errorf("%s needs, after the entries, %s", c.Action, needs)
	}
	return value, nil
}

// override fills q with what overrides the limit of a key.
func (c *keyCmd) override(q *keyQuestion, value string) (err error) {
	if c.Remove {
		if value != "" || c.Burst != 0 || c.For != "" {
			return errors.New("--remove takes no limit, --burst or --for")
		}
		q.End = true
		return nil
	}
	if _, err := period.ParseRate(value); err != nil {
		return err
	}
	if c.Burst < 0 || c.Burst > weir.MaxCost {
		return fmt.Errorf("--burst %d must be between 1 and 2^53", c.Burst)
	}
	if c.For != "" {
		if q.Seconds, err = wholeSeconds(c.For); err != nil {
			return fmt.Errorf("--for: %w", err)
		}
	}
	q.Rate, q.Burst = value, c.Burst
	return nil
}

// wholeSeconds reads a duration such as 2h or 30d, rounded up to seconds.
func wholeSeconds(s string) (*int64, error) {
	d, err := rules.ParsePeriod(s)
	if err != nil {
		return nil, err
	}
	n := int64((d + time.Second - 1) / time.Second)
	return &n, nil
}

// formatEntries writes entries as they are typed, for a terminal.
func formatEntries(entries []weir.Entry) string {
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = live.Printable(e.Key + "=" + e.Value)
	}
	return strings.Join(all, " ")
}

// unreached says first that nobody is reached by what was done or asked.
func (st *keyState) unreached() string {
	var b strings.Builder
	for _, w := range st.Warnings {
		b.WriteString("REACHES NO FRONT END: not " + live.Printable(w) + "\n")
	}
	return b.String()
}

// mostNotRefused is how much of what a ban does not refuse is printed unasked.
const mostNotRefused = 2

// formatText writes the answer for a person.
func (st *keyState) formatText(verbose bool) string {
	var b strings.Builder
	if st.Client != nil {
		fmt.Fprintf(&b, "who it is: %s, domain %s\n", formatEntries(st.Client.Entries), live.Printable(st.Client.Domain))
	}
	switch {
	case len(st.Limits) == 0 && len(st.Modes) == 0:
		b.WriteString("no limit applies: weir explain says why\n")
		return b.String()
	case st.Allowed:
		b.WriteString("now: allowed\n")
	default:
		fmt.Fprintf(&b, "now: refused, retry after %s\n", seconds(st.RetryAfter))
	}
	for i := range st.Limits {
		l := &st.Limits[i]
		if l.Role == "deny" && st.isBanned(l.Key) {
			continue // told with its limit
		}
		fmt.Fprintf(&b, "%s %s\n", l.Role, l.Limit)
		fmt.Fprintf(&b, "  remaining    %d\n", l.Remaining)
		if !l.Allowed {
			fmt.Fprintf(&b, "  retry after  %s\n", seconds(l.RetryAfter))
		}
		fmt.Fprintf(&b, "  reset after  %s\n", seconds(l.ResetAfter))
		for j := range st.Overlay {
			if v := &st.Overlay[j]; l.Limit != nil && v.Limit == l.Limit.Name && v.Key == l.Key {
				b.WriteString("  " + overlayLine(v))
			}
		}
	}
	for i := range st.Modes {
		b.WriteString(modeLine(&st.Modes[i]))
	}
	for j := range st.Overlay {
		if v := &st.Overlay[j]; v.Kind == overlay.BanDomain {
			b.WriteString("over the domain: " + overlayLine(v))
		}
	}
	shown := st.NotCovered
	if !verbose {
		shown = shown[:min(len(shown), mostNotRefused)]
	}
	for _, n := range shown {
		b.WriteString("not refused: " + live.Printable(n) + "\n")
	}
	if more := len(st.NotCovered) - len(shown); more > 0 {
		fmt.Fprintf(&b, "not refused: %d more, which -v prints\n", more)
	}
	if st.YAML != "" {
		b.WriteString("in a rules file, to start from:\n" + indented(st.YAML))
	}
	return b.String()
}

func (st *keyState) isBanned(key string) bool {
	return slices.ContainsFunc(st.Overlay, func(v overlay.View) bool {
		return v.Kind == overlay.BanDomain || v.Kind == overlay.Ban && v.Key == key
	})
}
