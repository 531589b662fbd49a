package httpapi

import (
	"net/http"

	"github.com/weirlimit/weir/internal/admit"
)

// acquire answers /v1/acquire: a check under a lease, which is made up if the
// body names none. Acquiring again under the same lease renews it.
func (a *API) acquire(c *call, w http.ResponseWriter, r *http.Request) error {
	req := c.query.reqs[0]
	d, err := admit.Acquire(r.Context(), a.limiter, req)
	if err != nil {
		return err
	}
	c.out = appendDecision(append(c.out[:0], '{'), req, d)
	if d.Allowed() {
		c.out = appendText(append(c.out, `,"lease":`...), req.Lease)
	}
	return c.send(w, '}')
}

// releaseLease answers /v1/release. Releasing what is not held is no error:
// a client that heard no answer asks again.
func (a *API) releaseLease(c *call, w http.ResponseWriter, r *http.Request) error {
	if err := a.limiter.Release(r.Context(), c.query.reqs[0]); err != nil {
		return err
	}
	sendJSON(w, []byte(`{"released":true}`))
	return nil
}
