package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirlimit/weir/store/shared"
)

// Check reports everything about c that can be seen to be wrong without
// opening anything.
func (c *Config) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, listen := range []*string{&c.HTTP.Listen, &c.Admin.Listen, &c.GRPC.Listen, &c.RESP.Listen} {
		if *listen == Off { // one word turns off whatever can be: queues and databases have it too
			*listen = ""
		}
	}
	if c.Rules == "" && len(c.Limits) == 0 && c.Shed == nil && c.RESP.Listen == "" && !hasLimits(c.Routes) {
		bad("nothing to decide by: give rules (--rules FILE), or a limit in words (--limit \"100/minute by ip\"); or --resp PORT for Redis clients, whose limits come with each call")
	}
	if c.HTTP.Listen == "" && (c.Forwards() || c.ForwardAuth.Prefix != "") {
		bad("--http (http.listen) is off, and the gateway and forward-auth answer there: give a port, such as 8080")
	}
	if c.HTTP.Listen == "" && c.GRPC.Listen == "" && c.RESP.Listen == "" {
		bad("--http (http.listen), --grpc (grpc.listen) and --resp (resp.listen) are all off: give one a port, such as --http 8080")
	}
	if c.StoreHeld < shared.MinBytes {
		bad("store_local_max_bytes is %s: it must be at least %s", c.StoreHeld, Bytes(shared.MinBytes))
	}
	errs = append(errs, c.checkRegions())
	if c.API.Domain == "" {
		bad("api.domain is empty: name the domain that /shouldAllowRequest asks")
	}
	_, trust := c.TrustedPrefixes()
	_, gateway := c.GatewayOptions()
	_, proxies := ParsePrefixes("--proxy-protocol", c.HTTP.ProxyProtocol)
	if len(c.HTTP.ProxyProtocol) > 0 && strings.HasPrefix(c.HTTP.Listen, UnixPrefix) {
		proxies = errors.New("--proxy-protocol lists addresses, and peers of a Unix socket have none: listen on a port")
	}
	errs = append(errs, trust, gateway, c.Identity.checkOptions(), c.checkAsked(), proxies)
	errs = append(errs, c.HTTP.TLS.checkFiles("http.tls"), c.Admin.TLS.checkFiles("admin.tls"), c.GRPC.TLS.checkFiles("grpc.tls"), c.RESP.TLS.checkFiles("resp.tls"))
	errs = append(errs, checkBounds(c, "", c.hasEffect)...)
	if n := c.HTTP.MaxClientConns; n < 0 || c.HTTP.MaxConnections > 0 && n > c.HTTP.MaxConnections {
		bad("http.max_client_connections is %d: it must be between 0, for a quarter of them, and http.max_connections, %d", n, c.HTTP.MaxConnections)
	}
	errs = append(errs, checkShed(c.Shed), c.Events.checkSettings(), c.checkAnalytics(), c.Admin.checkToken(), c.GRPC.checkClients(), c.RESP.checkAccess(), c.Answer.checkOptions(), c.Log.checkWords(), c.OTel.checkExport())
	return errors.Join(errs...)
}

// hasEffect reports whether a setting has an effect, by its key.
func (c *Config) hasEffect(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	switch section {
	case "grpc":
		return c.GRPC.Listen != ""
	case "resp":
		return c.RESP.Listen != ""
	case "analytics":
		return c.Analytics.URL != Off
	}
	return true
}
