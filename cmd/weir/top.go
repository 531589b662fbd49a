package main

import (
	"context"
	"os"
	"time"

	"github.com/weirlimit/weir/internal/remote"
	"github.com/weirlimit/weir/internal/terminal"

	tea "charm.land/bubbletea/v2"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/insight/top"
)

type topCmd struct {
	watched
	Once bool `name:"once" env:"-" help:"Print one frame as plain text and end; so it does without a terminal."`
	JSON bool `name:"json" env:"-" help:"Print one state of the server as JSON, and end."`
}

// Run shows until somebody quits.
func (c *topCmd) Run(s streams) error {
	ctx, stop := untilSignal()
	defer stop()
	stream, err := c.openStates(ctx)
	if err != nil {
		return err
	}
	in, isFile := s.in.(*os.File)
	if c.Once || c.JSON || !isFile || !terminal.IsTerminal(in) || !terminal.IsTerminal(s.out) {
		return c.printOnce(stream, s)
	}
	// The program reads keys itself, ctrl+c among them.
	program := tea.NewProgram(top.New(c.Admin), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(terminal.Unwrap(s.out)), tea.WithoutSignalHandler())
	feeding, end := context.WithCancel(ctx)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		c.feedStates(feeding, stream, program.Send)
	}()
	_, err = program.Run()
	end()
	<-fed
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *topCmd) openStates(ctx context.Context) (*remote.Stream, error) {
	return c.openStream(ctx, &live.Filter{Kinds: []string{live.KindState}})
}

// nextState returns the next state of a stream.
func nextState(stream *remote.Stream) (st live.State, err error) {
	for {
		m, err := stream.Next()
		if err != nil {
			return st, err
		}
		if m.Kind == live.KindState {
			err := remote.ReadEvent(m, &st, "its state")
			return st, err
		}
	}
}

// onceWidth is the width of a frame for scripts, in which nothing is cut off.
const onceWidth = 100

// printOnce prints the first frame that has rates.
func (c *topCmd) printOnce(stream *remote.Stream, s streams) error {
	defer stream.Close()
	m := top.New(c.Admin)
	for {
		st, err := nextState(stream)
		if err != nil {
			return err
		}
		m.Update(top.StateMsg(st))
		if st.SpanMS > 0 {
			return s.writeReport(&st, c.JSON, m.Text(onceWidth))
		}
	}
}

// feedStates sends what a stream tells until ctx ends. A stream that has ended is opened
// anew.
func (c *topCmd) feedStates(ctx context.Context, stream *remote.Stream, send func(tea.Msg)) {
	const again = time.Second
	for ctx.Err() == nil {
		var err error
		if stream == nil {
			stream, err = c.openStates(ctx)
		}
		for err == nil {
			var st live.State
			if st, err = nextState(stream); err == nil {
				send(top.StateMsg(st))
			}
			if ctx.Err() != nil {
				err = ctx.Err()
			}
		}
		if stream != nil {
			_ = stream.Close() // it has ended already
			stream = nil
		}
		if ctx.Err() != nil {
			return
		}
		send(top.DownMsg{Err: err})
		backoff.Sleep(ctx, again)
	}
}
