package hostile

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNumbersOutOfRange: costs that do not fit are refused, nothing is counted
// for them, and the largest that fit neither wrap nor pass.
func TestNumbersOutOfRange(t *testing.T) {
	t.Parallel()
	s := serve(t, "--rules", rules(t, `
domain: api
descriptors:
- {key: none, rate_limit: {unit: second, requests_per_unit: 0}}
- {key: most, rate_limit: {unit: year, requests_per_unit: 4294967295}}
- {key: huge, limit: 9007199254740992/year, algorithm: fixed_window}
- {key: gcra, limit: 1/year, algorithm: token_bucket, burst: 1}
`))
	ask := func(key, more string) (int, string) {
		t.Helper()
		res, err := neighbour.Post("http://"+s.addr+"/v1/check", "application/json", strings.NewReader(fmt.Sprintf(`{"descriptors":[{"entries":{%q:"x"}}]%s}`, key, more)))
		if err != nil {
			t.Fatal(err)
		}
		code, _, body := read(t, res)
		return code, body
	}
	for _, cost := range []string{
		"-1", "-9223372036854775808", "9007199254740993", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
		"1e400", "1E3", "1.5", "0.1", "NaN", "Infinity", "0x10", "١", `"1"`, "true", "[1]", strings.Repeat("9", 60_000),
	} {
		for _, key := range []string{"none", "most", "huge", "gcra"} {
			if code, body := ask(key, `,"cost":`+cost); code != 400 {
				t.Errorf("cost %.30s of %s: %d %.200s", cost, key, code, body)
			}
		}
	}
	allowed := func(key, more string, want bool, contains string) {
		t.Helper()
		code, body := ask(key, more)
		if code != 200 || strings.Contains(body, `"allowed":true`) != want || !strings.Contains(body, contains) {
			t.Errorf("%s%s: %d %s, want allowed %t and %s", key, more, code, body, want, contains)
		}
	}
	allowed("none", "", false, "")
	allowed("most", "", true, `"remaining":4294967294`)
	allowed("most", `,"cost":4294967295`, false, `"remaining":4294967294`)
	allowed("most", `,"cost":4294967294`, true, `"remaining":0`)
	allowed("most", "", false, "")
	allowed("huge", `,"cost":9007199254740992`, true, `"remaining":0`)
	allowed("huge", `,"cost":9007199254740992`, false, "")
	allowed("gcra", `,"cost":9007199254740992`, false, "")
	allowed("gcra", "", true, "")
	allowed("gcra", "", false, "")
}

// refused runs `weir serve` with a rules file that must not load, and returns what it
// said and the most memory that it used, in bytes.
func refused(t *testing.T, path string, args ...string) (said string, most int64) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, command, append([]string{"serve", "--http", "127.0.0.1:0", "--admin", ""}, args...)...)
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Errorf("%s: serves, or takes long: %.300s", path, out)
		return "", 0
	}
	if cmd.ProcessState.ExitCode() != 1 && cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("%s: %v\n%.500s", path, err, out)
	}
	// A child is counted with what its parent had when it was started.
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		t.Fatal(err)
	}
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && use.Maxrss > own.Maxrss {
		most = int64(use.Maxrss) << 10
	}
	return string(out), most
}

// TestHostileFiles: files that would swell when read, or hold numbers that do not
// fit, are refused with a reason, in little time and memory.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	rate := func(s string) string { return "domain: d\ndescriptors: [{key: k, " + s + "}]\n" }
	for name, text := range map[string]string{
		"laughs":          laughs.String(),
		"laughs in place": laughs.String() + "domain: d\ndescriptors: *a29\n",
		"itself":          "domain: d\ndescriptors: &d [*d]\n",
		"deep":            "domain: d\ndescriptors: " + strings.Repeat("[", 100_000),
		"deep rules":      "domain: d\ndescriptors: " + strings.Repeat("[{key: k, descriptors: ", 2000) + strings.Repeat("}]", 2000),
		"count":           rate("limit: 9007199254740993/s"),
		"count 2^64":      rate("limit: 18446744073709551616/s"),
		"negative":        rate("limit: -1/s"),
		"requests":        rate("rate_limit: {unit: second, requests_per_unit: 18446744073709551616}"),
		"negative hits":   rate("rate_limit: {unit: second, requests_per_unit: -1}"),
		"multiplier 0":    rate("rate_limit: {unit: second, unit_multiplier: 0, requests_per_unit: 1}"),
		"multiplier":      rate("rate_limit: {unit: year, unit_multiplier: 4294967295, requests_per_unit: 1}"),
		"period":          rate("limit: 1/99999999999999999h"),
		"period 0":        rate("limit: 1/0s"),
		"burst":           rate("limit: 1/s, algorithm: token_bucket, burst: 9223372036854775808"),
		"nul":             rate("limit: 1/s, name: \"a\\0b\""),
		"header":          rate("limit: 1/s, name: \"a\\r\\nSet-Cookie: x\""),
		"not utf-8":       "domain: \xff\xfe\n",
	} {
		said, most := refused(t, name, "--rules", rules(t, text))
		if most > 300*mib {
			t.Errorf("%s: %d MiB", name, most>>20)
		}
		if strings.Contains(said, "panic") || strings.Contains(said, "goroutine ") || len(said) > 64<<10 || !strings.Contains(said, "rules.yaml") {
			t.Errorf("%s: said %.600s", name, said)
		}
	}
	// A hundred megabytes are not even read.
	path := filepath.Join(t.TempDir(), "large.yaml")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(100 << 20); err != nil { // a hole, which takes no room
		t.Fatal(err)
	}
	f.Close()
	for _, flag := range []string{"--rules", "--config", "--admin-token-file"} {
		if said, most := refused(t, flag, flag, path, "--limit", "1/s"); most > 100*mib || !strings.Contains(said, "large.yaml") {
			t.Errorf("%s of 100 MB: %d MiB, %.300s", flag, most>>20, said)
		}
	}
}

// TestRulesDoNotReachHeaders: whatever text a rule may have, the answer's fields
// are those that there are without it.
func TestRulesDoNotReachHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, "--upstream", startUpstream(t).URL, "--rules", rules(t, "domain: api\ndescriptors:\n- {key: remote_address, limit: 1/year, algorithm: fixed_window, name: 'a\"\\;b, c=\u00e9 %0d%0aSet-Cookie: x'}\n"))
	for range 2 {
		res, err := neighbour.Get("http://" + s.addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		_, h, body := read(t, res)
		for name, values := range h {
			if name == http.CanonicalHeaderKey("Set-Cookie") || len(values) != 1 && name != "Vary" || strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
				t.Errorf("%s: %q", name, values)
			}
		}
		if res.StatusCode == 429 && strings.Contains(body, "\n") {
			t.Errorf("%q", body)
		}
	}
}
