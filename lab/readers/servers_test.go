package readers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// installed is where scripts/readers.sh puts what the servers need.
const installed = "../../bin/readers"

// startServers starts every server and returns their addresses by name.
func startServers(t testing.TB) map[string]string {
	t.Helper()
	if _, err := os.Stat(installed); err != nil {
		t.Fatal("bin/readers is not there: `make bin/readers` makes it")
	}
	at := map[string]string{}
	start := func(name string, command func(port string) *exec.Cmd) {
		port := fmt.Sprint(servertest.FreePort(t))
		at[name] = "127.0.0.1:" + port
		cmd := command(port)
		cmd.Dir = "servers"
		servertest.Start(t, cmd)
	}
	for _, name := range []string{"express4", "express5", "fastify", "koa", "node"} {
		start(name, func(port string) *exec.Cmd {
			cmd := exec.Command(servertest.Binary(t, "node"), "node.js", name, port)
			cmd.Env = append(os.Environ(), "NODE_PATH="+absolute(t, installed+"/node_modules"))
			return cmd
		})
	}
	for _, name := range []string{"flask", "werkzeug", "starlette", "django"} {
		start(name, func(port string) *exec.Cmd {
			return exec.Command(absolute(t, installed+"/python/bin/python"), "python.py", name, port)
		})
	}
	for _, name := range []string{"tomcat", "jetty"} {
		start(name, func(port string) *exec.Cmd {
			return exec.Command(servertest.Binary(t, "java"), "-cp", absolute(t, installed+"/java/*"), "-Xmx128m", "Java.java", name, port)
		})
	}
	start("php", func(port string) *exec.Cmd {
		return exec.Command(servertest.Binary(t, "php"), "-S", "127.0.0.1:"+port, "router.php")
	})
	start("nginx", func(port string) *exec.Cmd {
		text, err := os.ReadFile("servers/nginx.conf")
		if err != nil {
			t.Fatal(err)
		}
		conf := filepath.Join(t.TempDir(), "nginx.conf")
		if err := os.WriteFile(conf, bytes.ReplaceAll(text, []byte("PORT"), []byte(port)), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.Command(servertest.Binary(t, "nginx"), "-p", filepath.Dir(conf), "-c", conf, "-e", "stderr")
	})
	at["go"] = serveGo(t)
	for name, addr := range at {
		servertest.Await(t, name, func() bool {
			c, err := net.Dial("tcp", addr)
			return err == nil && c.Close() == nil
		})
	}
	return at
}

func absolute(t testing.TB, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// serveGo serves with Go's own router.
func serveGo(t testing.TB) string {
	t.Helper()
	mux := http.NewServeMux()
	say := func(route string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			found := reading{Route: route, Keys: append(r.Header.Values("X-Api-Key"), r.URL.Query()["api_key"]...), Accounts: r.URL.Query()["account"]}
			for _, c := range r.Cookies() {
				switch c.Name {
				case "api_key":
					found.Keys = append(found.Keys, c.Value)
				case "account":
					found.Accounts = append(found.Accounts, c.Value)
				}
			}
			if err := json.NewEncoder(w).Encode(found); err != nil {
				t.Error(err)
			}
		}
	}
	mux.Handle("/health", say("health"))
	mux.Handle("/health/{$}", say("health"))
	for _, one := range []string{"graphql", "static", "admin"} {
		mux.Handle("/"+one, say(one))
		mux.Handle("/"+one+"/", say(one))
	}
	mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := "rest"
		if s := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); len(s) == 2 && s[1] == "open" { // "/{x}/open" conflicts with "/admin/"
			route = "open"
		}
		say(route)(w, r)
	}))
	return serve(t, mux)
}

// readBy sends a request to a server and returns what it read, or false if it refused.
func readBy(addr, head string) (reading, bool, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return reading{}, false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return reading{}, false, err
	}
	if _, err := io.WriteString(c, head); err != nil {
		return reading{}, false, nil // it has hung up
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return reading{}, false, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return reading{}, false, nil
	}
	if res.Header.Get("Content-Type") == "text/plain" { // nginx, which neither quotes nor decodes
		lines := strings.Split(string(body), "\n")
		if len(lines) != 6 {
			return reading{}, false, fmt.Errorf("%q from %q", body, head)
		}
		for _, i := range []int{2, 4} {
			if s, err := url.QueryUnescape(lines[i]); err == nil {
				lines[i] = s
			}
		}
		return reading{lines[0], lines[1:4], lines[4:]}, true, nil
	}
	var r reading
	if err := json.Unmarshal(body, &r); err != nil {
		return reading{}, false, fmt.Errorf("%q from %q: %w", body, head, err)
	}
	return r, true, nil
}

// TestFamilyRealReaders asks real servers about requests that are made anew.
func TestFamilyRealReaders(t *testing.T) {
	if os.Getenv("WEIR_SOAK") != "1" {
		t.Skip("WEIR_SOAK=1 starts the servers; TestReadersAgree replays what they read")
	}
	at := startServers(t)
	d := openDoors(t)
	update := os.Getenv("WEIR_UPDATE") == "1"
	many, seed := 20_000, seeds.Of(t)
	if update {
		many, seed = 2_000, 1
	}
	m := maker{rand.New(rand.NewPCG(seed, 31))}
	var all []recorded
	var mu sync.Mutex
	requests := slices.Concat(once, ordinary)
	for range many {
		requests = append(requests, m.next())
	}
	for _, r := range requests {
		one := recorded{r, map[string][]string{}}
		var asked sync.WaitGroup
		for name, addr := range at {
			asked.Go(func() {
				r, served, err := readBy(addr, one.request.head())
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("%s: %v", name, err)
				} else if served {
					one.by[r.text()] = append(one.by[r.text()], name)
				}
			})
		}
		asked.Wait()
		for text := range one.by {
			slices.Sort(one.by[text])
		}
		all = append(all, one)
		if c, passes := d.ask(one.request); passes {
			for text, servers := range one.by {
				if what := disagreement(c, readingOf(t, text)); what != "" {
					t.Errorf("%q %q is counted by %+v: %v find %s: %s", one.request.target, one.request.fields, c, servers, what, text)
				}
			}
		}
	}
	if update {
		save(t, all)
	}
}
