package words_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/words"
)

func TestWords(t *testing.T) {
	f := func(text string, count int64, period time.Duration, by string, burst int64, algorithm string) {
		t.Helper()
		w, err := words.Parse(text)
		if err != nil {
			t.Error(err)
			return
		}
		if w.Count != count || w.Period != period || strings.Join(w.By, " and ") != by || w.Burst != burst || w.Algorithm.Name() != algorithm {
			t.Errorf("%q is %d per %s by %s burst %d using %s", text, w.Count, w.Period, w.By, w.Burst, w.Algorithm.Name())
		}
	}
	f("100/minute by ip", 100, time.Minute, "ip", 0, "sliding_window")
	f("100/minute", 100, time.Minute, "ip", 0, "sliding_window")
	f("  5/10s   by  client_id ", 5, 10*time.Second, "client_id", 0, "sliding_window")
	f("10/second burst 20 using token_bucket", 10, time.Second, "ip", 20, "token_bucket")
	f("10/second using token_bucket by all burst 20", 10, time.Second, "all", 20, "token_bucket")
	f("1/h", 1, time.Hour, "ip", 0, "sliding_window")
	f("1/Days", 1, 24*time.Hour, "ip", 0, "sliding_window")
	f("1/mins", 1, time.Minute, "ip", 0, "sliding_window")
	f("1/month", 1, 30*24*time.Hour, "ip", 0, "sliding_window")
	f("100 per minute by IP", 100, time.Minute, "ip", 0, "sliding_window")
	f("2 / 10s by all", 2, 10*time.Second, "all", 0, "sliding_window")
	f("1/7d", 1, 7*24*time.Hour, "ip", 0, "sliding_window")
	f("5/minute by header:X-Key", 5, time.Minute, "header:X-Key", 0, "sliding_window")
	f("5/minute by IP and path burst 7 using token_bucket", 5, time.Minute, "ip and path", 7, "token_bucket")
	f("5/minute by remote_address/24 and cookie:s and query:q and jwt:sub", 5, time.Minute, "remote_address/24 and cookie:s and query:q and jwt:sub", 0, "sliding_window")
	f("9007199254740992/1h30m", 1<<53, 90*time.Minute, "ip", 0, "sliding_window")
}

// An error names the limit, the word that is wrong, what was meant, and the
// form.
func TestWordsErrors(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		w, err := words.Parse(text)
		if err == nil {
			t.Errorf("%q parsed as %+v", text, w)
			return
		}
		for _, part := range append(want, "write N/PERIOD") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: no %q in: %v", text, part, err)
			}
		}
	}
	f("", "empty")
	f("100", `"100" has no slash`)
	f("many/minute", `"many" is not a whole number`)
	f("0/minute", "0 must be between 1 and 2^53")
	f("-1/minute", "-1 must be between")
	f("9007199254740993/minute", "between 1 and 2^53")
	f("99999999999999999999/minute", "between 1 and 2^53")
	f("1.5/minute", "not a whole number")
	f("0.5/s", `"0.5" is not a whole number (did you mean "1/2s"?)`)
	f("1k/s by ip", `"1k" is not a whole number (did you mean "1000/second"?)`)
	f("10r/s", `"10r" is not a whole number (did you mean "10/second"?)`)
	f("100rpm", `"100rpm" has no slash between the number and the period (did you mean "100/minute"?)`)
	f("many/minute", `"many" is not a whole number; write`)
	f("100/minuet by ip", `unknown period "minuet" (did you mean "minute"?)`)
	f("100/fortnight", `unknown period "fortnight"`)
	f("100/", `"" is not a duration: write it like 30s, 10m, 1h30m or 7d`)
	f("100/-5s", `"-5s" is not a duration`)
	f("100/0s", `"0s" is shorter than a microsecond`)
	f("100/minute by", `nothing follows "by"`)
	f("100/minute by adress", `cannot count by "adress"`)
	f("100/minute by clientid", `(did you mean "client_id"?)`)
	f("1/s by heder:X", `did you mean "header:"?`)
	f("1/s by header", `did you mean "header:"?`)
	f("1/s by header:", "needs a name behind the colon")
	f("1/s by header:a,b", "is not the name of a header")
	f("1/s by usr", `did you mean "user"?`)
	f("1/s by apikey", `did you mean "api_key"?`)
	f("1/s by User", `did you mean "user"?`)
	f("1/s by zebra", "choose one of ip, client_id, all, remote_address, user, api_key, tier, client, method, path, host, header:, cookie:, query:, jwt:, unverified_jwt:")
	f("1/s by value:x", "cannot count by")
	f("1/s by route", "cannot count by")
	f("1/s by remote_address/129", "remote_address/129")
	f("1/s by ip and", `nothing follows "and"`)
	f("1/s by ip and ip", `"ip" is there twice`)
	f("1/s by all and path", `"all" counts everybody together`)
	f("1/s by ip and path and host and method and user", "5 sources are too many")
	f("1/s burst 2 and 3 using token_bucket", `unknown word "and"`)
	f("100/minute bi ip", `unknown word "bi" (did you mean "by"?)`)
	f("100/minute by ip by all", `"by" is there twice`)
	f("100/minute burst none", `"none" is not a whole number`)
	f("100/minute using token_buckets", `(did you mean "token_bucket"?)`)
	f("100/minute using magic", `unknown algorithm "magic": there are`)
	f("5/minute using concurrency", "needs leases")
	f("5/minute burst 9", "sliding_window takes no burst", "token_bucket")
	f("5/minute by ip burst 3 using fixed_window", "fixed_window takes no burst")
	f(strings.Repeat("9", 1000), "longer than 256")
}

// FuzzParseWords: whatever is written, the answer is a limit that compiles or
// an error that says how to write one.
func FuzzParseWords(f *testing.F) {
	for _, s := range []string{"100/minute by ip", "5/10s burst 7 using token_bucket", "1/1us by all", "1/10000000h", "5/minute by header:X-Key and ip", "5/minute by remote_address/24 and cookie:s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := words.Parse(text)
		if err != nil {
			if !strings.Contains(err.Error(), "write N/PERIOD") {
				t.Errorf("%q: no form in: %v", text, err)
			}
			return
		}
		if len(w.By) == 0 {
			t.Errorf("%q counts by nothing", text)
		}
		if err := w.Limit().Compile(); err != nil {
			t.Errorf("%q parsed, and does not compile: %v", text, err)
		}
	})
}
