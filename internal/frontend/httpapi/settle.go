package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/reserve"
)

// reserve answers /v1/reserve.
func (a *API) reserve(c *call, w http.ResponseWriter, r *http.Request) error {
	req := c.query.reqs[0]
	res, err := a.opt.Reserver.Reserve(r.Context(), req)
	if err != nil {
		return err
	}
	c.out = appendDecision(append(c.out[:0], '{'), req, res.Decision)
	if res.Handle != "" {
		c.out = append(c.out, `,"handle":"`...)
		c.out = append(c.out, res.Handle...)
		c.out = append(c.out, `","expires":"`...)
		c.out = res.Expires.UTC().AppendFormat(c.out, time.RFC3339Nano)
		c.out = append(c.out, '"')
	}
	return c.send(w, '}')
}

// settle answers /v1/commit, and with cancel /v1/cancel.
func (a *API) settle(cancel bool) handle {
	return func(c *call, w http.ResponseWriter, r *http.Request) error {
		handle, actual := readSettlement(&c.reader, cancel)
		if c.reader.err != nil {
			return c.reader.err
		}
		var s reserve.Settlement
		var err error
		if cancel {
			s, err = a.opt.Reserver.Cancel(r.Context(), handle)
		} else {
			s, err = a.opt.Reserver.Commit(r.Context(), handle, actual)
		}
		if err != nil {
			return err
		}
		c.out = strconv.AppendInt(append(c.out[:0], `{"reserved":`...), s.Reserved, 10)
		c.out = strconv.AppendInt(append(c.out, `,"actual":`...), s.Actual, 10)
		return c.send(w, '}')
	}
}

func readSettlement(r *reader, cancel bool) (handle string, actual int64) {
	var seen uint32
	r.object(func(name []byte) {
		switch {
		case string(name) == "handle":
			r.once(&seen, 0)
			handle = r.str(1, reserve.MaxHandle)
		case string(name) == "actual" && !cancel:
			r.once(&seen, 1)
			actual = r.integer(0, weir.MaxCost)
		case cancel:
			r.unknown("handle")
		default:
			r.unknown("handle and actual")
		}
	})
	r.end()
	switch {
	case r.err != nil:
	case seen&1 == 0:
		r.failMissing("handle")
	case seen&2 == 0 && !cancel:
		r.failMissing("actual")
	}
	return handle, actual
}
