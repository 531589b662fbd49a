package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/limits"
)

// StateMsg brings how the server stands.
type StateMsg live.State

// DownMsg says why there is no stream; it is tried again.
type DownMsg struct{ Err error }

// order is by what limits are sorted.
type order int

const (
	byRefusals order = iota
	byDecisions
	byTotal
	byName
	orders
)

var orderNames = [orders]string{"refused/s", "decisions/s", "refused since the start", "name"}

// maxHistory is how many states the plot shows.
const maxHistory = 60

// maxFilter bounds what is typed, in bytes.
const maxFilter = 100

// Model is what is seen of one server. Make it with New.
type Model struct {
	server        string
	width, height int
	// unstyled leaves colours out.
	unstyled bool

	state *live.State
	keys  []key
	// refusals are those per second of the last states.
	refusals []float64
	down     error

	order  order
	filter string
	typing bool
	paused bool
	help   bool
	scroll int
}

// key is a client and how often it is refused at present.
type key struct {
	event.Heavy
	rate float64
}

var _ tea.Model = (*Model)(nil)

// New returns a model of the server of the given name, for a terminal of 80 by 24
// until it says that it is another.
func New(server string) *Model { return &Model{server: server, width: 80, height: 24} }

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case StateMsg:
		if m.down = nil; !m.paused {
			m.takeState(live.State(msg))
		}
	case DownMsg:
		m.down = msg.Err
	case tea.KeyPressMsg:
		return m, m.handleKey(msg)
	}
	return m, nil
}

// takeState takes over a state.
func (m *Model) takeState(s live.State) {
	type who struct {
		limit limits.Name
		key   string
	}
	was := make(map[who]int64)
	// Whoever was not told of was refused never, unless there was no room for all.
	whole := false
	span := 0.0
	if old := m.state; old != nil && s.SpanMS > 0 && old.Node == s.Node && s.UptimeMS > old.UptimeMS {
		span, whole = s.Time.Sub(old.Time).Seconds(), len(old.Top) < live.MaxTop
		for _, h := range old.Top {
			was[who{h.Name, h.Key}] = h.Refused
		}
	}
	m.keys = m.keys[:0]
	for _, h := range s.Top {
		k := key{Heavy: h}
		if before, listed := was[who{h.Name, h.Key}]; (listed || whole) && span > 0 {
			k.rate = max(float64(h.Refused-before)/span, 0)
		}
		m.keys = append(m.keys, k)
	}
	slices.SortStableFunc(m.keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(b.Refused, a.Refused))
	})
	if s.SpanMS > 0 {
		refused := s.RefusedRequestsPerSecond
		if len(s.RequestTotals) == 0 { // it does not count requests, or there were none
			refused = s.RefusalsPerSecond
		}
		m.refusals = append(m.refusals, refused)
		m.refusals = m.refusals[max(len(m.refusals)-maxHistory, 0):]
	}
	m.state = &s
}

// handleKey does what a key asks for.
func (m *Model) handleKey(k tea.KeyPressMsg) tea.Cmd {
	word := k.String()
	if word == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.editFilter(k)
		return nil
	}
	switch word {
	case "q":
		return tea.Quit
	case "esc":
		m.filter, m.help, m.scroll = "", false, 0
	case "?", "h":
		m.help = !m.help
	case "p", "space":
		m.paused = !m.paused
	case "s":
		m.order = (m.order + 1) % orders
	case "S":
		m.order = (m.order + orders - 1) % orders
	case "/":
		m.typing, m.help = true, false
	case "down", "j":
		m.scroll++
	case "up", "k":
		m.scroll = max(m.scroll-1, 0)
	case "home", "g":
		m.scroll = 0
	}
	return nil
}

// editFilter changes the filter.
func (m *Model) editFilter(k tea.KeyPressMsg) {
	m.scroll = 0
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case "ctrl+u":
		m.filter = ""
	default:
		if len(m.filter)+len(k.Text) <= maxFilter {
			m.filter += k.Text
		}
	}
}

// meetsFilter reports whether the filter lets something through that has these words.
func (m *Model) meetsFilter(words ...string) bool {
	return strings.Contains(strings.ToLower(strings.Join(words, " ")), strings.ToLower(m.filter))
}

// shownLimits returns those that are meant, in their order.
func (m *Model) shownLimits() []live.Limit {
	var out []live.Limit
	for _, l := range m.state.Limits {
		if m.meetsFilter(l.Domain, l.Rule, l.LimitRef.Limit) {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b live.Limit) int {
		refused := cmp.Compare(b.Counts["refused"], a.Counts["refused"])
		met := cmp.Compare(decisions(b.Counts), decisions(a.Counts))
		total := cmp.Compare(b.Totals["refused"], a.Totals["refused"])
		by := [orders]int{byRefusals: cmp.Or(refused, met, total), byDecisions: met, byTotal: total} // by name where zero
		return cmp.Or(by[m.order], cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.LimitRef.Limit, b.LimitRef.Limit))
	})
	return out
}

// spanSeconds is the time that counts are of, in seconds.
func (m *Model) spanSeconds() float64 {
	return (time.Duration(m.state.SpanMS) * time.Millisecond).Seconds()
}

// decisions returns how many there are in counts: what was estimated or degraded is
// counted beside its outcome.
func decisions(counts map[string]uint64) (n uint64) {
	for outcome, c := range counts {
		if outcome != "estimated" && outcome != "degraded" {
			n += c
		}
	}
	return n
}
