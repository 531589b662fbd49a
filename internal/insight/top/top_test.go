package top_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/insight/top"
	"github.com/weirlimit/weir/limits"
)

// state is that of a server which has run for so many seconds, with limits that refuse
// what is given and allow ten times as much.
func state(seconds int, refused ...uint64) live.State {
	s := live.State{
		Node: "n1", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(seconds) * time.Second),
		UptimeMS: int64(seconds) * 1000, SpanMS: 1000, QueueUp: true, StoreUp: true,
		Counts: map[string]uint64{}, Totals: map[string]uint64{"allowed": 9_000_000, "refused": 12_345},
	}
	for i, n := range refused {
		p := event.LimitRef{Name: limits.Name{Domain: "api", Rule: fmt.Sprint("rule", i), Limit: fmt.Sprintf("%d/minute", i+1)}}
		s.Limits = append(s.Limits, live.Limit{LimitRef: p, Counts: map[string]uint64{"refused": n, "allowed": 10 * n, "degraded": n}, Totals: map[string]uint64{"refused": 100 - n}})
		s.Top = append(s.Top, event.Heavy{LimitRef: p, Key: fmt.Sprint("client", i), Refused: int64(100*seconds) * int64(n)})
		s.RefusalsPerSecond += float64(n)
		s.DecisionsPerSecond += float64(11 * n)
	}
	return s
}

// frame checks that a frame fits the terminal, and returns it without colours.
func frame(t *testing.T, m *top.Model, width, height int) string {
	t.Helper()
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	lines := strings.Split(m.Frame(), "\n")
	if len(lines) != height {
		t.Errorf("%d lines, want %d", len(lines), height)
	}
	for _, l := range lines {
		if n := ansi.StringWidth(l); n > width {
			t.Errorf("%d wide, want %d: %q", n, width, l)
		}
	}
	return ansi.Strip(strings.Join(lines, "\n"))
}

func press(m *top.Model, keys ...string) tea.Cmd {
	var cmd tea.Cmd
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k}
		switch k {
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "backspace":
			msg = tea.KeyPressMsg{Code: tea.KeyBackspace}
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "ctrl+c":
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		default:
			msg.Code = []rune(k)[0]
		}
		_, cmd = m.Update(msg)
	}
	return cmd
}

func has(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in:\n%s", w, text)
		}
	}
}

func lacks(t *testing.T, text string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(text, w) {
			t.Errorf("%q in:\n%s", w, text)
		}
	}
}

// order checks that words come one after the other.
func order(t *testing.T, text string, words ...string) {
	t.Helper()
	at := 0
	for _, w := range words {
		i := strings.Index(text[at:], w)
		if i < 0 {
			t.Fatalf("no %q after byte %d in:\n%s", w, at, text)
		}
		at += i
	}
}

// All that matters is to be seen on 80 by 24, the limit that refuses most first.
func TestFrame(t *testing.T) {
	m := top.New("http://h:6070")
	has(t, frame(t, m, 80, 24), "waiting for the server", "q quit")
	m.Update(top.StateMsg(state(10, 1, 5, 3)))
	m.Update(top.StateMsg(state(11, 1, 5, 3)))
	f := frame(t, m, 80, 24)
	has(t, f, "http://h:6070", "node n1", "up 11s", "99 decisions/s", "9.0 refused/s (9.1 %)", "9,012,345, 12,345 refused", "REFUSED/s", "q quit")
	order(t, f, "LIMIT", "rule1  2/minute", "rule2  3/minute", "rule0  1/minute", "KEY", "client1", "client2", "client0")
	has(t, f, "       5.0         50          0           95  api/rule1  2/minute")
	has(t, f, "       500        5,500  client1")
}

