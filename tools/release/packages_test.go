package release

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// files are what both packages hold, beside the manual pages and what zsh reads.
var files = []string{
	"/etc/weir/rules.yaml",
	"/etc/weir/weir.yaml",
	"/usr/bin/weir",
	"/usr/lib/systemd/system/weir.service",
	"/usr/share/bash-completion/completions/weir",
	"/usr/share/fish/vendor_completions.d/weir.fish",
	"/usr/share/man/man1/weir-serve.1.gz",
	"/usr/share/man/man1/weir.1.gz",
}

// TestDeb installs the package on this machine, or unpacks it where the user is not root,
// uses what is in it as an operator does, and removes it again.
func TestDeb(t *testing.T) {
	t.Parallel()
	need(t, "dpkg", "man", "systemd-analyze", "systemctl", "bash")
	deb := only(t, dist, "*_linux_amd64.deb")
	at, installed := install(t, deb)
	t.Run("files", func(t *testing.T) {
		for _, f := range append(files, "/usr/share/zsh/vendor-completions/_weir", "/usr/share/doc/weir/copyright", "/usr/share/doc/weir/THIRD-PARTY") {
			if info, err := os.Stat(at + f); err != nil || info.Size() == 0 || info.Mode()&0o022 != 0 {
				t.Errorf("%s: %v, %v", f, info, err)
			}
		}
		if conf := run(t, "dpkg-deb", "-I", deb, "conffiles"); conf != "/etc/weir/rules.yaml\n/etc/weir/weir.yaml\n" {
			t.Errorf("files of the administrator: %q", conf)
		}
	})
	t.Run("version", func(t *testing.T) { checkVersion(t, at+"/usr/bin/weir", "version", "--json") })
	t.Run("man", func(t *testing.T) { checkMan(t, at+"/usr/share/man/man1") })
	t.Run("completion", func(t *testing.T) { checkCompletion(t, at+"/usr/share") })
	t.Run("unit", func(t *testing.T) { checkUnit(t, at) })
	t.Run("serve", func(t *testing.T) {
		unit := read(t, at+"/usr/lib/systemd/system/weir.service")
		_, line, _ := strings.Cut(unit, "\nExecStart=")
		line, _, _ = strings.Cut(line, "\n")
		args := strings.Fields(line)
		for i, a := range args {
			if strings.HasPrefix(a, "/") {
				args[i] = at + a
			}
		}
		if !installed {
			args = append(args, "--rules", at+"/etc/weir/rules.yaml")
		}
		serve(t, exec.Command(args[0], args[1:]...))
	})
	if installed {
		t.Run("removal", checkRemoval)
	}
}

// install installs the package and has it purged at the end. Not root, it unpacks it, and
// returns where.
func install(t *testing.T, deb string) (at string, installed bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		at = t.TempDir()
		run(t, "dpkg-deb", "-x", deb, at)
		return at, false
	}
	lockMachine(t)
	for _, f := range []string{"/usr/bin/weir", "/etc/weir", "/var/lib/weir", "/var/lib/private/weir"} {
		if _, err := os.Lstat(f); err == nil {
			t.Fatalf("%s is on this machine: the test would remove it", f)
		}
	}
	t.Cleanup(func() { run(t, "dpkg", "--purge", "weir") })
	run(t, "dpkg", "-i", deb)
	return "", true
}

// lockMachine waits for another run of the test on this machine, which has it to itself.
func lockMachine(t *testing.T) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "weir-packages.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	check(t, err)
	t.Cleanup(func() { lock.Close() })
	check(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
}

// checkVersion runs the command, which says the commit of the checkout and its time.
func checkVersion(t *testing.T, name string, args ...string) {
	t.Helper()
	var build struct{ Version, Revision, Time string }
	out := run(t, name, args...)
	if err := json.Unmarshal([]byte(out), &build); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	head := strings.Fields(run(t, "env", "TZ=UTC", "git", "-C", root, "log", "-1", "--format=%H %cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"))
	if build.Revision != head[0] || build.Time != head[1] || !strings.HasPrefix(build.Version, "v") {
		t.Errorf("%s: want %v", out, head)
	}
}

