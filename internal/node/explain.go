package node

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
)

// Explained is what the gateway would do with a request.
type Explained struct {
	// Method, Host and Path are canonical, as rules and routes see them. They are
	// empty where they cannot be read.
	Method string `json:"method"`
	Host   string `json:"host"`
	Path   string `json:"path"`
	// Client is the address of the client, User and Tier are verified. Empty means that
	// none is known.
	Client string `json:"client"`
	User   string `json:"user,omitempty"`
	Tier   string `json:"tier,omitempty"`
	// Route is nil for requests that no route matches.
	Route *ExplainedRoute `json:"route"`
	// Upstream is where the request is forwarded to if the limits allow it.
	Upstream string `json:"upstream,omitempty"`
	// Status and Detail are the response to a request that is not forwarded whatever the
	// limits say. Zero for most.
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Unlimited: the route asks no limit.
	Unlimited   bool                  `json:"unlimited"`
	Priority    int                   `json:"priority"`
	Descriptors []ExplainedDescriptor `json:"descriptors"`
	// Limits are all that the request meets: of rules files, in words, of load shedding.
	Limits []ExplainedLimit `json:"limits"`
	// Rules says why, of the rules files. Nil without any.
	Rules *limits.Explanation `json:"rules"`
	// Notes say what of the request is not believed, or cannot be known here.
	Notes []string `json:"notes,omitempty"`
	// FileLimits are the limits of the rules files.
	FileLimits []*weir.Limit `json:"-"`
}

// ExplainedRoute is a route of the configuration.
type ExplainedRoute struct {
	// Number counts from 1.
	Number int    `json:"number"`
	Name   string `json:"name,omitempty"`
	Host   string `json:"host,omitempty"`
	Path   string `json:"path,omitempty"`
}

// ExplainedDescriptor is what a limit may be matched by.
type ExplainedDescriptor struct {
	Entries []weir.Entry `json:"entries"`
	// Cost in units. Zero means that of the request.
	Cost int64 `json:"cost,omitempty"`
}

// ExplainedLimit is one limit that a request meets.
type ExplainedLimit struct {
	Name string `json:"name"`
	// Key names the counter under the limit, Cost is in units.
	Key  string `json:"key"`
	Cost int64  `json:"cost"`
	// OfRules: Explained.Rules says why the limit applies.
	OfRules bool `json:"-"`
}

// ExplainRequest says what the gateway of c would do with r, of which it reads no body. The
// peer is r.RemoteAddr. It counts nothing and asks no other machine. It returns the error that a
// start of the node would end with, or that there is no gateway.
func ExplainRequest(c *config.Config, r *http.Request) (*Explained, error) {
	t, err := OpenTrial(c)
	if err != nil {
		return nil, err
	}
	return explainBy(t.s, t.gw, r), t.Close()
}

// explainBy says what the gateway would do with r.
func explainBy(s *Server, gw *gateway.Gateway, r *http.Request) *Explained {
	c, req := s.identity.Acquire(), &weir.Request{} // never released: what is returned points into them
	asked := gw.FillRequest(req, r, c)
	path, _ := c.Path() // empty where it cannot be read, which asked.Problem says
	x := &Explained{Method: c.Method(), Host: c.Host(), Path: path, Upstream: asked.Upstream, Unlimited: asked.Unlimited,
		Descriptors: []ExplainedDescriptor{}, Limits: []ExplainedLimit{}, FileLimits: s.rules.fileLimits()}
	if a := c.Address(); a.IsValid() {
		x.Client = a.String()
	}
	if i := asked.Route; i >= 0 {
		rt := &s.conf.Routes[i]
		x.Route = &ExplainedRoute{Number: i + 1, Name: rt.Name, Host: rt.Host, Path: rt.Path}
	}
	if p := asked.Problem; p != nil {
		x.Status, x.Detail = p.Status, p.Detail
	} else {
		x.User, x.Tier = c.User(), c.Tier()
		if !x.Unlimited {
			explainLimits(s, x, req)
		}
	}
	x.Notes = explainDoubts(s, x)
	return x
}

// explainLimits says which limits req meets.
func explainLimits(s *Server, x *Explained, req *weir.Request) {
	x.Priority = req.Priority
	for _, op := range s.limiter.Rules().Match(nil, req) {
		if op.Limit == nil { // a list of the rules decides
			continue
		}
		ofRules := slices.Contains(x.FileLimits, op.Limit) || slices.Contains(x.FileLimits, op.Of)
		x.Limits = append(x.Limits, ExplainedLimit{Name: op.Limit.Name, Key: op.Key, Cost: op.Cost, OfRules: ofRules})
	}
	// What limits of the route are matched by is no descriptor that anybody wrote.
	req.Descriptors = slices.DeleteFunc(req.Descriptors, func(d weir.Descriptor) bool { return len(d.Entries) > 0 && d.Entries[0].Key == words.RouteKey })
	for i := range req.Descriptors {
		x.Descriptors = append(x.Descriptors, ExplainedDescriptor{req.Descriptors[i].Entries, req.Descriptors[i].Cost})
	}
	if s.rules.hasFiles {
		req.Lease = "request" // what is made up for each request is no part of the reason
		x.Rules = s.rules.currentLimits().Explain(req)
		x.Rules.Limits = nil // x has them
	}
}

// explainDoubts says what of the request is not believed, or cannot be known without a
// node.
func explainDoubts(s *Server, x *Explained) (notes []string) {
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	url := s.conf.WithoutSecrets().Identity.JWT.URL
	for _, f := range s.identity.Failures() {
		switch {
		case f.Count == 0, f.Kind == "path": // which x.Detail says
		case f.Kind == "jwt" && url != "":
			add("the token is not verified, as its keys are fetched from %s: no user, tier or claim of it is known here", url)
		default:
			add("%s is not believed: %s", f.Kind, f.Reason)
		}
	}
	for _, f := range s.identity.UntrustedFields() {
		if f.Requests > 0 {
			add("%s is ignored: %s is not in identity.proxies.trusted", f.Field, x.Client)
		}
	}
	if s.conf.Identity.APIKey.SecretFile == "" && slices.ContainsFunc(x.Descriptors, hasAPIKey) {
		add("the hash of the API key is of this process only, as there is no identity.api_key.secret_file")
	}
	return notes
}

func hasAPIKey(d ExplainedDescriptor) bool {
	return slices.ContainsFunc(d.Entries, func(e weir.Entry) bool { return e.Key == "api_key" })
}
