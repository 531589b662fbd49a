package cases_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/replay/cases"
)

const someRules = `domain: api
descriptors:
  - {key: remote_address, limit: 2/minute, algorithm: fixed_window}
  - {key: bucket, limit: 60/minute, algorithm: token_bucket, burst: 3, name: bucket}
  - {key: soft, limit: 2/hour, algorithm: fixed_window, mode: soft, exceed: 50%}
  - {key: queue, limit: 60/minute, algorithm: leaky_queue, burst: 5}
  - {key: path, value: /login, descriptors: [{key: user, limit: 1/hour}]}
`

// play writes rules and cases into a folder and plays them.
func play(t *testing.T, src string) ([]cases.Result, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(someRules), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "cases.yaml")
	if err := os.WriteFile(name, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	return cases.PlayFile(name, nil)
}

func TestCasesThatHold(t *testing.T) {
	results, err := play(t, `rules: [rules.yaml]
at: 2026-03-01T10:00:30Z
cases:
  - name: two a minute, whoever they are
    steps:
      - {request: {remote_address: 192.0.2.1}, times: 2, expect: allowed}
      - request: {remote_address: 192.0.2.1}
        expect: {outcome: refused, limit: remote_address, remaining: 0, retry_after: 30s}
      - {request: {remote_address: 192.0.2.2}, expect: {allowed: 1, refused: 0, remaining: 1}}
      - {after: 30s, request: {remote_address: 192.0.2.1}, expect: allowed}
  - name: begins with nothing spent
    steps:
      - {request: {remote_address: 192.0.2.1}, times: 3, expect: {allowed: 2, refused: 1}}
  - name: a bucket fills by one a second
    steps:
      - {request: {bucket: x}, times: 5, expect: {allowed: 3, refused: 2}}
      - {after: 1s, request: {bucket: x}, times: 10, every: 1s, expect: allowed}
      - {request: {bucket: x}, cost: 0, expect: {outcome: refused, retry_after: 1s}}
      - {after: 3s, request: {bucket: x}, cost: 3, expect: {outcome: allowed, remaining: 0, limit: bucket}}
  - name: soft and delayed
    steps:
      - {request: {soft: x}, times: 4, expect: {allowed: 3, soft: 1, refused: 1}}
      - {request: {queue: x}, times: 3, expect: {allowed: 3, delay: 2s}}
  - name: several descriptors, and one that meets nothing
    steps:
      - request: [{remote_address: 192.0.2.1}, {path: /login, user: me}]
        times: 2
        expect: {allowed: 1, refused: 1, limit: /login by user}
      - {request: {nothing: x}, times: 100, expect: allowed}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 5 {
		t.Errorf("%d cases", len(results))
	}
	for _, r := range results {
		for _, f := range r.Failures {
			t.Errorf("%s: line %d: %s", r.Name, f.Line, f.What)
		}
	}
}

// Each expectation can fail, and says what came instead.
func TestCasesThatDoNotHold(t *testing.T) {
	for expect, want := range map[string]string{
		"allowed":                             `1 of 3 refused by "remote_address", want all allowed`,
		"refused":                             "2 of 3 allowed, want all refused",
		"{allowed: 3}":                        "2 allowed, want 3",
		"{refused: 2}":                        `1 refused by "remote_address", want 2`,
		"{allowed: 2, soft: 1}":               "0 soft, want 1",
		"{refused: 1, limit: x}":              `decided by limit "remote_address", want "x"`,
		"{refused: 1, remaining: 1}":          "0 remaining, want 1",
		"{refused: 1, retry_after: 59s}":      "retry after 1m0s, want 59s",
		"{refused: 1, delay: 1s}":             "delay 0s, want 1s",
		"{refused: 1, delay: 0s}":             "",
		"{refused: 1, retry_after: 0ms}":      "retry after 1m0s, want 0s",
		"{refused: 1, allowed: 2, soft: 0}":   "",
		"{refused: 1, retry_after: 1m}":       "",
		"{refused: 1, limit: remote_address}": "",
	} {
		results, err := play(t, fmt.Sprintf(`rules: [rules.yaml]
cases:
  - name: x
    steps:
      - request: {remote_address: 192.0.2.1}
        times: 3
        expect: %s
`, expect))
		if err != nil {
			t.Errorf("%s: %v", expect, err)
			continue
		}
		var got []string
		for _, f := range results[0].Failures {
			if f.Line != 7 {
				t.Errorf("%s: line %d, want 7", expect, f.Line)
			}
			got = append(got, f.What)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: got %q, want %q", expect, got, want)
		}
	}
}

func TestFilesThatAreWrong(t *testing.T) {
	const head = "rules: [rules.yaml]\ncases:\n  - name: x\n    steps:\n      - "
	for src, want := range map[string]string{
		"":                    "empty",
		someRules:             "these are rules, not cases",
		"rules: [rules.yaml]": "no cases",
		"cases: [{name: x, steps: [{request: {a: b}}]}]":                                                "rules are missing",
		"rules: [none.yaml]\ncases: [{name: x, steps: [{request: {a: b}}]}]":                            "none.yaml",
		"rules: [rules.yaml]\ncases: [{steps: [{request: {a: b}}]}]":                                    ":2: the case has no name",
		"rules: [rules.yaml]\ncases: [{name: x}]":                                                       "no steps",
		"rules: [rules.yaml]\ndomain: other\ncases: [{name: x, steps: [{request: {a: b}}]}]":            `no domain "other"`,
		"rules: [rules.yaml]\nat: 1066-10-14T09:00:00Z\ncases: [{name: x, steps: [{request: {a: b}}]}]": "not between",
		head + "{requests: {a: b}}":                                                                     `unknown key "requests" (did you mean "request"?)`,
		head + "{after: 1s}":                                                                            ":5: the step has no request",
		head + "{request: x}":                                                                           "a request is its entries",
		head + "{request: {a: [b]}}":                                                                    "a key and a value",
		head + "{request: {a: b}, times: 10000000}":                                                     "times: 10000000",
		head + "{request: {a: b}, cost: -1}":                                                            "cost: -1",
		head + "{request: {a: b}, after: soon}":                                                         "soon",
		head + "{http: GET /, request: {a: b}}":                                                         "has request and http",
		head + "{http: GET /, cost: 2}":                                                                 "leave them out",
		head + "{request: {a: b}, takes: 2s}":                                                           "takes is for http",
		head + "{http: GET}":                                                                            "line 5: http: request \"GET\": write a method and a path",
		head + "{http: {path: /, hots: x}}":                                                             `did you mean "host"?`,
		head + "{http: {path: /, headers: {X: {}}}}":                                                    "a header field has a value",
		head + "{http: {path: /, headers: {X: \"a\\r\\nb\"}}}":                                          "is not a header field",
		head + "{http: {path: /, from: me}}":                                                            "is not an IP address",
		head + "{http: GET /}":                                                                          ":5: http: needs the routes of a configuration",
		head + "{request: {a: b}, expect: maybe}":                                                       `expect "maybe"`,
		head + "{request: {a: b}, expect: {outcome: maybe}}":                                            `outcome "maybe"`,
		head + "{request: {a: b}, expect: {remaning: 1}}":                                               `did you mean "remaining"?`,
		head + "{request: {a: b}, expect: {remaining: 1}}":                                              "say what comes of the requests too",
		head + "{request: {a: b}, expect: [allowed]}":                                                   "write keys and values",
		"rules: [rules.yaml]\ncases: [{name: x, steps: 3}]":                                             "line 2",
		"rules: [rules.yaml]\nkases: [{name: x, steps: 3}]":                                             "kases",
	} {
		if _, err := play(t, src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", src, err, want)
		}
	}
	if _, err := cases.Parse("big.yaml", make([]byte, cases.MaxFile+1)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("rules: [r]\nat: 2026-03-01T10:00:30Z\ncases:\n  - name: x\n    steps: [{request: [{a: b}, {c: d}], cost: 0, times: 2, every: 1m, expect: {outcome: refused, retry_after: 30s}}]"))
	f.Add([]byte("cases:\n  - name: x\n    steps: [{http: {method: POST, path: /login, host: a, from: '::1', headers: {X: [a, b], Y: c}}, takes: 2s}, {http: GET /}]"))
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := cases.Parse("f.yaml", src)
		if (file == nil) == (err == nil) {
			t.Errorf("%v, %v", file, err)
		}
	})
}
