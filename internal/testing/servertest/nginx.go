package servertest

import (
	"crypto/rand"
	"fmt"
	"net/http"
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
	// A port that was free may be taken before nginx has it; the answer to a
	// secret path tells that it is this nginx which listens.
	const attempts = 3
	for range attempts {
		dir = t.TempDir()
		addr = fmt.Sprintf("127.0.0.1:%d", FreePort(t))
		probe := "/" + rand.Text()
		path := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(path, []byte(nginxConf(dir, addr, probe, conf)), 0o600); err != nil {
			t.Fatal(err)
		}
		p := Start(t, exec.Command(bin, "-p", dir, "-c", path, "-e", "stderr"))
		if p.await(t, "nginx on "+addr, func() bool { return answers("http://" + addr + probe) }) {
			return addr, dir
		}
		t.Logf("nginx did not start on %s:\n%s", addr, p.Output())
	}
	t.Fatalf("nginx did not start in %d attempts", attempts)
	return "", ""
}

// probing keeps no connection.
var probing = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func answers(url string) bool {
	res, err := probing.Get(url)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusNoContent
}

// nginxConf returns a configuration with one server.
func nginxConf(dir, addr, probe, server string) string {
	return nginxHTTP(dir, fmt.Sprintf(`
	server {
		listen %s;
		location = %s {
			access_log off;
			return 204;
		}
		%s
	}
`, addr, probe, server))
}

// nginxHTTP returns a configuration in the foreground, as this user, with every
// path in dir.
func nginxHTTP(dir, servers string) string {
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // nobody, who is its default, may not write to dir
	}
	return fmt.Sprintf(`
%[3]s
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
	%[2]s
}
`, dir, servers, user)
}
