package ratelimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

const statisticsPage = "../../../docs/how-to/envoy-ratelimit.md"

// TestPageHasEveryStatistic: each statistic that the code names to a stats.Scope is in the table of
// docs/how-to/envoy-ratelimit.md. Where a name is not written at the call itself, every text in
// that function is one.
func TestPageHasEveryStatistic(t *testing.T) {
	page := statistics(t)
	found := 0
	for _, folder := range []string{".", "../envoy/stats"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				for _, statistic := range statisticsIn(d) {
					found++
					if !regexp.MustCompile("[`.]" + regexp.QuoteMeta(strings.TrimLeft(statistic, ".")) + "`").MatchString(page) {
						t.Errorf("%s: %s is not in %s", name, statistic, statisticsPage)
					}
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d statistics were found: does the test still find all?", found)
	}
}

// statistics returns the section of the page.
func statistics(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(statisticsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Statistics\n")
	if !ok {
		t.Fatal("the page has no section about statistics")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// makers are the methods that take the name of a statistic, and its function that writes one.
var makers = []string{"Counter", "CounterTagged", "Gauge", "Timer", "counter", "gauge", "timer", "full", "each"}

// statisticsIn returns the names of statistics in a declaration.
func statisticsIn(d ast.Decl) (names []string) {
	function, ok := d.(*ast.FuncDecl)
	if !ok {
		return nil
	}
	if function.Name.Name == "each" { // of stats.RateLimit
		return texts(function.Body)
	}
	ast.Inspect(function, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); !ok || !slices.Contains(makers, s.Sel.Name) {
			return true
		}
		if of := texts(call.Args[0]); len(of) > 0 {
			names = append(names, of...)
		} else {
			names = append(names, texts(function.Body)...)
		}
		return true
	})
	// Of the functions that only pass names on, what joins their parts.
	return slices.DeleteFunc(names, func(s string) bool { return !strings.ContainsFunc(s, isLetter) })
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// texts returns the literal strings in a node.
func texts(n ast.Node) (all []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			s, _ := strconv.Unquote(l.Value)
			all = append(all, s)
		}
		return true
	})
	return all
}

// TestPageHasEverySeries: a series of Prometheus that the mapping built in names is in the table.
// The others have the statistic's own name.
func TestPageHasEverySeries(t *testing.T) {
	sink, err := stats.NewPrometheus(stats.PrometheusOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := stats.New(stats.Options{Sink: sink})
	limit, service, server := s.RateLimit("D.a.b"), s.Service(), s.TopScope("ratelimit_server")
	for _, c := range []*stats.Counter{
		&limit.TotalHits, &limit.OverLimit, &limit.NearLimit, &limit.OverLimitWithLocalCache, &limit.WithinLimit, &limit.ShadowMode, &limit.NegativeHits,
		service.ConfigLoadSuccess, service.ConfigLoadError, service.GlobalShadowMode, service.RedisError, service.ServiceError,
		server.Counter("ShouldRateLimit.total_requests"),
	} {
		c.Inc()
	}
	server.Timer("ShouldRateLimit.response_time").Observe(1)
	s.Flush()
	w := httptest.NewRecorder()
	sink.Handler(s.FlushTimers).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	page, mapped := statistics(t), 0
	own := regexp.MustCompile(`_(over_limit_with_local_cache|total_negative_hits|global_shadow_mode)$`)
	alike := regexp.MustCompile(`^(ratelimit_service_rate_limit)_(near_limit|over_limit|within_limit|shadow_mode)$`)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+)`).FindAllStringSubmatch(w.Body.String(), -1) {
		name := alike.ReplaceAllString(m[1], "${1}_total_hits")
		if own.MatchString(name) || regexp.MustCompile(`^(go|process|promhttp)_`).MatchString(name) {
			continue
		}
		mapped++
		if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "`"+strings.TrimPrefix(name, "ratelimit_service_")+"`") {
			t.Errorf("the page has no series %s", name)
		}
	}
	if mapped < 10 {
		t.Errorf("%d series are mapped", mapped)
	}
}
