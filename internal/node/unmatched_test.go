package node

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// post asks the API of a node.
func post(t *testing.T, s *Server, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	s.door("http").ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// scrape returns the node's metrics whose name begins so.
func scrape(t *testing.T, s *Server, name string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, name) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "; ")
}

const saasRules = `domain: api
deny: {country: [xx]}
allow: {office: [berlin]}
descriptors:
  - key: api_key
    limit: 100/minute
    tiers: {by: tier, limits: {pro: 1000/minute}}
  - key: path
    value: /login
    descriptors:
      - {key: remote_address, limit: 5/minute}
  - {key: free, limit: unlimited}
  - {key: open}
  - {key: kind, value: batch, limit: 1/second}
`

func ask(domain string, descriptors ...string) string {
	var ds []string
	for _, d := range descriptors {
		var es []string
		for _, e := range strings.Split(d, ",") {
			key, value, _ := strings.Cut(e, "=")
			es = append(es, fmt.Sprintf(`{"key":%q,"value":%q}`, key, value))
		}
		ds = append(ds, `{"entries":[`+strings.Join(es, ",")+`]}`)
	}
	return fmt.Sprintf(`{"domain":%q,"descriptors":[%s]`, domain, strings.Join(ds, ","))
}

// What meets no rule is counted by domain, warned of once, and an error if the request
// is strict; what a rule or a list lets pass is neither.
func TestFamilyTypoIsNoPass(t *testing.T) {
	for _, c := range []struct {
		name, question string
		domain         string // counted there, "" for matched
		why            string // in the warning; "" for none
		strict         string // in the error; "" for none
	}{
		{"limited", ask("api", "api_key=k"), "", "", ""},
		{"with its tier", ask("api", "api_key=k,tier=pro"), "", "", ""},
		{"a tier beside it", ask("api", "api_key=k", "tier=pro"), "", "", ""},
		{"nested", ask("api", "path=/login,remote_address=192.0.2.1"), "", "", ""},
		{"unlimited", ask("api", "free=1"), "", "", ""},
		{"without a limit", ask("api", "open=1"), "", "", ""},
		{"on the allow list", ask("api", "office=berlin"), "", "", ""},
		{"on the deny list", ask("api", "country=xx"), "", "", ""},
		{"words by client", ask("api", "client_id=7"), "", "", ""},
		{"words by address", ask("api", "remote_address=192.0.2.1"), "", "", ""},
		{"unknown domain", ask("apii", "api_key=k"), "(other)", `no domain \"apii\" (did you mean \"api\"?)`, `no domain "apii" (did you mean "api"?)`},
		{"misspelt key", ask("api", "apikey=k"), "api", `matched by \"apikey\" (did you mean \"api_key\"?)`, `did you mean "api_key"?`},
		{"wrong order", ask("api", "tier=pro,api_key=k"), "api", `did you mean \"api_key/tier\"?`, `did you mean "api_key/tier"?`},
		{"wrong order, nested", ask("api", "remote_address=1,path=/login"), "api", `did you mean \"path/remote_address\"?`, `did you mean "path/remote_address"?`},
		{"misspelt and in wrong order", ask("api", "tier=pro,apikey=k"), "api", `did you mean \"api_key/tier\"?`, `did you mean "api_key/tier"?`},
		{"too short", ask("api", "path=/login"), "api", `matched by \"path\" (did you mean \"path/remote_address\"?)`, `matched by "path"`},
		{"too long", ask("api", "api_key=k,path=/"), "api", `matched by \"api_key/path\"`, `matched by "api_key/path"`},
		{"another value", ask("api", "kind=single"), "api", "", "these values"},
		{"one of two", ask("api", "api_key=k", "apikey=k"), "", "", `did you mean "api_key"?`},
		{"not on the list", ask("api", "office=rome"), "api", "", "these values"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config.Defaults()
			conf.Rules, conf.Limits = servertest.File(t, "rules.yaml", saasRules), []string{"1000/minute by ip"}
			s, log := startNode(t, conf)
			for range 3 {
				if code, body := post(t, s, "/v1/check", c.question+`}`); code != 200 || strings.Contains(body, `"allowed":false`) != strings.Contains(c.question, "xx") {
					t.Fatalf("%d %s", code, body)
				}
			}
			got, want := scrape(t, s, "weir_unmatched_requests_total{"), ""
			for _, domain := range []string{"(other)", "api"} {
				n := 0
				if c.domain == domain {
					n = 3
				}
				want += fmt.Sprintf(`; weir_unmatched_requests_total{domain="%s"} %d`, domain, n)
			}
			if got != strings.TrimPrefix(want, "; ") {
				t.Errorf("got %s, want %s", got, want)
			}
			warned := strings.Count(log.String(), "no rule matches them")
			if c.why == "" && warned != 0 || c.why != "" && (warned != 1 || !strings.Contains(log.String(), c.why)) {
				t.Errorf("the log says %s, want one line with %s", log, c.why)
			}
			for path, body := range map[string]string{
				"/v1/check": c.question + `,"strict":true}`, "/v1/peek": c.question + `,"strict":true}`, "/v1/acquire": c.question + `,"strict":true}`,
				"/v1/reserve": c.question + `,"strict":true}`,
			} {
				code, answer := post(t, s, path, body)
				if c.strict == "" && code != 200 {
					t.Errorf("%s, strict: %d %s", path, code, answer)
				}
				if c.strict != "" && (code != 400 || !strings.Contains(strings.ReplaceAll(answer, `\"`, `"`), c.strict) || !strings.Contains(answer, `"#/descriptors"`)) {
					t.Errorf("%s, strict: %d %s, want 400 with %s", path, code, answer, c.strict)
				}
			}
			for _, body := range []string{`{"checks":[` + ask("api", "api_key=b") + `},` + c.question + `,"strict":true}]}`,
				`{"checks":[` + ask("api", "api_key=b") + `},` + c.question + `}],"strict":true}`} {
				code, answer := post(t, s, "/v1/check", body)
				if (code != 200) != (c.strict != "") || c.strict != "" && !strings.Contains(answer, `"#/checks/1/descriptors"`) {
					t.Errorf("in a batch, strict: %d %s", code, answer)
				}
			}
			if code, answer := post(t, s, "/v1/check", c.question+`,"strict":false}`); code != 200 {
				t.Errorf("not strict: %d %s", code, answer)
			}
		})
	}
}

