package replay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/replay"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/rules"
)

// Ten limits, of which each line meets three: the time of an op is that of a line.
func BenchmarkReplay(b *testing.B) {
	var src strings.Builder
	src.WriteString(`domain: d
descriptors:
  - {key: remote_address, limit: 100/minute}
  - {key: method, descriptors: [{key: remote_address, limit: 1000/hour, algorithm: token_bucket}]}
  - key: path
    descriptors:
`)
	for i := range 8 {
		fmt.Fprintf(&src, "      - {key: remote_address, value: never%d, limit: 1/s}\n", i)
	}
	src.WriteString("  - {key: path, value: /page/*, limit: 5000/minute, algorithm: fixed_window}\n")
	set, err := rules.Parse("rules.yaml", []byte(strings.Replace(src.String(), "  - key: path\n", "  - key: path\n    value: /other\n", 1)), rules.Options{})
	if err != nil {
		b.Fatal(err)
	}
	tried, err := replay.TryRules(set, "", nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	const lines = 100_000
	var log strings.Builder
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i := range lines {
		fmt.Fprintf(&log, "203.0.%d.%d - - [%s] \"GET /page/%d HTTP/1.1\" 200 5120 \"https://www.example.org/\" \"Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0 Safari/537.36\"\n",
			i%7, i%251, at.Add(time.Duration(i)*10*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"), i%100)
	}
	text := log.String()
	b.SetBytes(int64(len(text) / lines))
	for n := 0; n < b.N; n += lines {
		r, err := replay.New(replay.Options{Rules: tried, MaxBytes: 64 << 20})
		if err != nil {
			b.Fatal(err)
		}
		in, err := accesslog.NewReader(strings.NewReader(text), "log", nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Read(in); err != nil {
			b.Fatal(err)
		}
		var met int64
		for _, l := range r.Report().Rules.Limits {
			met += l.Met
		}
		if met != 3*lines {
			b.Fatalf("%d limits were met, want three a line", met)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
