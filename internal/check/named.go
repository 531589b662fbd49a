package check

import (
	"errors"
	"log/slog"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// named is what a configuration names, read as a start reads it.
type named struct {
	who   *identity.Resolver // nil where its files cannot be read
	words *config.WordLimits
	// set is empty without rules files, nil where they do not load.
	set *limits.Set
	// found is what is wrong with the rules files, err with anything else.
	found rules.Errors
	err   error
}

// readNamed reads what c names. Nothing is opened that a node would serve by.
func readNamed(c *config.Config) *named {
	n := &named{err: readFiles(c)}
	bad := func(err error) *named {
		n.err = errors.Join(n.err, err)
		return n
	}
	var err error
	if n.who, _, err = c.Identity.OpenResolver(nil, false); err != nil {
		return bad(err)
	}
	check, err := c.LimitCheck()
	if err != nil {
		return bad(err)
	}
	var unknown error // sources of limits in words, which plans would report again
	if n.words, err = config.ReadWords(c, check); err != nil {
		bad(err)
	} else if unknown = FindUnknownSource(n.words, c, n.who); unknown != nil {
		bad(unknown)
	}
	if _, err := config.OpenShedder(c.Shed, check); err != nil {
		bad(err)
	}
	var layers []*limits.Layer
	if n.words != nil {
		layers = n.words.Layers
	}
	if n.set = limits.NewSet(layers...); c.Rules != "" {
		n.set, n.found = rules.Check([]string{c.Rules}, rules.Options{Layers: layers, Check: check, CheckCost: c.CostCheck(), EntryForm: n.who.EntryForm})
	}
	if _, err := c.GatewayOptions(); err == nil && unknown == nil && n.set != nil && c.MakesDescriptors() { // else check reports it
		bad((&Plan{conf: c, who: n.who, Set: n.set}).makePlans())
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
func readFiles(c *config.Config) error {
	_, token := c.Admin.ReadToken()
	_, partitionKey := c.OpenAnswerWriter()
	errs := []error{token, partitionKey}
	if c.RESP.Listen != "" {
		_, err := c.RESP.ReadPassword()
		errs = append(errs, err)
	}
	_, err := config.ReadSecret("api.reserve_key_file", c.API.ReserveKeyFile)
	errs = append(errs, err)
	for _, listener := range []struct {
		address string
		tls     config.TLS
	}{{c.HTTP.Listen, c.HTTP.TLS}, {c.Admin.Listen, c.Admin.TLS}, {c.GRPC.Listen, c.GRPC.TLS}, {c.RESP.Listen, c.RESP.TLS}} {
		if listener.address != "" {
			_, err := listener.tls.OpenCertificate("", slog.New(slog.DiscardHandler))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
