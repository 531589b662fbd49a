package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/reserve"
)

// Reserver spends estimates and settles them; reserve.Reserver is one.
type Reserver interface {
	Reserve(ctx context.Context, r *weir.Request) (reserve.Reservation, error)
	Commit(ctx context.Context, handle string, actual int64) (reserve.Settlement, error)
	Cancel(ctx context.Context, handle string) (reserve.Settlement, error)
}

var _ Reserver = (*reserve.Reserver)(nil)

// reserve answers /v1/reserve.
func (a *API) reserve(w http.ResponseWriter, r *http.Request) {
	c := calls.Get().(*call)
	defer c.release()
	if !c.read(a, w, r, maxSmallBody) {
		return
	}
	defer c.query.release(a)
	a.readQuery(c, mayStrict)
	c.query.mustSpend(&c.reader)
	a.checkStrict(c)
	if c.reader.err != nil {
		badInput(w, c.reader.err)
		return
	}
	req := c.query.reqs[0]
	res, err := a.opt.Reserver.Reserve(r.Context(), req)
	if err != nil {
		a.unsettled(w, err)
		return
	}
	c.out = appendDecision(append(c.out[:0], '{'), req, res.Decision)
	if res.Handle != "" {
		c.out = append(c.out, `,"handle":"`...)
		c.out = append(c.out, res.Handle...)
		c.out = append(c.out, `","expires":"`...)
		c.out = res.Expires.UTC().AppendFormat(c.out, time.RFC3339Nano)
		c.out = append(c.out, '"')
	}
	c.out = append(c.out, '}')
	sendJSON(w, c.out)
}

// settle answers /v1/commit, and with cancel /v1/cancel.
func (a *API) settle(cancel bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := calls.Get().(*call)
		defer c.release()
		if !c.read(a, w, r, maxSmallBody) {
			return
		}
		handle, actual := readSettlement(&c.reader, cancel)
		if c.reader.err != nil {
			badInput(w, c.reader.err)
			return
		}
		var s reserve.Settlement
		var err error
		if cancel {
			s, err = a.opt.Reserver.Cancel(r.Context(), handle)
		} else {
			s, err = a.opt.Reserver.Commit(r.Context(), handle, actual)
		}
		if err != nil {
			a.unsettled(w, err)
			return
		}
		c.out = strconv.AppendInt(append(c.out[:0], `{"reserved":`...), s.Reserved, 10)
		c.out = strconv.AppendInt(append(c.out, `,"actual":`...), s.Actual, 10)
		c.out = append(c.out, '}')
		sendJSON(w, c.out)
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

// unsettled answers when err kept a reservation from being made or settled.
func (a *API) unsettled(w http.ResponseWriter, err error) {
	status := 0
	switch {
	case errors.Is(err, reserve.ErrHandle):
		badInput(w, &inputError{"is not a handle of this service", "#/handle"})
		return
	case errors.Is(err, reserve.ErrSettled):
		status = http.StatusConflict
	case errors.Is(err, reserve.ErrExpired):
		status = http.StatusGone
	case errors.Is(err, reserve.ErrRegion):
		status = http.StatusMisdirectedRequest
	case errors.Is(err, reserve.ErrUnavailable):
		a.logStore(err)
		answer.Problem{Status: http.StatusServiceUnavailable, Detail: err.Error(), RetryAfter: 1}.Write(w)
		return
	case errors.Is(err, reserve.ErrUnsupported), errors.Is(err, reserve.ErrTooLarge), errors.Is(err, weir.ErrRefund):
		status = http.StatusUnprocessableEntity
	default:
		a.undecided(w, err)
		return
	}
	answer.Problem{Status: status, Detail: err.Error()}.Write(w)
}
