package accesslog

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// at returns microseconds since the Unix epoch.
func at(s string) int64 {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t.UnixMicro()
}

var goodLines = []struct {
	name, format, line string
	want               Line
}{
	{"common", "combined", `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a%20b?q=1 HTTP/1.0" 200 2326`,
		Line{Time: at("2000-10-10T20:55:36Z"), Address: "127.0.0.1", User: "frank", Method: "GET", Target: "/a%20b?q=1", Status: 200}},
	{"a name and no size", "combined", `host.example.org - - [01/Jul/1995:00:00:01 -0400] "GET /history/ HTTP/1.0" 304 -`,
		Line{Time: at("1995-07-01T04:00:01Z"), Address: "host.example.org", Method: "GET", Target: "/history/", Status: 304}},
	{"HTTP/0.9", "combined", `h - - [01/Jul/1995:00:00:01 -0400] "GET /shuttle" 200 1`,
		Line{Time: at("1995-07-01T04:00:01Z"), Address: "h", Method: "GET", Target: "/shuttle", Status: 200}},
	{"combined", "combined", `2001:db8::1 - a b [29/Feb/2024:23:59:60 +0530] "POST /x y HTTP/2.0" 429 0 "https://e.org/" "Mozilla/5.0 (\"odd\")"`,
		Line{Time: at("2024-02-29T18:30:00Z"), Address: "2001:db8::1", User: "a b", Method: "POST", Target: "/x y", Status: 429, UserAgent: `Mozilla/5.0 (\"odd\")`}},
	{"a backslash at the end", "combined", `1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "GET /\\" 200 1 "-" "a\\"`,
		Line{Time: at("2000-10-10T13:55:36Z"), Address: "1.2.3.4", Method: "GET", Target: `/\\`, Status: 200, UserAgent: `a\\`}},
	{"no HTTP", "combined", `1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "\x16\x03\x01" 400 157 "-" "-"`,
		Line{Time: at("2000-10-10T13:55:36Z"), Address: "1.2.3.4", Method: `\x16\x03\x01`, Status: 400}},
	{"no request", "combined", `1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "-" 408 0`,
		Line{Time: at("2000-10-10T13:55:36Z"), Address: "1.2.3.4", Status: 408}},
	{"vhost", "vhost", `www.example.org:443 1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"`,
		Line{Time: at("2000-10-10T13:55:36Z"), Host: "www.example.org", Address: "1.2.3.4", Method: "GET", Target: "/", Status: 200, UserAgent: "curl"}},
	{"traefik", "traefik", `10.0.0.7 - - [10/Oct/2000:13:55:36 +0000] "GET /w HTTP/1.1" 200 17 "-" "-" 42 "whoami@docker" "http://10.0.0.9:80" 3ms`,
		Line{Time: at("2000-10-10T13:55:36Z"), Address: "10.0.0.7", Method: "GET", Target: "/w", Status: 200}},
	{"envoy", "envoy", `[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 7 226 100 "10.0.35.28, 198.51.100.7" "nsq2http" "cc21d9b0" "locations:8080" "tcp://10.0.2.1:80"`,
		Line{Time: at("2016-04-15T20:17:00.310Z"), Address: "198.51.100.7", Method: "POST", Target: "/api/v1/locations", Status: 204, UserAgent: "nsq2http", Host: "locations"}},
	{"envoy escapes nothing", "envoy", `[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 7 226 100 "198.51.100.7" "a " b" "c\" "cc21d9b0" "locations:8080" "tcp://10.0.2.1:80"`,
		Line{Time: at("2016-04-15T20:17:00.310Z"), Address: "198.51.100.7", Method: "POST", Target: "/api/v1/locations", Status: 204, UserAgent: "a \" b\" \"c\\", Host: "locations"}},
	{"istio", "envoy", `[2026-02-03T04:05:06.007Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 5 4 "-" "curl/7.88" "84961386" "httpbin:8000" "10.44.1.27:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_ default`,
		Line{Time: at("2026-02-03T04:05:06.007Z"), Address: "10.44.1.23", Method: "GET", Target: "/status/418", Status: 418, UserAgent: "curl/7.88", Host: "httpbin"}},
	{"caddy", "caddy", `{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"192.0.2.9","proto":"HTTP/2.0","method":"GET","host":"localhost:2015","uri":"/a?b=\u00e9","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"]},"tls":{"version":772}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}`,
		Line{Time: 1646861401524102, Address: "127.0.0.1", Method: "GET", Target: "/a?b=é", Host: "localhost", UserAgent: "curl/7.82.0", Status: 200}},
	{"traefik in JSON", "json", `{"ClientAddr":"10.0.0.7:1","ClientHost":"10.0.0.7","ClientUsername":"-","DownstreamContentSize":17,"DownstreamStatus":429,"RequestHost":"w.example","RequestMethod":"GET","RequestPath":"/w","RequestProtocol":"HTTP/1.1","StartUTC":"2026-02-03T04:05:06.123456789Z","request_User-Agent":"k6","time":"2026-02-03T04:05:07Z"}`,
		Line{Time: at("2026-02-03T04:05:06.123456Z"), Address: "10.0.0.7", Method: "GET", Target: "/w", Host: "w.example", UserAgent: "k6", Status: 429}},
	{"nginx in JSON", "json", `{"time_local":"10/Oct/2000:13:55:36 -0700","remote_addr":"::1","remote_user":"me","request":"GET /\"q\" HTTP/1.1","status":"200","body_bytes_sent":"612","http_user_agent":"a\\b"}`,
		Line{Time: at("2000-10-10T20:55:36Z"), Address: "::1", User: "me", Method: "GET", Target: `/"q"`, Status: 200, UserAgent: `a\b`}},
	{"milliseconds", "json", `{"timestamp":1646861401524,"ip":"[2001:db8::1]:80","path":"/"}`,
		Line{Time: 1646861401524000, Address: "2001:db8::1", Target: "/"}},
}

