package throttle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
)

// start serves a subject until the test ends.
func start(t *testing.T, open func() (Server, func(), error)) string {
	t.Helper()
	serve, done, err := open()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		done()
	})
	return ln.Addr().String()
}

// TestSameAnswer: the stub answers what Weir does, byte for byte, to what
// redis-benchmark sends.
func TestSameAnswer(t *testing.T) {
	for _, s := range Subjects {
		nc, err := net.Dial("tcp", start(t, s.Open))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		const pipeline = 64
		for i := range pipeline {
			b := fmt.Sprintf("*%d\r\n", len(Words))
			for _, w := range Words {
				w = strings.Replace(w, "__rand_int__", fmt.Sprintf("%012d", i), 1)
				b += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
			}
			if _, err := io.WriteString(nc, b); err != nil {
				t.Fatal(err)
			}
		}
		got, r := make([]byte, len(reply)), bufio.NewReader(nc)
		for i := range pipeline {
			if _, err := io.ReadFull(r, got); err != nil || string(got) != reply {
				t.Fatalf("%s, %d: %q, %v", s.Name, i, got, err)
			}
		}
	}
}

func TestDrive(t *testing.T) {
	for _, s := range Subjects {
		for _, pipeline := range []int{1, 64} {
			r, err := Drive(t.Context(), start(t, s.Open), 20_000, pipeline)
			if errors.Is(err, ErrNoClient) && os.Getenv("WEIR_REQUIRE_SERVERS") != "1" {
				t.Skip(err)
			}
			if err != nil || r.Rate < 100 || r.P50 <= 0 || r.P99 < r.P50 {
				t.Errorf("%s: %+v, %v", s.Name, r, err)
			}
		}
	}
}

func TestParse(t *testing.T) {
	r, err := parse("WARNING: x\n" + `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n" +
		`"CL.THROTTLE k","1000.50","1.0","0.1","2.5","3","4.5","5"` + "\n")
	if err != nil || r != (Round{1000.5, 2.5, 4.5}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, text := range []string{"", `"test","rps"` + "\n" + `"x","y"`, `"test","rps","p50_latency_ms","p99_latency_ms"` + "\n" + `"x","0","1","1"`} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
