package envoy

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dropInRules have two a year of everything that an action makes, and one of some.
var dropInRules = func() string {
	text := "domain: d\ndescriptors:\n  - {key: free}\n"
	for _, key := range []string{"generic_key", "own", "source_cluster", "destination_cluster", "remote_address", "masked_remote_address", "header_match", "query_match", "user", "query", "meta", "expr", "remote_address_match"} {
		text += "  - key: " + key + "\n    rate_limit: {name: of_" + key + ", unit: year, requests_per_unit: 2}\n"
	}
	return text + `  - key: plan
    value: gold
    rate_limit: {unit: year, requests_per_unit: 4}
    descriptors:
      - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
`
}()

// dropIn is a configuration under which both services are to be asked alike.
type dropIn struct {
	setup
	// open: nothing is refused under it.
	open bool
	// everywhere: it is asked in every environment, not only in the plain one.
	everywhere bool
	// differs are words of the row of the page by which the services differ under it.
	differs string
}

// byRoute asks for rate limits in the older place, the only one for some of their fields.
func byRoute(limits ...any) setup {
	return setup{filters: list{rateLimitFilter("d", nil)}, routes: list{toApplication(object{"rate_limits": list(limits)}, nil)}}
}

// byFilter asks for them in the filter's own list.
func byFilter(limits ...any) setup {
	return setup{filters: list{rateLimitFilter("d", object{"rate_limits": list(limits)})}}
}

// filtered asks for a limit by x-user with further fields of the filter.
func filtered(more object) setup {
	return setup{filters: list{rateLimitFilter("d", more)}, routes: list{toApplication(object{"rate_limits": list{actions(byHeader("x-user", "user"))}}, nil)}}
}

func actions(a ...any) object { return object{"actions": list(a)} }

// with adds fields to an object.
func with(o object, more object) object {
	o = maps.Clone(o)
	maps.Copy(o, more)
	return o
}

func generic(key, value string) object {
	g := object{"descriptor_value": value}
	if key != "" {
		g["descriptor_key"] = key
	}
	return object{"generic_key": g}
}

func percent(n int) object {
	return object{"default_value": object{"numerator": n, "denominator": "HUNDRED"}}
}

// knowing is a filter that sets dynamic metadata.
func knowing(value object) object {
	return object{"name": "envoy.filters.http.set_metadata", "typed_config": typed("envoy.extensions.filters.http.set_metadata.v3.Config", object{
		"metadata": list{object{"metadata_namespace": "known", "value": value}}})}
}

func path(names ...string) object {
	var p list
	for _, n := range names[1:] {
		p = append(p, object{"key": n})
	}
	return object{"key": names[0], "path": p}
}

// filterState is a filter that sets an object of the filter state.
func filterState(key, factory, value string) object {
	return object{"name": "envoy.filters.http.set_filter_state", "typed_config": typed("envoy.extensions.filters.http.set_filter_state.v3.Config", object{
		"on_request_headers": list{object{"object_key": key, "factory_key": factory, "format_string": object{"text_format_source": object{"inline_string": value}}}}})}
}

// perRoute asks by the fields of a route, and by those of its virtual host too.
func perRoute(fields object, action object, host ...any) setup {
	return setup{filters: list{rateLimitFilter("d", nil)}, host: object{"rate_limits": list(host)}, routes: list{toApplication(action,
		object{"typed_per_filter_config": object{"envoy.filters.http.ratelimit": typed(kindPerRoute, fields)}})}}
}

// header matches a field by its beginning.
func header(name, prefix string) object {
	return object{"name": name, "string_match": object{"prefix": prefix}}
}

