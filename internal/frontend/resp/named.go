package resp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/checks"
)

// What options a command of named rules takes.
type options uint8

const (
	mayCost options = 1 << iota
	mayPriority
	mayLease
)

// words are the options as they are written, each before its value.
var words = [...]struct {
	word string
	when options
}{{"COST", mayCost}, {"PRIORITY", mayPriority}, {"LEASE", mayLease}}

// request reads domain key value [key value ...] [| key value ...] [option value
// ...] into a request from the pool, or complains and returns nil. An option's
// word may be the key of an entry where it stands first in its descriptor.
func (c *conn) request(cmd *command, may options) *weir.Request {
	r := c.s.limiter.Acquire()
	if err := c.read(r, cmd, may); err != "" {
		c.s.limiter.Recycle(r)
		c.complain("ERR " + err)
		return nil
	}
	return r
}

func (c *conn) read(r *weir.Request, cmd *command, may options) string {
	if len(cmd.at(1)) > checks.MaxDomain {
		return fmt.Sprintf("the domain may have at most %d bytes", checks.MaxDomain)
	}
	r.Domain, r.Priority, r.Facts = text(cmd.at(1)), c.s.opt.Priority, checks.Facts(r)
	i, n, from := 2, len(cmd.args), len(c.entries)
	for ; i < n; i += 2 {
		key := cmd.at(i)
		first := len(c.entries) == from
		if !first && optionOf(key) >= 0 {
			break
		}
		if len(key) == 1 && key[0] == '|' {
			if first || len(r.Descriptors) == checks.MaxDescriptors-1 {
				return fmt.Sprintf("a bar stands between descriptors, of which there may be %d", checks.MaxDescriptors)
			}
			r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: c.entries[from:len(c.entries):len(c.entries)]})
			from = len(c.entries)
			i--
			continue
		}
		switch {
		case i+1 == n:
			return "an entry is a key and a value: the last has no value"
		case len(key) == 0:
			return "the key of an entry is empty"
		case len(c.entries)-from == checks.MaxEntries:
			return fmt.Sprintf("a descriptor may have at most %d entries", checks.MaxEntries)
		}
		c.entries = append(c.entries, weir.Entry{Key: text(key), Value: text(cmd.at(i + 1))})
	}
	if len(c.entries) == from {
		return "a descriptor has no entries"
	}
	r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: c.entries[from:len(c.entries):len(c.entries)]})
	return readOptions(r, cmd, i, may)
}

// optionOf returns which option a word is, -1 for none.
func optionOf(word []byte) int {
	if len(word) < 4 || len(word) > 8 {
		return -1
	}
	for i, o := range words {
		if strings.EqualFold(text(word), o.word) {
			return i
		}
	}
	return -1
}

func readOptions(r *weir.Request, cmd *command, i int, may options) string {
	seen := options(0)
	for ; i < len(cmd.args); i += 2 {
		at := optionOf(cmd.at(i))
		switch {
		case at < 0:
			return "options stand last: '" + short(cmd.at(i)) + "' is none"
		case words[at].when&may == 0:
			return words[at].word + " has no meaning here"
		case words[at].when&seen != 0:
			return words[at].word + " is given twice"
		case i+1 == len(cmd.args):
			return words[at].word + " has no value"
		}
		seen |= words[at].when
		value := cmd.at(i + 1)
		switch words[at].when {
		case mayLease:
			if len(value) == 0 || len(value) > checks.MaxLease {
				return fmt.Sprintf("LEASE must have 1 to %d bytes", checks.MaxLease)
			}
			r.Lease = text(value)
		case mayCost:
			v, ok := parseInt(value)
			if !ok || v < 0 || v > weir.MaxCost {
				return "COST must be a whole number from 0 to 2^53"
			}
			if r.Cost = v; v == 0 {
				// A request without a cost costs one; nothing is to be spent.
				r.Verb = weir.Peek
			}
		case mayPriority:
			v, ok := parseInt(value)
			if !ok || v < 0 || v > checks.MaxPriority {
				return fmt.Sprintf("PRIORITY must be a whole number from 0 to %d", checks.MaxPriority)
			}
			r.Priority = int(v)
		}
	}
	return ""
}