// checkMan reads every page: man has nothing to complain about, and each is of the
// subcommand in its name.
func checkMan(t *testing.T, folder string) {
	pages, err := filepath.Glob(folder + "/weir*.1.gz")
	if err != nil || len(pages) < 15 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		cmd := exec.Command("man", "--warnings=w", "-E", "UTF-8", "-l", page)
		cmd.Env = append(os.Environ(), "MANWIDTH=200", "LC_ALL=C.UTF-8", "MANROFFOPT=", "PAGER=cat")
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		name, _, _ := strings.Cut(filepath.Base(page), ".")
		if err != nil || complaints.Len() > 0 || !strings.Contains(string(out), "\n       "+name+" - ") {
			t.Errorf("%s: %v, %s\n%.400s", page, err, complaints.String(), out)
		}
		if name == "weir-serve" && !strings.Contains(string(out), "\n       --upstream=URL\n") {
			t.Errorf("%s has no flags:\n%s", page, out)
		}
	}
}

// checkCompletion asks bash for the words after "weir ser", and each shell that is here
// whether it can read its script.
func checkCompletion(t *testing.T, share string) {
	script := share + "/bash-completion/completions/weir"
	const ask = `source "$0"; COMP_WORDS=(weir ser); COMP_CWORD=1; _weir; echo "${COMPREPLY[*]}"`
	if words := run(t, "bash", "--norc", "-c", ask, script); words != "serve\n" {
		t.Errorf("bash completes %q", words)
	}
	for shell, script := range map[string]string{"zsh": "/zsh/vendor-completions/_weir", "fish": "/fish/vendor_completions.d/weir.fish"} {
		if _, err := exec.LookPath(shell); err == nil {
			run(t, shell, "-n", share+script)
		}
	}
}

// checkUnit asks systemd about the unit: it is right, and hardened.
func checkUnit(t *testing.T, at string) {
	unit := at + "/usr/lib/systemd/system/weir.service"
	if at == "" { // it names /usr/bin/weir
		if out := run(t, "systemd-analyze", "verify", unit); out != "" {
			t.Errorf("verify: %s", out)
		}
		const wanted = "/etc/systemd/system/multi-user.target.wants/weir.service"
		run(t, "systemctl", "enable", "weir.service") // the removal disables it
		if _, err := os.Stat(wanted); err != nil {
			t.Error(err)
		}
	}
	// In tenths: above 3.0 it fails.
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", unit).CombinedOutput()
	if err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}

// checkRemoval: a removal keeps the configuration, a purge nothing.
func checkRemoval(t *testing.T) {
	_, err := os.Stat("/var/lib/private")
	if errors.Is(err, fs.ErrNotExist) {
		t.Cleanup(func() { os.Remove("/var/lib/private") })
	}
	check(t, os.MkdirAll("/var/lib/private/weir", 0o700))
	check(t, os.WriteFile("/var/lib/private/weir/analytics.db", nil, 0o600))
	list := strings.Fields(run(t, "dpkg", "-L", "weir"))
	run(t, "dpkg", "--remove", "weir")
	for _, f := range list {
		info, err := os.Stat(f)
		config := strings.HasPrefix(f, "/etc/weir")
		if config != (err == nil) && (err != nil || !info.IsDir()) {
			t.Errorf("%s after the removal: %v", f, err)
		}
	}
	run(t, "dpkg", "--purge", "weir")
	gone := []string{"/etc/weir", "/usr/bin/weir", "/usr/share/doc/weir", "/var/lib/weir", "/var/lib/private/weir",
		"/etc/systemd/system/multi-user.target.wants/weir.service"}
	for _, f := range append(gone, files...) {
		if _, err := os.Lstat(f); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s after the purge: %v", f, err)
		}
	}
}

// TestRPM unpacks the package.
func TestRPM(t *testing.T) {
	t.Parallel()
	need(t, "rpm2cpio", "cpio")
	at := t.TempDir()
	cmd := exec.Command("sh", "-c", `rpm2cpio "$0" | cpio -idm --quiet --no-absolute-filenames`, only(t, dist, "*_linux_amd64.rpm"))
	cmd.Dir = at
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range append(slices.Clone(files), "/usr/share/zsh/site-functions/_weir", "/usr/share/licenses/weir/LICENSE", "/usr/share/licenses/weir/THIRD-PARTY") {
		if info, err := os.Stat(at + f); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", f, info, err)
		}
	}
	checkVersion(t, at+"/usr/bin/weir", "version", "--json")
}

// asUser has a command run as a user who owns nothing, as the unit and the image do, if
// this one may.
func asUser(cmd *exec.Cmd, user uint32) {
	if os.Geteuid() != 0 {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
}
