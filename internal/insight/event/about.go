package event

import (
	"fmt"
	"slices"
)

// Most that the strings of an About have, in bytes. What is longer is cut.
const (
	MaxMethod  = 16
	MaxHost    = 64
	MaxPath    = 128
	MaxUser    = 64
	MaxTier    = 32
	maxAddress = 64 // an address, a network, or the hash of one
)

// MaxDifferent is how far Users, Agents, Paths and Addresses of an About count.
const MaxDifferent = 16

// About says who sent the requests of a record and what they asked for. The
// strings are of the last request that told it; identities (Address, Network,
// User) are keyed hashes unless [Record.Unhashed]. What is not known is empty.
type About struct {
	// Address is the client's, through trusted proxies, and Network its /24 (IPv4)
	// or /48 (IPv6).
	Address string `json:"address,omitempty"`
	Network string `json:"network,omitempty"`
	// Method, Host and Path are canonical, see package identity; Path is without
	// the query.
	Method string `json:"method,omitempty"`
	Host   string `json:"host,omitempty"`
	Path   string `json:"path,omitempty"`
	// User is the verified user, Tier the client's.
	User string `json:"user,omitempty"`
	Tier string `json:"tier,omitempty"`
	// Agent is the class of the client's software, one of Agents.
	Agent string `json:"agent,omitempty"`
	// Users, Agents, Paths and Addresses are how many different ones the record is
	// of, counted up to MaxDifferent. Agents counts names as they were sent, not
	// classes.
	Users     int64 `json:"users,omitempty"`
	Agents    int64 `json:"agents,omitempty"`
	Paths     int64 `json:"paths,omitempty"`
	Addresses int64 `json:"addresses,omitempty"`
}

func (a *About) checkFacts() error {
	for _, s := range []struct {
		name, value string
		max         int
	}{
		{"address", a.Address, maxAddress}, {"network", a.Network, maxAddress}, {"method", a.Method, MaxMethod},
		{"host", a.Host, MaxHost}, {"path", a.Path, MaxPath}, {"user", a.User, MaxUser}, {"tier", a.Tier, MaxTier},
	} {
		if len(s.value) > s.max {
			return fmt.Errorf("about: %s of %d bytes: at most %d are known", s.name, len(s.value), s.max)
		}
	}
	if a.Agent != "" && !slices.Contains(agentWords[:], a.Agent) {
		return fmt.Errorf("about: agent %.20q is no class", a.Agent)
	}
	for _, n := range []int64{a.Users, a.Agents, a.Paths, a.Addresses} {
		if n < 0 || n > MaxDifferent {
			return fmt.Errorf("about: %d different ones: counted are 0 to %d", n, MaxDifferent)
		}
	}
	return nil
}
