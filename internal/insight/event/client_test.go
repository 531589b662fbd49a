package event_test

import "net/netip"

// client is one of whom all is known that a test says.
type client struct {
	addr                                  netip.Addr
	method, host, path, user, tier, agent string
}

func (c *client) Address() netip.Addr { return c.addr }
func (c *client) Method() string      { return c.method }
func (c *client) Host() string        { return c.host }
func (c *client) Path() string        { return c.path }
func (c *client) User() string        { return c.user }
func (c *client) Tier() string        { return c.tier }
func (c *client) Agent() string       { return c.agent }
