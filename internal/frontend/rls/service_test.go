package rls_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/rls"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/grpctest"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/rules"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// desk is a service with native rules on a store whose time is the test's, and a
// generated client of it.
type desk struct {
	t      *testing.T
	store  *clocked.Store
	conn   *grpc.ClientConn
	client rlspb.RateLimitServiceClient
	log    *strings.Builder
}

func newDesk(t *testing.T, descriptors string, opts ...func(*rls.Options)) *desk {
	t.Helper()
	set, err := rules.Parse("test.yaml", []byte("domain: d\n"+descriptors), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := clocked.New(t)
	l, err := weir.New(store, set, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := new(strings.Builder)
	opt := rls.Options{Limiter: l, Log: slog.New(slog.NewTextHandler(log, nil))}
	for _, o := range opts {
		o(&opt)
	}
	s, err := rls.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	conn := serve(t, s)
	return &desk{t: t, store: store, conn: conn, client: rlspb.NewRateLimitServiceClient(conn), log: log}
}

// serve serves s and returns a connection to it.
func serve(t testing.TB, s *rls.Service) *grpc.ClientConn {
	t.Helper()
	return grpctest.Connect(t, grpcserver.Options{Reflection: true}, s.Register)
}

// question makes a request of words such as "a=1,b=2 hits:3 / c=1 negative".
func question(t testing.TB, words string) *rlspb.RateLimitRequest {
	t.Helper()
	text := `domain: "d"`
	for _, d := range strings.Split(words, "/") {
		text += " descriptors {"
		for _, w := range strings.Fields(d) {
			switch {
			case strings.HasPrefix(w, "hits:"):
				text += " hits_addend { value: " + w[5:] + "}"
			case w == "negative":
				text += " is_negative_hits: true"
			case strings.HasPrefix(w, "limit:"):
				text += " limit {" + strings.ReplaceAll(w[6:], ";", " ") + "}"
			default:
				for _, e := range strings.Split(w, ",") {
					k, v, _ := strings.Cut(e, "=")
					text += ` entries { key: "` + k + `" value: "` + v + `" }`
				}
			}
		}
		text += " }"
	}
	q := new(rlspb.RateLimitRequest)
	if err := prototext.Unmarshal([]byte(text), q); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return q
}

func (d *desk) send(q *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return d.client.ShouldRateLimit(ctx, q)
}

// ask sends a question of words.
func (d *desk) ask(words string) *rlspb.RateLimitResponse {
	d.t.Helper()
	res, err := d.send(question(d.t, words))
	if err != nil {
		d.t.Fatalf("%s: %v", words, err)
	}
	return res
}

// want asks and compares what the statuses and the overall code are. Statuses
// are in prototext, those of descriptors apart by "/".
func (d *desk) want(words, overall, statuses string) {
	d.t.Helper()
	got := d.ask(words)
	if c := got.OverallCode.String(); c != overall {
		d.t.Errorf("%s: %s, want %s", words, c, overall)
	}
	want := new(rlspb.RateLimitResponse)
	for _, s := range strings.Split(statuses, " / ") {
		one := new(rlspb.RateLimitResponse_DescriptorStatus)
		if err := prototext.Unmarshal([]byte(s), one); err != nil {
			d.t.Fatalf("%s: %v", s, err)
		}
		want.Statuses = append(want.Statuses, one)
	}
	if have := (&rlspb.RateLimitResponse{Statuses: got.Statuses}); !proto.Equal(have, want) {
		d.t.Errorf("%s:\n got %s\nwant %s", words, have, want)
	}
}

// fields returns the fields that an answer gives the client.
func fields(res *rlspb.RateLimitResponse) map[string]string {
	m := make(map[string]string)
	for _, h := range res.ResponseHeadersToAdd {
		m[h.Key] = h.Value
	}
	return m
}

const fixed = "code: OK current_limit { requests_per_unit: 3 unit: MINUTE name: 'three' } "

// Envoy makes header fields of a status: one of a hidden limit has a code alone.
func TestHiddenStatus(t *testing.T) {
	d := newDesk(t, `descriptors:
- {key: a, limits: [{limit: 3/minute, name: three, algorithm: fixed_window, hidden: true}]}
- {key: b, limits: [{limit: 3/minute, name: three, algorithm: fixed_window}]}
`)
	for left := 2; left >= 0; left-- {
		more := ""
		if left > 0 {
			more = fmt.Sprintf("limit_remaining: %d ", left)
		}
		d.want("a=1 / b=1", "OK", "code: OK / "+fixed+more+"duration_until_reset { seconds: 40 }")
	}
	d.want("a=1", "OVER_LIMIT", "code: OVER_LIMIT")
}

func TestStatuses(t *testing.T) {
	d := newDesk(t, `descriptors:
- {key: a, limits: [{limit: 3/minute, name: three, algorithm: fixed_window}]}
- {key: b, limits: [{limit: 1/30s, name: one, algorithm: fixed_window}]}
`)
	// The store's time is 40 seconds before the end of a minute, and 10 before the
	// end of half of one.
	d.want("a=1", "OK", fixed+"limit_remaining: 2 duration_until_reset { seconds: 40 }")
	d.want("a=1 / x=1 / b=1", "OK", fixed+"limit_remaining: 1 duration_until_reset { seconds: 40 } / code: OK / "+
		"code: OK current_limit { requests_per_unit: 1 unit: SECOND unit_multiplier { value: 30 } name: 'one' } duration_until_reset { seconds: 10 }")
	// All or nothing: what b refuses costs nothing of a.
	for range 3 {
		d.want("b=1 / a=1", "OVER_LIMIT", "code: OVER_LIMIT current_limit { requests_per_unit: 1 unit: SECOND unit_multiplier { value: 30 } name: 'one' } duration_until_reset { seconds: 10 } / "+
			fixed+"limit_remaining: 1 duration_until_reset { seconds: 40 }")
	}
	d.store.Advance(500 * time.Millisecond)
	d.want("a=1", "OK", fixed+"duration_until_reset { seconds: 40 }")
	d.want("a=1", "OVER_LIMIT", "code: OVER_LIMIT current_limit { requests_per_unit: 3 unit: MINUTE name: 'three' } duration_until_reset { seconds: 40 }")
	// The same descriptor twice spends twice, or not at all.
	d.want("a=2 / a=2", "OK", fixed+"limit_remaining: 2 duration_until_reset { seconds: 40 } / "+fixed+"limit_remaining: 1 duration_until_reset { seconds: 40 }")
	if res := d.ask("a=2 / a=2"); res.OverallCode != rlspb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("two of one left: %s", res)
	}
	d.want("a=2", "OK", fixed+"duration_until_reset { seconds: 40 }")
}

func TestCosts(t *testing.T) {
	d := newDesk(t, `descriptors:
- {key: a, limits: [{limit: 10/minute, name: ten, algorithm: fixed_window}]}
`)
	left := func(words string, want int) {
		t.Helper()
		if got := d.ask(words).Statuses[0].LimitRemaining; int(got) != want {
			t.Errorf("%s: %d left, want %d", words, got, want)
		}
	}
	over := func(words string, want bool) {
		t.Helper()
		if got := d.ask(words).OverallCode == rlspb.RateLimitResponse_OVER_LIMIT; got != want {
			t.Errorf("%s: refused is %v", words, got)
		}
	}
	left("a=1 hits:3", 7)
	left("a=1 hits:0", 7)
	left("a=1 hits:0", 7)
	over("a=1 hits:8", true)
	left("a=1 hits:0", 7)
	left("a=1 hits:5 negative", 10)
	left("a=1", 9)
	left("a=1 hits:9", 0)
	over("a=1 hits:0", true) // one more would not pass
	left("a=1 negative", 1)
	over("a=1 hits:0", false)
	// The call's own cost, of those that have none of their own.
	q := question(t, "a=2 / a=3 hits:1")
	q.HitsAddend = 4
	res, err := d.send(q)
	if err != nil || res.Statuses[0].LimitRemaining != 6 || res.Statuses[1].LimitRemaining != 9 {
		t.Errorf("got %s, %v", res, err)
	}
}

// What has been used counts past the limit, and is not refused.
func TestChargesAfterTheResponse(t *testing.T) {
	d := newDesk(t, `descriptors:
- {key: tokens, limits: [{limit: 10/minute, name: ten, algorithm: token_bucket}]}
`)
	left := func(words, want string) {
		t.Helper()
		if s := d.ask(words).Statuses[0]; s.String() == "" || s.Code.String() != want {
			t.Errorf("%s: %s, want %s", words, s, want)
		}
	}
	left("tokens=1 hits:0", "OK")
	left("tokens=1,weir_charge= hits:15", "OK")
	left("tokens=1 hits:0", "OVER_LIMIT")
	// 5 beyond the limit, and one to spend: 6 units at 6 seconds each.
	d.store.Advance(35 * time.Second)
	left("tokens=1 hits:0", "OVER_LIMIT")
	d.store.Advance(time.Second)
	left("tokens=1 hits:0", "OK")
	// Beside descriptors that are refused it counts all the same.
	d.ask("tokens=1")
	left("tokens=1 / tokens=2,weir_charge=x hits:11", "OVER_LIMIT")
	left("tokens=2 hits:0", "OVER_LIMIT")
}

// Where the descriptor cannot say so, the rule can: what is refused is charged,
// and looking charges nothing.
func TestChargesByPenalty(t *testing.T) {
	d := newDesk(t, "descriptors:\n- {key: tokens, limits: [{limit: 10/minute, algorithm: fixed_window, penalize: true}]}\n")
	for _, step := range []struct{ words, want string }{
		{"tokens=1 hits:0", "OK"}, {"tokens=1 hits:8", "OK"}, {"tokens=1 hits:0", "OK"},
		{"tokens=1 hits:5", "OVER_LIMIT"}, {"tokens=1 hits:0", "OVER_LIMIT"}, {"tokens=2 hits:0", "OK"},
	} {
		if got := d.ask(step.words).OverallCode.String(); got != step.want {
			t.Errorf("%s: %s, want %s", step.words, got, step.want)
		}
	}
}

// What is given back beside a request that is refused is not.
func TestRefundBesideARefusal(t *testing.T) {
	d := newDesk(t, "descriptors:\n- {key: a, limits: [{limit: 3/minute, algorithm: fixed_window}]}\n")
	d.ask("a=1 hits:3")
	d.ask("a=2 hits:3")
	if got := d.ask("a=1 / a=2 hits:2 negative"); got.OverallCode != rlspb.RateLimitResponse_OVER_LIMIT {
		t.Fatal(got)
	}
	if got := d.ask("a=2"); got.OverallCode != rlspb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("given back all the same: %s", got)
	}
	if got := d.ask("a=3 / a=2 hits:2 negative"); got.OverallCode != rlspb.RateLimitResponse_OK || got.Statuses[1].LimitRemaining != 2 || got.Statuses[0].LimitRemaining != 2 {
		t.Errorf("beside a request that passes: %s", got)
	}
}

