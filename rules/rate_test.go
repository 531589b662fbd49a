package rules

import (
	"testing"

	"github.com/weirlimit/weir/internal/period"
)

func TestParseRate(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		got, err := period.ParseRate(in)
		text := got.String()
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != want {
			t.Errorf("%q: %s, want %s", in, text, want)
		}
		if again, err2 := period.ParseRate(text); err == nil && (err2 != nil || again != got) {
			t.Errorf("%q does not read back: %v", text, err2)
		}
	}
	f("100/minute", "100/minute")
	f("100 / 10 minutes", "100/10m")
	f("100 per minute", "100/minute")
	f("1_000/1h30m", "1000/1h30m")
	f("5/2 days", "5/2d")
	f("5/7d", "5/week")
	f("5/1d12h", "5/36h")
	f("5/s", "5/second")
	f("5/60s", "5/minute")
	f("5/250ms", "5/250ms")
	f("5/90s", "5/1m30s")
	f("20", "20")
	f("0/second", "0/second")
	f("5/", `error: "" is not a duration: write it like 30s, 10m, 1h30m or 7d`)
	f("5/1.5s", `error: "1.5s" is not a duration: write it like 30s, 10m, 1h30m or 7d`)
	f("/minute", `error: "/minute" is not a limit: write it like 100/minute or 100/10m`)
	f("5/0s", `error: "0s" is shorter than a microsecond`)
	f("5/5", `error: "5" has no unit: write 5s or 5m`)
	f("5/minuet", `error: unknown unit "minuet"`)
	f("5/3 minuets", `error: unknown unit "minuets"`)
	f("5/99999999999999999999s", `error: "99999999999999999999s" is not a duration: write it like 30s, 10m, 1h30m or 7d`)
	f("5/11y", `error: "11y" is longer than ten years`)
	f("5/9y9y", `error: "9y9y" is longer than ten years`)
	f("1e3/s", `error: "1e3/s" is not a limit: write it like 100/minute or 100/10m`)
	f("9223372036854775808/s", `error: "9223372036854775808" is more than can be counted: give at most 9007199254740992`)
}
