package gateway

import (
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"time"
)

// A route's settings are laid over the general ones field by field. What a route leaves
// zero never lifts a general bound; what a bound has below zero is an error; what a route
// states holds, also where it is more than the general bound. A new field fails here until
// it is thought of.
func TestFamilyForwardOver(t *testing.T) {
	own, general := &url.URL{Scheme: "http", Host: "own"}, &url.URL{Scheme: "http", Host: "general"}
	ownWay, generalWay := &http.Transport{}, &http.Transport{}
	// The values of a route and of the general settings, and whether the general value
	// holds for a route that has zero and an upstream of its own: what belongs to the
	// general upstream does not.
	fields := map[string]struct {
		values  []any
		general any
		bound   bool // a number that bounds
		another bool // holds for another upstream too
	}{
		"Upstream":       {values: []any{own}, general: general},
		"Transport":      {values: []any{ownWay}, general: generalWay},
		"StripPrefix":    {values: []any{"/own"}, general: "/general", another: true},
		"PreserveHost":   {values: []any{true}, general: true},
		"ConnectTimeout": {values: []any{time.Duration(1), time.Hour}, general: time.Second, bound: true, another: true},
		"HeaderTimeout":  {values: []any{time.Duration(1), time.Hour}, general: time.Second, bound: true, another: true},
		"Timeout":        {values: []any{time.Duration(1), time.Hour}, general: time.Second, bound: true, another: true},
		"MaxBody":        {values: []any{int64(1), int64(1 << 40)}, general: int64(10), bound: true, another: true},
		"MaxHeader":      {values: []any{int64(1), int64(1 << 40)}, general: int64(10), bound: true, another: true},
	}
	var all Forward
	for i := range reflect.TypeFor[Forward]().NumField() {
		name := reflect.TypeFor[Forward]().Field(i).Name
		if _, ok := fields[name]; !ok {
			t.Fatalf("say here what becomes of %s when a route leaves it out", name)
		}
		field(&all, name).Set(reflect.ValueOf(fields[name].general))
	}
	// with returns f with a field set; nil means zero.
	with := func(f Forward, name string, v any) Forward {
		if v == nil {
			field(&f, name).SetZero()
		} else {
			field(&f, name).Set(reflect.ValueOf(v))
		}
		return f
	}
	get := func(f Forward, name string) any { return field(&f, name).Interface() }
	if got := (Forward{}).withDefaults(all); got != all {
		t.Errorf("a route that says nothing has %+v, want %+v", got, all)
	}
	for name, c := range fields {
		// Each alone, with the general upstream and with another.
		for _, base := range []Forward{{}, {Upstream: own}} {
			want := c.general
			if base.Upstream != nil && !c.another {
				want = get(base, name)
			}
			if got := get(base.withDefaults(all), name); got != want {
				t.Errorf("%s left out beside the upstream %v: %v, want %v", name, base.Upstream, got, want)
			}
			for _, v := range c.values {
				if got := get(with(base, name, v).withDefaults(all), name); got != v {
					t.Errorf("%s %v beside the upstream %v: %v", name, v, base.Upstream, got)
				}
				// Without a general value the route's holds, and nothing is made up.
				if got := get(with(base, name, v).withDefaults(with(all, name, nil)), name); got != v {
					t.Errorf("%s %v, and nothing in general: %v", name, v, got)
				}
			}
			if !c.bound {
				continue
			}
			for _, less := range []int64{-1, -1 << 63} {
				for _, f := range []Forward{base.withDefaults(negative(all, name, less)), negative(base, name, less).withDefaults(all)} {
					if err := f.checkFields(); err == nil {
						t.Errorf("%s %d is taken, as %v", name, less, get(f, name))
					}
				}
			}
		}
	}
}

func field(f *Forward, name string) reflect.Value { return reflect.ValueOf(f).Elem().FieldByName(name) }

// negative returns f with a bound below zero.
func negative(f Forward, name string, n int64) Forward {
	field(&f, name).SetInt(n)
	return f
}
