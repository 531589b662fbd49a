package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/rules"
)

type promoteCmd struct {
	Rule string `arg:"" name:"domain/rule" help:"Domain and words of the rule, such as api/client_id, or the name of a limit: api/per_minute."`

	To     string        `name:"to" env:"-" required:"" placeholder:"MODE" help:"shadow, a percentage of keys such as 10%, off, or none: as the rules file says."`
	Limit  string        `name:"limit" env:"-" placeholder:"NAME" help:"Which of the rule's limits; all of them when left out."`
	For    string        `name:"for" env:"-" placeholder:"DURATION" help:"How long the mode holds, such as 1h; until it is taken back when left out."`
	Reason string        `name:"reason" env:"-" placeholder:"TEXT" help:"Why, for whoever looks after this later."`
	Guard  string        `name:"guard" env:"-" placeholder:"N%" help:"Go back to the earlier mode when more than this share of the decisions is refused."`
	Watch  time.Duration `name:"watch" env:"-" default:"5m" placeholder:"DURATION" help:"How long --guard watches."`
	Least  uint64        `name:"least" env:"-" default:"100" placeholder:"N" help:"Decisions that --guard needs to judge by."`
	Domain string        `name:"domain" env:"-" placeholder:"NAME" help:"Domain of the rule, if its name has a slash; what is given is then the rule alone."`

	operatorFlags
}

