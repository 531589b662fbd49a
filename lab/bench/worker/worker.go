// Package worker runs parts of a program in processes of their own, so that the
// heap of one does not burden the garbage collector of another. Parent and
// child exchange JSON lines over the child's standard input and output.
package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Worker is a child process that answers questions one at a time.
type Worker struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr bytes.Buffer
	ctx    context.Context
}

// marker is set in the environment of workers.
const marker = "WEIR_BENCH_WORKER"

// Start runs this program again with args. When ctx ends the process is killed.
// A worker cannot start workers: a program that takes its worker's arguments for
// its own would else start itself without end.
func Start(ctx context.Context, args ...string) (*Worker, error) {
	if os.Getenv(marker) != "" {
		return nil, errors.New("a worker cannot start workers")
	}
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to run it again: %w", err)
	}
	w := &Worker{name: strings.Join(args, " "), cmd: exec.CommandContext(ctx, path, args...), ctx: ctx}
	w.cmd.Env = append(os.Environ(), marker+"=1")
	w.cmd.Stderr = &w.stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = json.NewDecoder(out)
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker %q: %w", w.name, err)
	}
	return w, nil
}

// Ask sends question and waits for the answer. After an error the worker can
// only be closed.
func (w *Worker) Ask(question, answer any) error {
	err := json.NewEncoder(w.in).Encode(question)
	if err == nil {
		err = w.out.Decode(answer)
	}
	if err == nil {
		return nil
	}
	if w.ctx.Err() != nil {
		return fmt.Errorf("worker %q: %w", w.name, context.Cause(w.ctx))
	}
	// It has ended, or is about to: what it wrote on the way says why.
	w.in.Close()
	if wait := w.cmd.Wait(); wait != nil {
		return fmt.Errorf("worker %q: %w: %s", w.name, wait, strings.TrimSpace(w.stderr.String()))
	}
	return fmt.Errorf("worker %q: %w", w.name, err)
}

// Pid returns the process id.
func (w *Worker) Pid() int { return w.cmd.Process.Pid }

// Close ends the worker and waits for it.
func (w *Worker) Close() error {
	w.in.Close()
	if w.cmd.ProcessState != nil {
		return nil
	}
	if err := w.cmd.Wait(); err != nil && w.ctx.Err() == nil {
		return fmt.Errorf("worker %q: %w: %s", w.name, err, strings.TrimSpace(w.stderr.String()))
	}
	return nil
}

// Serve answers the questions of the parent until it closes the worker.
func Serve[Q, A any](answer func(Q) (A, error)) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var q Q
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the parent's question: %w", err)
		}
		a, err := answer(q)
		if err != nil {
			return err
		}
		if err := out.Encode(a); err != nil {
			return fmt.Errorf("answer the parent: %w", err)
		}
	}
}
