package forwardauth

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spell"
)

// parameters are how a proxy wants to be answered. The zero value is how most
// do.
type parameters struct {
	// deny is the status of refusals, zero for that of the limit.
	deny int
	// domain to ask, empty for the general one.
	domain string
	// failOpen: when the store gives no decision the request is let through.
	failOpen bool
	// cost of the request, zero for that of its route; peek: nothing.
	cost int64
	peek bool
	// maxDelay is how long the proxy waits for the answer.
	maxDelay time.Duration
	// from is the family of header fields that tell of the request, nil for
	// whichever are there.
	from *family
}

// Caps on parameters.
const (
	maxParameters = 1024 // bytes of all
	maxDomain     = 255  // bytes
	maxDelay      = time.Minute
)

// Parameters lists the names of the parameters that a proxy's configuration can
// give:
//
//	deny       status of refusals, 400 to 599; 403 for an nginx that passes no other
//	domain     domain of the rules to ask
//	fail       open or closed: what becomes of the request when the store gives no
//	           decision; closed, 503, if not given
//	cost       units that the request costs; 0 looks without spending
//	max_delay  how long the proxy waits for an answer, such as 2s, at most 1m: a
//	           request under a limit that delays is held back for so long. If not
//	           given it is refused
//	from       forwarded or original: the header fields that this proxy sets,
//	           X-Forwarded-* or X-Original-*. If not given, those that are there,
//	           and 400 where they differ
func Parameters() []string {
	return []string{"deny", "domain", "fail", "cost", "max_delay", "from"}
}

// parse reads parameters as they stand behind the colon, joined by &, escaped as
// in a query.
func parse(text string) (p parameters, err error) {
	if text == "" {
		return p, nil
	}
	if len(text) > maxParameters {
		return p, fmt.Errorf("the parameters have %d bytes, at most %d are allowed", len(text), maxParameters)
	}
	seen := 0
	for rest, more := text, true; more; {
		var pair string
		pair, rest, more = strings.Cut(rest, "&")
		name, value, _ := strings.Cut(pair, "=")
		at := index(name)
		if at < 0 {
			return p, unknown(name)
		}
		if seen&(1<<at) != 0 {
			return p, fmt.Errorf("parameter %s is given twice", name)
		}
		seen |= 1 << at
		if strings.ContainsAny(value, "%+") {
			if value, err = url.QueryUnescape(value); err != nil {
				return p, fmt.Errorf("parameter %s has a broken escape", name)
			}
		}
		if err := p.set(name, value); err != nil {
			return p, fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	return p, nil
}

func index(name string) int {
	for i, known := range Parameters() {
		if known == name {
			return i
		}
	}
	return -1
}

func unknown(name string) error {
	if meant := spell.Nearest(name, Parameters()); meant != "" {
		return fmt.Errorf("unknown parameter %q (did you mean %q?)", name, meant)
	}
	return fmt.Errorf("unknown parameter %q: known are %s", name, strings.Join(Parameters(), ", "))
}

func (p *parameters) set(name, value string) error {
	var err error
	switch name {
	case "deny":
		if p.deny, err = strconv.Atoi(value); err != nil || p.deny < 400 || p.deny > 599 {
			return fmt.Errorf("%q is not a status from 400 to 599", value)
		}
	case "domain":
		if p.domain = value; value == "" || len(value) > maxDomain {
			return fmt.Errorf("a domain has 1 to %d bytes", maxDomain)
		}
	case "fail":
		if p.failOpen = value == "open"; !p.failOpen && value != "closed" {
			return fmt.Errorf("%q is neither open nor closed", value)
		}
	case "cost":
		if p.cost, err = strconv.ParseInt(value, 10, 64); err != nil || p.cost < 0 || p.cost > weir.MaxCost {
			return fmt.Errorf("%q is not a number of units from 0 to 2^53", value)
		}
		p.peek = p.cost == 0
	case "max_delay":
		if p.maxDelay, err = time.ParseDuration(value); err != nil || p.maxDelay <= 0 || p.maxDelay > maxDelay {
			return fmt.Errorf("%q is not a duration up to %s, such as 2s or 500ms", value, maxDelay)
		}
	case "from":
		if p.from = familyNamed(value); p.from == nil {
			return errors.New("use forwarded for X-Forwarded-*, original for X-Original-*")
		}
	}
	return nil
}