func TestConcurrencyByLease(t *testing.T) {
	d := newDesk(t, `descriptors:
- {key: pool, limits: [{limit: 2, name: two, algorithm: concurrency, ttl: 1m}]}
`)
	f := func(words, want string) {
		t.Helper()
		if got := d.ask(words).OverallCode.String(); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
	f("pool=1,weir_lease=r1", "OK")
	f("pool=1,weir_lease=r1", "OK") // a retry
	f("pool=1,weir_lease=r2", "OK")
	f("pool=1,weir_lease=r3", "OVER_LIMIT")
	f("pool=1,weir_lease=r1 negative", "OK")
	f("pool=1,weir_lease=r3", "OK")
	f("pool=1,weir_lease=r1", "OVER_LIMIT")
	if _, err := d.send(question(t, "pool=1")); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("without a lease: %v", err)
	}
	if _, err := d.send(question(t, "pool=1 negative")); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("giving back without a lease: %v", err)
	}
}

// sendValue sends a question with the bytes of value in the place of "?????", which
// generated code would not write if they are no UTF-8.
func (d *desk) sendValue(words string, value []byte) (*rlspb.RateLimitResponse, error) {
	d.t.Helper()
	q := question(d.t, words)
	for _, to := range q.Descriptors {
		for _, e := range to.Entries {
			if e.Value == "?" {
				e.Value = strings.Repeat("?", len(value))
			}
		}
	}
	b, err := proto.Marshal(q)
	if err != nil {
		d.t.Fatal(err)
	}
	if len(value) > 0 {
		b = bytes.ReplaceAll(b, bytes.Repeat([]byte("?"), len(value)), value)
	}
	res := new(rlspb.RateLimitResponse)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return res, grpctest.Invoke(ctx, d.conn, rlspb.RateLimitService_ShouldRateLimit_FullMethodName, b, res)
}

