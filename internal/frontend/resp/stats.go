package resp

// Stats is what a server has done since New.
type Stats struct {
	// Clients is how many are connected, MaxClients the most that may be.
	Clients, MaxClients int64
	// Accepted and Refused count connections: those let in, and those turned
	// away because there were too many, of all clients or of their own.
	Accepted, Refused uint64
	// Commands counts those that were answered.
	Commands uint64
	// WrongPasswords counts failed authentications, Malformed connections that
	// broke the protocol or its bounds, Slow those that were closed for taking
	// too long, NoRoom those that were closed because large commands held as much
	// memory as they may.
	WrongPasswords, Malformed, Slow, NoRoom uint64
}

// Stats returns how the server is doing.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	return Stats{
		Clients: int64(n), MaxClients: int64(s.opt.MaxClients),
		Accepted: s.accepted.Load(), Refused: s.opt.Connections.Refused.Load() + s.opt.Connections.RefusedFull.Load(), Commands: s.handled.Load(),
		WrongPasswords: s.wrong.Load(), Malformed: s.broken.Load(), Slow: s.slow.Load(), NoRoom: s.crowded.Load(),
	}
}
