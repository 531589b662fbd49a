package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// reply is what a server of a conformance case answers.
type reply struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Say     string            `json:"say"`     // one of the file's bodies
	Results []string          `json:"results"` // bodies, as results of a batch
	JSON    any               `json:"json"`
	Problem any               `json:"problem"`
	Body    string            `json:"body"`
	Pad     []any             `json:"pad"` // a text after the body, and how often
	Raw     string            `json:"raw"` // bytes instead of HTTP
	Hang    bool              `json:"hang"`
	Close   bool              `json:"close"`
}

// text returns the body of a reply.
func (r *reply) text(bodies map[string]json.RawMessage) string {
	switch {
	case r.Say != "":
		return string(bodies[r.Say])
	case r.Results != nil:
		all := make([]string, len(r.Results))
		for i, name := range r.Results {
			all[i] = string(bodies[name])
		}
		return `{"results":[` + strings.Join(all, ",") + "]}"
	case r.Problem != nil || r.JSON != nil:
		b, _ := json.Marshal(map[bool]any{true: r.Problem, false: r.JSON}[r.Problem != nil]) // it was JSON
		return string(b)
	case r.Pad != nil:
		return r.Body + strings.Repeat(r.Pad[0].(string), int(r.Pad[1].(float64)))
	}
	return r.Body
}

// script is a server that answers as a conformance case says.
type script struct {
	*httptest.Server
	bodies map[string]json.RawMessage
	hung   chan struct{} // for each request that hangs

	mu      sync.Mutex
	replies []reply // one after the other, and again from the first
	calls   int
	request map[string]any // the last
}

func newScript(t *testing.T, bodies map[string]json.RawMessage) *script {
	s := &script{bodies: bodies, hung: make(chan struct{}, 100)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// answer sets what is answered from now on.
func (s *script) answer(replies []reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = replies
}

// hangs reports whether requests are not answered now.
func (s *script) hangs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.replies) == 1 && s.replies[0].Hang
}

// next counts a request, and returns the reply to it.
func (s *script) next(path string, body any) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request = map[string]any{"path": path, "body": body}
	s.calls++
	if len(s.replies) == 0 {
		return reply{}, errors.New("a request before the first answer")
	}
	r := s.replies[0]
	s.replies = append(s.replies[1:len(s.replies):len(s.replies)], r)
	return r, nil
}

func (s *script) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body any
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil && !errors.Is(err, io.EOF) {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	r, err := s.next(req.URL.Path, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	_, _ = io.Copy(io.Discard, req.Body) // so that the end of the connection is seen
	if r.Raw != "" || r.Close {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = buf.WriteString(r.Raw) // to a client that may have gone
		_ = buf.Flush()
		if r.Hang {
			s.hung <- struct{}{}
			_, _ = io.Copy(io.Discard, conn)
		}
		return
	}
	if r.Hang {
		s.hung <- struct{}{}
		<-req.Context().Done()
		return
	}
	if r.Problem != nil {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	for k, v := range r.Headers {
		w.Header().Set(k, v)
	}
	w.WriteHeader(max(r.Status, http.StatusOK))
	_, _ = io.WriteString(w, r.text(s.bodies)) // to a client that may not read all of it
}

// frozen goes to a server outside of the bubble in which it is used: there time stands
// still while a request is under way. A request that hangs waits for its context in the
// bubble, where time can pass.
type frozen struct {
	http.Transport
	s *script // nil for another server

	sending sync.Mutex // held until a request hangs, so that each takes its own word of it
}

func (f *frozen) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.s == nil || !f.s.hangs() {
		return f.Transport.RoundTrip(r)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	done := make(chan struct{})
	f.sending.Lock()
	go func() {
		defer close(done)
		if res, err := f.Transport.RoundTrip(r.Clone(ctx)); err == nil {
			<-ctx.Done()
			res.Body.Close()
		}
	}()
	<-f.s.hung
	f.sending.Unlock()
	cancel()
	<-done
	<-r.Context().Done()
	return nil, r.Context().Err()
}
