// Package words reads limits in words, "100/minute by ip", and makes the layer of them that
// a set of limits has beside its rules files.
package words

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/internal/spell"
	"github.com/weirlimit/weir/rules"
)

// Words is a limit as it is written on the command line:
//
//	N/PERIOD [by SOURCE [and SOURCE]] [burst N] [using ALGORITHM]
//
// "100/minute by ip", "20/10s by header:X-Shop and path burst 40 using token_bucket".
type Words struct {
	// Text is what was written.
	Text string
	// Count per Period.
	Count  int64
	Period time.Duration
	// By is what requests that are counted together have in common: byIP, byClientID,
	// and sources of package identity; or byAll alone.
	By []string
	// Burst is how many pass at once, for buckets. Zero means Count.
	Burst int64
	// Algorithm counts. Never nil.
	Algorithm weir.Algorithm
}

// What a limit in words counts by, beside the sources of package identity.
const (
	// byIP: one client: one address at the gateway, one clientId at the API.
	byIP = "ip"
	// byClientID: one clientId at the API. The gateway knows none.
	byClientID = "client_id"
	// byAll: everybody.
	byAll = "all"
)

// maxBy is by how many sources a limit in words counts at most.
const maxBy = 4

// countedBy lists what a limit in words can count by; what ends in a colon takes a name
// behind it.
func countedBy() []string {
	all := []string{byIP, byClientID, byAll}
	for _, s := range identity.Sources() {
		if s != "route" && s != "param:" && s != "value:" { // those are of a route
			all = append(all, s)
		}
	}
	return all
}

// maxWords bounds the text of a limit, in bytes.
const maxWords = 256

// wordsForm ends every error about a limit in words.
const wordsForm = `write N/PERIOD [by SOURCE [and SOURCE]] [burst N] [using ALGORITHM], such as "100/minute by ip"`

// Parse reads a limit in words.
func Parse(text string) (*Words, error) {
	if len(text) > maxWords {
		return nil, fmt.Errorf("limit of %d bytes is longer than %d: %s", len(text), maxWords, wordsForm)
	}
	w := &Words{Text: text, By: []string{byIP}, Algorithm: algorithm.SlidingWindow}
	fields := strings.Fields(text)
	fail := func(err error) (*Words, error) {
		return nil, fmt.Errorf("limit %q: %w; %s", text, err, wordsForm)
	}
	if len(fields) == 0 {
		return fail(errors.New("it is empty"))
	}
	// Rules files take these too.
	if len(fields) > 2 && (fields[1] == "per" || fields[1] == "/") {
		fields = append([]string{fields[0] + "/" + fields[2]}, fields[3:]...)
	}
	if err := w.rate(fields[0]); err != nil {
		return fail(err)
	}
	seen := make(map[string]bool)
	for rest := fields[1:]; len(rest) > 0; {
		clause := rest[0]
		if seen[clause] {
			return fail(fmt.Errorf("%q is there twice", clause))
		}
		seen[clause] = true
		if len(rest) == 1 {
			return fail(fmt.Errorf("nothing follows %q", clause))
		}
		values := []string{rest[1]}
		for rest = rest[2:]; clause == "by" && len(rest) > 0 && rest[0] == "and"; rest = rest[2:] {
			if len(rest) == 1 {
				return fail(errors.New(`nothing follows "and"`))
			}
			values = append(values, rest[1])
		}
		if err := w.clause(clause, values); err != nil {
			return fail(err)
		}
	}
	if by := rules.Takers("burst"); w.Burst != 0 && !slices.Contains(by, w.Algorithm.Name()) {
		return fail(fmt.Errorf("%s takes no burst: leave it out, or count using %s", w.Algorithm.Name(), strings.Join(by, " or ")))
	}
	if err := w.Limit().Compile(); err != nil {
		return fail(err)
	}
	return w, nil
}

// rate reads "100/minute".
func (w *Words) rate(s string) error {
	count, every, ok := strings.Cut(s, "/")
	if !ok {
		return meantRate(s, fmt.Errorf("%q has no slash between the number and the period", s))
	}
	n, err := wholeNumber(count)
	if err != nil {
		return meantRate(s, err)
	}
	w.Count = n
	w.Period, err = parsePeriod(every)
	return err
}

// meantRate adds to err the rate that s was meant to be.
func meantRate(s string, err error) error {
	if meant := period.MeantRate(s); meant != "" {
		return fmt.Errorf("%w (did you mean %q?)", err, meant)
	}
	return err
}

// clause reads what follows a word; only "by" has several values.
func (w *Words) clause(clause string, values []string) (err error) {
	switch clause {
	case "by":
		w.By, err = parseBy(values)
	case "burst":
		w.Burst, err = wholeNumber(values[0])
	case "using":
		w.Algorithm, err = algorithmNamed(values[0])
	default:
		return fmt.Errorf("unknown word %q%s", clause, spell.Hint(clause, []string{"by", "burst", "using"}))
	}
	return err
}

// parseBy reads what a limit counts by.
func parseBy(values []string) ([]string, error) {
	if len(values) > maxBy {
		return nil, fmt.Errorf("%d sources are too many to count by: the most is %d", len(values), maxBy)
	}
	var by []string
	for _, v := range values {
		if own := strings.ToLower(v); slices.Contains([]string{byIP, byClientID, byAll}, own) {
			v = own
		} else if err := checkBy(v); err != nil {
			return nil, err
		}
		if slices.Contains(by, v) {
			return nil, fmt.Errorf("%q is there twice", v)
		}
		by = append(by, v)
	}
	if len(by) > 1 && slices.Contains(by, byAll) {
		return nil, errors.New(`"all" counts everybody together: leave it out, or the others`)
	}
	return by, nil
}

// checkBy reports a source that a limit in words cannot count by.
func checkBy(text string) error {
	word, _, hasName := strings.Cut(text, ":")
	if hasName {
		word += ":"
	}
	known := countedBy()
	if !slices.Contains(known, word) && !strings.HasPrefix(text, Address+"/") {
		return fmt.Errorf("cannot count by %q (%s)", text, spell.Cure(word, known))
	}
	if err := identity.CheckSource(text); err != nil {
		return fmt.Errorf("cannot count by %q: %w", text, err)
	}
	return nil
}

func wholeNumber(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > weir.MaxCost {
		if errors.Is(err, strconv.ErrSyntax) {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		return 0, fmt.Errorf("%s must be between 1 and 2^53", s)
	}
	return n, nil
}

func parsePeriod(s string) (time.Duration, error) {
	d, err := period.Parse(s)
	if unit, ok := errors.AsType[*period.UnitError](err); ok {
		return 0, fmt.Errorf("unknown period %q%s", s, spell.Hint(strings.ToLower(unit.Word), period.Units))
	}
	return d, err
}

func algorithmNamed(name string) (weir.Algorithm, error) {
	if a := algorithm.ByName(name); a != nil {
		if a.Traits()&weir.Leases != 0 {
			return nil, fmt.Errorf("%s needs leases, which a limit in words has not: write it in a rules file", name)
		}
		return a, nil
	}
	var names []string
	for _, a := range algorithm.All {
		names = append(names, a.Name())
	}
	return nil, spell.Unknown("algorithm", name, names)
}

// Limit returns the limit that w says, not yet compiled.
func (w *Words) Limit() *weir.Limit {
	return &weir.Limit{Name: w.Text, Algorithm: w.Algorithm, Count: w.Count, Period: w.Period, Burst: w.Burst}
}
