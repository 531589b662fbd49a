package grpclimit_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	grpclimit "github.com/weirlimit/weir/middleware/grpc"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// Rules that do not have the domain that is asked by default would limit nobody.
func TestDomainOfTheRules(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	set, err := rules.Parse("r.yaml", []byte("domain: shop\ndescriptors: [{key: remote_address, limit: 1/minute}]\n"), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(store, set, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := grpclimit.New(grpclimit.Options{Limiter: l}); err == nil || !strings.Contains(err.Error(), `no domain "api"`) {
		t.Errorf("by default: %v", err)
	}
	if _, err := grpclimit.New(grpclimit.Options{Limiter: l, Domain: "shop"}); err != nil {
		t.Errorf("by its name: %v", err)
	}
	if _, err := grpclimit.NewClient(grpclimit.ClientOptions{Limiter: l}); err == nil || !strings.Contains(err.Error(), `no domain "outgoing"`) {
		t.Errorf("outgoing, by default: %v", err)
	}
	if _, err := grpclimit.NewClient(grpclimit.ClientOptions{Limiter: l, Domain: "shop"}); err != nil {
		t.Errorf("outgoing, by its name: %v", err)
	}
}
