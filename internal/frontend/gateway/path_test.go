package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// rawUpstream is a server that keeps the bytes of each request's first line,
// and says as little as it may.
func rawUpstream(t *testing.T, lines chan<- string) *url.URL {
	t.Helper()
	ln := servertest.Listen(t)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for first := true; ; first = false {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					if first {
						lines <- strings.TrimSuffix(line, "\r\n")
					}
					if line == "\r\n" {
						fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
						return
					}
				}
			}()
		}
	}()
	return &url.URL{Scheme: "http", Host: ln.Addr().String()}
}

// rawGet sends one request byte for byte and returns the status.
func rawGet(t *testing.T, addr, target string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(longest)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api.example\r\n\r\n", target)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// TestPathsAreNotTouched: what the upstream reads is what the client wrote,
// byte for byte.
func TestPathsAreNotTouched(t *testing.T) {
	lines := make(chan string, 1)
	upstream := rawUpstream(t, lines)
	srv := serve(t, clocked.New(t), weir.Limits{}, nil, gateway.Options{Default: gateway.Forward{Upstream: upstream}})
	f := func(target, want string) {
		t.Helper()
		if code := rawGet(t, srv.Listener.Addr().String(), target); code != 200 {
			t.Errorf("%s: answered %d", target, code)
			return
		}
		if got := <-lines; got != "GET "+want+" HTTP/1.1" {
			t.Errorf("%s: the upstream saw %q, want the path %s", target, got, want)
		}
	}
	for _, same := range []string{
		"/", "/?", "/a/b/", "/a//b", "//a", "/./a", "/a/../b", "/a/.", "/%6cogin", "/a%2Fb", "/a%2fb%", "/a;x=1/b;y", "/a?b=c;d&e=%zz&&=",
		"/caf%C3%A9", "/%00", "/%c0%af", "/a|b{c}^`", "/%21", "/!", "/%27%28%29%2a", "/a?b[]={c|d}", "/a[0]", "/a+b", "/a%20b", "/*", "/~u", "/a?/../b?c", "/a:b@c,$&'()!",
		"/" + strings.Repeat("x", 8000), "/a?" + strings.Repeat("y", 8000),
	} {
		if strings.HasSuffix(same, "%") {
			continue // not a path: below
		}
		f(same, same)
	}
	f("http://other.example/a%2Fb?c", "/a%2Fb?c")
	f("http://other.example", "/")
	f("HTTP://other.example?x", "/?x")
	f("/http://other.example/a", "/http://other.example/a")
	// What would be read as a host is escaped.
	f("//a|b", "//a%7Cb")
	for _, bad := range []string{"/%", "/%zz", "/%2", "a", "*", "//%", "/a#b", "/a?b#c", "/caf\xc3\xa9", "/a?\xff", "/\"", "/a?\"", "/<", "/a?b>", "/\x7f",
		"ftp://other.example/a", "http://u@other.example/a", "http:///a", "http:a", "x://http://other.example/a"} {
		if code := rawGet(t, srv.Listener.Addr().String(), bad); code != 400 {
			t.Errorf("%s: answered %d, want 400", bad, code)
		}
	}
	select {
	case got := <-lines:
		t.Errorf("the upstream saw %q", got)
	default:
	}
}

// TestStrippedPathsNameNoHost: what is left behind strip_prefix does not begin as what URL
// parsers take for a host, whatever the route allows.
func TestStrippedPathsNameNoHost(t *testing.T) {
	lines := make(chan string, 1)
	srv := serve(t, clocked.New(t), weir.Limits{}, nil, gateway.Options{Default: gateway.Forward{Upstream: rawUpstream(t, lines)}, Routes: []gateway.Route{{
		Route:   identity.Route{Path: "/api/*", Allow: []string{"backslash", "parameters", "encoded_slash", "empty_segments"}},
		Forward: gateway.Forward{StripPrefix: "/api"}}}})
	for target, want := range map[string]string{
		"/api//static/admin": "", "/api///x": "", `/api/\static/admin`: "", `/api;x/\x`: "", "/;/api//x": "",
		"/api": "/", "/api//": "", "/api/x//y": "/x//y", `/api/x\y`: `/x\y`, "/api/%2fx": "/%2fx", "/api;x/y": "/y",
	} {
		got := ""
		if code := rawGet(t, srv.Listener.Addr().String(), target); code == 200 {
			got = strings.TrimSuffix(strings.TrimPrefix(<-lines, "GET "), " HTTP/1.1")
		} else if code != 400 {
			t.Errorf("%s is answered %d", target, code)
		}
		if got != want {
			t.Errorf("%s goes on as %q, not %q", target, got, want)
		}
	}
}
