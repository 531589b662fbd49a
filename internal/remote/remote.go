// Package remote asks a running server for the subcommands: questions over HTTP and its live
// stream, with errors that say what to do about a server that does not answer as it should.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/insight/live"
)

// Question is the body of POST /v1/check.
type Question struct {
	Domain      string               `json:"domain,omitempty"`
	Descriptors []questionDescriptor `json:"descriptors,omitempty"`
	Cost        int64                `json:"cost,omitempty"`
	Peek        bool                 `json:"peek,omitempty"`
	Lease       string               `json:"lease,omitempty"`
	Strict      bool                 `json:"strict,omitempty"`
}

type questionDescriptor struct {
	Entries []weir.Entry `json:"entries"`
}

// NewQuestion returns a question about descriptors.
func NewQuestion(domain string, ds []weir.Descriptor) Question {
	q := Question{Domain: domain}
	for _, d := range ds {
		q.Descriptors = append(q.Descriptors, questionDescriptor{d.Entries})
	}
	return q
}

// maxAnswer bounds what is read of a server's answer, in bytes.
const maxAnswer = 4 << 20

// Server is a running server.
type Server struct {
	URL     string
	Token   string
	Timeout time.Duration
	// Flag names the server on the command line. Empty means --admin.
	Flag string
	// BehindUpstream: the server may be a gateway, whose upstream answers whoever is
	// not trusted.
	BehindUpstream bool
}

// NotTrusted ends errors about answers that are likely an upstream's.
const NotTrusted = ": if it forwards (--upstream), its API answers to the addresses that it is started with (--trust 127.0.0.1 for this machine) and to its admin token (--token here)"

// flagName returns the flag that names the server.
func (s *Server) flagName() string { return cmp.Or(s.Flag, "--admin") }

// Ask posts q to a path of the server and returns the answer.
func (s *Server) Ask(path string, q Question) ([]byte, error) {
	return s.callPath(http.MethodPost, path, q)
}

// locate returns the URL of a path of the server. A port alone is one of this machine.
func (s *Server) locate(path string) string {
	url := strings.TrimSuffix(s.URL, "/")
	if _, err := strconv.ParseUint(url, 10, 16); err == nil {
		url = "127.0.0.1:" + url
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	return url + path
}

// sendRequest sends a request with the token.
func (s *Server) sendRequest(req *http.Request) (*http.Response, error) {
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	client := *http.DefaultClient
	if s.BehindUpstream { // a redirect is the upstream's
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, s.unreachable(err))
	}
	return res, nil
}

// callPath sends a request whose body is q in JSON, nothing if q is nil, and returns
// the answer.
func (s *Server) callPath(method, path string, q any) ([]byte, error) {
	url := s.locate(path)
	var data []byte
	if q != nil {
		var err error
		if data, err = json.Marshal(q); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.flagName(), err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.sendRequest(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if res.StatusCode != http.StatusOK {
		why, _ := readProblem(body)
		err := s.refusal(path, res, why)
		if s.BehindUpstream && !fromAPI(res) {
			err = fmt.Errorf("%w%s", err, NotTrusted)
		}
		return nil, err
	}
	return body, nil
}

// Read calls, and reads the answer into what the words say. It returns the answer as it
// came too.
func (s *Server) Read(method, path string, q, into any, what string) ([]byte, error) {
	answer, err := s.callPath(method, path, q)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return nil, fmt.Errorf("%s: the response is not %s: %w", s.URL, what, err)
	}
	return answer, nil
}

// refusal is the error of an answer that is not what was asked for, and why.
func (s *Server) refusal(path string, res *http.Response, why string) error {
	if res.Header.Get("WWW-Authenticate") == guesses.AdminRealm {
		why = ": admin token missing or wrong: give --token-file FILE, or set WEIR_ADMIN_TOKEN"
	}
	return fmt.Errorf("%s responded %s%s", s.locate(path), res.Status, why)
}

// fromAPI reports whether an answer that is no decision is of the API, and not of a
// gateway or its upstream.
func fromAPI(res *http.Response) bool {
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		return false
	}
	return strings.HasPrefix(res.Header.Get("Content-Type"), "application/problem+json")
}

// unreachable says what to do about a server that could not be asked.
func (s *Server) unreachable(err error) string {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return ": is `weir serve` running there? name another server with " + s.flagName()
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return ": name the file of its authority in the environment variable SSL_CERT_FILE"
	}
	return ""
}

// flagField finds the field of a body at fault that a flag gives.
var flagField = regexp.MustCompile(`^#/(cost|domain|lease|limit|reason): `)

// readProblem returns what a problem document says, after a colon, and its code.
func readProblem(body []byte) (why, code string) {
	var problem struct {
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}
	if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
		return "", problem.Code
	}
	return ": " + live.Printable(flagField.ReplaceAllString(problem.Detail, "--$1: ")), problem.Code
}