// dropIns are every kind of action, hit, override, stage, mode and field of the filter by
// which Envoy asks.
func dropIns() map[string]dropIn {
	user, gold := byHeader("x-user", "user"), generic("plan", "gold")
	override := func(value object) setup {
		s := byRoute(with(actions(user), object{"limit": object{"dynamic_metadata": object{"metadata_key": path("known", "limit")}}}))
		s.filters = append(list{knowing(object{"limit": value})}, s.filters...)
		return s
	}
	stages := setup{
		filters: list{rateLimitFilter("d", nil), rateLimitFilter("d", object{"stage": 1})},
		routes: list{toApplication(object{"rate_limits": list{
			actions(generic("free", "x")), with(actions(user), object{"stage": 1})}}, nil)},
	}
	stages.filters[1].(object)["name"] = "second"
	all := map[string]dropIn{
		"source_cluster":              {setup: byRoute(actions(object{"source_cluster": object{}}))},
		"destination_cluster":         {setup: byRoute(actions(object{"destination_cluster": object{}}))},
		"request_headers":             {setup: byRoute(actions(user))},
		"skip_if_absent":              {setup: byRoute(actions(generic("", "x"), object{"request_headers": object{"header_name": "x-none", "descriptor_key": "none", "skip_if_absent": true}}))},
		"query_parameters":            {setup: byRoute(actions(object{"query_parameters": object{"query_parameter_name": "q", "descriptor_key": "query"}}))},
		"remote_address":              {setup: byRoute(actions(object{"remote_address": object{}}))},
		"masked_remote_address":       {setup: byRoute(actions(object{"masked_remote_address": object{"v4_prefix_mask_len": 8}}))},
		"remote_address_match":        {setup: byRoute(actions(object{"remote_address_match": object{"address_matcher": object{"ranges": list{object{"address_prefix": "0.0.0.0", "prefix_len": 0}}}, "descriptor_value": "all", "descriptor_key": "own"}}))},
		"generic_key":                 {setup: byRoute(actions(generic("", "x")))},
		"generic_key of a key":        {setup: byRoute(actions(generic("own", "x")))},
		"header_value_match":          {setup: byRoute(actions(object{"header_value_match": object{"descriptor_value": "x", "headers": list{header("x-user", "a")}}}))},
		"header_value_match, not":     {setup: byRoute(actions(object{"header_value_match": object{"descriptor_value": "x", "expect_match": false, "headers": list{header("x-user", "nobody")}}}))},
		"query_parameter_value_match": {setup: byRoute(actions(object{"query_parameter_value_match": object{"descriptor_value": "x", "query_parameters": list{object{"name": "q", "string_match": object{"prefix": "1"}}}}}))},
		"metadata of the route": {setup: setup{filters: list{rateLimitFilter("d", nil)}, routes: list{toApplication(
			object{"rate_limits": list{actions(object{"metadata": object{"descriptor_key": "meta", "source": "ROUTE_ENTRY", "metadata_key": path("known", "plan")}})}},
			object{"metadata": object{"filter_metadata": object{"known": object{"plan": "gold"}}}})}}},
		"metadata of filters":     {setup: prepended(byRoute(actions(object{"metadata": object{"descriptor_key": "meta", "metadata_key": path("known", "plan", "name")}})), knowing(object{"plan": object{"name": "gold"}}))},
		"metadata, default value": {setup: byRoute(actions(object{"metadata": object{"descriptor_key": "meta", "metadata_key": path("known", "plan"), "default_value": "none"}}))},
		"dynamic_metadata": {setup: deprecated(prepended(byRoute(actions(object{"dynamic_metadata": object{"descriptor_key": "meta", "metadata_key": path("known", "plan")}})), knowing(object{"plan": "gold"})),
			"envoy.config.route.v3.RateLimit.Action.dynamic_metadata")},
		"extension expr": {setup: byRoute(actions(object{"extension": object{"name": "envoy.rate_limit_descriptors.expr", "typed_config": typed(
			"envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor", object{"descriptor_key": "expr", "text": "request.method"})}}))},
		"two entries":                {setup: byRoute(actions(gold, user))},
		"two descriptors":            {setup: byRoute(actions(gold), actions(user)), everywhere: true},
		"an action without one":      {setup: byRoute(actions(byHeader("x-none", "user"))), open: true},
		"no rule":                    {setup: byRoute(actions(generic("unknown", "x"))), open: true},
		"no limit":                   {setup: byRoute(actions(generic("free", "x"))), open: true},
		"shadow":                     {setup: byRoute(actions(generic("shadow", "x"))), open: true, everywhere: true},
		"hits by number":             {setup: byFilter(with(actions(gold), object{"hits_addend": object{"number": 3}}))},
		"hits by format":             {setup: byFilter(with(actions(gold), object{"hits_addend": object{"format": "%REQ(X-COST)%"}}))},
		"hits of a field's metadata": {setup: prepended(byFilter(with(actions(gold), object{"hits_addend": object{"format": "%DYNAMIC_METADATA(known:cost)%"}})), knowing(object{"cost": 3}))},
		"hits of the filter state":   {setup: prepended(byFilter(with(actions(gold), object{"hits_addend": object{"format": "%FILTER_STATE(cost:PLAIN)%"}})), filterState("cost", "envoy.string", "3"))},
		"hits of the request":        {setup: prepended(byRoute(actions(gold)), filterState("envoy.ratelimit.hits_addend", "envoy.ratelimit.hits_addend", "3"))},
		"hits that are no number":    {setup: byFilter(with(actions(gold), object{"hits_addend": object{"format": "%REQ(X-USER)%"}})), open: true},
		"hits given back":            {setup: byFilter(actions(gold), with(actions(gold), object{"hits_addend": object{"number": 1, "is_negative_hits": true}})), differs: "`is_negative_hits`", open: true},
		"hits of none":               {setup: byFilter(with(actions(gold), object{"hits_addend": object{"number": 0}})), open: true, everywhere: true},
		"override":                   {setup: override(object{"requests_per_unit": 3, "unit": "YEAR"}), everywhere: true},
		"override, by the hour":      {setup: told(override(object{"requests_per_unit": 3, "unit": "HOUR"}))},
		"override by months":         {setup: told(override(object{"requests_per_unit": 3, "unit": "MONTH", "unit_multiplier": 2}))},
		"override of nothing":        {setup: override(object{"requests_per_unit": 0, "unit": "HOUR"})},
		"override that is none":      {setup: override(object{"requests_per_unit": "many"})},
		"stages":                     {setup: stages, everywhere: true},
		"disable_key":                {setup: byRoute(with(actions(user), object{"disable_key": "off"}))},
		"virtual host":               {setup: setup{filters: list{rateLimitFilter("d", nil)}, host: object{"rate_limits": list{actions(user)}}}},
		"both, included":             {setup: perRoute(object{"vh_rate_limits": "INCLUDE"}, object{"rate_limits": list{actions(gold)}}, actions(user))},
		"both, by the older field":   {setup: perRoute(nil, object{"rate_limits": list{actions(gold)}, "include_vh_rate_limits": true}, actions(user))},
		"both, overridden":           {setup: perRoute(object{"vh_rate_limits": "OVERRIDE"}, object{"rate_limits": list{actions(generic("free", "x"))}}, actions(user)), open: true},
		"one, not overridden":        {setup: perRoute(object{"vh_rate_limits": "OVERRIDE"}, nil, actions(user))},
		"the host's, ignored":        {setup: perRoute(object{"vh_rate_limits": "IGNORE"}, nil, actions(user)), open: true},
		"per route, included":        {setup: perRoute(object{"vh_rate_limits": "INCLUDE", "rate_limits": list{actions(gold)}}, nil, actions(user))},
		"override of the route":      {setup: perRoute(object{"override_option": "OVERRIDE_POLICY", "rate_limits": list{actions(generic("free", "x"))}}, object{"rate_limits": list{actions(user)}}), open: true},
		"per route, domain": {setup: setup{filters: list{rateLimitFilter("nowhere", nil)}, routes: list{toApplication(nil, object{"typed_per_filter_config": object{
			"envoy.filters.http.ratelimit": typed(kindPerRoute, object{"domain": "d", "rate_limits": list{actions(user)}})}})}}},
		"after the response":       {setup: byFilter(actions(gold), with(actions(gold), object{"apply_on_stream_done": true, "hits_addend": object{"number": 2}}))},
		"internal requests":        {setup: filtered(object{"request_type": "internal"}), open: true},
		"external requests":        {setup: filtered(object{"request_type": "external"})},
		"another status":           {setup: filtered(object{"rate_limited_status": object{"code": "ServiceUnavailable"}})},
		"further fields":           {setup: filtered(object{"response_headers_to_add": list{object{"header": object{"key": "x-more", "value": "yes"}}}, "disable_x_envoy_ratelimited_header": true})},
		"x-ratelimit fields":       {setup: filtered(object{"enable_x_ratelimit_headers": "DRAFT_VERSION_03"}), everywhere: true},
		"retry-after":              {setup: filtered(object{"enable_retry_after_header": true})},
		"resource exhausted":       {setup: filtered(object{"rate_limited_as_resource_exhausted": true})},
		"the filter is off":        {setup: filtered(object{"filter_enabled": percent(0)}), open: true},
		"the filter is not strict": {setup: filtered(object{"filter_enforced": percent(0)}), open: true},
		"denied on failure":        {setup: filtered(object{"failure_mode_deny": true, "status_on_error": object{"code": "BadGateway"}})},
		"a limit of Envoy's too": {setup: prepended(byRoute(actions(user)), object{"name": "envoy.filters.http.local_ratelimit", "typed_config": typed("envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit", object{
			"stat_prefix": "own", "token_bucket": object{"max_tokens": 4, "fill_interval": "86400s"}, "filter_enabled": percent(100), "filter_enforced": percent(100)})})},
		"a domain that is empty": {setup: setup{filters: list{rateLimitFilter("nowhere", nil)}, host: object{"rate_limits": list{actions(user)}}}, open: true},
	}
	return all
}