func TestFormats(t *testing.T) {
	for _, c := range goodLines {
		t.Run(c.name, func(t *testing.T) {
			f, err := OpenFormat(c.format)
			if err != nil {
				t.Fatal(err)
			}
			// Twice, because what lines have in common is kept.
			for range 2 {
				var l Line
				if err := f.Parse([]byte(c.line), &l); err != nil {
					t.Fatal(err)
				}
				l.object = nil
				if fmt.Sprintf("%+v", l) != fmt.Sprintf("%+v", c.want) {
					t.Errorf("got  %+v\nwant %+v", l, c.want)
				}
			}
			if _, err := DetectFormat([][]byte{[]byte("garbage"), nil, []byte(c.line)}); err != nil {
				t.Errorf("not detected: %v", err)
			}
		})
	}
}

func TestBadLines(t *testing.T) {
	for _, c := range []struct{ format, line, want string }{
		{"combined", "", "too early"},
		{"combined", "garbage", "too early"},
		{"combined", `1.2.3.4 - - [10/Oct/2000:13:55:36 -0700`, "time"},
		{"combined", `1.2.3.4 - - [10/Foo/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1`, "time"},
		{"combined", `1.2.3.4 - - [10/Oct/2000:13:55:7x -0700] "GET / HTTP/1.0" 200 1`, "time"},
		{"combined", `1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0`, "quoted"},
		{"combined", `1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" abc 1`, "status"},
		{"envoy", `[2016-04-15T20:17] "GET / HTTP/1.1" 200 - 0 0 0 0 "-" "-" "-" "-" "-"`, "time"},
		{"envoy", `[2016-04-15T20:17:00.310Z] "GET / HTTP/1.1" 200 - 0 0 0 0 "-" "-"`, "too early"},
		{"json", `[1,2]`, "JSON"},
		{"json", `{"status":200}`, "time"},
		{"json", `{"ts":"never"}`, "time"},
		{"json", `{"ts":1646861401,"status":"ok"}`, "status"},
		{"json", `{"ts":1646861401`, "JSON"},
	} {
		f, err := OpenFormat(c.format)
		if err != nil {
			t.Fatal(err)
		}
		var l Line
		if err := f.Parse([]byte(c.line), &l); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: got %v, want an error with %q", c.format, c.line, err, c.want)
		}
	}
}

// A time that is read from what the last line had in common is the time that is
// read afresh.
func TestClockKeepsTheRightMinute(t *testing.T) {
	kept := new(Combined)
	start := time.Date(2024, 2, 28, 23, 58, 0, 0, time.FixedZone("", 3600))
	for i := range 300 {
		when := start.Add(time.Duration(i) * 7 * time.Second)
		if i%3 == 0 {
			when = when.In(time.FixedZone("", -5*3600))
		}
		line := []byte("h - - [" + when.Format("02/Jan/2006:15:04:05 -0700") + `] "GET / HTTP/1.1" 200 1`)
		var l Line
		if err := kept.Parse(line, &l); err != nil || l.Time != when.UnixMicro() {
			t.Fatalf("%s: read as %d, %v", line, l.Time, err)
		}
	}
}

