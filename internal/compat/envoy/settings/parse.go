package settings

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// maxValueBytes bounds one variable; Linux itself stops at 128 KiB.
const maxValueBytes = 1 << 17

// Lookup finds an environment variable, as os.LookupEnv does. One that is there
// and empty is not an unset one: for anything but text, lists and maps it is an
// error.
type Lookup func(name string) (value string, ok bool)

// Parse reads every variable. A boolean is what strconv.ParseBool takes, a
// duration what time.ParseDuration takes, an integer may have a base prefix and
// underscores, a list is split at commas and a map at commas and colons; spaces
// around items belong to them. The error names every variable that is wrong.
func Parse(lookup Lookup) (*Settings, error) {
	s := &Settings{set: map[string]bool{}}
	var wrong []error
	for f, v := range s.fields() {
		value, ok := lookup(f.Name)
		if ok && value == "" && f.emptyUnset {
			ok = false
		}
		if ok {
			s.set[f.Name] = true
		} else if value = f.Default; value == "" {
			continue
		}
		if err := assign(v, value); err != nil {
			wrong = append(wrong, fmt.Errorf("%s=%q: %w", f.Name, clipValue(value), err))
		}
	}
	if wrong != nil {
		return nil, errors.Join(wrong...)
	}
	return s, nil
}

func clipValue(value string) string {
	if len(value) > 64 {
		return value[:64] + "..."
	}
	return value
}

// A Field describes one variable.
type Field struct {
	Name    string // of the variable
	Group   string // heading that it stands under; only the first of a group has it
	Default string // as it would be written
	Doc     string // what it does
	Differs string // what differs from Envoy's service; empty means nothing

	emptyUnset bool
}

// Fields lists every variable, in the order of the documentation.
func Fields() []Field {
	var all []Field
	for f := range new(Settings).fields() {
		all = append(all, f)
	}
	return all
}

func (s *Settings) fields() func(yield func(Field, reflect.Value) bool) {
	return func(yield func(Field, reflect.Value) bool) {
		v := reflect.ValueOf(s).Elem()
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			if tag.Get("env") == "" {
				continue
			}
			f := Field{tag.Get("env"), tag.Get("group"), tag.Get("default"), tag.Get("doc"), tag.Get("differs"), tag.Get("emptyunset") != ""}
			if !yield(f, v.Field(i)) {
				return
			}
		}
	}
}

// assign reads value into v.
func assign(v reflect.Value, value string) error {
	if len(value) > maxValueBytes {
		return fmt.Errorf("%d bytes are too many, at most %d", len(value), maxValueBytes)
	}
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = value
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return errors.New("not a duration (write 300ms, 10s or 1h30m)")
		}
		*p = d
	case *bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("neither true nor false")
		}
		*p = b
	case *int, *int64:
		n, err := strconv.ParseInt(value, 0, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("not a whole number: %w", errors.Unwrap(err))
		}
		v.SetInt(n)
	case *float32, *float64:
		f, err := strconv.ParseFloat(value, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("not a number: %w", errors.Unwrap(err))
		}
		v.SetFloat(f)
	case *[]string:
		*p = SplitList(value)
	case *map[string]string:
		m, err := ParseMap(value)
		if err != nil {
			return err
		}
		*p = m
	default:
		return fmt.Errorf("settings of type %s cannot be read", v.Type())
	}
	return nil
}

// SplitList splits a comma-separated list. Nothing but spaces is an empty list.
func SplitList(value string) []string {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	return strings.Split(value, ",")
}

// ParseMap reads k:v,k:v. Nothing but spaces is an empty map; an item must have
// exactly one colon. Of items with the same key the last counts.
func ParseMap(value string) (map[string]string, error) {
	m := map[string]string{}
	for _, item := range SplitList(value) {
		k, v, ok := strings.Cut(item, ":")
		if !ok || strings.Contains(v, ":") {
			return nil, fmt.Errorf("item %q must be key:value, with one colon", item)
		}
		m[k] = v
	}
	return m, nil
}
