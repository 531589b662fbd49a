package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/once"
	"github.com/weirlimit/weir/reserve"
)

// reservations answers the two-step API.
type reservations struct {
	queries  *queries
	reserver *reserve.Reserver // nil where there are none
}

func (s *reservations) routes() routes {
	post := func(h http.HandlerFunc) methods {
		return methods{"POST": needs(s.reserver != nil, "this service runs without reservations", h)}
	}
	return routes{
		"/v1/reserve": post(s.queries.answers(maxSmallBody, mayStrict|mustSpend|mayKey, s.reserve)),
		"/v1/commit":  post(s.queries.responder.answers(maxSmallBody, s.settle(false))),
		"/v1/cancel":  post(s.queries.responder.answers(maxSmallBody, s.settle(true))),
	}
}

// reserve answers /v1/reserve.
func (s *reservations) reserve(c *call, r *http.Request) error {
	req := c.query.reqs[0]
	s.queries.calls.Mark(once.Reserve, c.query.key, req)
	res, err := s.reserver.Reserve(r.Context(), req)
	if err != nil {
		return err
	}
	c.out = appendRepeated(appendDecision(append(c.out[:0], '{'), req, res.Decision), req.Mark)
	if res.Handle != "" {
		c.out = append(append(c.out, `,"handle":"`...), res.Handle...)
		c.out = append(c.out, `","expires":"`...)
		c.out = append(res.Expires.UTC().AppendFormat(c.out, time.RFC3339Nano), '"')
	}
	c.out = append(c.out, '}')
	return nil
}

// settle answers /v1/commit, and with cancel /v1/cancel.
func (s *reservations) settle(cancel bool) handle {
	return func(c *call, r *http.Request) (err error) {
		var handle string
		var actual int64
		fields := []field{{name: "handle", text: &handle, least: 1, most: reserve.MaxHandle, must: true},
			{name: "actual", number: &actual, most: weir.MaxCost, must: true}}
		list := "handle and actual"
		if cancel {
			fields, list = fields[:1], "handle"
		}
		if readFields(&c.reader, list, fields); c.reader.err != nil {
			return c.reader.err
		}
		var settled reserve.Settlement
		if cancel {
			settled, err = s.reserver.Cancel(r.Context(), handle)
		} else {
			settled, err = s.reserver.Commit(r.Context(), handle, actual)
		}
		if errors.Is(err, reserve.ErrSettled) {
			p := s.queries.responder.problemOf(err)
			p.Reserved, p.Actual = &settled.Reserved, &settled.Actual
			return &p
		}
		c.out = strconv.AppendInt(append(c.out[:0], `{"reserved":`...), settled.Reserved, 10)
		c.out = append(strconv.AppendInt(append(c.out, `,"actual":`...), settled.Actual, 10), '}')
		return err
	}
}
