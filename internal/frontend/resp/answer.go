package resp

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir"
)

// appendDecision appends what WEIR.CHECK says: a map.
func appendDecision(b []byte, proto int, a *ask) []byte {
	d, r := a.decision, a.req
	pairs := 9
	if a.lease && d.Allowed() || d.Banned() {
		pairs++
	}
	b = appendMap(b, proto, pairs)
	b = appendBool(append(b, "$7\r\nallowed\r\n"...), proto, d.Allowed())
	b = append(b, "$5\r\nlimit\r\n"...)
	if d.Limit == nil {
		b = appendNull(b, proto)
		b = appendNull(append(b, "$9\r\nremaining\r\n"...), proto)
	} else {
		b = appendBulk(b, d.Limit.Name)
		b = appendInt(append(b, "$9\r\nremaining\r\n"...), d.Remaining)
	}
	b = appendInt(append(b, "$14\r\nretry_after_ms\r\n"...), milliseconds(d.RetryAfter))
	b = appendInt(append(b, "$14\r\nreset_after_ms\r\n"...), milliseconds(d.ResetAfter))
	b = appendInt(append(b, "$8\r\ndelay_ms\r\n"...), milliseconds(r.Delay()))
	g := r.Guarantee()
	b = appendBool(append(b, "$5\r\nexact\r\n"...), proto, g.Exact)
	b = appendBool(append(b, "$8\r\ndegraded\r\n"...), proto, g.Degraded)
	b = append(b, "$7\r\nat_most\r\n"...)
	if g.AtMost == weir.Unbounded {
		b = appendNull(b, proto)
	} else {
		b = appendInt(b, g.AtMost)
	}
	switch {
	case d.Banned():
		b = appendBool(append(b, "$6\r\nbanned\r\n"...), proto, true)
	case pairs == 10:
		b = appendBulk(append(b, "$5\r\nlease\r\n"...), r.Lease)
	}
	return b
}

// appendThrottle appends the five numbers of redis-cell: limited or not, the
// limit, what remains, the seconds until a retry and those until the key is
// whole again.
func appendThrottle(b []byte, a *ask) []byte {
	d := &a.decision
	retry, limited := int64(-1), !d.Allowed()
	switch {
	case a.cost == 0 && d.ResetAfter > a.by.full:
		// The key owes more than this limit would ever let it, under another.
		limited, retry = true, wholeSeconds(d.ResetAfter-a.by.full)
	case limited && d.RetryAfter != weir.Never:
		retry = wholeSeconds(d.RetryAfter)
	}
	if limited {
		b = append(b, a.by.refused...)
	} else {
		b = append(b, a.by.allowed...)
	}
	b = appendInt(b, d.Remaining)
	b = appendInt(b, retry)
	return appendInt(b, wholeSeconds(d.ResetAfter))
}

// milliseconds rounds d up: whoever waits as long must not come too early. Never
// is -1.
func milliseconds(d time.Duration) int64 {
	if d == weir.Never {
		return -1
	}
	return roundUp(d, time.Millisecond, 1)
}

// wholeSeconds rounds d as redis-cell does: up if at least a millisecond is left
// over.
func wholeSeconds(d time.Duration) int64 {
	return roundUp(d, time.Second, time.Millisecond)
}

// roundUp returns d in units: one more if at least that much is left over.
func roundUp(d, unit, least time.Duration) int64 {
	n := int64(d / unit)
	if d%unit >= least {
		n++
	}
	return n
}

// errNoKeyring: the store cannot forget.
var errNoKeyring = errors.New("the store of this service cannot forget single keys")

// undecided returns the reply to a command that err kept from being carried out,
// and notes it if the store is to blame.
func (s *Server) undecided(err error) string {
	switch {
	case errors.Is(err, weir.ErrNoLease):
		return "ERR a concurrency limit applies: use WEIR.ACQUIRE, or name the unit of work with LEASE"
	case errors.Is(err, weir.ErrCost):
		return "ERR the cost, with what is kept for higher priorities, must be from 0 to 2^53"
	case errors.Is(err, weir.ErrRefund):
		return "ERR a limit applies that cannot give back units"
	case errors.Is(err, errNoKeyring), errors.Is(err, weir.ErrNode):
		return "ERR " + err.Error()
	}
	if !errors.Is(err, context.Canceled) {
		s.faults.Report("request undecided", err)
	}
	return "ERR the store did not answer; nothing was decided"
}
