package client

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"
)

// ThrottleOptions configures a [Throttle].
type ThrottleOptions struct {
	// Ratio is K, how many requests are sent for each that is accepted, 1 to 1000:
	// the lower, the less is sent in vain, and the more is refused that would have
	// been accepted. Zero means 2.
	Ratio float64
	// Window is how long a request counts. It must be longer than requests may
	// take, at least twice: one that hangs would be forgotten before it fails.
	// Zero means two minutes.
	Window time.Duration
	// Least is how many requests the window must hold before any is refused. Zero
	// means 10.
	Least int
	// Probe is the longest time for which nothing is sent, if there is anything to
	// send: so that an overload that has ended is noticed. Zero means a second.
	Probe time.Duration
}

// Throttle refuses requests to a service that does not accept them, before they
// are sent: each with the probability max(0, (requests − K·accepts) / (requests + 1))
// over the last two minutes. Refused ones count as requests too. Safe for
// concurrent use.
//
// A request counts from when it is begun, not when it ends: else a service that
// hangs would not be spared until the first time-outs. It is accepted in the
// part of the window in which it was begun, so that never more are accepted
// than there were.
//
// Source: Google, Site Reliability Engineering, chapter 21, Client-Side
// Throttling.
type Throttle struct {
	ratio  uint64 // K, in 1/65536
	least  uint64
	probe  int64 // nanoseconds
	width  int64 // of a slot, in nanoseconds
	origin time.Time

	mu   sync.Mutex
	now  int64 // the latest instant seen, in nanoseconds since origin
	sent int64 // when the last request was let through
	// Invariant: requests and accepts are the sums over slots, and accepts of a
	// slot are never more than its requests.
	slots             [throttleSlots]throttleSlot
	requests, accepts uint64
}

// throttleSlots is into how many parts the window is cut; it moves by one of
// them at a time.
const throttleSlots = 60

type throttleSlot struct {
	number            int64 // which slot since origin, plus 1
	requests, accepts uint64
}

// NewThrottle returns a throttle that has seen nothing. It returns an error when
// an option is out of range.
func NewThrottle(opt ThrottleOptions) (*Throttle, error) {
	opt.Ratio, opt.Window = cmp.Or(opt.Ratio, 2), cmp.Or(opt.Window, 2*time.Minute)
	opt.Least, opt.Probe = cmp.Or(opt.Least, 10), cmp.Or(opt.Probe, time.Second)
	switch {
	case !(opt.Ratio >= 1 && opt.Ratio <= 1000): // also NaN
		return nil, fmt.Errorf("client: throttle ratio %v must be from 1 to 1000", opt.Ratio)
	case opt.Window < time.Second:
		return nil, fmt.Errorf("client: throttle window %v must be a second or more", opt.Window)
	case opt.Least < 0 || opt.Probe < 0:
		return nil, errors.New("client: throttle least and probe must not be negative")
	}
	return &Throttle{
		ratio: uint64(math.Round(opt.Ratio * (1 << 16))), least: uint64(opt.Least), probe: int64(opt.Probe),
		width: int64(opt.Window / throttleSlots), origin: time.Now(),
	}, nil
}

// Begin counts a request and reports whether it may be sent. The ticket is for
// Accept.
func (t *Throttle) Begin() (ticket int64, ok bool) {
	return t.beginAt(int64(time.Since(t.origin)), rand.Uint32())
}

// Accept says that the service has accepted the request: it has answered, and
// not that it has too much to do. Of a request that failed nothing is said. Call
// Accept or Forget once at most.
func (t *Throttle) Accept(ticket int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := &t.slots[ticket%throttleSlots]; s.number == ticket+1 {
		s.accepts++
		t.accepts++
	}
}

// Forget takes back that there was a request: its caller did not wait for what
// became of it.
func (t *Throttle) Forget(ticket int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := &t.slots[ticket%throttleSlots]; s.number == ticket+1 {
		s.requests--
		t.requests--
	}
}

// beginAt is Begin at an instant, in nanoseconds since origin, with a number drawn
// at random.
func (t *Throttle) beginAt(now int64, drawn uint32) (ticket int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = max(t.now, now)
	ticket = t.now / t.width
	t.expireSlots(ticket)
	ok = t.requests < t.least || t.now-t.sent >= t.probe || !refuses(t.requests, t.accepts, t.ratio, drawn)
	if ok {
		t.sent = t.now
	}
	t.slots[ticket%throttleSlots].requests++
	t.requests++
	return ticket, ok
}

// expireSlots empties the slots that have left the window, and makes room for the
// one that begins.
func (t *Throttle) expireSlots(ticket int64) {
	if t.slots[ticket%throttleSlots].number == ticket+1 {
		return
	}
	for i := range t.slots {
		if s := &t.slots[i]; s.number != 0 && s.number <= ticket+1-throttleSlots {
			t.requests -= s.requests
			t.accepts -= s.accepts
			*s = throttleSlot{}
		}
	}
	t.slots[ticket%throttleSlots].number = ticket + 1
}

// refuses reports whether drawn/2^32 < (requests − K·accepts) / (requests + 1),
// for K = ratio/2^16. It is exact: the same numbers give the same answer on
// every machine.
func refuses(requests, accepts, ratio uint64, drawn uint32) bool {
	hi, lo := bits.Mul64(accepts, ratio)
	if hi > 0 || requests<<16 <= lo {
		return false
	}
	excess := requests<<16 - lo
	leftHi, leftLo := bits.Mul64(uint64(drawn), (requests+1)<<16)
	rightHi, rightLo := excess>>32, excess<<32
	return leftHi < rightHi || leftHi == rightHi && leftLo < rightLo
}
