package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/live"
)

// maxSilence is how long a stream may be silent: three times as long as a server is.
const maxSilence = 45 * time.Second

// Stream is the live stream of a server.
type Stream struct {
	*live.Reader
	body io.Closer
	end  context.CancelFunc
}

// errStreamEnded is when a server drains.
var errStreamEnded = errors.New("the server has ended the stream")

// Next returns the next message.
func (s *Stream) Next() (live.Message, error) {
	m, err := s.Reader.Next()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errStreamEnded
	}
	return m, err
}

// ReadEvent reads the data of a message, which is to be what the words say.
func ReadEvent(m live.Message, into any, what string) error {
	if err := json.Unmarshal(m.Data, into); err != nil {
		return fmt.Errorf("the event of the server is not %s: %w", what, err)
	}
	return nil
}

// Close ends the stream.
func (s *Stream) Close() error {
	s.end()
	return s.body.Close()
}

// OpenStream opens the live stream of what the filter lets through. It ends with ctx.
func (s *Server) OpenStream(ctx context.Context, filter *live.Filter) (*Stream, error) {
	if err := filter.CheckWords(); err != nil {
		return nil, err
	}
	path := "/v1/live?" + filter.Query().Encode()
	ctx, end := context.WithCancelCause(ctx)
	silence := time.AfterFunc(s.Timeout, func() { end(fmt.Errorf("%s: no response for %s", s.locate(path), s.Timeout)) })
	res, err := s.askStream(ctx, path)
	if err != nil {
		silence.Stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		end(nil)
		return nil, err
	}
	silence.Reset(maxSilence)
	body := &liveBody{res.Body, silence, func() error { return context.Cause(ctx) }}
	return &Stream{live.NewReader(body), res.Body, func() { silence.Stop(); end(nil) }}, nil
}

// askStream asks for a stream.
func (s *Server) askStream(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.locate(path), nil)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	res, err := s.sendRequest(req)
	if err != nil {
		return nil, err
	}
	kind := res.Header.Get("Content-Type")
	if res.StatusCode == http.StatusOK && strings.HasPrefix(kind, "text/event-stream") {
		return res, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.locate(path), err)
	case res.StatusCode == http.StatusOK:
		return nil, fmt.Errorf("%s: the response is not a live stream: name the admin address of a node with --admin", s.locate(""))
	}
	why, code := readProblem(body)
	if res.StatusCode == http.StatusNotFound && code != "DISABLED" {
		why += "; name the admin address of a node with --admin"
	}
	return nil, s.refusal(path, res, why)
}

// liveBody is a stream that ends when it is silent for too long.
type liveBody struct {
	io.Reader
	silence *time.Timer
	cause   func() error
}

// Read implements io.Reader.
func (h *liveBody) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	switch {
	case n > 0:
		h.silence.Reset(maxSilence)
	case errors.Is(err, context.Canceled) && h.cause() != nil:
		err = h.cause()
	}
	return n, err
}
