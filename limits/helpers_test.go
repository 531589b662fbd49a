package limits_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// parse returns the set of a rules file.
func parse(t testing.TB, text string) *limits.Set {
	t.Helper()
	s, err := rules.Parse("test.yaml", []byte(text), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request makes a request of descriptors such as "a=1 b=2".
func request(domain string, descriptors ...string) *weir.Request {
	r := &weir.Request{Domain: domain}
	for _, text := range descriptors {
		d := weir.Descriptor{}
		for _, e := range strings.Fields(text) {
			key, value, _ := strings.Cut(e, "=")
			d.Entries = append(d.Entries, weir.Entry{Key: key, Value: value})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}
