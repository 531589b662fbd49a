package grpcapi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/checks"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// checkBatch is the method's handler, as generated code has it but for tables and
// answers, which read and write themselves: generated ones would cost more than
// the decisions (BenchmarkCheckBatch in lab/bench/).
func checkBatch(srv any, ctx context.Context, read func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
	b := srv.(*Service).batches.Get().(*batch)
	err := read(b)
	switch {
	case err != nil:
	case around == nil:
		err = b.answerChecks(ctx)
	default:
		info := &grpc.UnaryServerInfo{Server: srv, FullMethod: weirpb.LimitService_CheckBatch_FullMethodName}
		_, err = around(ctx, b, info, func(ctx context.Context, _ any) (any, error) { return b, b.answerChecks(ctx) })
	}
	if err != nil {
		b.Sent()
		return nil, err
	}
	return b, nil
}

// batch is one call of CheckBatch, and the memory for it.
type batch struct {
	service *Service
	data    mem.Buffer // what the strings of the table point into; nil when there is none

	// The question as it came: a table, or a list, which generated code reads.
	table   table
	tabular bool // there is a table
	listed  int  // how many checks there are, of which list may have none
	list    weirpb.CheckBatchRequest

	// The question as it is asked.
	reqs    []*weir.Request
	entries []weir.Entry // of the table's rows

	answers columns
	out     []byte
}

// table is a CheckTable as it came.
type table struct {
	domain      string
	keys        []string
	values      []string
	costs       []int64
	priority    uint32
	hasPriority bool
	peek        bool
	strict      *bool
}

// Encoded implements grpcserver.Message.
func (b *batch) Encoded() []byte { return b.out }

// keepBytes bounds what a batch keeps for the next.
const keepBytes = 1 << 20

// Sent implements grpcserver.Message.
func (b *batch) Sent() {
	for _, r := range b.reqs {
		clear(r.Descriptors)
		b.service.limiter.Recycle(r)
	}
	clear(b.reqs)
	// Strings that point into data must not outlive it.
	clear(b.entries)
	clear(b.table.keys)
	clear(b.table.values)
	if b.data != nil {
		b.data.Free()
		b.data = nil
	}
	b.reqs, b.entries = b.reqs[:0], b.entries[:0]
	b.table = table{keys: b.table.keys[:0], values: b.table.values[:0], costs: b.table.costs[:0]}
	b.tabular, b.listed = false, 0
	b.list.Reset()
	b.answers.reset()
	b.out = b.out[:0]
	const entry, text = 32, 16 // bytes
	if cap(b.out)+entry*cap(b.entries)+text*cap(b.table.values) <= keepBytes {
		b.service.batches.Put(b)
	}
}

// answerChecks decides the questions and encodes the answer.
func (b *batch) answerChecks(ctx context.Context) error {
	if err := b.makeRequests(); err != nil {
		return err
	}
	s := b.service
	i, err, undo := admit.DecideAll(ctx, s.limiter, b.reqs, func(i int, d weir.Decision) { b.answers.addDecision(b.reqs[i], d) })
	if undo != nil {
		s.faults.Report("refund failed", undo)
	}
	switch {
	case errors.Is(err, weir.ErrCost):
		return invalidField(b.locateCheck(i)+"cost", "must, with what is kept for higher priorities, be from 0 to 2^53")
	case errors.Is(err, weir.ErrNoLease):
		return invalidField(b.locateCheck(i)+"lease", "is missing: a concurrency limit applies; name the unit of work")
	case err != nil:
		return s.undecided(err)
	}
	b.out = b.answers.appendResponse(b.out[:0])
	return nil
}

// locateCheck returns where the i-th check stands in the message.
func (b *batch) locateCheck(i int) string {
	if b.tabular {
		return fmt.Sprintf("table: row %d: ", i)
	}
	return fmt.Sprintf("checks[%d].", i)
}

// makeRequests makes the requests.
func (b *batch) makeRequests() error {
	switch {
	case b.tabular && b.listed > 0:
		return invalidField("table", "stands in place of checks, not beside them")
	case b.tabular:
		return b.askTable()
	case b.listed == 0 || b.listed > checks.MaxRequests:
		return invalidField("checks", fmt.Sprintf("must be from 1 to %d", checks.MaxRequests))
	}
	for i, c := range b.list.Checks {
		if f := b.service.fillRequest(b.acquire(), questionOf(c)); f != nil {
			return f.callStatus(b.locateCheck(i))
		}
	}
	return nil
}

// acquire returns a request of this batch.
func (b *batch) acquire() *weir.Request {
	r := b.service.limiter.Acquire()
	b.reqs = append(b.reqs, r)
	return r
}

func (b *batch) askTable() error {
	t := &b.table
	k, n := len(t.keys), len(t.values)
	if k == 0 || k > checks.MaxEntries {
		return invalidField("table.keys", fmt.Sprintf("must be from 1 to %d", checks.MaxEntries))
	}
	rows := n / k
	switch {
	case n == 0 || n%k != 0 || rows > checks.MaxRequests:
		return invalidField("table.values", fmt.Sprintf("must be as many as keys for each row, and from 1 to %d rows", checks.MaxRequests))
	case len(t.costs) > 1 && len(t.costs) != rows:
		return invalidField("table.costs", "must be none, one, or as many as rows")
	}
	for i := range t.keys {
		if f := checkEntry(&weir.Entry{Key: t.keys[i]}); f != nil {
			return f.callStatus(fmt.Sprintf("table.keys[%d].", i))
		}
	}
	for row := range rows {
		if err := b.askRow(row); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) askRow(row int) error {
	t, s := &b.table, b.service
	var cost *int64
	if n := len(t.costs); n > 0 {
		cost = &t.costs[min(row, n-1)]
	}
	var priority *uint32
	if t.hasPriority {
		priority = &t.priority
	}
	r := b.acquire()
	if f := s.head(r, t.domain, cost, priority, t.peek, ""); f != nil {
		return f.callStatus(b.locateCheck(row))
	}
	k, from := len(t.keys), len(b.entries)
	for i, v := range t.values[row*k : (row+1)*k] {
		if len(v) > checks.MaxValue {
			return invalidField(fmt.Sprintf("table.values[%d]", row*k+i), fmt.Sprintf("must have at most %d bytes", checks.MaxValue))
		}
		b.entries = append(b.entries, weir.Entry{Key: t.keys[i], Value: v})
	}
	to := len(b.entries)
	r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: b.entries[from:to:to]})
	if f := s.strictly(r, t.strict); f != nil {
		return f.callStatus(b.locateCheck(row))
	}
	return nil
}
