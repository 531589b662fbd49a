package authorize

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spell"
)

// Parameters are how whoever asks wants to be answered. The zero value is how
// most do.
type Parameters struct {
	// Domain is the domain to ask. Zero means Options.Domain.
	Domain string
	// Cost in units, 0 to weir.MaxCost. Zero means that of the route, or 1.
	Cost int64
	// Peek looks at the limits without spending.
	Peek bool
	// Status is the status of refusals, 400 to 599. Zero means 429, or 503 when
	// it is for the service's sake.
	Status int
	// FailOpen lets the request pass when the store gives no decision. It says
	// nothing of limits whose own failure policy decides.
	FailOpen bool
	// MaxDelay is how long whoever asks waits for the answer to a request under
	// a limit that delays. Zero means not at all: it is refused.
	MaxDelay time.Duration
}

// Caps on parameters.
const (
	maxDomain = 255 // bytes
	maxDelay  = time.Minute
)

// ParameterNames lists the words by which a proxy's configuration gives
// [Parameters]:
//
//	deny       status of refusals, 400 to 599
//	domain     domain of the rules to ask
//	fail       open or closed: what becomes of the request when the store gives no
//	           decision; closed if not given
//	cost       units that the request costs; 0 looks without spending
//	max_delay  how long the proxy waits for an answer, such as 2s, at most 1m: a
//	           request under a limit that delays is held back for so long; if not
//	           given it is refused
func ParameterNames() []string { return []string{"deny", "domain", "fail", "cost", "max_delay"} }

// UnknownParameter says that there is no parameter of a name, among those that
// there are.
func UnknownParameter(name string, known []string) error {
	return spell.Unknown("parameter", name, known)
}

// SetParameter sets the parameter of a name. It returns an error, which says what
// is expected, for a name that is not one of ParameterNames, a value that it
// cannot have, and a domain that no rule has.
func (a *Authorizer) SetParameter(p *Parameters, name, value string) error {
	if err := a.setParameter(p, name, value); err != nil {
		return fmt.Errorf("parameter %s: %w", name, err)
	}
	return nil
}

func (a *Authorizer) setParameter(p *Parameters, name, value string) error {
	var err error
	switch name {
	case "deny":
		if p.Status, err = strconv.Atoi(value); err != nil || p.Status < 400 || p.Status > 599 {
			return fmt.Errorf("%q is not a status from 400 to 599", value)
		}
	case "domain":
		if p.Domain = value; value == "" || len(value) > maxDomain {
			return fmt.Errorf("a domain has 1 to %d bytes", maxDomain)
		}
		if a.opt.Has != nil && !a.opt.Has(value) {
			return fmt.Errorf("no rule has the domain %q", value)
		}
	case "fail":
		if p.FailOpen = value == "open"; !p.FailOpen && value != "closed" {
			return fmt.Errorf("%q is neither open nor closed", value)
		}
	case "cost":
		if p.Cost, err = strconv.ParseInt(value, 10, 64); err != nil || p.Cost < 0 || p.Cost > weir.MaxCost {
			return fmt.Errorf("%q is not a number of units from 0 to 2^53", value)
		}
		p.Peek = p.Cost == 0
	case "max_delay":
		if p.MaxDelay, err = time.ParseDuration(value); err != nil || p.MaxDelay <= 0 || p.MaxDelay > maxDelay {
			return fmt.Errorf("%q is not a duration up to %s, such as 2s or 500ms", value, maxDelay)
		}
	default:
		return UnknownParameter(name, ParameterNames())
	}
	return nil
}
