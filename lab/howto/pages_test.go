package howto

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// rootFolder names the variable with the folder of the checkout.
const rootFolder = "HOWTO_ROOT"

// An omission is a command of a page that is not run here, by how it begins.
type omission struct{ command, reason string }

// A page needs more than the command: what its reader has before the first step.
type page struct {
	hosts    []string                 // names of hosts, which are this machine
	programs []string                 // that must be installed
	built    []string                 // that make servers must have built
	setup    []func(dir string) error // what is there, and runs
	left     []omission
}

// pages are those that need more than the command.
var pages = map[string]page{
	"how-to/alerts.md":        {programs: []string{"promtool"}, setup: []func(string) error{checkout}},
	"how-to/capacity.md":      {left: []omission{{"go install", network}}},
	"how-to/ban.md":           {setup: []func(string) error{application}},
	"how-to/load-shedding.md": {setup: []func(string) error{application}},
	"how-to/try-rules.md":     {setup: []func(string) error{accessLog}},
	"how-to/operations.md": {setup: []func(string) error{node}, left: []omission{
		{"weir key ban e3ac7d870c9f2649d199a0111b2e7b8f", "the hash of a client is another in each process"},
		{"weir serve --rules rules.yaml --events amqp:", queue},
		{"weir analytics --events amqp:", queue},
	}},
	"how-to/install.md": {left: []omission{
		{"sha256sum", release}, {"dpkg", release}, {"systemctl", release}, {"curl", release}, {"podman", release}, {"skopeo", release}, {"docker run", release},
		{"go install", network},
	}},
	"how-to/fleet.md":        {programs: []string{"redis-server", "redis-cli"}},
	"tutorials/saas.md":      {setup: []func(string) error{application}},
	"how-to/forward-auth.md": {programs: []string{"nginx", "haproxy"}, built: []string{"caddy"}, setup: []func(string) error{application, checkout, proxies}},
	"how-to/kubernetes.md": {left: []omission{
		{"kubectl create", cluster}, {"kubectl create", cluster}, {"helm", cluster}, {"kubectl rollout", cluster}, {"kubectl port-forward", cluster}, {"curl", cluster},
	}},
	"how-to/load-balancer.md": {setup: []func(string) error{application}},
	"how-to/upgrade.md":       {programs: []string{"redis-server"}, setup: []func(string) error{redis}},
	"how-to/go.md":            {setup: []func(string) error{module}, left: []omission{{"go mod init", network}, {"go get", network}}},
	"tutorials/library.md":    {setup: []func(string) error{module}, left: []omission{{"go mod init", network}, {"go get", network}}},
	"tutorials/gateway.md":    {hosts: []string{"redis"}, programs: []string{"curl", "redis-server"}, setup: []func(string) error{application, redis, accessLog}},
}

// Why commands are left out, and what runs them.
const (
	release = "a release is not built here: tools/release installs its package and runs its image"
	cluster = "there is no cluster: tools/helm renders the chart by the page's values"
	network = "no page reaches the network: the module of the checkout is taken instead"
	queue   = "RabbitMQ is not here: internal/insight/queue/rabbitmq runs it"
)

// node writes rules.yaml, and runs a node that keeps it.
func node(dir string) error {
	const rules = "domain: api\ndescriptors:\n  - {key: client_id, limit: {limit: 100/minute, name: per_minute}, algorithm: token_bucket}\n"
	if err := writeFile(filepath.Join(dir, "rules.yaml"), rules); err != nil {
		return err
	}
	cmd := exec.Command("weir", "serve", "--rules", "rules.yaml")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		return err
	}
	return reach("localhost:8080")
}

// application serves HTTP on port 3000: what a reader has that is to be limited.
func application(string) error {
	ln, err := net.Listen("tcp", ":3000")
	if err != nil {
		return err
	}
	go func() {
		err := http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s\n", r.Method, r.URL.Path)
		}))
		if !errors.Is(err, net.ErrClosed) {
			fmt.Println("application:", err)
		}
	}()
	return nil
}

// redis runs a Redis on its usual port.
func redis(dir string) error {
	cmd := exec.Command("redis-server", "--save", "", "--dir", dir)
	if err := cmd.Start(); err != nil {
		return err
	}
	return reach("localhost:6379")
}

// reach waits until somebody listens at an address.
func reach(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for ctx.Err() == nil {
		if c, err := net.Dial("tcp", addr); err == nil {
			return c.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// accessLog writes access.log, of three clients in one minute: two ask for pages, and one
// tries passwords.
func accessLog(dir string) error {
	f, err := os.Create(filepath.Join(dir, "access.log"))
	if err != nil {
		return err
	}
	for i := range 60 {
		for client, path := range []string{"/", "/items", "/login"} {
			if client == 2 || i%6 == client {
				fmt.Fprintf(f, "192.0.2.%d - - [26/Nov/2026:10:00:%02d +0000] \"GET %s HTTP/1.1\" 200 512 \"-\" \"curl/8.0\"\n", client+1, i, path)
			}
		}
	}
	return f.Close()
}

// checkout makes deploy/ and examples/ of the repository appear in the folder.
func checkout(dir string) error {
	for _, name := range []string{"deploy", "examples"} {
		if err := os.Symlink(filepath.Join(os.Getenv(rootFolder), name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// module makes the folder a Go module that takes Weir from the checkout, as go mod init and
// go get make it from a release. All that the checkout needs is in the module cache.
func module(dir string) error {
	root := os.Getenv(rootFolder)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "go.sum"), string(sums)); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	own := strings.Replace(string(text), "module github.com/weirlimit/weir", "module example.com/shop", 1)
	own += "\nrequire github.com/weirlimit/weir v0.0.0\nreplace github.com/weirlimit/weir => " + root + "\n"
	return writeFile(filepath.Join(dir, "go.mod"), own)
}

// proxies gives the namespace folders of nginx and HAProxy of its own, as they are after
// they were installed.
func proxies(string) error {
	for _, folder := range []string{"/etc/nginx", "/etc/haproxy", "/run", "/var/log/nginx"} {
		if err := shelter(folder); err != nil {
			return err
		}
	}
	return nil
}
