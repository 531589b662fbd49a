package report

import "github.com/weirlimit/weir/internal/insight/analytics/query"

// Prefix is before each path.
const Prefix = "/v1/analytics/"

// Question is what a path answers.
type Question struct {
	Path  string
	Takes query.Takes
	// Read reads rows, of one state of them, and returns what makes the answer of them. That
	// needs no connection, of which a database in memory has one. Nil for the path whose
	// answer is System.
	Read func(*query.Reader) (compute func() (any, error))
}

// readQuestion is a question whose answer is made while it is read.
func readQuestion[T any](path string, t query.Takes, report func(*query.Reader) T) Question {
	return Question{path, t, func(r *query.Reader) func() (any, error) {
		out := report(r)
		return func() (any, error) { return out, nil }
	}}
}

// ruleTakes and clientTakes are those of one rule and of one client, which two paths have each.
var (
	ruleTakes   = query.Takes{Filters: []string{"domain", "rule", "limit", "algorithm"}, Step: true, Ranged: true}
	clientTakes = query.Takes{Filters: append([]string{"key"}, query.LimitFilters...), Step: true, Clients: true, Ranged: true}
)

// ListQuestions returns what is answered.
func ListQuestions() []Question { return questions }

var questions = []Question{
	readQuestion("overview", query.Takes{Filters: query.AllFilters, Top: 5, Ranged: true}, reportOverview),
	readQuestion("series", query.Takes{Filters: query.AllFilters, By: []string{"outcome", "rule", "limit", "domain", "node", "region", "request"}, Step: true, Top: 10, Ranged: true}, reportSeries),
	readQuestion("top", query.Takes{Filters: query.LimitFilters, By: []string{"path", "tier", "agent", "network", "address", "user"}, Top: 50, Clients: true, Ranged: true}, reportTop),
	readQuestion("rules", query.Takes{Filters: query.LimitFilters, Sort: []string{"refused", "decisions", "share", "keys"}, Top: 500, Ranged: true}, reportRules),
	readQuestion("rule", ruleTakes, reportRule),
	readQuestion("rules/{domain}/{rule}", ruleTakes, reportRule),
	readQuestion("rates", query.Takes{Filters: query.ClientFilters, Top: 200, Clients: true, Ranged: true}, reportRates),
	readQuestion("clients", query.Takes{Filters: append([]string{"verdict"}, query.ClientFilters...), Clients: true, Top: 50, Ranged: true,
		Sort: []string{"refused", "decisions", "overshoot", "early", "last", "units"}}, reportClients),
	readQuestion("client", clientTakes, reportKey),
	readQuestion("clients/{key}", clientTakes, reportKey),
	{"accuracy", query.Takes{Filters: append([]string{"key"}, query.LimitFilters...), Clients: true, Ranged: true}, reportAccuracy},
	{"replay", query.Takes{Filters: []string{"domain", "rule", "limit", "key"}, Edits: true, Step: true, Top: 20, Ranged: true}, reportReplay},
	readQuestion("upstream", query.Takes{Filters: query.OriginFilters, Step: true, Ranged: true}, reportUpstream),
	readQuestion("latency", query.Takes{Filters: query.OriginFilters, Step: true, Ranged: true}, reportLatency),
	readQuestion("filters", query.Takes{Filters: query.LimitFilters, Top: 200, Ranged: true}, reportFilters),
	{Path: "system"},
}
