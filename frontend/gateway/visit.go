package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"time"

	"github.com/weirlimit/weir"
)

// visit is one request on its way through; kept for reuse.
type visit struct {
	g        *Gateway
	req      *weir.Request
	decision weir.Decision
	now      int64 // of the decision, in microseconds since the Unix epoch
	entries  [1]weir.Entry
	ctx      context.Context
	canceled bool
	reply    *reply
}

// begin fills the weir request for r.
func (v *visit) begin(g *Gateway, r *http.Request) {
	v.g, v.ctx, v.canceled = g, r.Context(), false
	v.req = g.limiter.Acquire()
	v.req.Domain = g.opt.Domain
	v.entries[0] = weir.Entry{Key: "remote_address", Value: clientOf(r.RemoteAddr)}
	v.req.Descriptors = append(v.req.Descriptors, weir.Descriptor{Entries: v.entries[:]})
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	v.req.Lease = hex.EncodeToString(id[:])
}

// end gives the visit back. Nothing of it is used afterwards.
func (v *visit) end() {
	g := v.g
	g.limiter.Recycle(v.req)
	*v = visit{}
	g.visits.Put(v)
}

// settleTimeout bounds a call to the store that outlives its request.
const settleTimeout = 5 * time.Second

// cancel gives back all that was charged.
func (v *visit) cancel() {
	ctx, stop := context.WithTimeout(context.WithoutCancel(v.ctx), settleTimeout)
	defer stop()
	v.canceled = true
	if err := v.g.limiter.Cancel(ctx, v.req); err != nil {
		v.g.log("giving back failed", err)
	}
}

// hold keeps the leases that the request was granted alive, and returns what
// ends them.
func (v *visit) hold() func() {
	var leases []weir.Op
	period := time.Duration(weir.Forever)
	for _, o := range v.req.Ops() {
		if o.Charged && o.Limit.Traits()&weir.Leases != 0 {
			// Each on its own account: one that was lost must not take the others
			// with it.
			leases = append(leases, weir.Op{Key: o.Key, Limit: o.Limit, Cost: o.Cost, ID: o.ID, Role: weir.Always})
			period = min(period, o.Limit.Period)
		}
	}
	if leases == nil {
		return func() {}
	}
	stop := v.g.renew(context.WithoutCancel(v.ctx), leases, period/3)
	return func() {
		stop()
		if v.canceled {
			return
		}
		ctx, done := context.WithTimeout(context.WithoutCancel(v.ctx), settleTimeout)
		defer done()
		if err := v.g.limiter.Release(ctx, v.req); err != nil {
			v.g.log("releasing a lease failed", err)
		}
	}
}

// renew spends leases again every so often, which renews them, until the
// returned function is called; that waits for a renewal under way.
func (g *Gateway) renew(ctx context.Context, leases []weir.Op, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(max(every, 10*time.Millisecond))
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if _, err := g.limiter.Apply(ctx, leases); err != nil && ctx.Err() == nil {
					g.log("renewing a lease failed", err)
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// clientOf names the client behind a TCP peer: an IPv4 address, or the /64 of
// an IPv6 one, since a customer has a whole /64 at hand.
func clientOf(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	addr := ap.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	p, err := addr.Prefix(64)
	if err != nil {
		return remote
	}
	return p.String()
}
