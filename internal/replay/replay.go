package replay

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/limits"
)

// Options configures a Replay.
type Options struct {
	// Rules are tried. Required.
	Rules *Tried
	// Against are those that they are compared with. Nil means none.
	Against *Tried
	// MaxBytes bounds the state of each set of rules, as in memory.Options. Zero
	// means what it means there.
	MaxBytes int64
}

// Tried is what can be tried: rules that are asked about all that lines tell, see [TryRules],
// or a configuration, whose routes say what the limits are asked about a request.
type Tried struct {
	// Files are where it stands, Domain is the one that its requests belong to.
	Files  []string
	Domain string
	// Set is what decides.
	Set *limits.Set
	// Ask fills the empty request with what the limits are asked about a line. It returns
	// false for a line that none is asked about.
	Ask func(r *weir.Request, l *accesslog.Line) bool
	// Untold are the lists of keys that rules are matched by and lines do not tell.
	Untold [][]string
}

// Replay decides the requests of logs by one set of rules, or by two side by side.
// Not safe for concurrent use.
type Replay struct {
	trial, against *trial

	// sum is what is counted of lines and requests.
	sum         Report
	first, last int64 // in microseconds
	// only is what the rules that are tried refuse alone, and what those refuse alone
	// that they are compared with.
	only [2]difference
}

// difference is requests that one set of rules refuses and another does not.
type difference struct {
	requests int64
	who      distinct
	most     *sketch.SpaceSaving[string]
}

// New returns a replay that has read nothing yet. The caller closes it.
func New(opt Options) (*Replay, error) {
	r := &Replay{}
	var err error
	if r.trial, err = newTrial(opt.Rules, opt.MaxBytes); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if opt.Against == nil {
		return r, nil
	}
	if r.against, err = newTrial(opt.Against, opt.MaxBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("replay: against: %w", err), r.Close())
	}
	for i := range r.only {
		if r.only[i].most, err = sketch.NewSpaceSaving[string](followed); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// Close frees the state of all keys.
func (r *Replay) Close() error {
	err := r.trial.close()
	if r.against != nil {
		err = errors.Join(err, r.against.close())
	}
	return err
}

// Read decides every request of a log. Logs are read one after the other, the
// oldest first: time that goes back stands still instead.
func (r *Replay) Read(log *accesslog.Reader) error {
	defer func() {
		all, bad := log.Lines()
		r.sum.Lines += all
		r.sum.Bad += bad
		r.sum.Faults = append(r.sum.Faults, log.Faults()...)
	}()
	var l accesslog.Line
	for {
		switch err := log.NextLine(&l); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := r.decideLine(&l); err != nil {
			n, _ := log.Lines()
			return fmt.Errorf("replay: line %d: %w", n, err)
		}
	}
}

func (r *Replay) decideLine(l *accesslog.Line) error {
	r.sum.Requests++
	if r.first == 0 {
		r.first = l.Time
	}
	if l.Time < r.last-time.Second.Microseconds() {
		r.sum.Backwards++
	}
	r.last = max(r.last, l.Time)
	client := hashOf(l.Address)
	refused, err := r.trial.decideLine(l, client)
	if err != nil || r.against == nil {
		return err
	}
	before, err := r.against.decideLine(l, client)
	if err != nil || refused == before {
		return err
	}
	alone := &r.only[0]
	if before {
		alone = &r.only[1]
	}
	alone.requests++
	alone.who.addHash(client)
	alone.most.AddUnits(strings.Clone(l.Address), 1)
	return nil
}
