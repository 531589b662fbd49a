package node

import (
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/frontend/resp"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
)

// openRESP builds the listener for Redis clients.
func openRESP(s *Server) (frontend, error) {
	c := &s.conf.RESP
	if c.Listen == "" {
		return frontend{}, nil
	}
	password, err := c.ReadPassword()
	if err != nil {
		return frontend{}, err
	}
	cert, err := s.certs.openCertificate(c.TLS, "")
	if err != nil {
		return frontend{}, err
	}
	shared, err := config.SharedAddrs(s.conf)
	if err != nil {
		return frontend{}, err
	}
	counts := new(listen.Counts)
	opt := resp.Options{
		Limiter:      s.limiter,
		Keyring:      s.store.keyring,
		Check:        s.store.check,
		Priority:     s.conf.DefaultPriority(),
		Strict:       s.conf.API.Strict,
		User:         c.User,
		Password:     password,
		Guesses:      s.guesses,
		MaxClients:   int(c.MaxClients),
		Shared:       shared,
		Connections:  counts,
		IdleTimeout:  c.IdleTimeout,
		Timeout:      c.Timeout,
		DrainDelay:   s.conf.Drain.Delay,
		DrainTimeout: s.conf.Drain.Timeout,
		Version:      s.build.Version,
		Batch:        s.metrics.RESPBatch(),
		Log:          s.log,
	}
	if s.store.shared != nil {
		opt.Parallel = resp.MaxParallel
	}
	if cert != nil {
		opt.TLS = cert.Config()
	} else if password != "" && c.IsRemote() {
		s.log.Warn("password of Redis clients is sent in clear text; set resp.tls", "addr", c.Listen)
	}
	if s.resp, err = resp.New(opt); err != nil {
		return frontend{}, err
	}
	if err := s.store.check(s.resp.Throttle()); err != nil {
		s.log.Warn("CL.THROTTLE returns errors: the store cannot keep token buckets", "err", err)
	}
	return frontend{listen: c.Address(), tls: c.TLS, scheme: "redis", serve: s.resp, conns: counts}, nil
}

// respMetrics translates what the Redis protocol's front end says of itself.
func respMetrics(r *resp.Server) metrics.RESP {
	if r == nil {
		return metrics.RESP{} // still opening
	}
	st := r.Stats()
	return metrics.RESP{
		Limits:   []limits.Ref{{Rule: r.Throttle().Name, Limit: r.Throttle()}},
		Clients:  st.Clients,
		Most:     st.MaxClients,
		Accepted: st.Accepted, Refused: st.Refused, Commands: st.Commands,
		WrongPasswords: st.WrongPasswords, Malformed: st.Malformed, Slow: st.Slow, NoRoom: st.NoRoom,
	}
}
