package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/shed"
)

// Priority is the class of the requests of a route: one of the names of
// [shed.Priorities], or a number from 0, the highest. The zero Priority is not
// given.
type Priority struct{ plusOne int }

// maxPriority bounds the number of a priority.
const maxPriority = 1000

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Priority) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*p = Priority{}
		return nil
	}
	if n, err := strconv.Atoi(string(text)); err == nil {
		if n < 0 || n > maxPriority {
			return fmt.Errorf("priority %d must be between 0 and %d", n, maxPriority)
		}
		*p = Priority{n + 1}
		return nil
	}
	class, err := shed.ParsePriority(string(text))
	if err != nil {
		return err
	}
	*p = Priority{int(class) + 1}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (p Priority) MarshalText() ([]byte, error) {
	switch n := p.plusOne - 1; {
	case n < 0:
		return nil, nil
	case n < len(shed.Priorities()):
		return []byte(shed.Priorities()[n]), nil
	default:
		return strconv.AppendInt(nil, int64(n), 10), nil
	}
}

// numberOr returns p as a number, other if it is not given.
func (p Priority) numberOr(other int) int {
	if p.plusOne == 0 {
		return other
	}
	return p.plusOne - 1
}

// DefaultPriority is that of requests that nobody has given one: not the highest as
// soon as something is shed by it.
func (c *Config) DefaultPriority() int {
	if c.Shed == nil {
		return 0
	}
	return int(shed.Default)
}

// isInShed reports whether a key is in the section shed. Its settings are written as in
// rules files, and need a value: where one is forgotten a limiter would be off.
func isInShed(key string) bool { return strings.HasPrefix(key, "shed.") }

// setShed sets a setting of the section shed from its text.
func setShed(v reflect.Value, text string) (err error) {
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		*p, err = period.Parse(text)
		return period.Cured(err)
	case *bool:
		if *p = text == "true"; !*p && text != "false" {
			return fmt.Errorf("%q: write true or false", text)
		}
		return nil
	case *int64:
		if *p, err = period.Count(text); err == nil && *p < 1 {
			return fmt.Errorf("%d must be at least 1; to have none leave the key out", *p)
		}
		return err
	}
	return setText(v, text)
}

// checkShed reports what makes no sense together in the section shed.
func checkShed(c *shed.Options) error {
	if c == nil {
		return nil
	}
	_, err := shed.New(*c)
	return err
}

// OpenShedder makes the load shedder of a section, nil without one. check says what the
// store cannot keep.
func OpenShedder(c *shed.Options, check func(*weir.Limit) error) (*shed.Shedder, error) {
	if c == nil {
		return nil, nil
	}
	sh, err := shed.New(*c)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, l := range sh.Refs() {
		if l.Rule == shed.InFlightRule {
			continue // it counts on the node
		}
		if err := check(l.Limit); err != nil {
			errs = append(errs, fmt.Errorf("the section shed: %s: %w", l.Rule, err))
		}
	}
	return sh, errors.Join(errs...)
}
