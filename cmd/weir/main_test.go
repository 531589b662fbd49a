package main_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirlimit/weir/internal/testing/race"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// binary is the path of the built command. Set once by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

// build builds the command and runs the tests with it.
func build(m *testing.M) int {
	flag.Parse()
	var flags []string
	// A command that is built with the race detector takes minutes on a small machine.
	if race.Enabled && !testing.Short() {
		flags = append(flags, "-race")
	}
	path, clean, err := servertest.Command(flags...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer clean()
	binary = path
	return m.Run()
}

// node is a running server.
type testNode struct {
	*servertest.Process
	// http and admin are base URLs.
	http, admin string
}

// serve starts `weir serve` on free ports with further arguments.
func serve(t *testing.T, args ...string) *testNode {
	t.Helper()
	all := append([]string{"serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json"}, args...)
	n := &testNode{Process: servertest.Serve(t, servertest.Invoke(binary, all...), "http", "admin")}
	n.http, n.admin = n.URL("http"), n.URL("admin")
	return n
}

// client keeps no connection, so that no node waits for one when it ends.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get returns the status and body of a GET.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, res)
}

// post returns the status and body of a POST of JSON.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	res, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, res)
}

func read(t *testing.T, res *http.Response) (int, string) {
	t.Helper()
	return res.StatusCode, servertest.Body(t, res)
}

// The command's answers, as a user types and reads them. $SERVER and
// $ADMIN are a running server's addresses, with examples/rules.yaml; $SHEDDING
// is the admin address of one that sheds load.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	n := serve(t, "--rules", filepath.Join(root, "examples", "rules.yaml"), "--limit", "3/hour by client_id")
	shedding := serve(t, "--config", routesOf(t, `
  - {path: /, upstream: "http://127.0.0.1:1"}
shed:
  user_rate: {limit: 100/second, burst: 200}
  fleet_share: {limit: 5000/second, mode: shadow}
  in_flight: {limit: 400}
`))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(binary)+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("SERVER", n.http)
			e.Setenv("ADMIN", n.admin)
			e.Setenv("SHEDDING", shedding.admin)
			e.Setenv("ROOT", root)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}

// status runs a command and compares its exit status: status 1 weir check x.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if exit, ok := err.(*exec.ExitError); ok {
		got = fmt.Sprint(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}
