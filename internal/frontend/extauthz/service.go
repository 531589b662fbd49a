// Package extauthz answers Envoy's ext_authz filter over gRPC,
// envoy.service.auth.v3.Authorization: each request that Envoy asks about is
// identified, matched to a route and decided here, from its attributes, so that
// Envoy's routes need no descriptors.
//
// A request that is let through is told with the header fields that tell the
// limits, for Envoy to add to the application's answer; one that a limit refuses
// is a denied_response of 429 with Retry-After and a problem document. What is
// neither, because the store gave no decision or a rule cannot be asked here, is
// an error of the call, which every Envoy takes to its failure_mode_allow.
//
// The client is source.address, the peer of Envoy's connection, or, where that is
// one of the trusted proxies, whom the client header names. Nothing that a client
// sends changes more than that: method, host and path are Envoy's own words.
//
// The service believes whoever calls it, as every service of Envoy's does: who
// can reach its port can spend anybody's limit. Keep it to Envoy, by its address
// or by certificates.
//
// Source: envoy/service/auth/v3 of go-control-plane 1.40.
package extauthz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/wire"
)

// Name of the service, as gRPC has it.
const Name = "envoy.service.auth.v3.Authorization"

// Options configures a [Service].
type Options struct {
	// Authorize decides. Its Limiter is required.
	Authorize authorize.Options
}

// Service answers Envoy. Safe for concurrent use.
type Service struct {
	authv3.UnimplementedAuthorizationServer
	auth *authorize.Authorizer
}

// New returns a service. It returns an error when a required option is missing
// or one is out of range.
func New(opt Options) (*Service, error) {
	a, err := authorize.New(opt.Authorize)
	if err != nil {
		return nil, fmt.Errorf("extauthz: %w", err)
	}
	return &Service{auth: a}, nil
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { authv3.RegisterAuthorizationServer(r, s) }

// Repair returns a CheckRequest whose strings are not all UTF-8 with ! in place of what
// is not, nil for other messages. It is for grpcserver.Options: Envoy itself writes ! in
// most strings, and a client must not choose that it is not counted.
func Repair(message any, data []byte, _ error) []byte {
	in, ok := message.(*authv3.CheckRequest)
	if !ok {
		return nil
	}
	data = bytes.Clone(data)
	wire.Repair(data, in.ProtoReflect().Descriptor(), maxDepth)
	return data
}

// maxDepth is how deep the messages are in which a request is told.
const maxDepth = 8

// Check implements the service.
func (s *Service) Check(ctx context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	q, facts, err := s.question(in.GetAttributes())
	if err != nil {
		s.auth.Report("Envoy's question cannot be answered", err)
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	// Who waits longer than Envoy does is never heard.
	if end, ok := ctx.Deadline(); ok {
		q.MaxDelay = max(0, min(q.MaxDelay, time.Until(end)-answerTime))
	}
	var a headerFields
	v := s.auth.Decide(ctx, &a, q)
	if v.Outcome == authorize.Undecided && !facts {
		return nil, a.callError()
	}
	return a.response(v), nil
}

// answerTime is what is left of Envoy's timeout for the answer to arrive.
const answerTime = 20 * time.Millisecond

// errorResponse is the parameter, beside those of [authorize.ParameterNames], by
// which Envoy is told of errors in the response.
const errorResponse = "error_response"

// Parameters lists the keys that the context_extensions of a route, or of the
// filter, can have: those of [authorize.ParameterNames] and
//
//	error_response  true: a store that gives no decision is told as an
//	                error_response, with status 503, Retry-After and a problem
//	                document for the client. Envoys older than the field take it
//	                for a denial, whatever their failure_mode_allow; so it is an
//	                error of the call if not given
func Parameters() []string { return append(authorize.ParameterNames(), errorResponse) }

// maxExtensions bounds how many context_extensions are read.
const maxExtensions = 16

// question reads what Envoy asks, and whether errors are told in the response.
func (s *Service) question(at *authv3.AttributeContext) (q *authorize.Question, facts bool, err error) {
	q = &authorize.Question{}
	if q.Peer, err = peerAddress(at.GetSource()); err != nil {
		return nil, false, err
	}
	ext := at.GetContextExtensions()
	if len(ext) > maxExtensions {
		return nil, false, fmt.Errorf("%d context_extensions, at most %d are allowed", len(ext), maxExtensions)
	}
	for key, value := range ext {
		switch {
		case key == errorResponse && (value == "true" || value == "false"):
			facts = value == "true"
		case key == errorResponse:
			err = fmt.Errorf("parameter %s: %q is neither true nor false", key, value)
		case !slices.Contains(authorize.ParameterNames(), key):
			err = authorize.UnknownParameter(key, Parameters())
		default:
			err = s.auth.SetParameter(&q.Parameters, key, value)
		}
		if err != nil {
			return nil, false, fmt.Errorf("context_extensions: %w", err)
		}
	}
	if q.Status != 0 {
		q.Status = int(envoyStatus(q.Status)) // what the document says, too
	}
	h := at.GetRequest().GetHttp()
	if h == nil {
		q.Connection = true // the network filter asks once for each
		return q, facts, nil
	}
	q.Method, q.Host, q.Header, q.Carried = h.GetMethod(), h.GetHost(), requestHeader(h), true
	q.Path, q.Query, _ = strings.Cut(h.GetPath(), "?")
	return q, facts, nil
}

// errNoSource says that Envoy does not tell whose request it is.
var errNoSource = errors.New("attributes.source has no address: everybody would be one client")

// peerAddress returns the other end of Envoy's connection, the zero Addr for one on a
// Unix socket.
func peerAddress(p *authv3.AttributeContext_Peer) (netip.Addr, error) {
	switch a := p.GetAddress().GetAddress().(type) {
	case *corev3.Address_SocketAddress:
		addr, err := netip.ParseAddr(a.SocketAddress.GetAddress())
		if err != nil {
			return netip.Addr{}, errors.New("attributes.source is not an IP address")
		}
		return addr, nil
	case *corev3.Address_Pipe, *corev3.Address_EnvoyInternalAddress:
		return netip.Addr{}, nil
	}
	return netip.Addr{}, errNoSource
}

// requestHeader returns the header fields of a request, in either form that Envoy sends
// them in. Its pseudo fields, such as :path, are among them, where no source of
// identity can name them.
func requestHeader(h *authv3.AttributeContext_HttpRequest) http.Header {
	if raw := h.GetHeaderMap().GetHeaders(); len(raw) > 0 { // encode_raw_headers
		out := make(http.Header, len(raw))
		for _, f := range raw {
			value := f.GetValue()
			if b := f.GetRawValue(); len(b) > 0 {
				value = string(b)
			}
			out.Add(f.GetKey(), value)
		}
		return out
	}
	out := make(http.Header, len(h.GetHeaders()))
	for name, value := range h.GetHeaders() {
		out.Add(name, value)
	}
	return out
}