// Nothing that a client can make Envoy write into a value is an error, which would let
// the client pass: every value has a count of its own, and the other descriptors of the
// call theirs.
func TestFamilyNoBytesOfAValueEscapeTheCount(t *testing.T) {
	d := newDesk(t, `descriptors:
- {key: user, limit: 1/day}
- {key: all, limit: 1000000/day}
- {key: pool, limits: [{limit: 10000, name: some, algorithm: concurrency, ttl: 1h}]}
`)
	values := [][]byte{nil, {0xff, 0xfe}, {0xff, 0xff}, []byte("\xed\xa0\x80"), []byte("caf\xe9"), []byte("caf\xe8"), []byte("caf\u00e9"), bytes.Repeat([]byte{0xff}, 300), bytes.Repeat([]byte{0xff}, 60<<10)}
	for b := range 256 {
		if b != '?' {
			values = append(values, []byte{byte(b)})
		}
	}
	for i, v := range values {
		for j, over := range []rlspb.RateLimitResponse_Code{rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OVER_LIMIT} {
			res, err := d.sendValue("user=? / all=1", v)
			if err != nil || res.OverallCode != over || len(res.Statuses) != 2 {
				t.Fatalf("%.20q, call %d: %v, %v", v, j, res, err)
			}
			// What is refused charges nobody.
			if left := res.Statuses[1].LimitRemaining; left != uint32(1000000-1-i) {
				t.Fatalf("%.20q: %d of all left, want %d", v, left, 1000000-1-i)
			}
		}
		if _, err := d.sendValue("pool=1,weir_lease=?", v); err != nil {
			t.Fatalf("a permit of %.20q: %v", v, err)
		}
	}
	if left := d.ask("pool=1,weir_lease=probe").Statuses[0].LimitRemaining; left != uint32(10000-1-len(values)) {
		t.Errorf("%d permits are left of %d calls", left, len(values))
	}
}