// However many keys and domains are made up, the log and the labels stay small; after a
// reload what is still wrong is warned of again.
func TestUnmatchedIsBounded(t *testing.T) {
	c := config.Defaults()
	c.Rules = servertest.File(t, "rules.yaml", saasRules)
	s, log := startNode(t, c)
	for i := range 2000 {
		post(t, s, "/v1/check", ask(fmt.Sprintf("domain%d", i), "api_key=k")+`}`)
		post(t, s, "/v1/check", ask("api", fmt.Sprintf("key%d=k", i))+`}`)
	}
	if got, want := scrape(t, s, "weir_unmatched_requests_total{"), `weir_unmatched_requests_total{domain="(other)"} 2000; weir_unmatched_requests_total{domain="api"} 2000`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := strings.Count(log.String(), "requests are not limited"); n != maxUnmatchedWarnings+1 {
		t.Errorf("%d warnings, want %d", n, maxUnmatchedWarnings+1)
	}
	servertest.Write(t, c.Rules, strings.ReplaceAll(saasRules, "domain: api", "domain: shop"))
	s.Reload()
	post(t, s, "/v1/check", ask("api", "api_key=k")+`}`)
	if want := `no domain \"api\" (there are shop)`; !strings.Contains(log.String(), want) {
		t.Errorf("after the reload the log does not say %s", want)
	}
	if got, want := scrape(t, s, "weir_unmatched_requests_total{"), `weir_unmatched_requests_total{domain="(other)"} 2001; weir_unmatched_requests_total{domain="api"} 2000; weir_unmatched_requests_total{domain="shop"} 0`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