// The region is told where the server has one, and nothing in it reaches the terminal
// that is no text.
func TestRegion(t *testing.T) {
	m := top.New("http://h")
	m.Update(top.StateMsg(state(10, 1)))
	has(t, frame(t, m, 80, 24), "node n1  up 10s")
	s := state(11, 1)
	s.Region = "eu-\x1b[31mwest"
	m.Update(top.StateMsg(s))
	f := frame(t, m, 100, 24)
	has(t, f, "node n1 in eu-", "west  up 11s")
	if strings.Contains(m.Frame(), "\x1b[31mwest") {
		t.Error("the region's own colour reaches the terminal")
	}
	has(t, m.Text(100), "node n1 in eu-")
	frame(t, m, 40, 24) // fits
}

// A long list leaves room for the keys, and can be scrolled; small terminals show
// what fits.
func TestManyLimits(t *testing.T) {
	m := top.New("s")
	var refused []uint64
	for i := range 60 {
		refused = append(refused, uint64(60-i))
	}
	s := state(10, refused...)
	s.LeftOut = 7
	s.Top = s.Top[:20]
	m.Update(top.StateMsg(s))
	f := frame(t, m, 80, 24)
	has(t, f, "rule0 ", "client0 ", "rule8 ", "client5")
	lacks(t, f, "rule30")
	for range 30 {
		press(m, "down")
	}
	has(t, frame(t, m, 80, 24), "rule30 ")
	for range 100 {
		press(m, "down")
	}
	has(t, frame(t, m, 80, 24), "rule59 ", "client0 ")
	press(m, "g")
	has(t, frame(t, m, 80, 24), "rule0 ")
	for _, size := range [][2]int{{20, 5}, {1, 1}, {200, 100}, {40, 10}} {
		frame(t, m, size[0], size[1])
	}
	has(t, m.Text(100), "rule59 ", "client19", "7 more limits")
	lacks(t, m.Text(100), "\x1b", "q quit", "…")
}

func TestSort(t *testing.T) {
	m := top.New("s")
	s := state(10, 1, 5, 3)
	s.Limits[0].Counts["allowed"] = 1000
	m.Update(top.StateMsg(s))
	press(m, "s")
	order(t, frame(t, m, 80, 24), "by decisions/s", "rule0", "rule1", "rule2")
	press(m, "s")
	order(t, frame(t, m, 80, 24), "by refused since", "rule0", "rule2", "rule1")
	press(m, "s")
	order(t, frame(t, m, 80, 24), "by name", "rule0", "rule1", "rule2")
	press(m, "s")
	order(t, frame(t, m, 80, 24), "by refused/s", "rule1", "rule2", "rule0")
	press(m, "S")
	has(t, frame(t, m, 80, 24), "by name")
}

func TestFilterKeys(t *testing.T) {
	m := top.New("s")
	m.Update(top.StateMsg(state(10, 1, 5, 3)))
	press(m, "/", "R", "u", "l", "e", "q", "backspace", "1")
	f := frame(t, m, 80, 24)
	has(t, f, "filter: Rule1_", "rule1 ", "client1")
	lacks(t, f, "rule0 ", "client0")
	press(m, "enter")
	has(t, frame(t, m, 80, 24), `only "Rule1"`)
	press(m, "q") // now it is a command again
	press(m, "/", "x", "x")
	has(t, frame(t, m, 80, 24), "no limit that matches", "nobody was refused that matches")
	press(m, "esc")
	has(t, frame(t, m, 80, 24), "rule0 ", "client0")
}

// What is not as it should be is said above all else.
func TestBanners(t *testing.T) {
	m := top.New("s")
	s := state(10, 2)
	f := frame(t, m, 80, 24)
	m.Update(top.StateMsg(s))
	lacks(t, f, "DEGRADED", "STORE", "leave out", "PAUSED", "no connection", "queue")
	s.Degraded = true
	s.Counts["degraded"] = 2
	s.Loss = event.Loss{Dropped: 4000, Discarded: 1, Rollups: 2, Failed: 3}
	s.QueueUp, s.Backlog = false, 17
	s.Alarms = []string{"rules of 07:48:00 UTC refused", "decisions since 08:08:17 UTC\x1b[2J are not counted yet"}
	m.Update(top.StateMsg(s))
	has(t, frame(t, m, 80, 24), "DEGRADED: 2.0/s", "records leave out 4,001 decisions", "2 roll-ups are lost", "takes no events: 17 wait", "rules of 07:48:00 UTC refused", `decisions since 08:08:17 UTC\x1b[2J are not`, "3 requests could not be decided")
	s.StoreUp = false
	m.Update(top.StateMsg(s))
	has(t, frame(t, m, 80, 24), "STORE DOWN", "rule0")
	m.Update(top.DownMsg{Err: errors.New("refused\x1b[2J")})
	f = frame(t, m, 80, 24)
	has(t, f, "no connection since", `refused\x1b[2J`, "rule0")
	m.Update(top.StateMsg(state(11, 2)))
	lacks(t, frame(t, m, 80, 24), "no connection", "STORE")
}

