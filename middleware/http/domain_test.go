package httplimit_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// Rules that do not have the domain that is asked by default would limit nobody.
func TestDomainOfTheRules(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	for _, c := range []struct{ rules, domain, wrong string }{
		{"api", "", ""}, {"shop", "shop", ""}, {"shop", "api", ""}, {"", "", ""},
		{"shop", "", `no domain "api", which is asked unless Options.Domain names another: set it to one of theirs (shop)`},
	} {
		var r weir.Rules = weir.Limits{}
		if c.rules != "" {
			set, err := rules.Parse("r.yaml", []byte("domain: "+c.rules+"\ndescriptors: [{key: remote_address, limit: 1/minute}]\n"), rules.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r = set
		}
		l, err := weir.New(store, r, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = httplimit.New(httplimit.Options{Limiter: l, Domain: c.domain})
		if c.wrong == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
