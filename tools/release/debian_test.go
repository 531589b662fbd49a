package release

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBareDebian installs the package and the archive where there is nothing but Debian's
// base system: no systemd, no certificates, no curl. Both refuse the fourth of three
// requests a minute, in front of a service, and a purge leaves nothing. It is a long form,
// as it downloads that base system.
func TestBareDebian(t *testing.T) {
	if os.Getenv("WEIR_SOAK") == "" {
		t.Skip("WEIR_SOAK is not set")
	}
	if os.Geteuid() != 0 {
		t.Fatal("only root can make a base system")
	}
	base := t.TempDir()
	check(t, os.Chmod(base, 0o755)) // another user runs what is in it
	run(t, "debootstrap", "--variant=minbase", "bookworm", base)
	inside := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: base, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd
	}
	asRoot := func(name string, args ...string) {
		t.Helper()
		cmd := inside(name, args...)
		cmd.SysProcAttr.Credential = nil
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	for pattern, name := range map[string]string{"*_linux_amd64.deb": "weir.deb", "*_linux_amd64.tar.gz": "weir.tar.gz"} {
		check(t, os.WriteFile(filepath.Join(base, name), []byte(read(t, only(t, dist, pattern))), 0o644))
	}

	asRoot("/usr/bin/dpkg", "-i", "/weir.deb")
	asRoot("/usr/bin/weir", "check", "/etc/weir/weir.yaml")
	serve(t, inside("/usr/bin/weir", "serve", "--config", "/etc/weir/weir.yaml", "--log-format", "text"))
	refuseTheFourth(t, inside("/usr/bin/weir"))

	asRoot("/bin/tar", "-C", "/opt", "-xzf", "/weir.tar.gz")
	command := strings.TrimPrefix(only(t, base+"/opt", "weir*/weir"), base)
	refuseTheFourth(t, inside(command))

	asRoot("/usr/bin/dpkg", "--purge", "weir")
	for _, f := range append([]string{"/etc/weir", "/usr/share/doc/weir", "/var/lib/weir"}, files...) {
		if _, err := os.Lstat(base + f); !os.IsNotExist(err) {
			t.Errorf("%s after the purge: %v", f, err)
		}
	}
}

// refuseTheFourth starts a command of weir as the README does, in front of a service, and
// asks it four times.
func refuseTheFourth(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer upstream.Close()
	cmd.Args = append(cmd.Args, "serve", "--limit", "3/minute by ip", "--upstream", upstream.URL, "--log-format", "text")
	base, stop := start(t, cmd)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 4 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/", nil)
		check(t, err)
		answer, err := http.DefaultClient.Do(r)
		check(t, err)
		answer.Body.Close()
		want := http.StatusOK
		if i == 3 {
			want = http.StatusTooManyRequests
		}
		if wait := answer.Header.Get("Retry-After"); answer.StatusCode != want || (wait != "") != (i == 3) {
			t.Errorf("request %d: %s, Retry-After %q", i+1, answer.Status, wait)
		}
	}
}