func TestField(t *testing.T) {
	var j JSON
	var l Line
	if err := j.Parse([]byte(`{"ts":1,"a":{"b":["x\ty"]},"n":12,"o":{}}`), &l); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a.b": "x\ty", "n": "12", "o": "", "z": "", "a": ""} {
		got, ok := l.Field(strings.Split(path, ".")...)
		if got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", path, got, ok, want)
		}
	}
}

const threeLines = `h - - [10/Oct/2000:13:55:36 +0000] "GET /1 HTTP/1.1" 200 1
h - - [10/Oct/2000:13:55:37 +0000] "GET /2 HTTP/1.1" 200 1` + "\r\n" + `h - - [10/Oct/2000:13:55:38 +0000] "GET /3 HTTP/1.1" 200 1`

func readAll(t *testing.T, b []byte) (paths []string, r *Reader) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b), "log", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		var l Line
		switch err := r.NextLine(&l); err {
		case nil:
			paths = append(paths, strings.Clone(l.Path()))
		case io.EOF:
			return paths, r
		default:
			t.Fatal(err)
		}
	}
}

func TestReaderDecompresses(t *testing.T) {
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{g, z} {
		if _, err := io.WriteString(w, threeLines); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string][]byte{"plain": []byte(threeLines), "gzip": gz.Bytes(), "zstd": zs.Bytes()} {
		if paths, _ := readAll(t, b); !slices.Equal(paths, []string{"/1", "/2", "/3"}) {
			t.Errorf("%s: read %v", name, paths)
		}
		if name == "plain" {
			continue
		}
		// What is cut off is an error, not an end.
		r, err := NewReader(bytes.NewReader(b[:len(b)-6]), "cut.log", &Combined{})
		for err == nil {
			var l Line
			err = r.NextLine(&l)
		}
		if err == io.EOF || !strings.HasPrefix(err.Error(), "cut.log: ") {
			t.Errorf("%s, cut off: %v", name, err)
		}
	}
}

func TestReaderLeavesOutBadLines(t *testing.T) {
	log := "rubbish\n\n" + threeLines + "\n" + strings.Repeat("x", bufferSize+5) + "\n" + strings.Repeat("y", MaxLine+1) + "\n" + threeLines
	paths, r := readAll(t, []byte(log))
	if len(paths) != 6 {
		t.Errorf("read %v", paths)
	}
	if all, bad := r.Lines(); all != 10 || bad != 3 {
		t.Errorf("%d lines, %d bad", all, bad)
	}
	if want := fmt.Sprint([]Fault{{1, errShort.Error()}, {6, errLong.Error()}, {7, errLong.Error()}}); fmt.Sprint(r.Faults()) != want {
		t.Errorf("faults %v, want %s", r.Faults(), want)
	}
}

func TestReaderSaysWhatItCannotRead(t *testing.T) {
	_, err := NewReader(strings.NewReader("what\nis this\n"), "x.log", nil)
	if err == nil || !strings.Contains(err.Error(), "x.log") || !strings.Contains(err.Error(), "combined") {
		t.Errorf("got %v", err)
	}
	if paths, _ := readAll(t, nil); len(paths) != 0 {
		t.Errorf("an empty log has lines: %v", paths)
	}
	if _, err := OpenFormat("clf2"); err == nil || !strings.Contains(err.Error(), "envoy") {
		t.Errorf("got %v", err)
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	for _, c := range goodLines {
		f, err := OpenFormat(c.format)
		if err != nil {
			t.Fatal(err)
		}
		line := []byte(c.line)
		var l Line
		if n := testing.AllocsPerRun(100, func() {
			if err := f.Parse(line, &l); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range goodLines {
		f.Add(c.format, []byte(c.line))
	}
	f.Fuzz(func(t *testing.T, name string, line []byte) {
		format, err := OpenFormat(name)
		if err != nil || len(line) > MaxLine {
			return
		}
		var first, again Line
		err = format.Parse(line, &first)
		told := fmt.Sprintf("%+v", first)
		if errAgain := format.Parse(line, &again); fmt.Sprint(err) != fmt.Sprint(errAgain) || err == nil && told != fmt.Sprintf("%+v", again) {
			t.Errorf("%q is read as %s, %v and then as %+v, %v", line, told, err, again, errAgain)
		}
		first.Field("request", "headers", "X")
	})
}

func BenchmarkParse(b *testing.B) {
	for _, c := range goodLines {
		b.Run(c.name, func(b *testing.B) {
			f, err := OpenFormat(c.format)
			if err != nil {
				b.Fatal(err)
			}
			line := []byte(c.line)
			var l Line
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Parse(line, &l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
