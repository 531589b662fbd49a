package live

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Dropped says how many events a reader was too slow for since the last message.
type Dropped struct {
	Events uint64 `json:"events"`
}

// Options configures a handler.
type Options struct {
	// Broadcast has the events. When it is closed all streams end. Required.
	Broadcast *event.Broadcast
	// Meter takes the state. Required.
	Meter *Meter
	// Buffer is how many events wait for one reader. Zero means 2000.
	Buffer int
	// KeepAlive is how long a stream is silent at most. Zero means 15 seconds.
	KeepAlive time.Duration
	// WriteTimeout is how long a reader may take nothing. Zero means 30 seconds.
	WriteTimeout time.Duration
}

const (
	// chunk is about how many bytes are written at once.
	chunk = 32 << 10
	// stateEvery is how often the state is told.
	stateEvery = time.Second
)

type handler struct{ Options }

// Handler serves the stream.
func Handler(opt Options) http.Handler {
	opt.Buffer = cmp.Or(opt.Buffer, 2000)
	opt.KeepAlive = cmp.Or(opt.KeepAlive, 15*time.Second)
	opt.WriteTimeout = cmp.Or(opt.WriteTimeout, 30*time.Second)
	return &handler{opt}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	filter, err := ParseFilter(r.URL.Query())
	if err != nil {
		answer.Problem{Status: http.StatusBadRequest, Detail: err.Error(), Errors: []answer.FieldError{{Detail: err.Error(), Parameter: "query"}}}.Write(w)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would keep it back
	if r.Method == http.MethodHead {
		return
	}
	sub, err := h.Broadcast.Subscribe(h.Buffer, filter.KeepsEvent)
	if err != nil {
		why := "too many readers: end another, or ask again later"
		if errors.Is(err, event.ErrClosed) {
			why = "draining"
		}
		answer.Problem{Status: http.StatusServiceUnavailable, Detail: why, RetryAfter: 1}.Write(w)
		return
	}
	defer sub.Close()
	out := &stream{w: w, ctl: http.NewResponseController(w), timeout: h.WriteTimeout}
	// What is read here ends when the reader goes, not after a time. A connection
	// that cannot has no such deadline either.
	_ = out.ctl.SetReadDeadline(time.Time{})
	h.streamEvents(r.Context(), sub, filter, out)
}

// streamEvents tells what there is until the broadcast or the reader ends.
func (h *handler) streamEvents(ctx context.Context, sub *event.Subscription, filter *Filter, out *stream) {
	every, ping := h.KeepAlive, func() error { return out.comment("here") }
	if filter.wantsKind(KindState) {
		every, ping = stateEvery, func() error { return out.message(KindState, h.Meter.State(time.Now())) }
	}
	next := time.Now()
	for {
		if now := time.Now(); !now.Before(next) {
			if next = next.Add(every); next.Before(now) {
				next = now.Add(every)
			}
			if ping() != nil || out.flushBuffer() != nil {
				return
			}
		}
		until, cancel := context.WithDeadline(ctx, next)
		events, dropped, err := sub.Next(until)
		cancel()
		if err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				continue
			}
			return
		}
		if h.writeEvents(out, events, dropped) != nil {
			return
		}
	}
}

func (h *handler) writeEvents(out *stream, events []event.Event, dropped uint64) (err error) {
	if dropped > 0 {
		err = out.message(KindDropped, Dropped{dropped})
	}
	for i := range events {
		if err != nil {
			return err
		}
		switch e := &events[i]; {
		case e.Record != nil:
			err = out.message(KindRecord, e.Record)
		case e.Rollup != nil:
			err = out.message(KindRollup, e.Rollup)
		case e.Loss != nil:
			err = out.message(KindLoss, e.Loss)
		}
	}
	if err != nil {
		return err
	}
	return out.flushBuffer()
}

// stream writes messages.
type stream struct {
	w       http.ResponseWriter
	ctl     *http.ResponseController
	timeout time.Duration
	buf     bytes.Buffer
}

// message adds one, and writes when there is enough.
func (s *stream) message(kind string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	fmt.Fprintf(&s.buf, "event: %s\ndata: %s\n\n", kind, data)
	if s.buf.Len() < chunk {
		return nil
	}
	return s.writeBuffer()
}

// comment adds what readers leave out.
func (s *stream) comment(text string) error {
	fmt.Fprintf(&s.buf, ": %s\n\n", text)
	return nil
}

func (s *stream) writeBuffer() error {
	// Where deadlines cannot be set the connection bounds its stalls itself.
	_ = s.ctl.SetWriteDeadline(time.Now().Add(s.timeout))
	_, err := s.w.Write(s.buf.Bytes())
	s.buf.Reset()
	return err
}

// flushBuffer writes what there is and sends it.
func (s *stream) flushBuffer() error {
	if err := s.writeBuffer(); err != nil {
		return err
	}
	return s.ctl.Flush()
}
