package config_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
)

var update = flag.Bool("update", false, "rewrite docs/reference/generated/configuration.md")

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	c := config.Defaults()
	if c.HTTP.Listen != ":8080" || c.Admin.Listen != "127.0.0.1:6070" || c.HTTP.MaxHeaderBytes != 32<<10 ||
		c.Drain.Timeout != 20*time.Second || c.API.Domain != "api" || c.Log.Level != "info" {
		t.Errorf("defaults: %+v", c)
	}
}

// What is given wins over the file, the file over the defaults.
func TestLayers(t *testing.T) {
	file := writeFile(t, "weir.yaml", `
limits: ["10/second by ip"]
http:
  listen: 127.0.0.1:1
  max_header_bytes: 64KiB
drain: {delay: 5s}
`)
	flags := config.Defaults()
	flags.HTTP.Listen = "127.0.0.1:2"
	flags.Drain.Delay = 7 * time.Second // not given
	c, err := config.Layer(file, flags, func(name string) bool { return name == "http" })
	if err != nil {
		t.Fatal(err)
	}
	if c.HTTP.Listen != "127.0.0.1:2" {
		t.Errorf("the flag lost: %s", c.HTTP.Listen)
	}
	if c.Drain.Delay != 5*time.Second || c.HTTP.MaxHeaderBytes != 64<<10 || !reflect.DeepEqual(c.Limits, []string{"10/second by ip"}) {
		t.Errorf("the file lost: %+v", c)
	}
	if c.Admin.Listen != "127.0.0.1:6070" {
		t.Errorf("the default lost: %s", c.Admin.Listen)
	}
}

// A mistake in the file is told with its line and what was meant.
func TestFileErrors(t *testing.T) {
	f := func(content string, want ...string) {
		t.Helper()
		file := writeFile(t, "weir.yaml", content)
		_, err := config.Layer(file, config.Defaults(), func(string) bool { return false })
		if err == nil {
			t.Errorf("accepted:\n%s", content)
			return
		}
		for _, part := range append(want, "weir.yaml:") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("no %q in: %v", part, err)
			}
		}
	}
	f("http:\n  lisen: :1\n", ":2:3:", `unknown key "http.lisen" (did you mean "listen"?)`)
	f("htpp: {}\n", ":1:1:", `did you mean "http"?`)
	f("limits: 5/minute\nlimits: 6/minute\n", ":2:1:", `"limits" is there twice, first on line 1`)
	f("\nhttp:\n  read_timeout: soon\n", ":3:17:", `http.read_timeout: "soon" is not a duration`)
	f("http:\n  max_header_bytes: lots\n", ":2:21:", "http.max_header_bytes", "lots", "such as 64KiB")
	f("response:\n  expose: 2\n", ":2:11:", `"2" is neither true nor false`)
	f("http:\n  max_connections: 1.5\n", ":2:20:", `"1.5" is not a whole number`)
	f("http: [1]\n", ":1:7:", "http must hold keys and values")
	f("- x\n", ":1:1:", "the file must hold keys")
	f("upstream: [a, b]\n", ":1:11:", "upstream must be a single value")
	f("limits: [{a: b}]\n", ":1:10:", "limits: each must be a single value")
	f("limits: {a: b}\n", ":1:9:", "limits must be a single value")
	f("http: {listen: \n", "weir.yaml:1: not YAML: did not find")
	f("a: b: c", "weir.yaml:1: not YAML: mapping values")
	f("a: &a [*a]\n", ":1:1:", "unknown key")
	f("? [a]\n: b\n", "unknown key")
	f("rules: a\n---\nrules: b\n", ":2:1: a second document begins here")
	f("identity:\n  proxies: {trused: x}\n", ":2:13:", `unknown key "identity.proxies.trused" (did you mean "trusted"?)`)
	f("routes:\n  - path: /a\n    upsteam: http://h\n", ":3:5:", `unknown key "routes[0].upsteam" (did you mean "upstream"?)`)
	f("routes:\n  - {path: /a, timeout: soon}\n", ":2:25:", `routes[0].timeout: "soon" is not a duration`)
	f("routes: [{descriptors: [{entries: [user, {form: x}]}]}]\n", ":1:43:", `unknown key "routes[0].descriptors[0].entries[1].form" (did you mean "from"?)`)
	f("routes: [{methods: {a: b}}]\n", ":1:20:", "routes[0].methods must be a single value")
	f("routes: [~, 5]\n", "routes[0] is empty", ":1:13:", "routes[1] must hold keys and values")
	f("routes: 5\n", ":1:9:", "routes[0] must hold keys and values")
	// What is of another form, and what others call it.
	f("routes: [{descriptors: [remote_address]}]", "routes[0].descriptors[0] must hold keys and values (write - entries: [remote_address])")
	f("routes: [{descriptors: [[path, remote_address]]}]", "(write - entries: [path, remote_address])")
	f("routes: [{descriptors: remote_address}]", "(write - entries: [remote_address])")
	f("routes: [{descriptors: [{remote_address: x}]}]", `unknown key "routes[0].descriptors[0].remote_address" (write - entries: [remote_address])`)
	f("routes: [{descriptors: [{remote_address/24: x}]}]", "(write - entries: [remote_address/24])")
	f("routes: [{descriptors: [{entry: [x]}]}]", `unknown key "routes[0].descriptors[0].entry"`)
	f("routes: [{entries: [user]}]", `unknown key "routes[0].entries" (write descriptors: [{entries: ...}])`)
	f("routes: [{rate: 5/minute}]", `(did you mean "limit"?)`)
	f("routes: [{limits: [5/minute]}]", `(did you mean "limit"?)`)
	f("routes: [{url: /a}]", `(did you mean "path"?)`)
	f("routes: [{prefix: /a}]", `(did you mean "path"?)`)
	f("routes: [{backend: http://h}]", `(did you mean "upstream"?)`)
	f("routes: {/users: 5/minute}", `unknown key "routes[0]./users" (write - {path: /users, limit: 5/minute})`)
	f("routes: {/users: {limit: 5/minute}}", `unknown key "routes[0]./users" (write - {path: /users, ...})`)
	f("routes: [/users]", "routes[0] must hold keys and values (write - {path: /users, limit: 100/minute by ip})")
	f("routes: [{path: /a, limit: {rate: 5/minute}}]", "routes[0].limit must be a single value (write it in words, such as 100/minute by ip)")
	f("limits: {a: b}\n", "(write it in words, such as 100/minute by ip)")
	f("limits: [{a: b}]\n", "(write it in words, such as 100/minute by ip)")
	f("listen: 8080", `unknown key "listen" (write http: {listen: ...})`)
	f("port: 8080", `unknown key "port" (write http: {listen: ...})`)
	f("redis: h:6379", `unknown key "redis" (did you mean "store"?)`)
	f("backend: http://h", `unknown key "backend" (did you mean "upstream"?)`)
	f("http: 8080", ":1:7:", "http must hold keys and values (write http: {listen: 8080})")
	f("admin: localhost:6070", "admin must hold keys and values (write admin: {listen: localhost:6070})")
	f("analytics: x", "analytics must hold keys and values")
	// A file of rules is told from one whose keys are misspelt, by one line.
	f("domain: a\nallow: {}\ndescriptors: []", ":1:1: this file is rules, not a configuration: give it with --rules")
	f("descriptors: []", ":1:1: this file is rules, not a configuration: give it with --rules")
	f("rules: r.yaml\ncases: []", "this file is cases, not a configuration: give it to weir test")
	// Several at once.
	f("htpp: {}\ndrain: {delay: x}\n", ":1:1:", ":2:16:")
}

