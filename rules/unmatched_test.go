package rules_test

import (
	"errors"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// A rule that lets pass exempts what it is met by: a Limiter's Take is then no mistake.
func TestTakeByRulesThatExempt(t *testing.T) {
	for text, want := range map[string]error{
		"{key: key, limit: unlimited}":        nil,
		"{key: key, limit: 5/minute}":         nil,
		"{key: client_id, limit: 5/minute}":   weir.ErrNoKey,
		"{key: key, value: x, limit: 5/hour}": weir.ErrNoKey,
	} {
		// Take asks the empty domain, which a file cannot have: the rules are asked
		// by a limiter of their own domain.
		set, err := rules.Parse("t.yaml", []byte("domain: api\ndescriptors:\n  - "+text+"\n"), rules.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store := memory.New(memory.Options{})
		l, err := weir.New(store, inDomain{set, "api"}, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.Take(t.Context(), "k", 1); !errors.Is(err, want) || want == nil && !d.Allowed() {
			t.Errorf("%s: got %v, %v, want %v", text, d, err, want)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// inDomain asks rules in one domain.
type inDomain struct {
	*limits.Set
	domain string
}

func (i inDomain) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	r.Domain = i.domain
	return i.Set.Match(dst, r)
}

func (i inDomain) Exempts(r *weir.Request) bool {
	r.Domain = i.domain
	return i.Set.Exempts(r)
}