// check takes WEIR.CHECK.
func (c *conn) check(cmd *command) {
	if r := c.request(cmd, mayCost|mayPriority|mayLease); r != nil {
		c.ask(ask{req: r})
	}
}

// peek takes WEIR.PEEK.
func (c *conn) peek(cmd *command) {
	if r := c.request(cmd, mayCost|mayPriority); r != nil {
		r.Verb = weir.Peek
		c.ask(ask{req: r})
	}
}

// acquire takes WEIR.ACQUIRE: a check under a lease, which is made up if there is
// none.
func (c *conn) acquire(cmd *command) {
	if r := c.request(cmd, mayCost|mayPriority|mayLease); r != nil {
		if r.Lease == "" {
			r.Lease, r.NewLease = rand.Text(), true
		}
		c.ask(ask{req: r, lease: true})
	}
}

// decideAlone reads the request of a command that is not decided with others, and does
// f with it.
func (c *conn) decideAlone(cmd *command, may options, f func(ctx context.Context, r *weir.Request) error) {
	c.decide()
	r := c.request(cmd, may)
	if r == nil {
		return
	}
	defer c.s.limiter.Recycle(r)
	if err := f(c.s.ctx, r); err != nil {
		c.complain(c.s.undecided(err))
	}
	c.entries = c.entries[:0]
}

// release takes WEIR.RELEASE. Releasing what is not held is no error: a client
// that heard no answer asks again.
func (c *conn) release(cmd *command) {
	c.decideAlone(cmd, mayLease, func(ctx context.Context, r *weir.Request) error {
		if err := c.s.limiter.Release(ctx, r); err != nil {
			return err
		}
		c.ok()
		return nil
	})
}

// errNoKeyring: the store cannot forget.
var errNoKeyring = errors.New("the store of this service cannot forget single keys")

// resetKeys takes WEIR.RESET and replies with how many keys were known.
func (c *conn) resetKeys(cmd *command) {
	c.decideAlone(cmd, 0, func(ctx context.Context, r *weir.Request) error {
		if c.s.opt.Keyring == nil {
			return errNoKeyring
		}
		n := int64(0)
		for _, o := range c.s.limiter.Match(r) {
			if o.Role == weir.Deny {
				continue
			}
			found, err := c.s.opt.Keyring.Forget(ctx, o.Key, o.Limit)
			if err != nil {
				return err
			}
			if found {
				n++
			}
		}
		c.out = appendInt(c.out, n)
		return nil
	})
}

// refund takes WEIR.REFUND and replies with how many limits took units back.
func (c *conn) refund(cmd *command) {
	c.decideAlone(cmd, mayCost, func(ctx context.Context, r *weir.Request) error {
		if r.Verb == weir.Peek {
			c.out = appendInt(c.out, 0) // COST 0 gives nothing back
			return nil
		}
		refunds, permits, err := admit.Refunds(nil, c.s.limiter.Match(r))
		switch {
		case err != nil:
			return err
		case permits:
			return weir.ErrRefund
		}
		if len(refunds) > 0 {
			if _, err := c.s.limiter.Apply(ctx, refunds); err != nil {
				return err
			}
		}
		c.out = appendInt(c.out, int64(len(refunds)))
		return nil
	})
}

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
	case errors.Is(err, errNoKeyring):
		return "ERR " + err.Error()
	}
	s.failed(err)
	return "ERR the store did not answer; nothing was decided"
}

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

// milliseconds rounds d up: whoever waits as long must not come too early. Never
// is -1.
func milliseconds(d time.Duration) int64 {
	if d == weir.Never {
		return -1
	}
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}
