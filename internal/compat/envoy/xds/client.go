package xds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirlimit/weir/internal/backoff"
)

var errEnded = errors.New("the server ended the stream")

// maxPace is the longest time until a refusal is told, and so until the set that
// puts it right can come.
const maxPace = time.Second

// maxReason is the longest reason for a refusal that is told, in bytes.
const maxReason = 16 << 10

// Client fetches rules from one management server, and fetches them again when
// they change. Its log says how it fares.
type Client struct {
	opt  Options
	node *corev3.Node

	// version is that of the last set that was accepted, nonce that of the last
	// response: the next request says both.
	version, nonce string
	// refused is how many sets in a row were, the last of them for the reason.
	refused int
	reason  string
}

// New returns a client, which connects when it runs. It returns an error when an
// option is out of range or a file of TLS cannot be used.
func New(opt Options) (*Client, error) {
	opt, err := opt.complete()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]*structpb.Value, len(opt.NodeMetadata))
	for k, v := range opt.NodeMetadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, fmt.Errorf("xds: node metadata %q: keys and values must be UTF-8", k)
		}
		fields[k] = structpb.NewStringValue(v)
	}
	if !utf8.ValidString(opt.NodeID) {
		return nil, fmt.Errorf("xds: node id %q must be UTF-8", opt.NodeID)
	}
	c := &Client{
		opt:  opt,
		node: &corev3.Node{Id: opt.NodeID, Metadata: &structpb.Struct{Fields: fields}},
	}
	if _, err := c.credentials(); err != nil {
		return nil, fmt.Errorf("xds: %w", err)
	}
	if opt.TLS != nil && (opt.TLS.Cert == "") != (opt.TLS.Key == "") {
		opt.Log.Warn("xDS client certificate not used: it needs both a certificate and a key", "cert", opt.TLS.Cert, "key", opt.TLS.Key)
	}
	return c, nil
}

// Run fetches sets until ctx ends. It calls apply with one
// set at a time, each the whole of the rules, which may be empty. An error of
// apply refuses the set: the management server is told the error's text, and
// apply is to leave the rules as they were. Whatever goes wrong with the
// management server is logged and tried again, forever. Call it once.
//
// Source: Envoy's xDS protocol, "How the client specifies what resources to
// return", "ACK/NACK and resource type instance version".
func (c *Client) Run(ctx context.Context, apply func([]*rlsconfv3.RateLimitConfig) error) {
	for failed := 0; ctx.Err() == nil; {
		c.opt.Log.Info("connecting to xDS management server", "server", c.opt.Server, "node", c.opt.NodeID)
		s, closeStream, err := c.connect(ctx)
		var wait time.Duration
		if err != nil {
			wait = randomAround(c.opt.ConnectRetry)
			c.logFailure(ctx, "no connection to xDS management server", err, wait)
		} else {
			responded, err := c.followStream(s, apply)
			closeStream()
			if responded {
				failed = 0
			}
			wait = c.opt.Backoff.waitAfter(failed)
			failed++
			c.logFailure(ctx, "lost xDS management server, the rules stay", err, wait)
		}
		if !backoff.Sleep(ctx, wait) {
			return
		}
	}
}

// logFailure logs what ended a connection, unless we did.
func (c *Client) logFailure(ctx context.Context, what string, err error, wait time.Duration) {
	if ctx.Err() == nil {
		c.opt.Log.Error(what, "server", c.opt.Server, "err", err, "retry_in", wait)
	}
}

// followStream asks for the resources and answers each response, until the stream
// ends. It reports whether there was a response.
func (c *Client) followStream(s stream, apply func([]*rlsconfv3.RateLimitConfig) error) (responded bool, err error) {
	c.opt.Log.Info("connected to xDS management server", "server", c.opt.Server)
	if err := c.sendRequest(s, nil); err != nil {
		return false, err
	}
	for {
		res, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return responded, errEnded
		}
		if err != nil {
			return responded, err
		}
		responded = true
		refusal := c.applyResponse(res, apply)
		if err := c.paceRefusals(s.Context()); err != nil {
			return responded, err
		}
		if err := c.sendRequest(s, refusal); err != nil {
			return responded, err
		}
	}
}

// applyResponse hands a response on and returns why it is refused, or nil.
func (c *Client) applyResponse(res *discoveryv3.DiscoveryResponse, apply func([]*rlsconfv3.RateLimitConfig) error) error {
	c.nonce = res.GetNonce()
	configs, err := decodeResources(res)
	if err == nil {
		err = apply(configs)
	}
	if err != nil {
		c.refused++
		level := slog.LevelDebug
		if reason := res.GetVersionInfo() + ": " + err.Error(); reason != c.reason {
			c.reason, level = reason, slog.LevelError
		}
		c.opt.Log.Log(context.Background(), level, "rules of xDS management server rejected; the last good ones stay in use", "version", res.GetVersionInfo(), "err", err)
		return err
	}
	c.refused, c.reason = 0, ""
	c.version = res.GetVersionInfo()
	c.opt.Log.Info("applied rules of xDS management server", "version", c.version, "domains", len(configs))
	return nil
}

// paceRefusals waits before the second of a row of refusals and those after it are told:
// some servers send the same set again as soon as they are.
func (c *Client) paceRefusals(ctx context.Context) error {
	if c.refused < 2 {
		return nil
	}
	if !backoff.Sleep(ctx, min(10*time.Millisecond<<min(c.refused-2, 10), maxPace)) {
		return ctx.Err()
	}
	return nil
}

// sendRequest asks for the resources, and so accepts the last response, or refuses it
// for a reason.
//
// The request that opens a stream says what the last stream came to, as
// envoyproxy/ratelimit does, so that a server that has nothing newer need not
// send anything. Unlike there, a set that was refused last is not stated as
// accepted: the server would believe it.
func (c *Client) sendRequest(s stream, refused error) error {
	req := &discoveryv3.DiscoveryRequest{
		Node: c.node, TypeUrl: TypeURL, VersionInfo: c.version, ResponseNonce: c.nonce,
	}
	if refused != nil {
		req.ErrorDetail = &rpcstatus.Status{Message: clipReason(refused.Error())}
	}
	err := s.Send(req)
	if !errors.Is(err, io.EOF) {
		return err
	}
	for { // what is left of the stream, and then why it has ended
		if _, err = s.Recv(); errors.Is(err, io.EOF) {
			return errEnded
		} else if err != nil {
			return err
		}
	}
}

// clipReason returns s as protobuf takes it: UTF-8, of maxReason bytes at most.
func clipReason(s string) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}

// waitAfter returns the wait after failed streams in a row before this one.
func (b Backoff) waitAfter(failed int) time.Duration {
	if b.Initial >= b.Max {
		return b.Max
	}
	initial := float64(b.Initial)
	wait := min(initial*math.Pow(b.Factor, float64(failed)), float64(b.Max))
	if !b.NoJitter {
		wait = initial + rand.Float64()*(wait-initial)
	}
	return time.Duration(max(wait, initial))
}

// randomAround returns d, half more or less at random.
func randomAround(d time.Duration) time.Duration {
	return d/2 + rand.N(d+1)
}
