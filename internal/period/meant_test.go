package period_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/period"
)

// What is meant is a rate that ParseRate reads, in any of the ways to write it.
func TestMeantRate(t *testing.T) {
	for _, count := range []struct{ text, want string }{
		{"1.5/second", "3/2s"}, {"0.5/s", "1/2s"}, {".1/minute", "1/10m"},
		{"1k/s", "1000/second"}, {"2.5K/s", "2500/second"}, {"1M/day", "1000000/day"},
		{"1,000/s", "1000/second"}, {"12,345,678/day", "12345678/day"},
		{"10r/s", "10/second"}, {"10 r/s", "10/second"}, {"10req/s", "10/second"}, {"5 requests / minute", "5/minute"},
		{"5 requests per minute", "5/minute"}, {"1k requests per hour", "1000/hour"},
		{"10rps", "10/second"}, {"10 RPS", "10/second"}, {"10qps", "10/second"}, {"100rpm", "100/minute"}, {"9rph", "9/hour"},
		{"0.5rps", "1/2s"},
	} {
		got := period.MeantRate(count.text)
		if got != count.want {
			t.Errorf("%q: %q, want %q", count.text, got, count.want)
		}
		if _, err := period.ParseRate(got); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
	for _, text := range []string{"", "/", "k/s", "r/s", "rps", "1,5/s", "10,00/s", ",100/s", "1.2.3/s", "five/minute", "1k/fortnight",
		"-5/minute", "0.0/s", "1e3/s", "1.5/9y", "1kk/s", "x rps", strings.Repeat("9", 12) + "k/s"} {
		if got := period.MeantRate(text); got != "" {
			t.Errorf("%q: %q, want nothing", text, got)
		}
	}
}
