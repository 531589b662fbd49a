// Package history replays readable histories of decisions: what was asked of a
// limit, when, and what it answered. One file is replayed through Step and
// through every store; those in the folder "store" through stores alone.
//
// A history is lines:
//
//	# Ten a second, five at once.
//	limit token_bucket 10 per 1s burst 5
//	0s     take 5 as first -> allow left 0
//	0s     take 1          -> deny left 0 retry 100ms
//	100ms  refund 2 of first -> allow left 3
//
// "limit" begins the rules of what follows; a second one changes the rule, as a
// reload would, and keeps the counters. "start" sets the instant that times
// count from (2026-01-05T00:00:00Z, a Monday, unless told); a time can also be
// an instant of its own. "key" changes to another key. A verb is take, peek,
// force or refund; "as" names a spend, or a lease of a concurrency limit, and
// "of" says which spend to refund. Of the answer, "retry" is stated on every
// refusal and "delay" when there is one; "reset" only where the line asks for
// it. A limit that takes nothing back answers "no refund".
package history

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // calendars replay alike on every machine

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// MaxSize is the largest history that is read, in bytes.
const MaxSize = 1 << 20

// A History is a parsed file.
type History struct {
	Name  string
	lines []line
}

// line is one line as written, with the decision that it asks for, if any.
type line struct {
	text string
	step *step
}

// step is one decision.
type step struct {
	at      int64 // microseconds since the Unix epoch
	key     string
	limit   *weir.Limit
	verb    weir.Verb
	cost    int64
	as, of  string
	ask     string // the line up to the arrow
	want    string
	comment string // from the hash sign
	reset   bool   // the answer states the reset
}

// parser holds what earlier lines set.
type parser struct {
	scope string
	start int64
	key   string
	limit *weir.Limit
	named map[string]bool
}

// Parse reads a history. Its limits are compiled, in a scope of their own.
func Parse(name string, r io.Reader) (*History, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%s: longer than %d bytes: split it", name, MaxSize)
	}
	h := &History{Name: name}
	p := parser{scope: name, key: "key", named: map[string]bool{},
		start: time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).UnixMicro()}
	var errs []error
	for i, text := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		s, err := p.line(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, i+1, err))
		}
		h.lines = append(h.lines, line{text, s})
	}
	return h, errors.Join(errs...)
}

func (p *parser) line(text string) (*step, error) {
	code, comment := text, ""
	if i := strings.IndexByte(text, '#'); i >= 0 {
		code, comment = text[:i], text[i:]
	}
	fields := strings.Fields(code)
	if len(fields) == 0 {
		return nil, nil
	}
	args := fields[1:]
	switch fields[0] {
	case "limit":
		var err error
		p.limit, err = parseLimit(args)
		if err != nil {
			return nil, err
		}
		p.limit.Scope = p.scope
		return nil, p.limit.Compile()
	case "start":
		if len(args) != 1 {
			return nil, errors.New("start needs one instant, such as 2026-03-29T00:00:00Z")
		}
		t, err := time.Parse(time.RFC3339, args[0])
		if err != nil {
			return nil, fmt.Errorf("start: %w", err)
		}
		p.start = t.UnixMicro()
		return nil, nil
	case "key":
		if len(args) != 1 {
			return nil, errors.New("key needs one name")
		}
		p.key = args[0]
		return nil, nil
	}
	if p.limit == nil {
		return nil, errors.New("a decision before the first limit")
	}
	ask, want, found := strings.Cut(code, "->")
	if !found {
		return nil, errors.New("no answer: write -> and run the test with -update to fill it in")
	}
	s := &step{key: p.key, limit: p.limit, ask: ask, comment: comment}
	s.want = strings.Join(strings.Fields(want), " ")
	s.reset = strings.Contains(s.want, "reset")
	return s, p.ask(s, strings.Fields(ask))
}

