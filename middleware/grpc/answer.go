package grpclimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/admit"
)

// Reason is the google.rpc.ErrorInfo.reason of a refusal, and ErrorDomain its
// domain.
const (
	Reason      = "RATE_LIMITED"
	ErrorDomain = "weir"
)

// maxViolations bounds how many limits a refusal names: details travel in a
// header field.
const maxViolations = 4

// refusalStatus returns the status of a call that the limits do not let through.
func (v *visit) refusalStatus(r *weir.Request, d weir.Decision) error {
	d.RetryAfter = answer.Wait(r.Ops(), d)
	md := v.fields(r, d)
	// Source: gRFC A6. Negative: do not retry.
	pushback := int64(-1)
	if d.RetryAfter != weir.Never && !d.Banned() {
		pushback = int64((d.RetryAfter + time.Millisecond - 1) / time.Millisecond)
	}
	md["grpc-retry-pushback-ms"] = []string{strconv.FormatInt(pushback, 10)}
	v.sendTrailer(md)
	st := status.New(codes.ResourceExhausted, answer.Detail(r.Ops(), d))
	if full, err := st.WithDetails(details(r, d)...); err == nil { // never of a status that is no OK
		st = full
	}
	return st.Err()
}

// details tell which limits refuse, and for how long.
func details(r *weir.Request, d weir.Decision) []protoadapt.MessageV1 {
	var ds []protoadapt.MessageV1
	if d.RetryAfter != weir.Never {
		ds = append(ds, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
	}
	quota := &errdetails.QuotaFailure{}
	for _, o := range r.Ops() {
		l := o.Decision.Limit
		if l == nil || o.Written().Hidden || o.Decision.Allowed() || d.Banned() && !l.Bans || len(quota.Violations) == maxViolations {
			continue
		}
		switch o.Role {
		case weir.Enforce, weir.Own, weir.Ban, weir.Deny:
			quota.Violations = append(quota.Violations, violation(r.Domain, l))
		}
	}
	isNamed := d.Limit != nil && !answer.IsHidden(r.Ops(), d)
	if len(quota.Violations) == 0 && isNamed { // it would have had to wait too long
		quota.Violations = append(quota.Violations, violation(r.Domain, d.Limit))
	}
	info := &errdetails.ErrorInfo{Reason: Reason, Domain: ErrorDomain, Metadata: map[string]string{"domain": strings.ToValidUTF8(r.Domain, "_")}}
	if isNamed {
		info.Metadata["limit"] = strings.ToValidUTF8(d.Limit.Name, "_")
	}
	return append(ds, quota, info)
}

// violation names a limit, and nobody whom it limits.
func violation(domain string, l *weir.Limit) *errdetails.QuotaFailure_Violation {
	metric := "requests"
	if l.Traits()&weir.Leases != 0 {
		metric = "concurrent-requests"
	}
	domain, name := strings.ToValidUTF8(domain, "_"), strings.ToValidUTF8(l.Name, "_")
	if l.Bans {
		return &errdetails.QuotaFailure_Violation{Subject: domain, Description: "the client is banned", ApiService: domain}
	}
	return &errdetails.QuotaFailure_Violation{
		Subject: domain + "/" + name, Description: "limit " + strconv.Quote(name) + " is exhausted", ApiService: domain,
		QuotaMetric: metric, QuotaId: name, QuotaValue: l.Count,
		QuotaDimensions: map[string]string{"algorithm": l.Algorithm.Name(), "period": l.Period.String()},
	}
}

// statuses are the HTTP statuses that stand for codes, for count_on and refund_on.
//
// Source: google/rpc/code.proto.
var statuses = [...]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           499,
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

// statusOf returns the HTTP status that stands for a code.
func statusOf(c codes.Code) int {
	if int(c) < len(statuses) {
		return statuses[c]
	}
	return http.StatusInternalServerError
}

// writeTrailers writes what the limits said into the trailer.
func (v *visit) writeTrailers(r *weir.Request, d weir.Decision) {
	if d.Limit != nil {
		v.sendTrailer(v.fields(r, d))
	}
}

// fields returns what the limits said as metadata.
func (v *visit) fields(r *weir.Request, d weir.Decision) metadata.MD {
	_, fields := v.m.opt.Answer.Fields(nil, nil, r.Ops(), d, admit.DecidedAt(r.Ops()))
	md := make(metadata.MD, len(fields)+1)
	for _, f := range fields {
		md[strings.ToLower(f.Name)] = []string{string(f.Value)}
	}
	return md
}

// sendTrailer adds to the trailer. It fails where there is no call, as in tests of
// handlers, and nobody to be told.
func (v *visit) sendTrailer(md metadata.MD) { _ = v.trailer(md) }