// A key without a value, and a single value where a list may stand.
func TestFileLeniency(t *testing.T) {
	c, err := config.Layer(writeFile(t, "weir.yaml", "# nothing but\nhttp:\nstore:\nlimits: 5/minute\ndrain: &d {delay: 1s}\n"), config.Defaults(), func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	if c.HTTP.Listen != ":8080" || c.Store != "memory:" || !reflect.DeepEqual(c.Limits, []string{"5/minute"}) || c.Drain.Delay != time.Second {
		t.Errorf("%+v", c)
	}
	if _, err := config.Layer(writeFile(t, "weir.yaml", "# nothing\n"), config.Defaults(), func(string) bool { return false }); err != nil {
		t.Error(err)
	}
}

func TestFileIsBounded(t *testing.T) {
	file := writeFile(t, "weir.yaml", "#"+strings.Repeat("x", 2<<20))
	if _, err := config.Layer(file, config.Defaults(), func(string) bool { return false }); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
	if _, err := config.Layer(file+".gone", config.Defaults(), func(string) bool { return false }); err == nil || !strings.Contains(err.Error(), "configuration file") {
		t.Errorf("got %v", err)
	}
}

// What is printed is a configuration file that means the same, without the
// secrets.
func TestPrint(t *testing.T) {
	c := config.Defaults()
	c.Limits = []string{"10/second by ip"}
	c.Admin.Token = "0123456789abcdef"
	c.Upstream = "http://user:sesame@host:1"
	c.Identity.JWT.URL = "https://user:sesame@host/jwks.json"
	c.Events.URL = "amqp://user:sesame@host:5672,other/vhost?queue=weir"
	c.Analytics.URL = "postgres://user:sesame@host/weir"
	c.Routes = []config.Route{{
		Path: "/login", Methods: []string{"POST"}, Cost: 2, Timeout: time.Minute, MaxBody: 64 << 10, Upstream: "h2c://h:1",
		Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{Key: "user", From: "header:X-Login"}, {From: "remote_address"}}, Unless: "user"}},
	}}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"0123456789abcdef", "sesame"} {
		if strings.Contains(out.String()+fmt.Sprintf("%v %+v %#v", c.Admin, c.Admin, c.Admin), secret) {
			t.Errorf("%s is printed:\n%s", secret, &out)
		}
	}
	back, err := config.Layer(writeFile(t, "weir.yaml", out.String()), config.Defaults(), func(string) bool { return false })
	if err != nil {
		t.Fatalf("%v in:\n%s", err, &out)
	}
	var again bytes.Buffer
	if err := back.Print(&again); err != nil {
		t.Fatal(err)
	}
	if again.String() != out.String() {
		t.Errorf("printed and read again:\n%s\nwant\n%s", &again, &out)
	}
	if !reflect.DeepEqual(back.Routes, c.Routes) {
		t.Errorf("routes: %+v, want %+v", back.Routes, c.Routes)
	}
}

