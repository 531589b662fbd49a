package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/limits"
)

// Trial is the gateway of a configuration without its listeners, its store and its
// upstreams: requests are tried on it.
type Trial struct {
	s  *Server
	gw *gateway.Gateway
}

// OpenTrial returns a trial of c, to be closed. No other machine is asked. It returns the
// error that a start of the node would end with, or that there is no gateway.
func OpenTrial(c *config.Config) (*Trial, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if !c.Forwards() {
		return nil, errors.New("the configuration has no gateway, so requests have no descriptors of their own: add upstream, or try descriptors, as in weir explain rules.yaml key=value")
	}
	s := &Server{conf: c, log: slog.New(slog.DiscardHandler)}
	gw, err := openForTrial(s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Trial{s, gw}, nil
}

// openForTrial opens the parts of a node that its gateway needs. Counts, of which there
// are none, are in memory, whatever the store of the configuration is.
func openForTrial(s *Server) (*gateway.Gateway, error) {
	who, _, err := s.conf.Identity.OpenResolver(nil, false)
	if err != nil {
		return nil, err
	}
	s.identity = &callers{Resolver: who}
	if s.store, err = openStoreOf(config.Defaults(), s.log); err != nil {
		return nil, errors.Join(err, who.Close())
	}
	s.closers = closers{who.Close, s.store.Close}
	if s.shed, err = config.OpenShedder(s.conf.Shed, s.store.check); err != nil {
		return nil, err
	}
	if s.rules, err = openRules(s.conf, s.shed, &s.store, who.EntryForm, s.log); err != nil {
		return nil, err
	}
	s.coverage = &coverage{conf: s.conf, rules: s.rules, who: who, log: s.log}
	s.overlay, err = overlay.New(context.Background(), overlay.Options{Rules: s.rules.live, Board: s.store.board, Logger: s.log})
	if err != nil {
		return nil, err
	}
	if s.limiter, err = weir.New(s.store.Store, s.overlay, weir.Options{}); err != nil {
		return nil, err
	}
	return s.gateway()
}

// Close frees the parts of the trial. An error is of one that did not end.
func (t *Trial) Close() error { return t.s.Close() }

// Set returns all that the gateway's requests are decided by.
func (t *Trial) Set() *limits.Set { return t.s.rules.currentLimits() }

// Domain returns the one that the gateway's requests belong to.
func (t *Trial) Domain() string { return t.s.conf.API.Domain }

// Ask fills req, which is empty, with what the gateway has its limits decide about r. Where
// none decides, asked is false; problem is then why the request is not forwarded, empty for
// one that is.
func (t *Trial) Ask(req *weir.Request, r *http.Request) (asked bool, problem string) {
	a := t.gw.FillRequest(req, r, t.s.identity.Acquire()) // never released: req points into it
	if a.Problem != nil {
		return false, http.StatusText(a.Problem.Status) + ": " + a.Problem.Detail
	}
	most := t.s.conf.Gateway.MaxDelay
	req.AcceptDelay = func(_ context.Context, delay time.Duration) time.Duration {
		if delay <= most {
			return 0
		}
		return admit.AfterWait(delay, most)
	}
	return !a.Unlimited, ""
}