// A refused call of gRPC is told a sentence, everybody else a document; the entry that
// tells is no part of the descriptor.
func TestCallsAreRefusedInASentence(t *testing.T) {
	d := newDesk(t, "descriptors:\n- {key: a, limit: 1/day}\n")
	d.ask("a=1")
	for kind, want := range map[string]string{
		"application/json": `{"type"`, "": `{"type"`, "application/grpcx": `{"type"`,
		"application/grpc": "the limit a is exhausted; try again in ", "application/grpc+proto": "the limit ",
	} {
		res, err := d.sendValue("weir_content_type=?,a=1", []byte(kind))
		if body := string(res.RawBody); err != nil || !strings.HasPrefix(body, want) || res.OverallCode != rlspb.RateLimitResponse_OVER_LIMIT {
			t.Errorf("%q: %v, %v", kind, res, err)
		}
		if body := string(d.ask("a=1").RawBody); !strings.HasPrefix(body, `{"type"`) {
			t.Errorf("after %q: %q", kind, body)
		}
	}
}

func TestFields(t *testing.T) {
	d := newDesk(t, `descriptors:
- {key: a, limits: [{limit: 1/minute, name: one, algorithm: fixed_window}]}
`)
	res := d.ask("a=1")
	if got := fields(res); got["Ratelimit"] != `"one";r=0;t=40` || got["Ratelimit-Policy"] != `"one";q=1;w=60` || got["Retry-After"] != "" || res.RawBody != nil {
		t.Errorf("passed: %v %s", got, res.RawBody)
	}
	d.store.Advance(100 * time.Millisecond)
	res = d.ask("a=1")
	if got := fields(res); got["Ratelimit"] != `"one";r=0;t=40` || got["Retry-After"] != "40" || got["Content-Type"] != "application/problem+json" {
		t.Errorf("refused: %v", got)
	}
	const body = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
		`"detail":"the limit one is exhausted; try again in 40 seconds","violated-policies":["one"],"retry_after":40}`
	if string(res.RawBody) != body {
		t.Errorf("body %s", res.RawBody)
	}
	if res := d.ask("x=1"); len(res.ResponseHeadersToAdd) != 0 {
		t.Errorf("without a limit: %v", fields(res))
	}
}

