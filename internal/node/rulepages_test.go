package node

import (
	"encoding/json"
	"testing"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestRulesInPages: the pages of the rules are the rules, each once and in their order.
func TestRulesInPages(t *testing.T) {
	conf := config.Defaults()
	conf.Rules = servertest.File(t, "rules.yaml", saasRules)
	s, _ := startNode(t, conf)
	all, pages := describe(t, s, 0, 0), []describedRule{}
	for after, more := 0, true; more; {
		page := describe(t, s, after, 2)
		if len(page.Rules) == 0 || len(page.Rules) > 2 {
			t.Fatalf("a page behind %d has %d rules", after, len(page.Rules))
		}
		pages = append(pages, page.Rules...)
		if more = page.After != nil; more {
			after = *page.After
		}
	}
	if len(all.Rules) < 5 || all.After != nil || len(pages) != len(all.Rules) {
		t.Fatalf("%d rules, %d in pages", len(all.Rules), len(pages))
	}
	for i := range pages {
		if pages[i].Rule != all.Rules[i].Rule {
			t.Errorf("%d: %s, want %s", i, pages[i].Rule, all.Rules[i].Rule)
		}
	}
	if got := describe(t, s, len(pages)+1, 2); len(got.Rules) > 0 || got.After != nil {
		t.Errorf("behind the last: %+v", got)
	}
}

func describe(t *testing.T, s *Server, after, size int) (book rulebook) {
	t.Helper()
	data, err := json.Marshal(s.rules.Describe(after, size))
	if err == nil {
		err = json.Unmarshal(data, &book)
	}
	if err != nil {
		t.Fatal(err)
	}
	return book
}
