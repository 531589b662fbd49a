package config

import (
	"errors"
)

// ExtAuthz configures Envoy's ext_authz on the gRPC listener.
type ExtAuthz struct {
	Enabled bool `yaml:"enabled" name:"ext-authz" help:"Serve Envoy's ext_authz on the gRPC port. It decides by the routes and rules of the gateway. See docs/how-to/ext-authz.md."`
}

// ForwardAuth configures what proxies ask before they forward a request.
type ForwardAuth struct {
	Prefix string `yaml:"prefix" name:"forward-auth" placeholder:"PATH" help:"Path for forward-auth requests, such as /auth. The response says whether a proxy may let a request through: nginx auth_request, Caddy forward_auth, Traefik ForwardAuth, HAProxy, Envoy over HTTP. Only --trusted-proxies may ask. See docs/how-to/forward-auth.md."`
}

// checkAsked reports what is wrong with how proxies ask, that can be seen
// without opening anything.
func (c *Config) checkAsked() error {
	if c.ExtAuthz.Enabled && c.GRPC.Listen == "" {
		return errors.New("--ext-authz (ext_authz.enabled) needs the gRPC port: give --grpc HOST:PORT")
	}
	if c.ForwardAuth.Prefix == "" {
		return nil
	}
	if len(c.Identity.Proxies.Trusted) == 0 && !c.Identity.Proxies.Unix {
		return errors.New("--forward-auth (forward_auth.prefix): no proxy is trusted: list your proxies in --trusted-proxies, or give --trusted-unix")
	}
	return nil
}
