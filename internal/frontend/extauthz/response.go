package extauthz

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/frontend/authorize"
)

// headerFields is an http.ResponseWriter that keeps what it is given.
type headerFields struct {
	header http.Header
	code   int
	body   []byte
}

// Header implements http.ResponseWriter.
func (a *headerFields) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *headerFields) WriteHeader(code int) { a.code = code }

// Write implements http.ResponseWriter.
func (a *headerFields) Write(b []byte) (int, error) {
	a.body = append(a.body, b...)
	return len(b), nil
}

// callError returns the error of the call for an answer that is none.
func (a *headerFields) callError() error {
	if a.code == http.StatusServiceUnavailable {
		return status.Error(codes.Unavailable, "the limiter's store did not answer")
	}
	return status.Error(codes.FailedPrecondition, string(a.body))
}

// response returns what Envoy is told. Of its own status Envoy asks only whether it is OK.
func (a *headerFields) response(v authorize.Verdict) *authv3.CheckResponse {
	out := &authv3.CheckResponse{Status: &rpcstatus.Status{Code: int32(v.Outcome.Code())}, DynamicMetadata: metadata(v)}
	switch v.Outcome {
	case authorize.Allowed:
		out.HttpResponse = &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
			ResponseHeadersToAdd: options(a.header, true)}}
	case authorize.Undecided:
		out.HttpResponse = &authv3.CheckResponse_ErrorResponse{ErrorResponse: a.deniedResponse()}
	default:
		out.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: a.deniedResponse()}
	}
	return out
}

func (a *headerFields) deniedResponse() *authv3.DeniedHttpResponse {
	return &authv3.DeniedHttpResponse{
		Status:  &typev3.HttpStatus{Code: envoyStatus(a.code)},
		Headers: options(a.header, false),
		Body:    strings.ToValidUTF8(string(a.body), "\uFFFD"),
	}
}

// envoyStatus returns a status as Envoy knows it. It takes a response with another one
// for broken, so that 4xx which have no name become 429, 5xx 503.
func envoyStatus(status int) typev3.StatusCode {
	switch _, named := typev3.StatusCode_name[int32(status)]; {
	case named:
		return typev3.StatusCode(status)
	case status < 500:
		return typev3.StatusCode_TooManyRequests
	}
	return typev3.StatusCode_ServiceUnavailable
}

// options returns header fields for Envoy to set. Beside an application that has
// limits of its own, lists are added to its, and other fields replace them.
func options(h http.Header, appendTo bool) []*corev3.HeaderValueOption {
	var out []*corev3.HeaderValueOption
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if name == "Content-Length" { // Envoy counts by itself
			continue
		}
		action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		if appendTo && (name == "Ratelimit" || name == "Ratelimit-Policy") {
			action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
		}
		for _, value := range h[name] {
			out = append(out, &corev3.HeaderValueOption{
				Header: &corev3.HeaderValue{Key: strings.ToLower(name), Value: value}, AppendAction: action})
		}
	}
	return out
}

// metadata is what Envoy's log and later filters are told, in the namespace
// envoy.filters.http.ext_authz.
func metadata(v authorize.Verdict) *structpb.Struct {
	text := func(s string) *structpb.Value {
		return structpb.NewStringValue(strings.ToValidUTF8(s, "\uFFFD"))
	}
	out := map[string]*structpb.Value{"outcome": text(outcomes[v.Outcome])}
	if v.Route != "" {
		out["route"] = text(v.Route)
	}
	if v.Degraded {
		out["degraded"] = structpb.NewBoolValue(true)
	}
	if v.Soft {
		out["soft"] = structpb.NewBoolValue(true)
	}
	if d := v.Decision; d.Limit != nil {
		out["limit"] = text(d.Limit.Name)
		out["remaining"] = structpb.NewNumberValue(float64(d.Remaining))
		if d.RetryAfter != 0 && d.RetryAfter != weir.Never {
			out["retry_after"] = structpb.NewNumberValue(float64(answer.Seconds(d.RetryAfter)))
		}
		if d.ResetAfter != weir.Forever {
			out["reset_after"] = structpb.NewNumberValue(math.Ceil(d.ResetAfter.Seconds()))
		}
	}
	return &structpb.Struct{Fields: out}
}

var outcomes = [...]string{
	authorize.Allowed: "allowed", authorize.Refused: "refused", authorize.Unreadable: "unreadable", authorize.Undecided: "undecided",
}
