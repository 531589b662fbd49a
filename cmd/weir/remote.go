package main

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

// question is the body of POST /v1/check.
type question struct {
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

func newQuestion(domain string, ds []weir.Descriptor) question {
	q := question{Domain: domain}
	for _, d := range ds {
		q.Descriptors = append(q.Descriptors, questionDescriptor{d.Entries})
	}
	return q
}

// maxAnswer bounds what is read of a server's answer, in bytes.
const maxAnswer = 4 << 20

// remote is a running server.
type remote struct {
	url     string
	token   string
	timeout time.Duration
	// flag names the server on the command line. Empty means --admin.
	flag string
	// behindUpstream: the server may be a gateway, whose upstream answers whoever is
	// not trusted.
	behindUpstream bool
}

// notTrusted ends errors about answers that are likely an upstream's.
const notTrusted = ": if it forwards (--upstream), its API answers to the addresses that it is started with (--trust 127.0.0.1 for this machine) and to its admin token (--token here)"

// by returns the flag that names the server.
func (s *remote) by() string { return cmp.Or(s.flag, "--admin") }

// ask posts q to a path of the server and returns the answer.
func (s *remote) ask(path string, q question) ([]byte, error) {
	return s.call(http.MethodPost, path, q)
}

// at returns the URL of a path of the server. A port alone is one of this machine.
func (s *remote) at(path string) string {
	url := strings.TrimSuffix(s.url, "/")
	if _, err := strconv.ParseUint(url, 10, 16); err == nil {
		url = "127.0.0.1:" + url
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	return url + path
}

// send sends a request with the token.
func (s *remote) send(req *http.Request) (*http.Response, error) {
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	client := *http.DefaultClient
	if s.behindUpstream { // a redirect is the upstream's
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, s.unreachable(err))
	}
	return res, nil
}

// call sends a request whose body is q in JSON, nothing if q is nil, and returns
// the answer.
func (s *remote) call(method, path string, q any) ([]byte, error) {
	url := s.at(path)
	var data []byte
	if q != nil {
		var err error
		if data, err = json.Marshal(q); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.by(), err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.send(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if res.StatusCode != http.StatusOK {
		err := s.refusal(path, res, detail(body))
		if s.behindUpstream && !fromAPI(res) {
			err = fmt.Errorf("%w%s", err, notTrusted)
		}
		return nil, err
	}
	return body, nil
}

// read calls, and reads the answer into what the words say. It returns the answer as it
// came too.
func (s *remote) read(method, path string, q, into any, what string) ([]byte, error) {
	answer, err := s.call(method, path, q)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return nil, fmt.Errorf("%s: the response is not %s: %w", s.url, what, err)
	}
	return answer, nil
}

// refusal is the error of an answer that is not what was asked for, and why.
func (s *remote) refusal(path string, res *http.Response, why string) error {
	if res.Header.Get("WWW-Authenticate") == guesses.AdminRealm {
		why = ": admin token missing or wrong: give --token-file FILE, or set WEIR_ADMIN_TOKEN"
	}
	return fmt.Errorf("%s responded %s%s", s.at(path), res.Status, why)
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
func (s *remote) unreachable(err error) string {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return ": is `weir serve` running there? name another server with " + s.by()
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return ": name the file of its authority in the environment variable SSL_CERT_FILE"
	}
	return ""
}

// flagField finds the field of a body at fault that a flag gives.
var flagField = regexp.MustCompile(`^#/(cost|domain|lease|limit|reason): `)

// detail returns what a problem document says, after a colon.
func detail(body []byte) string {
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
		return ""
	}
	return ": " + live.Printable(flagField.ReplaceAllString(problem.Detail, "--$1: "))
}