func TestOverrides(t *testing.T) {
	d := newDesk(t, `descriptors:
- {key: a, limits: [{limit: 1/hour, name: one, algorithm: fixed_window}]}
deny: {ip: [10.0.0.1]}
`)
	const two = "limit:requests_per_unit:2;unit:MINUTE"
	status2 := func(left string) string {
		return "code: OK current_limit { requests_per_unit: 2 unit: MINUTE name: '2/minute' } " + left + " duration_until_reset { seconds: 40 }"
	}
	d.want("a=1 "+two, "OK", status2("limit_remaining: 1"))
	d.want("nothing=1 "+two, "OK", status2("limit_remaining: 1"))
	d.want("a=1 "+two, "OK", status2(""))
	if got := d.ask("a=1 " + two).OverallCode; got != rlspb.RateLimitResponse_OVER_LIMIT {
		t.Error("a third of two passed")
	}
	// Other numbers for the same period share the count.
	d.want("a=1 limit:requests_per_unit:3;unit:MINUTE", "OK",
		"code: OK current_limit { requests_per_unit: 3 unit: MINUTE name: '3/minute' } duration_until_reset { seconds: 40 }")
	d.want("a=1 limit:requests_per_unit:5;unit:SECOND;unit_multiplier{value:300}", "OK",
		"code: OK current_limit { requests_per_unit: 5 unit: MINUTE unit_multiplier { value: 5 } name: '5/5m' } limit_remaining: 4 duration_until_reset { seconds: 100 }")
	d.want("a=1 limit:requests_per_unit:0;unit:DAY", "OVER_LIMIT", "code: OVER_LIMIT current_limit { unit: DAY name: '0/day' } limit_remaining: 1")
	for _, words := range []string{
		"a=1 limit:requests_per_unit:2", "a=1 limit:requests_per_unit:2;unit:8", "a=1 limit:requests_per_unit:2;unit:-1",
		"a=1 limit:requests_per_unit:2;unit:DAY;unit_multiplier{value:0}", "a=1 limit:requests_per_unit:2;unit:YEAR;unit_multiplier{value:4000000000}",
	} {
		if _, err := d.send(question(t, words)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", words, err)
		}
	}
	// Whatever the numbers, the limits that are kept are bounded and right.
	for n := range 5000 {
		q := question(t, "many=1 limit:unit:YEAR")
		q.Descriptors[0].Limit.RequestsPerUnit = uint32(n + 1)
		res, err := d.send(q)
		if err != nil || res.Statuses[0].CurrentLimit.RequestsPerUnit != uint32(n+1) {
			t.Fatalf("%d: %s, %v", n, res, err)
		}
	}
}

func TestUnits(t *testing.T) {
	for limit, want := range map[string]string{
		"5/second": "SECOND", "5/minute": "MINUTE", "5/hour": "HOUR", "5/day": "DAY", "5/week": "WEEK", "5/30d": "MONTH", "5/365d": "YEAR",
		"5/2h": "HOUR*2", "5/90s": "SECOND*90", "5/14d": "WEEK*2", "5/60d": "MONTH*2", "5/100ms": "UNKNOWN",
	} {
		d := newDesk(t, "descriptors:\n- {key: a, limit: "+limit+"}\n")
		l := d.ask("a=1").Statuses[0].CurrentLimit
		got := l.Unit.String()
		if n := l.GetUnitMultiplier().GetValue(); n != 0 {
			got += "*" + string(rune('0'+n))
			if n >= 10 {
				got = l.Unit.String() + "*90"
			}
		}
		if got != want || l.RequestsPerUnit != 5 {
			t.Errorf("%s is %s", limit, l)
		}
	}
}

