package httpapi

import (
	"net/http"

	"github.com/weirlimit/weir/internal/admit"
)

// acquire answers /v1/acquire: a check under a lease, which is made up if the
// body names none. Acquiring again under the same lease renews it.
func (a *API) acquire(w http.ResponseWriter, r *http.Request) {
	c := calls.Get().(*call)
	defer c.release()
	if !c.read(a, w, r, maxSmallBody) {
		return
	}
	defer c.query.release(a)
	a.readQuery(c, mayLease|mayStrict)
	c.query.mustSpend(&c.reader)
	a.checkStrict(c)
	if c.reader.err != nil {
		badInput(w, c.reader.err)
		return
	}
	req := c.query.reqs[0]
	d, err := admit.Acquire(r.Context(), a.limiter, req)
	if err != nil {
		a.undecided(w, err)
		return
	}
	c.out = appendDecision(append(c.out[:0], '{'), req, d)
	if d.Allowed() {
		c.out = appendText(append(c.out, `,"lease":`...), req.Lease)
	}
	c.out = append(c.out, '}')
	sendJSON(w, c.out)
}

// releaseLease answers /v1/release. Releasing what is not held is no error:
// a client that heard no answer asks again.
func (a *API) releaseLease(w http.ResponseWriter, r *http.Request) {
	c := calls.Get().(*call)
	defer c.release()
	if !c.read(a, w, r, maxSmallBody) {
		return
	}
	defer c.query.release(a)
	if a.readQuery(c, mayLease|mustLease); c.reader.err != nil {
		badInput(w, c.reader.err)
		return
	}
	if err := a.limiter.Release(r.Context(), c.query.reqs[0]); err != nil {
		a.undecided(w, err)
		return
	}
	sendJSON(w, []byte(`{"released":true}`))
}