// TestHashesAreExplained: over keys that are hashes it says what names them, and not over names.
func TestHashesAreExplained(t *testing.T) {
	m := top.New("http://h:6070")
	s := state(10, 1)
	m.Update(top.StateMsg(s))
	if f := frame(t, m, 80, 24); strings.Contains(f, "key inspect") {
		t.Error(f)
	}
	s.Top[0].Key = strings.Repeat("8cb0e93f", 4)
	m.Update(top.StateMsg(s))
	has(t, frame(t, m, 80, 24), "KEY (weir key inspect KEY names it), and its limit")
}

func TestPause(t *testing.T) {
	m := top.New("s")
	m.Update(top.StateMsg(state(10, 2)))
	press(m, "p")
	m.Update(top.StateMsg(state(70, 3)))
	has(t, frame(t, m, 80, 24), "PAUSED", "up 10s")
	press(m, "p")
	m.Update(top.StateMsg(state(71, 3)))
	f := frame(t, m, 80, 24)
	has(t, f, "up 1m11s")
	lacks(t, f, "PAUSED")
	press(m, "?")
	has(t, frame(t, m, 80, 24), "sort limits by", "q, ctrl+c")
}

// A server that was started anew has no rates that are below nothing, and another
// key's refusals are not taken for new ones where not all were told.
func TestRates(t *testing.T) {
	m := top.New("s")
	m.Update(top.StateMsg(state(100, 2)))
	m.Update(top.StateMsg(state(1, 2)))
	has(t, frame(t, m, 80, 24), "         0          200  client0")
	full := state(10)
	for range live.MaxTop {
		full.Top = append(full.Top, event.Heavy{Key: "other", Refused: 5})
	}
	m = top.New("s")
	m.Update(top.StateMsg(full))
	m.Update(top.StateMsg(state(11, 2)))
	has(t, frame(t, m, 80, 24), "         0        2,200  client0")
	m = top.New("s")
	m.Update(top.StateMsg(state(10)))
	m.Update(top.StateMsg(state(11, 2)))
	has(t, frame(t, m, 80, 24), "     2,200        2,200  client0")
}

// What clients choose does not command the terminal.
func TestPlainKeysAreShownSafely(t *testing.T) {
	m := top.New("s")
	s := state(10, 2)
	s.Top[0].Key, s.Limits[0].Rule, s.Node = "a\x1b]0;owned\x07b", "r\x9b\n2", "\x1b[31mn"
	m.Update(top.StateMsg(s))
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 24})
	lacks(t, strings.ReplaceAll(m.Frame(), "\x1b[", ""), "\x1b", "\x07", "\x9b")
	has(t, ansi.Strip(m.Frame()), `a\x1b]0;owned\x07b`, `r\x9b\x0a2`, `\x1b[31mn`)
}

func TestQuit(t *testing.T) {
	for _, k := range []string{"q", "ctrl+c"} {
		m := top.New("s")
		cmd := press(m, k)
		if cmd == nil {
			t.Fatalf("%s does nothing", k)
		}
		if _, ok := cmd().(tea.QuitMsg); !ok {
			t.Errorf("%s does not quit", k)
		}
	}
	m := top.New("s")
	if press(m, "/", "q") != nil {
		t.Error("a q that is typed quits")
	}
	if press(m, "ctrl+c") == nil {
		t.Error("ctrl+c does not quit while typing")
	}
}