// told has Envoy tell clients the limits that it was answered.
func told(s setup) setup {
	s.filters[len(s.filters)-1].(object)["typed_config"].(object)["enable_x_ratelimit_headers"] = "DRAFT_VERSION_03"
	return s
}

// deprecated lets Envoy take what it warns of.
func deprecated(s setup, feature string) setup {
	s.top = object{"layered_runtime": object{"layers": list{object{"name": "old", "static_layer": object{"envoy.deprecated_features:" + feature: true}}}}}
	return s
}

// prepended puts filters before those of s.
func prepended(s setup, filters ...any) setup {
	s.filters = append(list(filters), s.filters...)
	return s
}

// untold are fields that differ between two runs of one service.
var untold = []string{"Date", "X-Envoy-Upstream-Service-Time"}

var reset = regexp.MustCompile(`\b\d{5,}\b`)

// transcript is what clients, the application and Envoy see of some requests.
func (p *proxy) transcript(t testing.TB, app *application) string {
	t.Helper()
	var text strings.Builder
	app.requests()
	for i := range 6 {
		client, more := http.DefaultClient, []string{"X-User", "ann", "X-Cost", "2"}
		switch i {
		case 2:
			client = h2
		case 4:
			more = []string{"X-User", "bob", "X-Cost", "0", "X-Envoy-Internal", "true"}
		case 5:
			more = append(more, "Content-Type", "application/grpc")
		}
		res := p.do(t, client, "GET", "/a?q=1", "", more...)
		for _, name := range untold {
			res.Header.Del(name)
		}
		// Both services are not asked at the same second: of a window that ends soon the end
		// is told, of others no second.
		if left, err := strconv.Atoi(res.Header.Get("X-Ratelimit-Reset")); err == nil && left < 10_000 {
			end := time.Now().Add(time.Duration(left) * time.Second)
			res.Header.Set("X-Ratelimit-Reset", end.Round(time.Minute).Format(time.TimeOnly))
		}
		fmt.Fprintf(&text, "%d %v %q\n", res.code, res.Header, res.body)
	}
	for _, r := range app.requests() {
		for _, name := range []string{"X-Request-Id", "X-Forwarded-For", "X-Envoy-Expected-Rq-Timeout-Ms", "Te"} {
			r.Header.Del(name)
		}
		fmt.Fprintf(&text, "application: %s %v\n", r.RequestURI, r.Header)
	}
	for _, name := range []string{"ok", "over_limit", "error", "failure_mode_allowed"} {
		if stat := strings.TrimSpace(p.ask(t, "/stats?filter=^cluster.application.ratelimit."+name+"$")); stat != "" {
			fmt.Fprintln(&text, stat)
		}
	}
	return reset.ReplaceAllString(text.String(), "SECONDS")
}

