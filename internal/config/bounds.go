package config

import (
	"fmt"
	"reflect"
)

// checkBounds returns an error for each setting of the struct that section points to
// which is out of its bounds. key is the path of the section with a dot; only settings of
// which hasEffect reports true, by their keys, are looked at.
func checkBounds(section any, key string, isSet func(key string) bool) []error {
	var errs []error
	walkLeaves(reflect.ValueOf(section).Elem(), key, "", func(s Setting, v reflect.Value) {
		if why := s.bounds.faultOf(v); why != "" && isSet(s.Key) {
			name := s.Key
			switch {
			case s.Flag != "":
				name = "--" + s.Flag
			case s.name != "":
				name += " (" + s.Env() + ")"
			}
			errs = append(errs, fmt.Errorf("%s is %v: %s", name, v.Interface(), why))
		}
	})
	return errs
}

// faultOf says why v is out of b, empty if it is not.
func (b bounds) faultOf(v reflect.Value) string {
	switch {
	case b.positive && v.Int() <= 0:
		return "a client could then hold what it likes for ever; give a duration such as 10s"
	case b.least == "", b.or != "" && v.Int() == limitOf(v, b.or):
	case b.most != "" && (v.Int() < limitOf(v, b.least) || v.Int() > limitOf(v, b.most)):
		return fmt.Sprintf("it must be between %s and %s%s", b.least, b.most, b.orWords())
	case v.Int() >= limitOf(v, b.least):
	case b.least == "0":
		return "it cannot be negative"
	default:
		return fmt.Sprintf("give at least %s%s", b.least, b.orWords())
	}
	return ""
}

func (b bounds) orWords() string {
	if b.or == "" {
		return ""
	}
	return ", or " + b.or
}

// limitOf reads a bound in the form of the setting v.
func limitOf(v reflect.Value, text string) int64 {
	bound := reflect.New(v.Type()).Elem()
	if err := setText(bound, text); err != nil {
		panic("config: bound of a setting: " + err.Error())
	}
	return bound.Int()
}
