package fleet

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyFullDisks: while no file of a node can grow, decisions go on, a change by an
// operator is not made and says so, what was kept stays as it was, and the log names what
// cannot be written. When there is room again all goes on by itself.
//
// A limit on the size of files, unlike a small file system, needs no rights.
func TestFamilyFullDisks(t *testing.T) {
	processes(t)
	dir := t.TempDir()
	overlay := filepath.Join(dir, "changes.json")
	n := serve(t, "memory:", rules(t, "{key: user, limit: 1000/day}"), "--overlay", overlay, "--analytics", "sqlite:"+filepath.Join(dir, "events.db"))
	post := func(url, body string) (int, string) {
		t.Helper()
		res, err := client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, servertest.Body(t, res)
	}
	ban := func(user string, want int) string {
		t.Helper()
		status, text := post(n.admin+"/v1/admin/ban", fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":"user","value":%q}]}],"seconds":3600}`, domain, user))
		if status != want {
			t.Errorf("ban of %s: %d %s, want %d", user, status, text, want)
		}
		return text
	}
	passes := func(user string, want bool) {
		t.Helper()
		status, text := post(n.http+"/v1/check", fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":{"user":%q}}]}`, domain, user))
		if status != http.StatusOK || strings.Contains(text, `{"allowed":true`) != want {
			t.Errorf("%s: %d %s, want allowed %t", user, status, text, want)
		}
	}
	kept := func() map[string]string {
		t.Helper()
		all := map[string]string{}
		names, err := filepath.Glob(overlay + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(text)
		}
		return all
	}
	room := func(bytes uint64) {
		t.Helper()
		limit := unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}
		if err := unix.Prlimit(n.Pid(), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
			t.Fatal(err)
		}
	}

	ban("ann", http.StatusOK)
	before := kept()
	room(100)
	if text := ban("bob", http.StatusServiceUnavailable); !strings.Contains(text, "the file of --overlay cannot be written, so nothing was changed") {
		t.Errorf("the answer is %s", text)
	}
	passes("ann", false)
	passes("bob", true)
	if now := kept(); !maps.Equal(now, before) {
		t.Errorf("on the disk is %v, want %v", slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(before)))
	}
	servertest.Await(t, "the database to be missed", func() bool { passes("bob", true); return len(n.lines(t, "database unavailable")) == 1 })
	if refused := n.lines(t, "operator not answered"); len(refused) != 1 || !strings.Contains(refused[0].Err, overlay) {
		t.Errorf("logged: %+v", refused)
	}
	room(unix.RLIM_INFINITY)
	ban("cid", http.StatusOK)
	passes("cid", false)
	passes("bob", true)
	servertest.Await(t, "the database to be back", func() bool { passes("bob", true); return len(n.lines(t, "database recovered")) == 1 })
	if text := kept()[overlay]; !strings.Contains(text, "ann") || strings.Contains(text, "bob") || !strings.Contains(text, "cid") {
		t.Errorf("the file has %s", text)
	}
}

// TestReadOnlyFolderIsToldFirst: a folder in which nothing can be written is told at the
// start, as the first change would fail.
func TestReadOnlyFolderIsToldFirst(t *testing.T) {
	processes(t)
	n := serve(t, "memory:", rules(t, "{key: user, limit: 1000/day}"), "--overlay", "/proc/changes.json") // nobody creates files there
	if told := n.lines(t, "changes by operators will fail"); len(told) != 1 || !strings.Contains(told[0].Err, "/proc/changes.json") {
		t.Errorf("logged: %+v in\n%s", told, n.Output())
	}
}
