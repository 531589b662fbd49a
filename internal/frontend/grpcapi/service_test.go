package grpcapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/grpcapi"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/grpctest"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/rules"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const everything = `domain: api
descriptors:
- {key: client_id, limit: 10/minute}
- {key: bucket, limits: [{limit: 60/minute, name: bucket, algorithm: token_bucket, burst: 5}, {limit: 100/hour, algorithm: fixed_window}]}
- {key: soft, limit: 4/minute, mode: soft, exceed: 50%}
- {key: seen, limit: 1/minute, mode: shadow}
- {key: user, limits: [{limit: 2/minute, name: elastic, mode: elastic, pool: shared}]}
- {key: work, limits: [{limit: 2, name: work, algorithm: concurrency, ttl: 1m}]}
- {key: queue, limits: [{limit: 10/second, name: queue, algorithm: leaky_queue}]}
- {key: first, limit: 10/minute, headroom: [0, 5]}
- {key: about, limits: [{limit: 5/minute, algorithm: approximate}]}
deny: {ip: [10.0.0.1]}
pools:
  shared: {limit: 3/minute}
`

// desk is both APIs, each on a store of its own whose time is the test's.
type desk struct {
	t       *testing.T
	stores  [2]*clocked.Store
	client  weirpb.LimitServiceClient
	json    http.Handler
	limiter *weir.Limiter
}

func newDesk(t *testing.T, text string) *desk {
	t.Helper()
	d := &desk{t: t}
	var limiters [2]*weir.Limiter
	var reservers [2]*reserve.Reserver
	for i := range d.stores {
		set, err := rules.Parse("test.yaml", []byte(text), rules.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d.stores[i] = clocked.New(t)
		if limiters[i], err = weir.New(d.stores[i], set, weir.Options{}); err != nil {
			t.Fatal(err)
		}
		if reservers[i], err = reserve.New(limiters[i], reserve.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := grpcapi.New(grpcapi.Options{Limiter: limiters[0], Reserver: reservers[0]})
	if err != nil {
		t.Fatal(err)
	}
	if d.json, err = httpapi.New(httpapi.Options{Limiter: limiters[1], Reserver: reservers[1]}); err != nil {
		t.Fatal(err)
	}
	d.limiter = limiters[0]
	d.client = weirpb.NewLimitServiceClient(serve(t, s))
	return d
}

// serve serves s and returns a connection to it.
func serve(t testing.TB, s *grpcapi.Service) *grpc.ClientConn {
	t.Helper()
	return grpctest.Connect(t, grpcserver.Options{}, s.Register)
}

// advance moves the time of both stores on.
func (d *desk) advance(by time.Duration) {
	for _, s := range d.stores {
		s.Advance(by)
	}
}

// post asks the JSON API.
func (d *desk) post(path string, body any) (code int, answer map[string]any) {
	d.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		d.t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	d.json.ServeHTTP(rec, httptest.NewRequest("POST", path, bytes.NewReader(text)))
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
		d.t.Fatalf("%s: %v", rec.Body, err)
	}
	return rec.Code, answer
}

// entry makes a descriptor of one entry.
func entry(key, value string) *weirpb.Descriptor {
	return &weirpb.Descriptor{Entries: []*weirpb.Entry{{Key: key, Value: value}}}
}

// asJSON returns q as the JSON API has it.
func asJSON(q *weirpb.CheckRequest) map[string]any {
	out := map[string]any{}
	if q.Domain != "" {
		out["domain"] = q.Domain
	}
	var ds []any
	for _, d := range q.Descriptors {
		var es []any
		for _, e := range d.Entries {
			es = append(es, map[string]any{"key": e.Key, "value": e.Value})
		}
		one := map[string]any{"entries": es}
		if d.Cost != nil {
			one["cost"] = *d.Cost
		}
		if d.Peek {
			one["peek"] = true
		}
		ds = append(ds, one)
	}
	out["descriptors"] = ds
	if q.Cost != nil {
		out["cost"] = *q.Cost
	}
	if q.Priority != nil {
		out["priority"] = *q.Priority
	}
	if q.Peek {
		out["peek"] = true
	}
	if q.Lease != "" {
		out["lease"] = q.Lease
	}
	return out
}

// seconds returns microseconds as the JSON API has them.
func seconds(us int64) any {
	if us < 0 {
		return nil
	}
	return float64(us) / 1e6
}

func limitJSON(l *weirpb.Limit) any {
	if l == nil {
		return nil
	}
	if l.Algorithm == "" { // a ban has a name alone
		return map[string]any{"name": l.Name}
	}
	return map[string]any{"name": l.Name, "count": float64(l.Count), "burst": float64(l.Burst), "period": seconds(l.PeriodUs), "algorithm": l.Algorithm}
}

func guaranteeJSON(g *weirpb.Guarantee) any {
	var most, envelope any
	if g.AtMost != weir.Unbounded {
		most = float64(g.AtMost)
	}
	if g.Envelope != 0 {
		envelope = float64(g.Envelope)
	}
	return map[string]any{"exact": g.Exact, "at_most": most, "over_admit": float64(g.OverAdmit), "envelope": envelope, "source": g.Source, "degraded": g.Degraded}
}

// decisionJSON returns d as the JSON API has it.
func decisionJSON(d *weirpb.Decision) map[string]any {
	limits := []any{}
	for _, l := range d.Limits {
		limits = append(limits, map[string]any{"limit": limitJSON(l.Limit), "role": l.Role, "cost": float64(l.Cost), "allowed": l.Allowed,
			"charged": l.Charged, "remaining": float64(l.Remaining), "retry_after": seconds(l.RetryAfterUs), "reset_after": seconds(l.ResetAfterUs)})
	}
	out := map[string]any{"allowed": d.Allowed, "soft": d.Soft, "borrowed": d.Borrowed, "delay": seconds(d.DelayUs), "limit": limitJSON(d.Limit),
		"remaining": float64(d.Remaining), "retry_after": seconds(d.RetryAfterUs), "reset_after": seconds(d.ResetAfterUs),
		"guarantee": guaranteeJSON(d.Guarantee), "limits": limits}
	if d.Limit == nil {
		out["remaining"] = nil
	}
	if d.Banned {
		out["banned"] = true
	}
	return out
}

// equal compares two answers of the JSON API.
func equal(t *testing.T, what string, got, want map[string]any) {
	t.Helper()
	a, errA := json.Marshal(got)
	b, errB := json.Marshal(want)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if !bytes.Equal(a, b) {
		t.Fatalf("%s:\n gRPC %s\n JSON %s", what, a, b)
	}
}

// random makes a question about few keys, so that limits are met.
func random(r *rand.Rand) *weirpb.CheckRequest {
	keys := []string{"client_id", "bucket", "soft", "seen", "user", "work", "queue", "first", "about", "ip", "nothing"}
	q := &weirpb.CheckRequest{Peek: r.IntN(8) == 0}
	for range 1 + r.IntN(2) {
		key := keys[r.IntN(len(keys))]
		value := fmt.Sprint(r.IntN(3))
		if r.IntN(16) == 0 { // one counter or two, as over JSON
			value = []string{"", "\x00", "0\x1f1", "0\x1f", "\u00e9", "e\u0301", "0 ", "\ufeff0", "\u200b0"}[r.IntN(9)]
		}
		if key == "ip" {
			value = fmt.Sprintf("10.0.0.%d", 1+r.IntN(2))
		}
		d := entry(key, value)
		if r.IntN(4) == 0 {
			d.Cost = proto.Int64(int64(r.IntN(4)))
		}
		d.Peek = r.IntN(10) == 0
		q.Descriptors = append(q.Descriptors, d)
	}
	switch r.IntN(6) {
	case 0:
		q.Domain = "api"
	case 1:
		q.Domain = "other"
	}
	if r.IntN(3) == 0 {
		q.Cost = proto.Int64(int64(r.IntN(5)))
	}
	if r.IntN(4) == 0 {
		q.Priority = proto.Uint32(uint32(r.IntN(3)))
	}
	if r.IntN(3) > 0 {
		q.Lease = fmt.Sprintf("lease-%d", r.IntN(4))
	}
	return q
}

// The same questions get the same answers over JSON and over gRPC, alone and in
// batches.
func TestSameAsJSON(t *testing.T) {
	d := newDesk(t, everything)
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	refused, failed := 0, 0
	for i := range 2000 {
		if r.IntN(10) == 0 {
			d.advance(time.Duration(r.IntN(30_000_000)) * time.Microsecond)
		}
		if r.IntN(8) == 0 {
			d.sameBatch(r, fmt.Sprintf("seed %d, question %d", seed, i))
			continue
		}
		q := random(r)
		what := fmt.Sprintf("seed %d, question %d, %s", seed, i, q)
		got, err := d.client.Check(t.Context(), q)
		code, want := d.post("/v1/check", asJSON(q))
		if (err != nil) != (code != http.StatusOK) {
			t.Fatalf("%s: gRPC %v, JSON %d %v", what, err, code, want)
		}
		if err != nil {
			failed++
			if status.Code(err) != codes.InvalidArgument || code != http.StatusBadRequest {
				t.Fatalf("%s: gRPC %v, JSON %d", what, err, code)
			}
			continue
		}
		if !got.Decision.Allowed {
			refused++
		}
		equal(t, what, decisionJSON(got.Decision), want)
	}
	if refused < 100 || failed < 10 {
		t.Errorf("%d refused and %d failed: too few to tell", refused, failed)
	}
}

// sameBatch asks the same batch of both.
func (d *desk) sameBatch(r *rand.Rand, what string) {
	d.t.Helper()
	in := &weirpb.CheckBatchRequest{}
	var list []any
	for range 1 + r.IntN(10) {
		q := random(r)
		in.Checks = append(in.Checks, q)
		list = append(list, asJSON(q))
	}
	got, err := d.client.CheckBatch(d.t.Context(), in)
	code, want := d.post("/v1/check", map[string]any{"checks": list})
	if (err != nil) != (code != http.StatusOK) {
		d.t.Fatalf("%s: gRPC %v, JSON %d %v", what, err, code, want)
	}
	if err != nil {
		return
	}
	for i, w := range want["results"].([]any) {
		w := w.(map[string]any)
		delete(w, "limits")
		delete(w, "guarantee") // it is told of the limit that spoke
		equal(d.t, fmt.Sprintf("%s, %d of the batch", what, i), row(got, i), w)
	}
}

// row returns the i-th decision of a batch as the JSON API has it.
func row(b *weirpb.CheckBatchResponse, i int) map[string]any {
	at := func(col []int64) int64 {
		if len(col) == 0 {
			return 0
		}
		return col[i]
	}
	is := func(col []bool) bool { return len(col) > 0 && col[i] }
	out := map[string]any{"allowed": b.Allowed[i], "soft": is(b.Soft), "borrowed": is(b.Borrowed), "delay": seconds(at(b.DelayUs)),
		"limit": nil, "remaining": nil, "retry_after": seconds(at(b.RetryAfterUs)), "reset_after": seconds(b.ResetAfterUs[i])}
	if n := b.Limit[i]; n > 0 {
		out["limit"], out["remaining"] = limitJSON(b.Limits[n-1].Limit), float64(b.Remaining[i])
		if b.Limits[n-1].Bans && !b.Allowed[i] {
			out["banned"] = true
		}
	}
	return out
}

// A table asks what the same checks one by one ask.
func TestTable(t *testing.T) {
	d, one := newDesk(t, everything), newDesk(t, everything)
	table := &weirpb.CheckTable{Keys: []string{"client_id"}, Costs: []int64{1, 4, 0, 11, 6, 5, 3}}
	var list []*weirpb.CheckRequest
	for i, cost := range table.Costs {
		value := fmt.Sprint(i % 2)
		table.Values = append(table.Values, value)
		list = append(list, &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{entry("client_id", value)}, Cost: proto.Int64(cost)})
	}
	got, err := d.client.CheckBatch(t.Context(), &weirpb.CheckBatchRequest{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	want, err := one.client.CheckBatch(t.Context(), &weirpb.CheckBatchRequest{Checks: list})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("table %s\nchecks %s", got, want)
	}
	if n := len(got.Limits); n != 1 || len(got.RetryAfterUs) != 7 || got.RetryAfterUs[3] != -1 || len(got.Soft) != 0 || got.Limits[0].Guarantee.Source != "store" {
		t.Errorf("columns %s", got)
	}
	// Two keys, one cost for all, and what is said of all.
	got, err = d.client.CheckBatch(t.Context(), &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Domain: "api", Keys: []string{"bucket", "x"},
		Values: []string{"a", "b", "c", "d"}, Costs: []int64{9}, Peek: true, Priority: proto.Uint32(1)}})
	if err != nil || len(got.Allowed) != 2 || !got.Allowed[0] || got.Limit[0] != 0 {
		t.Errorf("no limit: %s, %v", got, err)
	}
}

func TestReservations(t *testing.T) {
	d := newDesk(t, everything)
	ctx := t.Context()
	left := func(want int64) {
		t.Helper()
		res, err := d.client.Check(ctx, &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{entry("client_id", "1")}, Peek: true})
		if err != nil || res.Decision.Remaining != want {
			t.Errorf("%s left, want %d (%v)", res, want, err)
		}
	}
	reserved := func(cost int64) *weirpb.ReserveResponse {
		t.Helper()
		res, err := d.client.Reserve(ctx, &weirpb.ReserveRequest{Descriptors: []*weirpb.Descriptor{entry("client_id", "1")}, Cost: &cost})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	why := func(err error, code codes.Code, reason string) {
		t.Helper()
		st := status.Convert(err)
		if st.Code() != code {
			t.Errorf("got %v, want %s", err, code)
		}
		for _, x := range st.Details() {
			if info, ok := x.(*errdetails.ErrorInfo); ok && (info.Reason != reason || info.Domain != "weir") {
				t.Errorf("%s, want %s", info, reason)
			}
		}
		if reason != "" && len(st.Details()) == 0 {
			t.Errorf("%v says no reason", err)
		}
	}
	first := reserved(6)
	if !first.Decision.Allowed || first.Handle == "" || first.ExpiresUs != d.stores[0].Now.Load()+600e6 {
		t.Errorf("reserved %s", first)
	}
	left(4)
	if second := reserved(6); second.Decision.Allowed || second.Handle != "" || second.ExpiresUs != 0 {
		t.Errorf("six of four: %s", second)
	}
	done, err := d.client.Commit(ctx, &weirpb.CommitRequest{Handle: first.Handle, Actual: new(int64(2))})
	if err != nil || done.Reserved != 6 || done.Actual != 2 {
		t.Errorf("committed %s, %v", done, err)
	}
	left(8)
	if again, err := d.client.Commit(ctx, &weirpb.CommitRequest{Handle: first.Handle, Actual: new(int64(2))}); err != nil || again.Reserved != 6 || again.Actual != 2 {
		t.Errorf("committed again %s, %v", again, err)
	}
	_, err = d.client.Commit(ctx, &weirpb.CommitRequest{Handle: first.Handle, Actual: new(int64(3))})
	why(err, codes.FailedPrecondition, "SETTLED")
	third := reserved(5)
	if back, err := d.client.Cancel(ctx, &weirpb.CancelRequest{Handle: third.Handle}); err != nil || back.Reserved != 5 {
		t.Errorf("canceled %s, %v", back, err)
	}
	left(8)
	last := reserved(1)
	d.advance(11 * time.Minute)
	_, err = d.client.Cancel(ctx, &weirpb.CancelRequest{Handle: last.Handle})
	why(err, codes.FailedPrecondition, "EXPIRED")
	_, err = d.client.Cancel(ctx, &weirpb.CancelRequest{Handle: "made-up"})
	why(err, codes.InvalidArgument, "")
	_, err = d.client.Reserve(ctx, &weirpb.ReserveRequest{Descriptors: []*weirpb.Descriptor{entry("about", "1")}})
	why(err, codes.FailedPrecondition, "UNSUPPORTED")
}

func TestLeases(t *testing.T) {
	d := newDesk(t, everything)
	ctx := t.Context()
	acquire := func(lease string) *weirpb.AcquireResponse {
		t.Helper()
		res, err := d.client.Acquire(ctx, &weirpb.AcquireRequest{Descriptors: []*weirpb.Descriptor{entry("work", "1"), entry("client_id", "1")}, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	renew := func(lease string) bool {
		t.Helper()
		res, err := d.client.Renew(ctx, &weirpb.RenewRequest{Descriptors: []*weirpb.Descriptor{entry("work", "1"), entry("client_id", "1")}, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		return res.Decision.Allowed
	}
	a, b := acquire(""), acquire("mine")
	if !a.Decision.Allowed || a.Lease == "" || b.Lease == "" {
		t.Fatalf("acquired %s and %s", a, b)
	}
	if c := acquire(""); c.Decision.Allowed || c.Lease != "" {
		t.Errorf("a third of two: %s", c)
	}
	d.advance(40 * time.Second)
	if !renew(a.Lease) {
		t.Error("a lease in force was not renewed")
	}
	d.advance(40 * time.Second) // mine is lost by now, the other is not
	if c := acquire("third"); !c.Decision.Allowed {
		t.Errorf("the place of a lease that ran out was not given: %s", c)
	}
	if renew("mine") {
		t.Error("a lease was renewed though its place is another's")
	}
	for range 2 { // whoever heard no answer asks again
		if _, err := d.client.Release(ctx, &weirpb.ReleaseRequest{Descriptors: []*weirpb.Descriptor{entry("work", "1")}, Lease: a.Lease}); err != nil {
			t.Error(err)
		}
	}
	if !renew("mine") {
		t.Error("the place that became free was not given")
	}
	// What was answered says by itself what it was acquired by.
	if res, err := d.client.Renew(ctx, &weirpb.RenewRequest{Lease: b.Lease}); err != nil || !res.Decision.Allowed {
		t.Errorf("renewed by the lease alone: %s, %v", res, err)
	}
	for _, want := range []bool{true, false} {
		if res, err := d.client.Release(ctx, &weirpb.ReleaseRequest{Lease: b.Lease}); err != nil || res.Released != want {
			t.Errorf("released by the lease alone: %s, %v, want %t", res, err, want)
		}
	}
	if _, err := d.client.Release(ctx, &weirpb.ReleaseRequest{Lease: "mine"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("released by a name alone: %v", err)
	}
	// Renewing charged no other limit: three have acquired.
	res, err := d.client.Check(ctx, &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{entry("client_id", "1")}, Peek: true})
	if err != nil || res.Decision.Remaining < 7 {
		t.Errorf("%s, %v", res, err)
	}
}

func TestBadInput(t *testing.T) {
	d := newDesk(t, everything)
	ctx := t.Context()
	long := strings.Repeat("x", 1025)
	f := func(err error, field string) {
		t.Helper()
		st := status.Convert(err)
		got := ""
		for _, x := range st.Details() {
			if b, ok := x.(*errdetails.BadRequest); ok {
				got = b.FieldViolations[0].Field
			}
		}
		if st.Code() != codes.InvalidArgument || got != field {
			t.Errorf("got %v about %q, want %q", err, got, field)
		}
	}
	check := func(field string, q *weirpb.CheckRequest) {
		t.Helper()
		_, err := d.client.Check(ctx, q)
		f(err, field)
		_, err = d.client.CheckBatch(ctx, &weirpb.CheckBatchRequest{Checks: []*weirpb.CheckRequest{{Descriptors: []*weirpb.Descriptor{entry("client_id", "1")}}, q}})
		f(err, "checks[1]."+field)
	}
	one := []*weirpb.Descriptor{entry("client_id", "1")}
	many := make([]*weirpb.Descriptor, 65)
	for i := range many {
		many[i] = one[0]
	}
	check("descriptors", &weirpb.CheckRequest{})
	check("descriptors", &weirpb.CheckRequest{Descriptors: many})
	check("domain", &weirpb.CheckRequest{Domain: long, Descriptors: one})
	typo := []*weirpb.Descriptor{entry("clientid", "1")}
	check("descriptors", &weirpb.CheckRequest{Domain: "apii", Descriptors: one, Strict: new(true)})
	check("descriptors", &weirpb.CheckRequest{Descriptors: typo, Strict: new(true)})
	check("descriptors", &weirpb.CheckRequest{Descriptors: append(typo, one...), Strict: new(true)})
	_, err := d.client.Acquire(ctx, &weirpb.AcquireRequest{Descriptors: typo, Strict: new(true)})
	f(err, "descriptors")
	_, err = d.client.Reserve(ctx, &weirpb.ReserveRequest{Descriptors: typo, Strict: new(true)})
	f(err, "descriptors")
	_, err = d.client.CheckBatch(ctx, &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Keys: []string{"clientid"}, Values: []string{"1", "2"}, Strict: new(true)}})
	f(err, "table: row 0: descriptors")
	if _, err := d.client.Check(ctx, &weirpb.CheckRequest{Descriptors: one, Strict: new(true), Peek: true}); err != nil {
		t.Errorf("a strict check that the rules have: %v", err)
	}
	check("cost", &weirpb.CheckRequest{Cost: proto.Int64(-1), Descriptors: one})
	check("cost", &weirpb.CheckRequest{Cost: proto.Int64(1<<53 + 1), Descriptors: one})
	check("priority", &weirpb.CheckRequest{Priority: proto.Uint32(1 << 31), Descriptors: one})
	check("lease", &weirpb.CheckRequest{Lease: long, Descriptors: one})
	check("lease", &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{entry("work", "1")}})
	check("cost", &weirpb.CheckRequest{Cost: proto.Int64(1 << 53), Priority: proto.Uint32(1), Descriptors: []*weirpb.Descriptor{entry("first", "1")}})
	check("descriptors[1].entries", &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{one[0], {}}})
	check("descriptors[0].entries[0].key", &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{entry("", "1")}})
	check("descriptors[0].entries[0].value", &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{entry("k", long)}})
	check("descriptors[0].cost", &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{{Entries: one[0].Entries, Cost: proto.Int64(-5)}}})

	batch := func(field string, q *weirpb.CheckBatchRequest) {
		t.Helper()
		_, err := d.client.CheckBatch(ctx, q)
		f(err, field)
	}
	batch("checks", &weirpb.CheckBatchRequest{})
	batch("checks", &weirpb.CheckBatchRequest{Checks: make([]*weirpb.CheckRequest, 1001)})
	batch("table", &weirpb.CheckBatchRequest{Checks: []*weirpb.CheckRequest{{}}, Table: &weirpb.CheckTable{}})
	batch("table.keys", &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{}})
	batch("table.keys[0].key", &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Keys: []string{""}, Values: []string{"a"}}})
	batch("table.values", &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Keys: []string{"a", "b"}, Values: []string{"a", "b", "c"}}})
	batch("table.values", &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Keys: []string{"a"}, Values: make([]string, 1001)}})
	batch("table.values[1]", &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Keys: []string{"a"}, Values: []string{"a", long}}})
	batch("table.costs", &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Keys: []string{"a"}, Values: []string{"a"}, Costs: []int64{1, 2}}})
	batch("table: row 1: cost", &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Keys: []string{"a"}, Values: []string{"a", "b"}, Costs: []int64{1, -2}}})

	_, err = d.client.Acquire(ctx, &weirpb.AcquireRequest{Descriptors: one, Cost: proto.Int64(0)})
	f(err, "cost")
	_, err = d.client.Reserve(ctx, &weirpb.ReserveRequest{Descriptors: one, Cost: proto.Int64(0)})
	f(err, "cost")
	_, err = d.client.Renew(ctx, &weirpb.RenewRequest{Descriptors: one})
	f(err, "lease")
	_, err = d.client.Release(ctx, &weirpb.ReleaseRequest{Descriptors: one})
	f(err, "lease")
	_, err = d.client.Commit(ctx, &weirpb.CommitRequest{Actual: new(int64(1))})
	f(err, "handle")
	_, err = d.client.Commit(ctx, &weirpb.CommitRequest{Handle: "h", Actual: new(int64(-1))})
	f(err, "actual")
	_, err = d.client.Commit(ctx, &weirpb.CommitRequest{Handle: "h"}) // nothing is given back
	f(err, "actual")

	res, err := d.client.Check(ctx, &weirpb.CheckRequest{Descriptors: one, Peek: true})
	if err != nil || res.Decision.Remaining != 10 {
		t.Errorf("bad input was counted: %s, %v", res, err)
	}
}

// When the store fails in a batch nothing is charged, and what it says stays here.
func TestStoreFails(t *testing.T) {
	d := newDesk(t, everything)
	var list []*weirpb.CheckRequest
	for i := range 5 {
		list = append(list, &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{entry("client_id", fmt.Sprint(i))}})
	}
	s := d.stores[0]
	s.FailAfter.Store(3)
	s.Fail, s.FailOnce = errors.New("secret address refused"), true
	_, err := d.client.CheckBatch(t.Context(), &weirpb.CheckBatchRequest{Checks: list})
	if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	s.Fail = nil
	for _, q := range list {
		q.Peek = true
		if res, err := d.client.Check(t.Context(), q); err != nil || res.Decision.Remaining != 10 {
			t.Errorf("%s, %v", res, err)
		}
	}
	s.Fail, s.FailOnce = errors.New("gone"), false
	if _, err := d.client.Check(t.Context(), list[0]); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestWithoutReservations(t *testing.T) {
	l, err := weir.New(clocked.New(t), weir.Limits{}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := grpcapi.New(grpcapi.Options{Limiter: l})
	if err != nil {
		t.Fatal(err)
	}
	c := weirpb.NewLimitServiceClient(serve(t, s))
	_, err = c.Reserve(t.Context(), &weirpb.ReserveRequest{Descriptors: []*weirpb.Descriptor{entry("a", "1")}})
	if status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	if _, err = c.Commit(t.Context(), &weirpb.CommitRequest{Handle: "h", Actual: new(int64(1))}); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	for _, opt := range []grpcapi.Options{{}, {Limiter: l, Priority: -1}, {Limiter: l, Priority: 1001}, {Limiter: l, Domain: strings.Repeat("d", 257)}} {
		if _, err := grpcapi.New(opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
}

// An idempotency key is for one check, of few plain characters, and not in a batch.
func TestBadIdempotencyKeys(t *testing.T) {
	d := newDesk(t, everything)
	check := &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{entry("client_id", "a")}, IdempotencyKey: strings.Repeat("k", 257)}
	_, long := d.client.Check(t.Context(), check)
	check.IdempotencyKey = "\u00e9"
	_, plain := d.client.Check(t.Context(), check)
	check.IdempotencyKey = "k"
	_, batch := d.client.CheckBatch(t.Context(), &weirpb.CheckBatchRequest{Checks: []*weirpb.CheckRequest{check}})
	for _, err := range []error{long, plain, batch} {
		if st := status.Convert(err); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), "idempotency_key: ") {
			t.Errorf("got %v", err)
		}
	}
	if res, err := d.client.Check(t.Context(), check); err != nil || res.Decision.Remaining != 9 || res.Decision.Repeated {
		t.Errorf("%v, %v", res, err)
	}
}