// Every algorithm answers, and refuses with a wait that is enough.
func TestAlgorithms(t *testing.T) {
	for _, name := range []string{"sliding_window", "token_bucket", "leaky_bucket", "fixed_window", "sliding_counter", "sliding_log", "sliding_subwindows", "approximate"} {
		d := newDesk(t, "descriptors:\n- {key: a, limits: [{limit: 3/minute, algorithm: "+name+"}]}\n")
		for range 3 {
			if res := d.ask("a=1"); res.OverallCode != rlspb.RateLimitResponse_OK {
				t.Fatalf("%s: %s", name, res)
			}
		}
		res := d.ask("a=1")
		wait := res.Statuses[0].DurationUntilReset.AsDuration()
		if res.OverallCode != rlspb.RateLimitResponse_OVER_LIMIT || wait < time.Second || wait%time.Second != 0 {
			t.Fatalf("%s: %s", name, res)
		}
		if got := fields(res)["Retry-After"] + "s"; got != wait.String() && wait < time.Minute {
			t.Errorf("%s: Retry-After %s, reset %s", name, got, wait)
		}
		d.store.Advance(wait)
		if res := d.ask("a=1"); res.OverallCode != rlspb.RateLimitResponse_OK {
			t.Errorf("%s: refused after the wait it was told: %s", name, res)
		}
	}
}

// A limit that delays holds the call back, no longer than its deadline allows.
func TestDelay(t *testing.T) {
	d := newDesk(t, "descriptors:\n- {key: a, limits: [{limit: 4/second, algorithm: leaky_queue}]}\n"+
		"- {key: c, limits: [{limit: 2/hour, algorithm: leaky_queue}]}\n- {key: b, limit: 100/minute}\n")
	began := time.Now()
	for range 3 { // at 0, 250 and 500 ms
		if res := d.ask("a=1"); res.OverallCode != rlspb.RateLimitResponse_OK {
			t.Fatal(res)
		}
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("held back for %s", took)
	}
	if res := d.ask("c=1"); res.OverallCode != rlspb.RateLimitResponse_OK {
		t.Fatal(res)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := d.client.ShouldRateLimit(ctx, question(t, "b=1 / c=1"))
	if err != nil || res.OverallCode != rlspb.RateLimitResponse_OVER_LIMIT || fields(res)["Retry-After"] != "1800" {
		t.Fatalf("with no time to wait: %s, %v", res, err)
	}
	if res.Statuses[0].Code != rlspb.RateLimitResponse_OK || res.Statuses[1].Code != rlspb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("statuses %s", res)
	}
	if left := d.ask("b=1 hits:0").Statuses[0].LimitRemaining; left != 100 {
		t.Errorf("%d of b left", left)
	}
}

func TestInvalid(t *testing.T) {
	d := newDesk(t, "descriptors:\n- {key: a, limit: 3/minute}\n- {key: s, limits: [{limit: 3/minute, algorithm: approximate}]}\n")
	f := func(want codes.Code, q *rlspb.RateLimitRequest) {
		t.Helper()
		if _, err := d.send(q); status.Code(err) != want {
			t.Errorf("%s: %v, want %s", q, err, want)
		}
	}
	none := question(t, "a=1")
	none.Domain = ""
	f(codes.InvalidArgument, none)
	f(codes.InvalidArgument, &rlspb.RateLimitRequest{Domain: "d"})
	f(codes.InvalidArgument, question(t, ""))
	f(codes.InvalidArgument, question(t, "=1"))
	f(codes.InvalidArgument, question(t, "weir_charge=1"))
	f(codes.InvalidArgument, question(t, "a=1 hits:1000000001"))
	f(codes.InvalidArgument, question(t, "a=1 hits:18446744073709551615"))
	f(codes.InvalidArgument, question(t, strings.Repeat("a=1,", 32)+"a=1"))
	f(codes.InvalidArgument, question(t, strings.Repeat("a=1/", 256)+"a=1"))
	f(codes.FailedPrecondition, question(t, "s=1 negative"))
	if left := d.ask("a=1 hits:0").Statuses[0].LimitRemaining; left != 3 {
		t.Errorf("%d left: bad input was counted", left)
	}
}

