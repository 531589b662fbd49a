package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be its own worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "double" {
		err := Serve(func(n int) (int, error) {
			if n < 0 {
				return 0, errors.New("negative")
			}
			if n == 0 {
				// Longer than the parent waits.
				<-time.After(time.Minute)
			}
			return 2 * n, nil
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func start(t *testing.T, ctx context.Context) *Worker {
	t.Helper()
	w, err := Start(ctx, "double")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWorkerAnswersUntilItIsClosed(t *testing.T) {
	w := start(t, t.Context())
	for n := 1; n < 4; n++ {
		var got int
		if err := w.Ask(n, &got); err != nil || got != 2*n {
			t.Fatalf("asked %d, got %d, %v", n, got, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestWorkerSaysWhyItFailed(t *testing.T) {
	w := start(t, t.Context())
	var got int
	if err := w.Ask(-1, &got); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Errorf("error %v, want what the worker wrote", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("closing after a failure: %v", err)
	}
}

func TestWorkerEndsWithItsTime(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errors.New("time is over"))
	defer cancel()
	w := start(t, ctx)
	var got int
	if err := w.Ask(0, &got); err == nil || !strings.Contains(err.Error(), "time is over") {
		t.Errorf("error %v, want the cause", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("closing after the time: %v", err)
	}
}

func TestWorkerCannotStartWorkers(t *testing.T) {
	t.Setenv(marker, "1")
	if w, err := Start(t.Context(), "double"); err == nil {
		w.Close()
		t.Error("a worker started a worker")
	}
}
