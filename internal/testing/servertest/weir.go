package servertest

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Serve starts cmd, the command weir, and waits until it listens for each section, such
// as "http", "admin" and "grpc". The test fails if it ends with an error before.
func Serve(t testing.TB, cmd *exec.Cmd, sections ...string) *Process {
	t.Helper()
	p := Start(t, cmd)
	Await(t, "weir to listen", func() bool {
		ready := !slices.ContainsFunc(sections, func(s string) bool { return p.Listening(s) == "" })
		if !ready && strings.Contains(p.Output(), "weir: ") {
			t.Fatalf("weir did not start:\n%s", p.Output())
		}
		return ready
	})
	return p
}

// Listening returns the address, HOST:PORT, at which the command weir listens for a
// section by its log, in either form. It is empty if there is none.
func (p *Process) Listening(section string) string {
	addr, _ := p.listening(section)
	return addr
}

// URL returns the base URL of a section of the command weir, which logs JSON. It is empty
// if it does not listen.
func (p *Process) URL(section string) string {
	addr, tls := p.listening(section)
	switch {
	case addr == "":
		return ""
	case tls:
		return "https://" + addr
	}
	return "http://" + addr
}

func (p *Process) listening(section string) (addr string, tls bool) {
	for line := range strings.Lines(p.Output()) {
		var l struct {
			Msg, Section, Addr string
			TLS                bool
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "listening" && l.Section == section {
			return l.Addr, l.TLS
		}
		if _, rest, ok := strings.Cut(line, "msg=listening section="+section+" addr="); ok {
			addr, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return addr, false
		}
	}
	return "", false
}