// modeQuestion is the body of POST /v1/admin/mode.
type modeQuestion struct {
	overlay.Subject
	Mode    string `json:"mode"`
	Percent int64  `json:"percent,omitempty"`
	Seconds int64  `json:"seconds,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// modesState is its answer, and that of GET /v1/admin/modes.
type modesState struct {
	Limits []overlay.LimitMode `json:"limits"`
	YAML   string              `json:"yaml"`
}

// listOfModes is what the answers of both paths are, in words.
const listOfModes = "a list of modes"

// Run changes the mode, and watches what comes of it.
func (c *promoteCmd) Run(s streams) error {
	q, err := c.question()
	if err != nil {
		return err
	}
	guard, err := c.parseGuard()
	if err != nil {
		return err
	}
	before, err := c.readModes(q)
	if err != nil && q.Mode != "none" { // of a rule that the file does not have any more
		return err
	}
	var after modesState
	data, err := c.callServer(http.MethodPost, "/v1/admin/mode", q, &after, listOfModes)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.writeAnswer(data, c.JSON, promoted(before, &after)); err != nil || guard < 0 {
		return err
	}
	w := watch{promoteCmd: c, out: s.out, before: before, after: &after, guard: guard, began: began}
	return w.watchRefusals()
}

// question is what to ask for.
func (c *promoteCmd) question() (modeQuestion, error) {
	q := modeQuestion{Subject: overlay.Subject{Domain: c.Domain, Rule: c.Rule, Limit: c.Limit}, Reason: c.Reason}
	if c.Domain == "" {
		var ok bool
		if q.Domain, q.Rule, ok = strings.Cut(c.Rule, "/"); !ok || q.Domain == "" || q.Rule == "" {
			return q, fmt.Errorf("%q does not name a rule: write DOMAIN/RULE, such as api/client_id", c.Rule)
		}
	}
	switch c.To {
	case "shadow", "off", "none":
		q.Mode = c.To
	case "enforce":
		q.Mode, q.Percent = c.To, 100
	default:
		n, err := percentage(c.To)
		if err != nil || n != float64(int64(n)) || n < 1 {
			return q, fmt.Errorf("--to %q is none of shadow, off, none and a whole percentage from 1%% to 100%%", c.To)
		}
		q.Mode, q.Percent = "enforce", int64(n)
	}
	if c.For != "" {
		n, err := wholeSeconds(c.For)
		if err != nil {
			return q, fmt.Errorf("--for: %w", err)
		}
		q.Seconds = *n
	}
	return q, nil
}

// parseGuard returns the share that is guarded, negative for none.
func (c *promoteCmd) parseGuard() (float64, error) {
	if c.Guard == "" {
		return -1, nil
	}
	n, err := percentage(c.Guard)
	if err != nil || c.Watch <= 0 {
		return 0, fmt.Errorf("--guard %q --watch %s: write a percentage such as 2%% and a time such as 5m", c.Guard, c.Watch)
	}
	return n, nil
}

// percentage reads 10% or 0.5%.
func percentage(s string) (float64, error) {
	text, ok := strings.CutSuffix(s, "%")
	n, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(n >= 0 && n <= 100) {
		return 0, fmt.Errorf("%q is not a percentage", s)
	}
	return n, nil
}

// readModes asks how the limits stand.
func (c *promoteCmd) readModes(q modeQuestion) (*modesState, error) {
	in := url.Values{"domain": {q.Domain}, "rule": {q.Rule}}
	if q.Limit != "" {
		in.Set("limit", q.Limit)
	}
	st := new(modesState)
	if _, err := c.callServer(http.MethodGet, "/v1/admin/modes?"+in.Encode(), nil, st, listOfModes); err != nil {
		return nil, err
	}
	return st, nil
}

// promoted writes the change for a person.
func promoted(before, after *modesState) string {
	if len(after.Limits) == 0 {
		return "taken back; the rules have no such limit\n"
	}
	var b strings.Builder
	for i := range after.Limits {
		l := &after.Limits[i]
		was := "unknown"
		if m := before.findLimit(l); m != nil {
			was = m.String()
		}
		fmt.Fprintf(&b, "%s/%s, limit %s: %s -> %s", l.Domain, l.Rule, l.Limit, was, l.String())
		if l.Changed != nil && l.Changed.Until != nil {
			fmt.Fprintf(&b, " until %s", l.Changed.Until.Format(time.RFC3339))
		}
		b.WriteByte('\n')
	}
	if after.YAML != "" {
		b.WriteString("in a rules file, to start from:\n" + indented(after.YAML))
	}
	return b.String()
}

// subjectOf returns how to name the limit of m.
func subjectOf(m *overlay.LimitMode) overlay.Subject {
	return overlay.Subject{Domain: m.Domain, Rule: m.Rule, Limit: m.Limit}
}

// findLimit returns how the limit of m's words stands.
func (st *modesState) findLimit(m *overlay.LimitMode) *overlay.LimitMode {
	if st == nil {
		return nil
	}
	for i := range st.Limits {
		if l := &st.Limits[i]; l.Name == m.Name {
			return l
		}
	}
	return nil
}

// watch looks after limits that were promoted.
type watch struct {
	*promoteCmd
	out           io.Writer
	before, after *modesState
	guard         float64
	began         time.Time
}

// decided sums the decisions of a count: each is one of these.
func decided(counts map[string]uint64) (all uint64) {
	for _, o := range []string{"allowed", "refused", "soft", "borrowed", "delayed", "shadow_refused"} {
		all += counts[o]
	}
	return all
}

// watchRefusals watches until the time is over or a limit refuses too much.
func (w *watch) watchRefusals() error {
	fmt.Fprintf(w.out, "watching for %s: more than %s refused goes back; end this command, and the mode stays\n",
		rules.FormatPeriod(w.Watch), w.Guard)
	every := min(max(w.Watch/100, 100*time.Millisecond), 2*time.Second)
	var failed error
	summary := ""
	for over := false; !over; {
		left := w.Watch - time.Since(w.began)
		over = left <= every
		time.Sleep(max(0, min(left, every)))
		summary, failed = "", nil
		for i := range w.after.Limits {
			at := &w.after.Limits[i]
			now, err := w.lookAtLimit(at)
			if err != nil {
				if errors.Is(err, errMeanwhile) {
					return err
				}
				failed = err
				continue
			}
			refused, all := now.Counts["refused"]-at.Counts["refused"], decided(now.Counts)-decided(at.Counts)
			share := 100 * float64(refused) / float64(max(all, 1))
			text := fmt.Sprintf("limit %s: %.3g%% of %d decisions were refused in %s", at.Limit, share, all, time.Since(w.began).Round(time.Second))
			if all >= w.Least && share > w.guard {
				return w.restoreModes(text + ", more than " + w.Guard)
			}
			if all < w.Least {
				text += fmt.Sprintf("; fewer than %d, which is too few to judge by", w.Least)
			}
			summary += text + "\n"
		}
	}
	if failed != nil {
		return fmt.Errorf("the mode stays, and was not watched to the end: %w", failed)
	}
	_, err := io.WriteString(w.out, summary+"the mode stays\n")
	return err
}

// errMeanwhile: somebody else changed the mode.
var errMeanwhile = errors.New("changed meanwhile")

// lookAtLimit returns how the limit stands now. Counts begin anew with a server that
// begins anew.
func (w *watch) lookAtLimit(at *overlay.LimitMode) (*overlay.LimitMode, error) {
	st, err := w.readModes(modeQuestion{Subject: subjectOf(at)})
	if err != nil {
		return nil, err
	}
	now := st.findLimit(at)
	switch {
	case now == nil:
		return nil, fmt.Errorf("%w: the rules have no limit %s any more", errMeanwhile, at.Limit)
	case (now.Changed == nil) != (at.Changed == nil) || now.Changed != nil && !now.Changed.Made.Equal(at.Changed.Made):
		return nil, fmt.Errorf("the mode of limit %s was %w, it is %s: it is left as it is", at.Limit, errMeanwhile, now.String())
	}
	if decided(now.Counts) < decided(at.Counts) || now.Counts["refused"] < at.Counts["refused"] {
		clear(at.Counts)
	}
	return now, nil
}

// restoreModes goes back to what was before, and says why.
func (w *watch) restoreModes(why string) error {
	var errs []error
	for i := range w.after.Limits {
		at := &w.after.Limits[i]
		q := modeQuestion{Subject: subjectOf(at), Mode: "none", Reason: "guard of weir promote: " + why}
		was := w.before.findLimit(at)
		if was != nil && was.Changed != nil {
			if left, ok := w.secondsLeft(was.Changed, at.Changed); ok {
				q.Mode, q.Seconds = string(was.Mode), left
				if was.Mode == overlay.Enforced {
					q.Percent = was.Percent
				}
			}
		}
		if _, err := w.callServer(http.MethodPost, "/v1/admin/mode", q, new(modesState), listOfModes); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s; and going back failed: %w", why, err)
	}
	if _, err := fmt.Fprintf(w.out, "%s: gone back\n%s", why, promoted(w.after, w.before)); err != nil {
		return err
	}
	return errNo
}

// secondsLeft returns for how many seconds an earlier mode still holds, 0 for one without
// an end; false when it would have ended by now.
func (w *watch) secondsLeft(was, made *overlay.ModeView) (int64, bool) {
	if was.Until == nil {
		return 0, true
	}
	if made == nil {
		return 0, false
	}
	left := was.Until.Sub(made.Made) - time.Since(w.began)
	return int64((left + time.Second - 1) / time.Second), left > 0
}
