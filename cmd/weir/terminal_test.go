package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/terminaltest"
)

func checkClean(t *testing.T, what, text string) {
	t.Helper()
	if r, bad := terminaltest.FindObeyed(text); bad {
		t.Errorf("%s: %U reaches the terminal: %q", what, r, text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "FORGED") {
			t.Errorf("%s: a name begins a line of its own: %q", what, text)
		}
	}
}

// TestFamilyTerminal: nothing that clients, logs, servers or operators wrote
// reaches the terminal as a command, whichever subcommand prints it.
func TestFamilyTerminal(t *testing.T) {
	dir := t.TempDir()
	rulesFile := filepath.Join(dir, "rules.yaml")
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("rules.yaml", "domain: api\ndescriptors:\n  - {key: user, limit: 1/hour}\n  - {key: user_agent, limit: 1/hour}\n")
	quoted, err := json.Marshal(terminaltest.Hostile)
	if err != nil {
		t.Fatal(err)
	}
	var caddy, combined strings.Builder
	for i := range 20 {
		fmt.Fprintf(&caddy, `{"level":"info","ts":%d.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","client_ip":"10.0.0.1","proto":"HTTP/1.1","method":"GET","host":"h","uri":"/a","headers":{"User-Agent":[%s]}},"user_id":%s,"duration":0.1,"size":1,"status":200}`+"\n", 1700000000+i, quoted, quoted)
		fmt.Fprintf(&combined, "10.0.0.1 - %s [10/Oct/2023:13:55:%02d +0000] \"GET /a HTTP/1.1\" 200 1 \"-\" \"%s\"\n", "a\x1b[2J", i, "ua\x1b]0;x\x07")
	}
	logs := []string{file("caddy.log", caddy.String()), file("combined.log", combined.String()), file("bad.log", terminaltest.Hostile+"\n")}

	answers := map[string]string{
		"/v1/admin/audit": `{"changes":[{"number":1,"at":"2026-01-01T00:00:00Z","action":"ban","domain":"api","entries":[{"key":"user","value":TEXT}],"rule":"r","limit":"l","before":TEXT,"after":TEXT,"by":TEXT,"node":TEXT,"reason":TEXT}]}`,
		"/v1/admin/":      `{"allowed":true,"limits":[{"limit":{"name":"l","count":1,"period":1,"algorithm":"x"},"role":"enforce","allowed":true,"key":TEXT}],"overlay":[{"limit":"l","key":TEXT,"kind":"ban","by":TEXT,"reason":TEXT}],"modes":[{"domain":"d","rule":"r","limit":"l","by":TEXT,"reason":TEXT}]}`,
		"/v1/explain":     `{"decision":{"allowed":true},"counters":[{"limit":{"name":"l"},"key":TEXT}],"rules":{"domain":"api","domain_known":true,"listed":{"entry":{"key":"user","value":TEXT},"list":"deny"},"descriptors":[{"entries":[],"outcome":"limited","reason":"w","levels":[{"entry":{"key":TEXT,"value":TEXT},"match":"key","reason":"w"}]}]}}`,
		"/v1/check":       `{"allowed":false,"limit":{"name":"l","count":1,"period":1,"algorithm":"x"},"retry_after":1}`,
	}
	record := `{"domain":TEXT,"rule":TEXT,"limit":TEXT,"key":TEXT,"outcome":TEXT,"source":TEXT,"degraded":true,"count":1,"client_info":{"method":TEXT,"host":TEXT,"path":TEXT,"address":TEXT}}`
	fail := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/live" && !fail {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: record\ndata: %s\n\n", strings.ReplaceAll(record, "TEXT", string(quoted)))
			// A server need not escape what JSON lets it write as it is.
			fmt.Fprintf(w, "event: record\ndata: {\"key\":\"\u009b2J\u202e\x1b[2J\"}\n\n")
			return
		}
		if fail {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"title":"t","detail":%s,"errors":[{"pointer":"#/a","detail":%s}]}`, quoted, quoted)
			return
		}
		best := ""
		for path := range answers {
			if strings.HasPrefix(r.URL.Path, path) && len(path) > len(best) {
				best = path
			}
		}
		fmt.Fprint(w, strings.ReplaceAll(answers[best], "TEXT", string(quoted)))
	}))
	defer server.Close()

	var commands [][]string
	for _, log := range logs {
		commands = append(commands,
			[]string{"replay", "--rules", rulesFile, log},
			[]string{"replay", "--json", "--rules", rulesFile, log},
			[]string{"replay", "--rules", rulesFile, "--against", rulesFile, log})
	}
	commands = append(commands,
		[]string{"explain", "--rules", rulesFile, "--domain", "api", "user=" + terminaltest.Hostile},
		[]string{"explain", "--json", "--rules", rulesFile, "--domain", "api", "user=" + terminaltest.Hostile},
		[]string{"explain", "--rules", rulesFile, "--domain", terminaltest.Hostile, "user=x"},
		[]string{"explain", "--rules", filepath.Join(dir, terminaltest.Hostile), "user=x"},
		[]string{"check", filepath.Join(dir, terminaltest.Hostile)},
		[]string{"check", file("hostile.yaml", "domain: \""+"a\\e]0;x\\a"+"\"\n"+terminaltest.Hostile+": 1\n")},
		[]string{terminaltest.Hostile}, []string{"serve", "--" + terminaltest.Hostile}, []string{"serve", "--limit", terminaltest.Hostile},
	)
	for range 2 {
		commands = append(commands,
			[]string{"audit", "--admin", server.URL},
			[]string{"audit", "--json", "--admin", server.URL},
			[]string{"key", "inspect", "--admin", server.URL, "user=" + terminaltest.Hostile},
			[]string{"key", "reset", "--admin", server.URL, "user=" + terminaltest.Hostile},
			[]string{"key", "ban", "--admin", server.URL, "user=" + terminaltest.Hostile, "1h"},
			[]string{"explain", "--admin", server.URL, "user=" + terminaltest.Hostile},
			[]string{"take", "--http", server.URL, "user=" + terminaltest.Hostile},
			[]string{"promote", "--admin", server.URL, "api/r", "--mode", "shadow"},
			[]string{"shed", "--admin", server.URL},
			[]string{"tail", "--admin", server.URL},
			[]string{"tail", "--json", "--admin", server.URL},
		)
	}
	for i, args := range commands {
		fail = i >= len(commands)-11
		var out, errs bytes.Buffer
		runCommand(args, streams{in: strings.NewReader(""), out: &out, err: &errs})
		if out.Len()+errs.Len() == 0 {
			t.Errorf("%q printed nothing", args)
		}
		what := strings.Join(args[:min(len(args), 2)], " ")
		checkClean(t, fmt.Sprintf("%q, output", what), out.String())
		text := errs.String()
		if i < len(commands)-22 {
			text = strings.ReplaceAll(text, "\nFORGED", "") // of the caller's own arguments
		}
		checkClean(t, fmt.Sprintf("%q, errors", what), text)
	}
}