// What differs from the defaults is a configuration file that means the same, and has
// nothing that is zero.
func TestPrintChanged(t *testing.T) {
	c := config.Defaults()
	c.Upstream, c.Limits = "http://127.0.0.1:1", []string{"10/second by ip"}
	c.Routes = []config.Route{
		{Path: "/login", Limit: []string{"5/minute by ip"}},
		{Path: "/paid", MaxBody: 1, Descriptors: []identity.Descriptor{
			{Entries: []identity.EntryFrom{{From: "remote_address"}, {Key: "plan", From: "value:0"}}, Cost: 2},
			{Entries: []identity.EntryFrom{{From: "path", Fold: true}}},
		}},
	}
	if err := c.Routes[1].Priority.UnmarshalText([]byte("0")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := config.PrintChanged(&out, c); err != nil {
		t.Fatal(err)
	}
	for _, zero := range []string{`""`, "0s", ": false", "[]", "cost: 0", "max_body: 0"} {
		if strings.Contains(out.String(), zero) {
			t.Errorf("%s is printed:\n%s", zero, &out)
		}
	}
	back, err := config.Layer(writeFile(t, "weir.yaml", out.String()), config.Defaults(), func(string) bool { return false })
	if err != nil {
		t.Fatalf("%v in:\n%s", err, &out)
	}
	var want, got bytes.Buffer
	if err := errors.Join(c.Print(&want), back.Print(&got)); err != nil || got.String() != want.String() {
		t.Errorf("printed and read again: %v\n%s\nwant\n%s", err, &got, &want)
	}
}

func TestBytes(t *testing.T) {
	f := func(text string, want config.Bytes) {
		t.Helper()
		var b config.Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%q is %d, %v; want %d", text, b, err, want)
		}
	}
	f("0", 0)
	f("4096", 4096)
	f("64KiB", 64<<10)
	f("1.5 MB", 1_500_000)
	f("2gib", 2<<30)
	f("7B", 7)
	for _, text := range []string{"", "x", "-1", "1e30", "NaN", "KiB", "1 2", "0x"} {
		var b config.Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %d", text, b)
		}
	}
}

// Every setting of identity.Options can be given to a server.
func TestIdentitySettings(t *testing.T) {
	var keys func(v reflect.Type, prefix string, into map[string]bool)
	keys = func(v reflect.Type, prefix string, into map[string]bool) {
		for f := range v.Fields() {
			key := prefix + f.Tag.Get("yaml")
			if f.Type.Kind() == reflect.Struct && f.Type.NumField() > 0 && f.Type.Field(0).Tag.Get("yaml") != "" {
				keys(f.Type, key+".", into)
			} else if f.Tag.Get("yaml") != "-" {
				into[key] = true
			}
		}
	}
	have, want := map[string]bool{}, map[string]bool{}
	keys(reflect.TypeFor[config.Identity](), "", have)
	keys(reflect.TypeFor[identity.Options](), "", want)
	for key := range want {
		if !have[key] {
			t.Errorf("identity.Options has %q, config.Identity has not: give it a line there and in options()", key)
		}
	}
	if len(want) < 10 {
		t.Errorf("only %d settings were found", len(want))
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("limits: [10/second]\nhttp: {listen: ':1'}\n"))
	f.Add([]byte("admin: {token: x}\n"))
	f.Add([]byte("routes: [{path: /a, descriptors: [{entries: [user, {key: a, from: path}]}]}]\n"))
	f.Add([]byte("a: &a [x]\nroutes: [{methods: *a}, *a]\n"))
	f.Add([]byte("routes: [{priority: {'': 1}}]\n"))
	f.Add([]byte("shed: {user: client, off: true, user_rate: {limit: 1/s, burst: 2}, in_flight: {limit: 4, shares: {default: 80%}, retry_after: 2s}}\n"))
	f.Add([]byte("shed: {user: &u [x], in_flight: *u, user_rate: {limit: {'': 1}}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := config.Defaults()
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.LoadFile(file); err == nil {
			if err := c.Print(new(bytes.Buffer)); err != nil {
				t.Errorf("read, and does not print: %v", err)
			}
		}
	})
}

// docs/reference/generated/configuration.md is made of the tags of Config:
//
//	go test ./internal/config -run TestDocs -update
func TestDocs(t *testing.T) {
	const path = "../../docs/reference/generated/configuration.md"
	want := reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): go test ./internal/config -run TestDocs -update", path, err)
	}
}
