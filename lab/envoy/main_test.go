package envoy

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// command is the path of the built command. Set once by TestMain.
var command string

func TestMain(m *testing.M) { os.Exit(build(m)) }

// together is how many tests run at once: they wait for processes more than they count.
const together = "4"

func build(m *testing.M) int {
	if err := flag.Set("test.parallel", together); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	path, clean, err := servertest.Command()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer clean()
	command = path
	return m.Run()
}

// processes says that a test does all with processes, of which the race detector sees
// nothing: it is left out of the brief run that is made for it.
func processes(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("nothing of it runs in this process")
	}
	t.Parallel()
}

// Ports of the files of deploy/envoy, and of every configuration here.
const (
	portListener    = 80
	portAdmin       = 9901
	portApplication = 3000
	portWeirHTTP    = 8080
	portWeirGRPC    = 8081
)

// proxy is a running Envoy.
type proxy struct {
	*servertest.Process
	// url is the base URL of its first listener, admin that of its administration.
	url, admin string
}

var portValue = regexp.MustCompile(`(port_value"?: ?)(\d+)\b`)

var shortTimeout = regexp.MustCompile(`(\btimeout"?: ?"?)0\.\d+s`)

// startEnvoy starts an Envoy by a configuration in YAML or JSON, in which only ports are
// changed, see startImpatient, and timeouts, as a busy machine is late.
func startEnvoy(t testing.TB, conf string, to map[int]string) *proxy {
	t.Helper()
	return startImpatient(t, shortTimeout.ReplaceAllString(conf, "${1}5s"), to)
}

// startImpatient starts an Envoy by a configuration in which only ports are changed: to of
// each that it names is the address that stands there instead. Envoy picks those at which
// it listens itself.
func startImpatient(t testing.TB, conf string, to map[int]string) *proxy {
	t.Helper()
	bin := servertest.Built(t, "envoy")
	dir := t.TempDir()
	conf = portValue.ReplaceAllStringFunc(conf, func(s string) string {
		m := portValue.FindStringSubmatch(s)
		port, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if port == portListener || port == portAdmin || port == 0 {
			return m[1] + "0"
		}
		addr, ok := to[port]
		if !ok {
			t.Fatalf("nothing stands at port %d", port)
		}
		return m[1] + addr[strings.LastIndexByte(addr, ':')+1:]
	})
	file, adminFile := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &proxy{Process: servertest.Start(t, exec.Command(bin, "-c", file, "--admin-address-path", adminFile,
		"--use-dynamic-base-id", "--concurrency", "2", "--log-level", "warning", "--file-flush-interval-msec", "10"))}
	// Nothing is asked of it any more: it need not drain.
	t.Cleanup(func() { _ = p.Signal(syscall.SIGKILL) })
	servertest.Await(t, "envoy", func() bool {
		if _, err := p.Wait(gone); err == nil {
			t.Fatalf("envoy did not start:\n%s\n%s", p.Output(), conf)
		}
		addr, err := os.ReadFile(adminFile)
		if err != nil || len(addr) == 0 {
			return false
		}
		p.admin = "http://" + string(addr)
		res, err := http.Get(p.admin + "/ready")
		return err == nil && strings.HasPrefix(servertest.Body(t, res), "LIVE")
	})
	var listeners struct {
		Statuses []struct {
			Address struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(p.ask(t, "/listeners?format=json")), &listeners); err != nil || len(listeners.Statuses) == 0 {
		t.Fatalf("no listener: %v", err)
	}
	p.url = fmt.Sprintf("http://127.0.0.1:%d", listeners.Statuses[0].Address.Socket.Port)
	return p
}

// gone is a context that has ended.
var gone = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// ask asks the administration.
func (p *proxy) ask(t testing.TB, path string) string {
	t.Helper()
	res, err := http.Get(p.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Body(t, res)
}

// stat returns a counter or gauge of Envoy.
func (p *proxy) stat(t testing.TB, name string) int {
	t.Helper()
	text := p.ask(t, "/stats?filter=^"+regexp.QuoteMeta(name)+"$")
	_, value, ok := strings.Cut(strings.TrimSpace(text), ": ")
	n, err := strconv.Atoi(value)
	if !ok || err != nil {
		t.Fatalf("no number %s: %q", name, text)
	}
	return n
}

// addr returns HOST:PORT of the listener.
func (p *proxy) addr() string { return strings.TrimPrefix(p.url, "http://") }

// dial makes a connection to the listener, for a minute.
func (p *proxy) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// serve starts `weir serve` with free ports for HTTP and gRPC.
func serve(t testing.TB, args ...string) *servertest.Process {
	t.Helper()
	cmd := exec.Command(command, append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	p := servertest.Serve(t, cmd, "http", "grpc")
	t.Cleanup(func() { _ = p.Signal(syscall.SIGKILL) })
	return p
}

// ports maps the ports of a configuration to an application and a `weir serve`.
func ports(app string, weir *servertest.Process) map[int]string {
	return map[int]string{portApplication: app, portWeirHTTP: weir.Listening("http"), portWeirGRPC: weir.Listening("grpc")}
}

// deployed returns a file of deploy/.
func deployed(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// writeFile writes a file of the test and returns its path.
func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// got is a response that was read.
type got struct {
	code int
	http.Header
	body string
}

// get asks for a path with header fields in pairs.
func (p *proxy) get(t testing.TB, path string, fields ...string) got {
	t.Helper()
	return p.do(t, http.DefaultClient, "GET", path, "", fields...)
}

// do sends a request. A field "Host" is the host.
func (p *proxy) do(t testing.TB, client *http.Client, method, path, body string, fields ...string) got {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		if req.Header.Add(fields[i], fields[i+1]); fields[i] == "Host" {
			req.Host = fields[i+1]
		}
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got{res.StatusCode, res.Header, string(text)}
}

// codes sends n requests and returns their statuses.
func (p *proxy) codes(t testing.TB, n int, path string, fields ...string) (codes []int) {
	t.Helper()
	for range n {
		codes = append(codes, p.get(t, path, fields...).code)
	}
	return codes
}

// folderOf returns the folder that holds the folder of a file: of config/shop.yaml.
func folderOf(file string) string { return filepath.Dir(filepath.Dir(file)) }