// ask parses TIME VERB COST [as NAME] [of NAME].
func (p *parser) ask(s *step, f []string) error {
	if len(f) < 3 || len(f)%2 == 0 {
		return errors.New("a decision is: TIME take|peek|force|refund COST [as NAME] [of NAME] -> ANSWER")
	}
	var err error
	if s.at, err = p.instant(f[0]); err != nil {
		return err
	}
	switch f[1] {
	case "take":
		s.verb = weir.Spend
	case "peek":
		s.verb = weir.Peek
	case "force":
		s.verb = weir.Force
	case "refund":
		s.verb = weir.Refund
	default:
		return fmt.Errorf("unknown verb %q: use take, peek, force or refund", f[1])
	}
	if s.cost, err = parseCount(f[2]); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	for i := 3; i < len(f); i += 2 {
		switch name := f[i+1]; f[i] {
		case "as":
			s.as = name
			p.named[name] = true
		case "of":
			if s.of = name; !p.named[name] {
				return fmt.Errorf("no spend was named %q", name)
			}
		default:
			return fmt.Errorf("unknown word %q: use as or of", f[i])
		}
	}
	return nil
}

// instant parses a time, relative to the start unless it is one of its own.
func (p *parser) instant(s string) (int64, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t.UnixMicro(), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("time %q: write a duration since the start, such as 1m30s, or an instant, such as 2026-03-29T00:00:00Z", s)
	}
	return p.start + d.Microseconds(), nil
}

// parseLimit parses ALGORITHM COUNT per PERIOD [OPTION VALUE]...
func parseLimit(f []string) (*weir.Limit, error) {
	if len(f) < 4 || f[2] != "per" || len(f)%2 != 0 {
		return nil, errors.New("a limit is: limit ALGORITHM COUNT per PERIOD, then options, each with its value")
	}
	l := &weir.Limit{Algorithm: algorithm.ByName(f[0])}
	if l.Algorithm == nil {
		return nil, fmt.Errorf("unknown algorithm %q", f[0])
	}
	var err error
	if l.Count, err = parseCount(f[1]); err != nil {
		return nil, err
	}
	if l.Period, err = time.ParseDuration(f[3]); err != nil {
		return nil, err
	}
	var errs []error
	for i := 4; i < len(f); i += 2 {
		errs = append(errs, parseOption(l, f[i], f[i+1]))
	}
	return l, errors.Join(errs...)
}

// The words of options whose values are words.
var (
	anchors   = map[string]params.Anchor{"epoch": params.AnchorEpoch, "first_request": params.AnchorFirst}
	calendars = map[string]params.Calendar{"day": params.CalendarDay, "week": params.CalendarWeek,
		"month": params.CalendarMonth, "year": params.CalendarYear}
	forms = map[string]params.Form{"strict": params.Strict, "weighted": params.Weighted, "lenient": params.Lenient}
)

func parseOption(l *weir.Limit, name, value string) (err error) {
	number := func() (n int64) { n, err = parseCount(value); return n }
	duration := func() (d time.Duration) { d, err = time.ParseDuration(value); return d }
	switch name {
	case "burst":
		l.Burst = number()
	case "free":
		l.Free = number()
	case "max_log":
		l.MaxLog = number()
	case "expect":
		l.Sketch.Expect = number()
	case "width":
		l.Sketch.Width = int(min(number(), math.MaxInt32))
	case "depth":
		l.Sketch.Depth = int(min(number(), math.MaxInt32))
	case "bloom_bits":
		l.Sketch.BloomBits = number()
	case "bloom_hashes":
		l.Sketch.BloomHashes = int(min(number(), math.MaxInt32))
	case "generations":
		l.Sketch.Generations = int(min(number(), math.MaxInt32))
	case "precision":
		l.Precision = int(min(number(), math.MaxInt32))
	case "phase":
		l.Phase = duration()
	case "max_delay":
		l.MaxDelay = duration()
	case "anchor":
		l.Anchor, err = word(anchors, value)
	case "calendar":
		l.Anchor = params.AnchorCalendar
		l.Calendar, err = word(calendars, value)
	case "form":
		l.Form, err = word(forms, value)
	case "in":
		l.Location, err = time.LoadLocation(value)
	default:
		err = errors.New("no such option")
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, value, err)
	}
	return nil
}

func word[T any](words map[string]T, s string) (T, error) {
	w, ok := words[s]
	if !ok {
		return w, errors.New("no such value")
	}
	return w, nil
}

func parseCount(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > weir.MaxCost {
		return 0, fmt.Errorf("%q is not a number of units, 0 to 2^53", s)
	}
	return n, nil
}
