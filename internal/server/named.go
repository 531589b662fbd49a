package server

import (
	"errors"
	"log/slog"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// named is what a configuration names, read as a start reads it.
type named struct {
	who   *identity.Resolver // nil where its files cannot be read
	words *wordLimits
	// set is empty without rules files, nil where they do not load.
	set *limits.Set
	// found is what is wrong with the rules files, err with anything else.
	found rules.Errors
	err   error
}

// readNamed reads what c names. Nothing is opened that a node would serve by.
func readNamed(c *Config) *named {
	n := &named{err: readFiles(c)}
	bad := func(err error) *named {
		n.err = errors.Join(n.err, err)
		return n
	}
	var err error
	if n.who, err = c.checkIdentity(); err != nil {
		return bad(err)
	}
	check, err := c.checkLimit()
	if err != nil {
		return bad(err)
	}
	var unknown error // sources of limits in words, which plans would report again
	if n.words, err = readWords(c, check); err != nil {
		bad(err)
	} else if unknown = checkSources(n.words, c, n.who); unknown != nil {
		bad(unknown)
	}
	if _, err := openShed(c.Shed, check); err != nil {
		bad(err)
	}
	var layers []*limits.Layer
	if n.words != nil {
		layers = n.words.layers
	}
	if n.set = limits.NewSet(layers...); c.Rules != "" {
		n.set, n.found = rules.Check([]string{c.Rules}, rules.Options{Layers: layers, Check: check, CheckCost: c.checkCost(), EntryForm: n.who.EntryForm})
	}
	if _, err := c.gateway(); err == nil && unknown == nil && n.set != nil && c.makesDescriptors() { // else check reports it
		bad((&asks{conf: c, who: n.who, set: n.set}).plans())
	}
	return n
}

// close frees what was read.
func (n *named) close() {
	if n.who != nil {
		n.who.Close() // it fetches nothing
	}
}

// readFiles reads the secrets and certificates that c names.
func readFiles(c *Config) error {
	_, token := c.Admin.token()
	_, partitionKey := c.answer()
	errs := []error{token, partitionKey}
	if c.RESP.Listen != "" {
		_, err := c.RESP.password()
		errs = append(errs, err)
	}
	_, err := readSecret("api.reserve_key_file", c.API.ReserveKeyFile)
	errs = append(errs, err)
	certs := certificates{log: slog.New(slog.DiscardHandler)}
	for _, listener := range []struct {
		address string
		tls     TLS
	}{{c.HTTP.Listen, c.HTTP.TLS}, {c.Admin.Listen, c.Admin.TLS}, {c.GRPC.Listen, c.GRPC.TLS}, {c.RESP.Listen, c.RESP.TLS}} {
		if listener.address != "" {
			_, err := certs.open(listener.tls, "")
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkIdentity returns a resolver as a node would have it, which fetches no keys of
// tokens.
func (c *Config) checkIdentity() (*identity.Resolver, error) {
	who, _, err := c.Identity.open(nil, false)
	return who, err
}
