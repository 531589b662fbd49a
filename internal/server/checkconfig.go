package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/shared"
)

// CheckConfig reads a configuration file and what it names: limits, rules, keys and
// routes. It returns the rules, nil if there are none or they do not load, and what is
// wrong, as faults of the file, such as a limit that its store cannot serve; a warning
// is no fault. Nothing is opened that a node would serve
// by, and no other machine is asked.
func CheckConfig(path string) (*rules.Set, rules.Errors) {
	var out rules.Errors
	fault := func(err error) {
		for _, e := range split(err) {
			if !slices.ContainsFunc(out, func(o *rules.Error) bool { return o.Msg == e.Error() }) { // limits of routes are read twice
				out = append(out, &rules.Error{File: path, Msg: e.Error()})
			}
		}
	}
	conf := Defaults()
	if err := conf.Load(path); err != nil {
		fault(err)
		return nil, out
	}
	if err := conf.check(); err != nil {
		fault(err)
	}
	who, err := conf.checkIdentity()
	if err != nil {
		fault(err)
		return nil, out
	}
	defer who.Close() // fetches nothing
	check, err := conf.checkLimit()
	if err != nil {
		fault(err)
		return nil, out
	}
	if words, err := checkedWordRules(conf, check); err != nil {
		fault(err)
	} else if err := checkSources(words, conf, who); err != nil {
		fault(err)
	}
	if conf.Rules == "" {
		return nil, out
	}
	set, found := rules.Check([]string{conf.Rules}, rules.Options{Check: check, CheckCost: conf.checkCost(), EntryForm: who.EntryForm})
	out = append(out, found...)
	if faults, _ := out.Split(); len(faults) > 0 || set == nil {
		return set, out
	}
	a, err := findAsked(conf, who, set)
	if err != nil {
		fault(err)
		return set, out
	}
	for _, u := range a.found {
		out = append(out, u.finding(a, path))
	}
	faults, warnings := out.Split()
	return set, append(faults, warnings...)
}

// CheckSettings reports what New reports about the settings and the limits in words,
// without opening a file. Settings that give nothing to decide by are no fault: they may
// be a part.
func (c *Config) CheckSettings() error {
	if err := c.checkSettings(); err != nil {
		return err
	}
	check, err := c.checkLimit()
	if err != nil {
		return err
	}
	_, err = checkedWordRules(c, check)
	return err
}

// split returns the errors that were joined to err.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, split(e)...)
		}
		return all
	}
	return []error{err}
}

// checkIdentity returns a resolver as a node would have it, which fetches no keys of
// tokens.
func (c *Config) checkIdentity() (*identity.Resolver, error) {
	opt, err := c.Identity.open()
	if err != nil {
		return nil, err
	}
	if opt.JWT.URL != "" {
		// Which claims there are is known without the keys.
		opt.JWT.URL, opt.JWT.Algorithms, opt.JWT.Secret = "", nil, make(identity.Secret, 32)
	}
	who, err := identity.New(opt)
	if err != nil {
		return nil, fmt.Errorf("the settings of %w", err)
	}
	return who, nil
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
	if c.Rules == "" && len(c.Limits) == 0 && c.Shed == nil && c.RESP.Listen == "" && !hasLimits(c.Routes) {
		return errors.Join(errors.New("nothing to decide by: give rules (--rules FILE), or a limit in words (--limit \"100/minute by ip\"); or --resp PORT for Redis clients, whose limits come with each call"), c.checkSettings())
	}
	return c.checkSettings()
}

// checkSettings is check of what is given, whether or not there is anything to decide by.
func (c *Config) checkSettings() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if c.HTTP.Listen == "" && (c.forwards() || c.ForwardAuth.Prefix != "") {
		bad("--http (http.listen) is empty, and the gateway and forward-auth answer there: give a port, such as 8080")
	}
	if c.HTTP.Listen == "" && c.GRPC.Listen == "" && c.RESP.Listen == "" {
		bad("--http (http.listen), --grpc (grpc.listen) and --resp (resp.listen) are all empty: give one a port, such as --http 8080")
	}
	if c.StoreHeld < shared.MinBytes {
		bad("store_local_max_bytes is %s: it must be at least %s", c.StoreHeld, Bytes(shared.MinBytes))
	}
	if err := c.checkRegions(); err != nil {
		errs = append(errs, err)
	}
	if c.API.Domain == "" {
		bad("--api-domain (api.domain) is empty: name the domain that /shouldAllowRequest asks")
	}
	if _, err := c.trusted(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.gateway(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.Identity.check(), c.checkAsked())
	if _, err := prefixes("--proxy-protocol", c.HTTP.ProxyProtocol); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.HTTP.TLS.check("tls"), c.Admin.TLS.check("admin-tls"), c.GRPC.TLS.check("grpc-tls"), c.RESP.TLS.check("resp-tls"))
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
