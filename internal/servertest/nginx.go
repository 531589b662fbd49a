package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Nginx starts nginx with the given content of its server block on a free
// loopback port and returns its address as HOST:PORT. Its access log is
// access.log in the folder that is returned too.
func Nginx(t testing.TB, conf string) (addr, dir string) {
	t.Helper()
	bin := Binary(t, "nginx")
	dir = t.TempDir()
	addr = fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	// In the foreground, as this user, and with every path in dir.
	full := fmt.Sprintf(`
daemon off;
worker_processes 1;
error_log stderr warn;
pid %[1]s/nginx.pid;
events { worker_connections 1024; }
http {
	access_log %[1]s/access.log;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_requests 1000000;
	server {
		listen %[2]s;
		%[3]s
	}
}
`, dir, addr, conf)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(full), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Start(t, exec.Command(bin, "-p", dir, "-c", path, "-e", "stderr"))
	p.AwaitListen(t, addr)
	return addr, dir
}
