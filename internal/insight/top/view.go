package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/insight/live"
)

// Styles, as SGR parameters.
const (
	bold, faint, reverse = "1", "2", "7"
	red, yellow          = "31", "33"
	alarm                = "1;37;41"
)

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.Frame())
	v.AltScreen = true
	v.WindowTitle = "weir top " + live.Printable(m.server)
	return v
}

// styleText writes text in a style.
func (m *Model) styleText(sgr, text string) string {
	if m.unstyled || text == "" {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[m"
}

// Text returns a frame of the given width for scripts: without colours, keys and
// end.
func (m *Model) Text(width int) string {
	in := *m
	in.unstyled, in.width, in.height = true, width, 0
	return in.Frame() + "\n"
}

// Frame returns what is to be seen, lines of the terminal's width at most and, if
// its height is not zero, no more than it has.
func (m *Model) Frame() string {
	lines := m.drawHead()
	switch {
	case m.help:
		lines = append(lines, m.keysInWords()...)
	case m.state == nil:
		lines = append(lines, "", "waiting for the server")
	default:
		lines = append(lines, m.drawBody(len(lines))...)
	}
	if m.height > 0 {
		// The last line is for the keys, whatever else there is no room for.
		lines = lines[:min(len(lines), m.height-1)]
		for len(lines) < m.height-1 {
			lines = append(lines, "")
		}
		lines = append(lines, m.drawFoot())
	}
	for i, l := range lines {
		if lines[i] = strings.TrimRight(l, " "); m.unstyled {
			continue // a script wants all of it
		}
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// drawHead tells how the server stands as a whole.
func (m *Model) drawHead() []string {
	title := m.styleText(bold, "weir top") + "  " + live.Printable(m.server)
	if m.state == nil {
		if m.down != nil {
			return []string{title, m.styleText(alarm, " no connection: "+live.Printable(m.down.Error())+" ")}
		}
		return []string{title}
	}
	s := m.state
	left := title + "  node " + live.Printable(s.Node)
	if s.Region != "" {
		left += " in " + live.Printable(s.Region)
	}
	left += "  up " + formatUptime(time.Duration(s.UptimeMS)*time.Millisecond)
	right := s.Time.Local().Format("15:04:05")
	lines := []string{m.joinEnds(left, right)}

	what, perSecond, refused := "requests", s.RequestsPerSecond, s.RefusedRequestsPerSecond
	totals := s.RequestTotals
	countsRequests := len(totals) > 0
	if !countsRequests { // a server of a version that does not count requests, or there were none
		what, perSecond, refused, totals = "decisions", s.DecisionsPerSecond, s.RefusalsPerSecond, s.Totals
	}
	since := fmt.Sprintf("since the start %s, %s refused", formatNumber(decisions(totals)), formatNumber(totals["refused"]))
	rates := "rates follow in a second"
	if s.SpanMS > 0 {
		rates = fmt.Sprintf("%s %s/s  %s refused/s", formatRate(perSecond), what, m.styleText(bold, formatRate(refused)))
		if perSecond > 0 {
			rates += fmt.Sprintf(" (%.1f %%)", 100*refused/perSecond)
		}
		if countsRequests {
			rates += fmt.Sprintf("  %s decisions/s", formatRate(s.DecisionsPerSecond))
		}
	}
	lines = append(lines, m.joinEnds(rates, since))
	if len(m.refusals) > 1 && (m.height == 0 || m.height >= 16) {
		lines = append(lines, m.plotRefusals())
	}
	return append(lines, m.banners()...)
}

// banners tell what is not as it should be.
func (m *Model) banners() (lines []string) {
	s := m.state
	add := func(sgr, format string, args ...any) {
		lines = append(lines, m.styleText(sgr, " "+fmt.Sprintf(format, args...)+" "))
	}
	if m.down != nil {
		add(alarm, "no connection since %s: %s", s.Time.Local().Format("15:04:05"), live.Printable(m.down.Error()))
	}
	switch {
	case !s.StoreUp:
		add(alarm, "STORE DOWN: limits are decided by their on_store_error")
	case s.Degraded:
		add(alarm, "DEGRADED: %s/s decided without the guarantee of their limit", formatRate(float64(s.Counts["degraded"])/m.spanSeconds()))
	}
	for _, text := range s.Alarms {
		add(alarm, "%s", live.Printable(text))
	}
	if !s.QueueUp {
		add(yellow, "the queue takes no events: %s wait", formatNumber(uint64(s.Backlog)))
	}
	if l := s.Loss; l.Dropped+l.Discarded+l.Rollups > 0 {
		text := fmt.Sprintf("records leave out %s decisions", formatNumber(l.Dropped+l.Discarded))
		if l.Rollups > 0 {
			text += fmt.Sprintf(", and %s roll-ups are lost", formatNumber(l.Rollups))
		}
		add(yellow, "%s", text)
	}
	if s.Loss.Failed > 0 {
		add(yellow, "%s requests could not be decided at all", formatNumber(s.Loss.Failed))
	}
	if m.paused {
		add(reverse, "PAUSED at %s", s.Time.Local().Format("15:04:05"))
	}
	return lines
}

// drawBody has the limits, and the clients beneath them; used is how many lines are
// taken.
func (m *Model) drawBody(used int) []string {
	limits := m.shownLimits()
	var keys []key
	for _, k := range m.keys {
		if m.meetsFilter(k.Domain, k.Rule, k.Limit, k.Key) {
			keys = append(keys, k)
		}
	}
	forLimits, forKeys := len(limits), len(keys)
	if m.height > 0 {
		// Two headings, the keys' line, and a line between.
		room := max(m.height-used-4, 2)
		forKeys = min(forKeys, max(room/2, room-forLimits))
		forLimits = min(forLimits, room-forKeys)
	}
	from := min(m.scroll, max(len(limits)-forLimits, 0))
	m.scroll = from
	lines := []string{m.styleText(bold, fmt.Sprintf("%10s %10s %10s %12s  %s", "REFUSED/s", "ALLOWED/s", "OTHER/s", "REFUSED", "LIMIT by "+orderNames[m.order]))}
	for _, l := range limits[from : from+forLimits] {
		lines = append(lines, m.drawLimit(&l))
	}
	switch rest := len(limits) - forLimits + m.state.LeftOut; {
	case len(limits) == 0:
		lines = append(lines, m.styleText(faint, "no limit"+m.thatMatches()))
	case rest > 0 && m.height == 0:
		lines = append(lines, m.styleText(faint, fmt.Sprintf("%s more limits", formatNumber(uint64(rest)))))
	}
	lines = append(lines, "", m.styleText(bold, fmt.Sprintf("%10s %12s  %s", "REFUSED/s", "REFUSED", m.keyTitle(keys))))
	for _, k := range keys[:forKeys] {
		at := nameLimit(&k.LimitRef)
		name := live.Printable(k.Key)
		if room := m.width - 26 - ansi.StringWidth(at); m.unstyled {
			name = ansi.Truncate(name, 200, "…")
		} else if room >= 16 {
			name = ansi.Truncate(name, room, "…")
		} else {
			name = ansi.Truncate(name, max(m.width/3, 8), "…")
		}
		lines = append(lines, m.highlight(k.rate, fmt.Sprintf("%10s %12s", formatRate(k.rate), formatNumber(uint64(k.Refused))))+"  "+name+"  "+m.styleText(faint, at))
	}
	if len(keys) == 0 {
		lines = append(lines, m.styleText(faint, "nobody was refused"+m.thatMatches()))
	}
	return lines
}

// keyTitle is the head of the keys. Hashes name nobody: it says what does.
func (m *Model) keyTitle(keys []key) string {
	if len(keys) > 0 && len(keys[0].Key) == 32 && strings.Trim(keys[0].Key, "0123456789abcdef") == "" {
		return "KEY (weir key inspect KEY names it), and its limit"
	}
	return "KEY and the limit that refuses it"
}

func (m *Model) thatMatches() string {
	if m.filter == "" {
		return ""
	}
	return fmt.Sprintf(" that matches %q", m.filter)
}

func (m *Model) drawLimit(l *live.Limit) string {
	per := func(n uint64) float64 {
		if m.state.SpanMS == 0 {
			return 0
		}
		return float64(n) / m.spanSeconds()
	}
	refused, allowed := l.Counts["refused"], l.Counts["allowed"]
	other := decisions(l.Counts) - refused - allowed
	figures := fmt.Sprintf("%10s %10s %10s %12s", formatRate(per(refused)), formatRate(per(allowed)), formatRate(per(other)), formatNumber(l.Totals["refused"]))
	return m.highlight(per(refused), figures) + "  " + nameLimit(&l.LimitRef)
}

// highlight marks figures of something that is refused at present.
func (m *Model) highlight(refusals float64, figures string) string {
	if refusals > 0 {
		return m.styleText(red, figures)
	}
	return figures
}

// nameLimit names a limit: "api/client_id  100/minute".
func nameLimit(p *event.LimitRef) string {
	text := live.Printable(p.Domain + "/" + p.Rule)
	if p.Domain == "" {
		text = live.Printable(p.Rule)
	}
	return text + "  " + live.Printable(p.Limit)
}

// drawFoot tells the keys, or what is typed.
func (m *Model) drawFoot() string {
	if m.typing {
		return m.styleText(reverse, "filter: "+live.Printable(m.filter)+"_") + "  enter keep, esc leave"
	}
	text := "q quit  p pause  s sort  / filter  ? help"
	if m.filter != "" {
		text += fmt.Sprintf("   only %q (esc: all)", m.filter)
	}
	return m.styleText(faint, text)
}

func (m *Model) keysInWords() []string {
	return []string{
		"",
		"q, ctrl+c   quit",
		"p, space    stand still, go on",
		"s, S        sort limits by " + strings.Join(orderNames[:], ", "),
		"/           show limits and keys that have a text in their names; esc shows all",
		"up, down    scroll the limits",
		"?           this, and back",
		"",
		"The line at the top counts each request once. Decisions are counted under each",
		"limit: a request that meets three limits is three decisions.",
		"OTHER are delayed, soft, borrowed and shadow-refused ones. Keys are hashed",
		"unless the server was started with --events-unhashed.",
	}
}

var bars = []rune("▁▂▃▄▅▆▇█")

// plotRefusals draws the refusals of the last minute.
func (m *Model) plotRefusals() string {
	most := 0.0
	for _, v := range m.refusals {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range m.refusals[max(len(m.refusals)-max(m.width-40, 10), 0):] {
		at := 0
		if most > 0 {
			at = int(v / most * float64(len(bars)-1))
		}
		b.WriteRune(bars[at])
	}
	return "refused/s " + m.styleText(red, b.String()) + fmt.Sprintf("  most %s", formatRate(most))
}

// joinEnds puts two texts at the two ends of a line.
func (m *Model) joinEnds(left, right string) string {
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	if gap < 2 {
		return left
	}
	return left + strings.Repeat(" ", gap) + right
}

// formatRate writes a number a second in at most seven places.
func formatRate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return formatNumber(uint64(v + 0.5))
}

// formatNumber writes a number with its thousands apart, millions and more cut short.
func formatNumber(n uint64) string {
	switch {
	case n >= 10_000_000_000:
		return strconv.FormatUint(n/1_000_000_000, 10) + "G"
	case n >= 10_000_000:
		return strconv.FormatUint(n/1_000_000, 10) + "M"
	}
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// formatUptime writes a duration in its two largest units.
func formatUptime(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
