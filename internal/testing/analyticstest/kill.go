package analyticstest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// childEnv is set in processes that Kill starts: to the folder with what they need
// to know.
const childEnv = "WEIR_ANALYTICS_CHILD"

// job is what a child does.
type job struct {
	Target string
	Now    time.Time
}

// Main is for TestMain: in a process that Kill started it takes in events until it
// is killed, and else runs the tests.
func Main(m *testing.M, open func(ctx context.Context, target string) (rows.Database, error)) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := child(dir, open); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func child(dir string, open func(context.Context, string) (rows.Database, error)) error {
	var j job
	b, err := os.ReadFile(filepath.Join(dir, "job"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	batches, err := readBatches(filepath.Join(dir, "events"))
	if err != nil {
		return err
	}
	db, err := open(context.Background(), j.Target)
	if err != nil {
		return err
	}
	s, err := analytics.New(db, analytics.Options{Now: func() time.Time { return j.Now }})
	if err != nil {
		return err
	}
	return s.Run(context.Background(), &endless{batches: batches})
}

// endless is a queue that brings its batches over and over, and says so.
type endless struct{ batches [][]event.Event }

func (q *endless) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	for i := 0; ctx.Err() == nil; i++ {
		if err := take(ctx, q.batches[i%len(q.batches)]); err != nil {
			return err
		}
		fmt.Println("batch")
	}
	return nil
}

func (q *endless) Close() error { return nil }

// Kill kills processes in the middle of their transactions, several at a time, and
// then lets the queue bring everything: what is told is as if nothing had happened.
func Kill(t *testing.T, target string, open func() rows.Database) {
	tr := Make(t, 1)
	dir := t.TempDir()
	batches := Mixed(tr.Events, 1)
	write := func(name string, v any) {
		t.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("job", job{target, tr.To.Add(3 * time.Minute)})
	writeBatches(t, filepath.Join(dir, "events"), batches)
	for round := range 4 {
		kill(t, dir, 1+round*len(batches)/8)
	}
	s := Serve(t, open(), tr)
	consume(t, s, batches)
	Truth(t, s.Handler(), tr)
	var sys report.System
	(&asked{t, s.Handler(), tr}).get("system", &sys)
	if sys.Service.Duplicates == 0 {
		t.Error("those that were killed had counted nothing")
	}
}

// kill starts two processes and kills them some time after they have taken so many
// batches.
func kill(t *testing.T, dir string, batches int) {
	t.Helper()
	var running []*exec.Cmd
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
		lines := bufio.NewScanner(out)
		for n := 0; n < batches && lines.Scan(); {
			if lines.Text() == "batch" {
				n++
			} else {
				t.Log(lines.Text())
			}
		}
	}
	// In the middle of whatever they do.
	timer := time.NewTimer(time.Duration(rand.IntN(3000)) * time.Microsecond)
	<-timer.C
	for _, cmd := range running {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
	for _, cmd := range running {
		_ = cmd.Wait() // it was killed
	}
}

func writeBatches(t *testing.T, path string, batches [][]event.Event) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := json.NewEncoder(f)
	for _, batch := range batches {
		var lines []json.RawMessage
		for i := range batch {
			b, err := batch[i].Encode()
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, b)
		}
		if err := w.Encode(lines); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func readBatches(path string) (batches [][]event.Event, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); d.More(); {
		var lines []json.RawMessage
		if err := d.Decode(&lines); err != nil {
			return nil, err
		}
		var batch []event.Event
		for _, line := range lines {
			e, err := event.Decode(line)
			if err != nil {
				return nil, err
			}
			batch = append(batch, e)
		}
		batches = append(batches, batch)
	}
	return batches, nil
}