// Through Envoy both services are one: what clients, the application and Envoy's
// statistics see of every kind of action, hit, override, stage, mode and field of the
// filter, in environments that change what they answer. Quotas are left out: the reference
// refuses by them only since it was built here last (tools/ratelimit).
func TestDropInThroughEnvoy(t *testing.T) {
	processes(t)
	root := folderOf(writeFile(t, "config/d.yaml", dropInRules))
	cases := dropIns()
	text, err := os.ReadFile("../../" + pageRateLimit)
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "## Different responses")
	for name, env := range map[string][]string{
		"plain":               nil,
		"fields and metadata": {"LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true", "LOCAL_CACHE_SIZE_IN_BYTES=1000000"},
		"stop":                {"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"},
		"shadow":              {"SHADOW_MODE=true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// asked are the kinds of this environment, heard what is heard behind each service.
			asked := slices.DeleteFunc(slices.Sorted(maps.Keys(cases)), func(kind string) bool { return name != "plain" && !cases[kind].everywhere })
			heard := [2]map[string]string{{}, {}}
			programs := [][]string{{command, "ratelimit"}, {builtRateLimit(t)}}
			t.Run("behind", func(t *testing.T) {
				for i, argv := range programs {
					t.Run([]string{"weir", "reference"}[i], func(t *testing.T) {
						t.Parallel()
						app, s := serveApplication(t), startRateLimit(t, argv, root, env...)
						for _, kind := range asked {
							e := startEnvoy(t, cases[kind].bootstrap(t), map[int]string{portApplication: app.addr, portWeirGRPC: s.addr})
							said := e.transcript(t, app)
							keys := fmt.Sprint(s.redis.Do(t, "KEYS", "*"))
							heard[i][kind] = said + fmt.Sprintln("counters:", len(strings.Fields(keys)))
							if err := e.Signal(syscall.SIGKILL); err != nil {
								t.Fatal(err)
							}
							s.redis.Do(t, "FLUSHALL")
						}
					})
				}
			})
			for _, kind := range asked {
				c, said := cases[kind], [2]string{heard[0][kind], heard[1][kind]}
				if same := said[0] == said[1]; same == (c.differs != "") || !strings.Contains(page, c.differs) {
					t.Errorf("%s: the page says that %q differs: behind weir\n%s\nbehind the reference\n%s", kind, c.differs, said[0], said[1])
				}
				if refused := strings.Contains(said[0], "over_limit: ") && !strings.Contains(said[0], "over_limit: 0"); name == "plain" && refused == c.open && kind != "the filter is not strict" {
					t.Errorf("%s: refused %v:\n%s", kind, refused, said[0])
				}
			}
		})
	}
}
