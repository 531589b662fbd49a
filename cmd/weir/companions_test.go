package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// as runs the companion of a name and returns its exit status and what it says.
func as(t *testing.T, name string, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code, ok := runByName(name, args, streams{out: &out, err: &out})
	if !ok {
		t.Fatalf("%s is no companion", name)
	}
	return code, out.String()
}

func TestCompanions(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("domain: a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := as(t, "config_check_cmd", "-config_dir", dir); code != 0 || !strings.HasSuffix(out, "all rate limit configs ok\n") {
		t.Errorf("config_check_cmd: %d %s", code, out)
	}
	if code, out := as(t, "ratelimit_config_check", "-config_dir="+dir+"/none"); code != 1 || !strings.Contains(out, "error opening directory") {
		t.Errorf("of no directory: %d %s", code, out)
	}
	if code, out := as(t, "client_cmd", "-dial_string", "127.0.0.1:1", "-domain", "d", "-descriptors", "a=1,b=2"); code != 1 ||
		!strings.Contains(out, `Flag: --descriptors="[ <key=a, value=1>  <key=b, value=2> ] "`) || !strings.Contains(out, "request error: ") {
		t.Errorf("client_cmd: %d %s", code, out)
	}
	for _, args := range [][]string{{"-descriptors", "a"}, {"-descriptors", "a=b=c"}, {"-colour"}} {
		if code, _ := as(t, "client_cmd", args...); code != 2 {
			t.Errorf("client_cmd %q: %d, want 2", args, code)
		}
	}
	if code, out := as(t, "client_cmd", "-h"); code != 0 || !strings.Contains(out, "dial_string") {
		t.Errorf("client_cmd -h: %d %s", code, out)
	}
	if _, ok := runByName("weir", nil, streams{}); ok {
		t.Error("weir is a companion")
	}
}

func TestAsRatelimit(t *testing.T) {
	for _, tt := range [][2]string{
		{"/bin/ratelimit", "ratelimit"}, {"ratelimit --x y", "ratelimit"}, {"./ratelimit -h", "ratelimit --help"},
		{"/bin/weir check x", "check x"}, {"weir", ""},
	} {
		if got := strings.Join(asRatelimit(strings.Fields(tt[0])), " "); got != tt[1] {
			t.Errorf("%s means %q, want %q", tt[0], got, tt[1])
		}
	}
}
