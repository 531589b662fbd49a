// Package grpcclient is the way of a client.Client to a Weir service over gRPC,
// API weir.v1. It is apart from package client so that who asks over HTTP does
// not link gRPC.
package grpcclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/client"
	"github.com/weirlimit/weir/internal/grpcstatus"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// Options configures [New].
type Options struct {
	// Target is the service, HOST:PORT or another target of gRPC. Zero means
	// "localhost:8081".
	Target string
	// Credentials secure the connection. Nil means that it is not.
	Credentials credentials.TransportCredentials
	// Dial are further options of the connection: interceptors, credentials per
	// call. Zero means none.
	Dial []grpc.DialOption
}

// New returns the way over gRPC, for client.Options.Wire. It connects when it is
// first used, and again when the connection is lost, within a second of asking.
// It returns an error when an option cannot be used.
func New(opt Options) (client.Wire, error) {
	if opt.Target == "" {
		opt.Target = "localhost:8081"
	}
	if opt.Credentials == nil {
		opt.Credentials = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(opt.Target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(opt.Credentials),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		// The client's breaker decides when to try again, and is not to find that
		// gRPC has not.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// Servers that do not say otherwise take a ping every five minutes; what the
		// Timeout does beside is to end a connection on which nothing sent has arrived
		// for so long.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 310 * time.Second, Timeout: 10 * time.Second}),
	}, opt.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &wire{conn: conn, service: weirpb.NewLimitServiceClient(conn)}, nil
}

// maxAnswer is the longest answer taken, in bytes.
const maxAnswer = 32 << 20

type wire struct {
	conn    *grpc.ClientConn
	service weirpb.LimitServiceClient
}

func (w *wire) Close() error { return w.conn.Close() }

func (w *wire) Decide(ctx context.Context, ks []client.Check, peek bool) ([]client.Decision, error) {
	if len(ks) == 1 {
		res, err := w.service.Check(ctx, request(&ks[0], peek))
		if err != nil {
			return nil, problem(err)
		}
		d, err := decodeDecision(res.GetDecision())
		return []client.Decision{d}, err
	}
	res, err := w.service.CheckBatch(ctx, makeBatch(ks, peek))
	if err != nil {
		return nil, problem(err)
	}
	return columns(res, len(ks))
}

func (w *wire) Reserve(ctx context.Context, k client.Check) (client.Decision, string, time.Time, error) {
	res, err := w.service.Reserve(ctx, &weirpb.ReserveRequest{Domain: k.Domain, Descriptors: descriptors(&k), Cost: optionalCost(&k), Priority: priority(&k), IdempotencyKey: k.IdempotencyKey})
	if err != nil {
		return client.Decision{}, "", time.Time{}, problem(err)
	}
	d, err := decodeDecision(res.GetDecision())
	if err == nil && d.Allowed && res.GetHandle() == "" {
		err = errors.New("weir: a reservation without a handle")
	}
	if err != nil {
		return client.Decision{}, "", time.Time{}, err
	}
	return d, res.GetHandle(), time.UnixMicro(res.GetExpiresUs()), nil
}

func (w *wire) Settle(ctx context.Context, handle string, actual int64) (client.Settlement, error) {
	if actual < 0 {
		res, err := w.service.Cancel(ctx, &weirpb.CancelRequest{Handle: handle})
		return client.Settlement{Reserved: res.GetReserved()}, problem(err)
	}
	res, err := w.service.Commit(ctx, &weirpb.CommitRequest{Handle: handle, Actual: &actual})
	return client.Settlement{Reserved: res.GetReserved(), Actual: res.GetActual()}, problem(err)
}

func (w *wire) Acquire(ctx context.Context, k client.Check) (client.Decision, error) {
	res, err := w.service.Acquire(ctx, &weirpb.AcquireRequest{
		Domain: k.Domain, Descriptors: descriptors(&k), Cost: optionalCost(&k), Priority: priority(&k), Lease: k.Lease,
	})
	if err != nil {
		return client.Decision{}, problem(err)
	}
	return decodeDecision(res.GetDecision())
}

// Renew implements client.Wire.
func (w *wire) Renew(ctx context.Context, k client.Check) (client.Decision, error) {
	res, err := w.service.Renew(ctx, &weirpb.RenewRequest{Domain: k.Domain, Descriptors: descriptors(&k), Cost: optionalCost(&k), Lease: k.Lease})
	if err != nil {
		return client.Decision{}, problem(err)
	}
	return decodeDecision(res.GetDecision())
}

func (w *wire) Release(ctx context.Context, k client.Check) (bool, error) {
	res, err := w.service.Release(ctx, &weirpb.ReleaseRequest{Domain: k.Domain, Descriptors: descriptors(&k), Cost: optionalCost(&k), Lease: k.Lease})
	return res.GetReleased(), problem(err)
}

func request(k *client.Check, peek bool) *weirpb.CheckRequest {
	return &weirpb.CheckRequest{
		Domain: k.Domain, Descriptors: descriptors(k), Cost: optionalCost(k), Priority: priority(k), Peek: peek, Lease: k.Lease, IdempotencyKey: k.IdempotencyKey,
	}
}

func descriptors(k *client.Check) []*weirpb.Descriptor {
	ds := make([]*weirpb.Descriptor, len(k.Descriptors))
	for i := range k.Descriptors {
		d := &k.Descriptors[i]
		out := &weirpb.Descriptor{Entries: make([]*weirpb.Entry, len(d.Entries)), Peek: d.Peek}
		for j, e := range d.Entries {
			out.Entries[j] = &weirpb.Entry{Key: e.Key, Value: e.Value}
		}
		if d.Cost != 0 {
			out.Cost = &d.Cost
		}
		ds[i] = out
	}
	return ds
}

func optionalCost(k *client.Check) *int64 {
	if k.Cost == 0 {
		return nil
	}
	return &k.Cost
}

func priority(k *client.Check) *uint32 {
	if k.Priority == 0 {
		return nil
	}
	p := uint32(max(k.Priority, 0))
	if k.Priority < 0 {
		p = 1 << 31 // out of range there too
	}
	return &p
}

// makeBatch returns the checks as a table if they differ in values and costs alone,
// which is half the bytes and half the work.
func makeBatch(ks []client.Check, peek bool) *weirpb.CheckBatchRequest {
	if t := makeTable(ks, peek); t != nil {
		return &weirpb.CheckBatchRequest{Table: t}
	}
	in := &weirpb.CheckBatchRequest{Checks: make([]*weirpb.CheckRequest, len(ks))}
	for i := range ks {
		in.Checks[i] = request(&ks[i], peek)
	}
	return in
}

func makeTable(ks []client.Check, peek bool) *weirpb.CheckTable {
	first := &ks[0]
	if len(first.Descriptors) != 1 || len(first.Descriptors[0].Entries) == 0 {
		return nil
	}
	keys := first.Descriptors[0].Entries
	t := &weirpb.CheckTable{Domain: first.Domain, Priority: priority(first), Peek: peek}
	for _, e := range keys {
		t.Keys = append(t.Keys, e.Key)
	}
	t.Values, t.Costs = make([]string, 0, len(ks)*len(keys)), make([]int64, 0, len(ks))
	for i := range ks {
		k := &ks[i]
		if k.Domain != first.Domain || k.Priority != first.Priority || k.Lease != "" || len(k.Descriptors) != 1 {
			return nil
		}
		d := &k.Descriptors[0]
		if d.Cost != 0 || d.Peek || len(d.Entries) != len(keys) {
			return nil
		}
		for j, e := range d.Entries {
			if e.Key != keys[j].Key {
				return nil
			}
			t.Values = append(t.Values, e.Value)
		}
		t.Costs = append(t.Costs, max(k.Cost, 1))
	}
	if !slices.ContainsFunc(t.Costs, func(c int64) bool { return c != 1 }) {
		t.Costs = nil
	}
	return t
}

func durationOf(us int64) time.Duration {
	switch {
	case us < 0:
		return weir.Never
	case us > int64(1<<63-1)/1000:
		return 1<<63 - 1
	}
	return time.Duration(us) * time.Microsecond
}

// decodeDecision returns a decision, or an error if there is none: nothing must not
// refuse.
func decodeDecision(d *weirpb.Decision) (client.Decision, error) {
	if d == nil {
		return client.Decision{}, errors.New("weir: response without a decision")
	}
	out := client.Decision{
		Allowed: d.Allowed, Soft: d.Soft, Borrowed: d.Borrowed, Repeated: d.Repeated, Delay: max(durationOf(d.DelayUs), 0),
		RetryAfter: durationOf(d.RetryAfterUs), Limit: decodeLimit(d.Limit), Remaining: -1, ResetAfter: durationOf(d.ResetAfterUs),
		Degraded: d.GetGuarantee().GetDegraded(),
	}
	if d.Limit != nil {
		out.Remaining = d.Remaining
	}
	for _, o := range d.Limits {
		out.Limits = append(out.Limits, client.Outcome{
			Limit: decodeLimit(o.Limit), Role: o.Role, Cost: o.Cost, Allowed: o.Allowed, Charged: o.Charged,
			Remaining: o.Remaining, RetryAfter: durationOf(o.RetryAfterUs), ResetAfter: durationOf(o.ResetAfterUs),
		})
	}
	return out, nil
}

func decodeLimit(l *weirpb.Limit) *client.Limit {
	if l == nil {
		return nil
	}
	return &client.Limit{Name: l.Name, Count: l.Count, Burst: l.Burst, Period: durationOf(l.PeriodUs), Algorithm: l.Algorithm}
}

// columns returns the decisions of a batch of n checks.
func columns(res *weirpb.CheckBatchResponse, n int) ([]client.Decision, error) {
	for name, length := range map[string]int{
		"allowed": len(res.Allowed), "remaining": len(res.Remaining), "retry_after_us": len(res.RetryAfterUs),
		"reset_after_us": len(res.ResetAfterUs), "limit": len(res.Limit), "delay_us": len(res.DelayUs),
		"soft": len(res.Soft), "borrowed": len(res.Borrowed),
	} {
		if length != n && (length != 0 || name == "allowed") {
			return nil, fmt.Errorf("weir: %d results under %s for %d checks", length, name, n)
		}
	}
	limits := make([]*client.Limit, len(res.Limits)+1)
	for i, l := range res.Limits {
		limits[i+1] = decodeLimit(l.GetLimit())
	}
	out := make([]client.Decision, n)
	for i := range out {
		d := client.Decision{
			Allowed: res.Allowed[i], Soft: columnValue(res.Soft, i), Borrowed: columnValue(res.Borrowed, i), Delay: max(durationOf(columnValue(res.DelayUs, i)), 0),
			RetryAfter: durationOf(columnValue(res.RetryAfterUs, i)), Remaining: -1, ResetAfter: durationOf(columnValue(res.ResetAfterUs, i)),
		}
		if spoke := int(columnValue(res.Limit, i)); spoke > 0 {
			if spoke >= len(limits) {
				return nil, fmt.Errorf("weir: result %d names limit %d of %d", i, spoke, len(res.Limits))
			}
			d.Limit, d.Remaining = limits[spoke], columnValue(res.Remaining, i)
			d.Degraded = res.Limits[spoke-1].GetGuarantee().GetDegraded()
		}
		out[i] = d
	}
	return out, nil
}

// columnValue returns value i of a column, zero if the column was left out.
func columnValue[T any](column []T, i int) (v T) {
	if len(column) > 0 {
		v = column[i]
	}
	return v
}

// Why a reservation is not made or settled, or a call not charged once, and the status of HTTP that says so.
var reasons = map[string]int{"SETTLED": 409, "EXPIRED": 410, "REGION": 421, "UNSUPPORTED": 422, "TOO_LARGE": 422, "IDEMPOTENCY_MISMATCH": 422}

// settled returns what a reservation came to that was settled before, nil if info does not
// say.
func settled(info *errdetails.ErrorInfo) *client.Settlement {
	reserved, err := strconv.ParseInt(info.GetMetadata()["reserved"], 10, 64)
	actual, errActual := strconv.ParseInt(info.GetMetadata()["actual"], 10, 64)
	if err != nil || errActual != nil {
		return nil
	}
	return &client.Settlement{Reserved: reserved, Actual: actual}
}

// problem returns what a call that failed means to a client.Client; nil for nil.
func problem(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	switch st.Code() {
	case codes.InvalidArgument:
		return &client.Error{Status: 400, Code: "INVALID_ARGUMENT", Detail: st.Message()}
	case codes.FailedPrecondition:
		for _, d := range st.Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == "weir" && reasons[info.GetReason()] != 0 {
				return &client.Error{Status: reasons[info.GetReason()], Code: info.GetReason(), Detail: st.Message(), Settled: settled(info)}
			}
		}
		return &client.Error{Status: 400, Code: "INVALID_ARGUMENT", Detail: st.Message()}
	case codes.Unimplemented:
		// What knows the service but not what it lacks.
		if !strings.HasPrefix(st.Message(), "unknown service") && !strings.HasPrefix(st.Message(), "unknown method") {
			return &client.Error{Status: 501, Code: "UNIMPLEMENTED", Detail: st.Message()}
		}
	case codes.ResourceExhausted, codes.Unavailable:
		if wait := grpcstatus.RetryDelay(st); wait > 0 {
			return &client.Busy{RetryAfter: wait, Detail: st.Message()}
		}
	case codes.DeadlineExceeded:
		return fmt.Errorf("weir: %w: %s", context.DeadlineExceeded, st.Message())
	}
	return fmt.Errorf("weir: %w", err)
}
