package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/shared"
)

// CheckConfig reads a configuration file and all that it names: limits, rules, files,
// keys and routes. It returns the rules, nil if there are none or they do not load, and
// what is wrong, as faults of the file, such as a limit that its store cannot serve; a
// warning is no fault. Nothing is opened that a node would serve by, and no other machine
// is asked.
func CheckConfig(path string) (*limits.Set, rules.Errors) {
	conf := Defaults()
	if err := conf.Load(path); err != nil {
		return nil, faultsOf(path, err)
	}
	out := faultsOf(path, conf.check())
	n := readNamed(conf)
	defer n.close()
	for _, e := range faultsOf(path, n.err) {
		if !slices.ContainsFunc(out, func(o *rules.Error) bool { return o.Msg == e.Msg }) { // limits of routes are read twice
			out = append(out, e)
		}
	}
	out = append(append(out, n.found...), findNever(path, conf.Routes)...)
	if faults, _ := out.Split(); len(faults) > 0 || n.set == nil || conf.Rules == "" {
		return n.set, out
	}
	a, err := findAsked(conf, n.who, n.set)
	if err != nil {
		return n.set, append(out, faultsOf(path, err)...)
	}
	for _, u := range a.found {
		out = append(out, u.finding(a, path))
	}
	for _, u := range findUnlimited(conf, n.who, n.set) {
		out = append(out, u.finding(path))
	}
	faults, warnings := out.Split()
	return n.set, append(faults, warnings...)
}

// faultsOf returns err as faults of a configuration file, each where it says it is.
func faultsOf(path string, err error) (out rules.Errors) {
	for _, e := range split(err) {
		fault, ok := e.(*rules.Error)
		if !ok {
			fault = &rules.Error{File: path, Msg: e.Error()}
		}
		out = append(out, fault)
	}
	return out
}

// CheckStart reports why a node would not start with c, but for what other machines, and
// other programs on this one, have to do with: what is wrong with the settings, and with
// the files that they name.
func (c *Config) CheckStart() error {
	if err := c.check(); err != nil {
		return err
	}
	n := readNamed(c)
	defer n.close()
	errs := []error{n.err}
	if faults, _ := n.found.Split(); len(faults) > 0 {
		errs = append(errs, faults)
	}
	return errors.Join(errs...)
}

// split returns the errors that were joined to err.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, split(e)...)
		}
		return all
	}
	return []error{err}
}

// finding returns u as a fault of the rules, or of the configuration at path.
func (u *unasked) finding(a *asks, path string) *rules.Error {
	e := &rules.Error{File: path, Path: u.What, Msg: u.summary() + ": " + u.Why, Warning: u.Minor}
	if file := a.set.File(u.Domain); file != "" {
		e.File = file
	}
	if u.Rule != nil {
		e.File, e.Line, e.Column = u.Rule.File, u.Rule.Line, u.Rule.Column
	}
	if u.Add != "" {
		e.Hint = fmt.Sprintf("add to %s of %s: %s", u.To, path, u.Add)
	}
	return e
}

// check reports everything about c that can be seen to be wrong without
// opening anything.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, listen := range []*string{&c.HTTP.Listen, &c.Admin.Listen, &c.GRPC.Listen, &c.RESP.Listen} {
		if *listen == eventsOff { // one word turns off whatever can be: queues and databases have it too
			*listen = ""
		}
	}
	if c.Rules == "" && len(c.Limits) == 0 && c.Shed == nil && c.RESP.Listen == "" && !hasLimits(c.Routes) {
		bad("nothing to decide by: give rules (--rules FILE), or a limit in words (--limit \"100/minute by ip\"); or --resp PORT for Redis clients, whose limits come with each call")
	}
	if c.HTTP.Listen == "" && (c.forwards() || c.ForwardAuth.Prefix != "") {
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
	_, trust := c.trusted()
	_, gateway := c.gateway()
	_, proxies := prefixes("--proxy-protocol", c.HTTP.ProxyProtocol)
	if len(c.HTTP.ProxyProtocol) > 0 && strings.HasPrefix(c.HTTP.Listen, unixPrefix) {
		proxies = errors.New("--proxy-protocol lists addresses, and peers of a Unix socket have none: listen on a port")
	}
	errs = append(errs, trust, gateway, c.Identity.check(), c.checkAsked(), proxies)
	errs = append(errs, c.HTTP.TLS.check("http.tls"), c.Admin.TLS.check("admin.tls"), c.GRPC.TLS.check("grpc.tls"), c.RESP.TLS.check("resp.tls"))
	errs = append(errs, checkBounds(c, "", c.isSet)...)
	if n := c.HTTP.MaxClientConns; n < 0 || c.HTTP.MaxConnections > 0 && n > c.HTTP.MaxConnections {
		bad("http.max_client_connections is %d: it must be between 0, for a quarter of them, and http.max_connections, %d", n, c.HTTP.MaxConnections)
	}
	errs = append(errs, checkShed(c.Shed), c.Events.check(), c.checkAnalytics(), c.Admin.check(), c.GRPC.check(), c.RESP.check(), c.Answer.check(), c.Log.check(), c.OTel.check())
	return errors.Join(errs...)
}

// isSet reports whether a setting has an effect, by its key.
func (c *Config) isSet(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	switch section {
	case "grpc":
		return c.GRPC.Listen != ""
	case "resp":
		return c.RESP.Listen != ""
	case "analytics":
		return c.Analytics.URL != eventsOff
	}
	return true
}