// A store that does not answer is an error, which Envoy's own failure mode is
// for; what it says stays here.
func TestStoreFails(t *testing.T) {
	d := newDesk(t, "descriptors:\n- {key: a, limit: 3/minute}\n")
	d.store.Fail = errors.New("secret address refused")
	_, err := d.send(question(t, "a=1"))
	if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(d.log.String(), "secret address") {
		t.Errorf("logged %q", d.log)
	}
	if _, err := d.send(question(t, "x=1")); err != nil {
		t.Errorf("what meets no limit: %v", err)
	}
	// What was spent is given back when giving back fails.
	d.store.Fail = nil
	d.ask("a=1")
	d.store.FailAfter.Store(1)
	d.store.Fail, d.store.FailOnce = io.ErrUnexpectedEOF, true
	if _, err := d.send(question(t, "a=1 / a=2 negative")); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	d.store.Fail = nil
	if left := d.ask("a=1 hits:0").Statuses[0].LimitRemaining; left != 2 {
		t.Errorf("%d left, want 2", left)
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	if _, err := rls.New(rls.Options{}); err == nil {
		t.Error("no limiter, no error")
	}
	l, err := weir.New(clocked.New(t), weir.Limits{}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, opt := range []rls.Options{{Limiter: l, Priority: -1}, {Limiter: l, MaxDelay: -1}, {Limiter: l, MaxWaiting: -1}} {
		if _, err := rls.New(opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
}

func TestMetadata(t *testing.T) {
	d := newDesk(t, "descriptors:\n- {key: a, limits: [{limit: 1/minute, name: one}]}\n", func(o *rls.Options) { o.Metadata = true })
	for _, allowed := range []bool{true, false} {
		got := d.ask("a=1").DynamicMetadata.AsMap()
		want := map[string]any{"allowed": allowed, "limit": "one", "algorithm": "sliding_window",
			"guarantee": map[string]any{"exact": true, "at_most": 1.0, "degraded": false, "over_admit": 0.0, "source": "store"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("metadata %v, want %v", got, want)
		}
	}
	if got := d.ask("x=1").DynamicMetadata.AsMap(); got["allowed"] != true || got["limit"] != nil {
		t.Errorf("without a limit: %v", got)
	}
	if got := newDesk(t, "descriptors: []\n").ask("a=1").DynamicMetadata; got != nil {
		t.Errorf("though it is off: %v", got)
	}
}

// The order of fields is that of their sets, not of a map.
func TestFieldsHaveAnOrder(t *testing.T) {
	d := newDesk(t, "descriptors:\n- {key: a, limit: 3/minute}\n")
	var names []string
	for _, h := range d.ask("a=1").ResponseHeadersToAdd {
		names = append(names, h.Key)
	}
	if want := []string{"Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Limit", "X-Ratelimit-Remaining"}; !slices.Equal(names, want) {
		t.Errorf("fields %q", names)
	}
}

// hanging is a store that answers nothing until the call is over.
type hanging struct {
	*clocked.Store
	left chan time.Time
}

// Take implements weir.Store.
func (s *hanging) Take(ctx context.Context, _ []weir.Op) error {
	<-ctx.Done()
	s.left <- time.Now()
	return ctx.Err()
}

// Nothing is asked of the store beyond the deadline that Envoy sends.
func TestDeadline(t *testing.T) {
	store := &hanging{clocked.New(t), make(chan time.Time, 1)}
	l, err := weir.New(store, weir.Limits{weir.PerMinute(10, algorithm.FixedWindow), weir.PerDay(10, algorithm.FixedWindow)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log servertest.Log
	s, err := rls.New(rls.Options{Limiter: l, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	client := rlspb.NewRateLimitServiceClient(serve(t, s))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := client.ShouldRateLimit(ctx, question(t, "a=1")); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	if took := (<-store.left).Sub(began); took > time.Minute {
		t.Errorf("the store was let go after %s", took)
	}
	if text := log.String(); text != "" {
		t.Errorf("a caller's deadline is no error of the server:\n%s", text)
	}
}
