package envoy

import (
	"strings"
	"testing"

	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

func resource(name, domain string, ds ...*rlsconfv3.RateLimitDescriptor) *rlsconfv3.RateLimitConfig {
	return &rlsconfv3.RateLimitConfig{Name: name, Domain: domain, Descriptors: ds}
}

func policy(unit rlsconfv3.RateLimitUnit, n uint32) *rlsconfv3.RateLimitPolicy {
	return &rlsconfv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: n}
}

func TestXDS(t *testing.T) {
	s := New(Options{Now: func() int64 { return 1_700_000_000 }, Modes: Modes{DynamicMetadata: true}})
	metadata, err := structpb.NewStruct(map[string]any{"x": 1, "y": "z"})
	if err != nil {
		t.Fatal(err)
	}
	inner := &rlsconfv3.RateLimitDescriptor{Key: "b", RateLimit: policy(rlsconfv3.RateLimitUnit_HOUR, 2), ShadowMode: true, Metadata: metadata}
	outer := &rlsconfv3.RateLimitDescriptor{Key: "a", Value: "v", Descriptors: []*rlsconfv3.RateLimitDescriptor{inner},
		RateLimit: policy(rlsconfv3.RateLimitUnit_WEEK, 3), QuotaMode: true}
	named := &rlsconfv3.RateLimitDescriptor{Key: "n", DetailedMetric: true, RateLimit: &rlsconfv3.RateLimitPolicy{Unlimited: true, Name: "n",
		Replaces: []*rlsconfv3.RateLimitReplace{{Name: "other"}}}}
	if err := s.LoadXDS([]*rlsconfv3.RateLimitConfig{resource("one", "d", outer, named), resource("two", "e")}, false); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := s.Dump(&b); err != nil {
		t.Fatal(err)
	}
	const want = `d.a_v: unit=WEEK requests_per_unit=3, shadow_mode: false, quota_mode: true
d.a_v.b: unit=HOUR requests_per_unit=2, shadow_mode: true, quota_mode: false
d.n: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	resp, err := s.ShouldRateLimit(t.Context(), request(t, "d a=v,b=1"))
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(resp); !strings.Contains(got, `metadata: {x: 1, y: "z"}`) {
		t.Error(got)
	}
}

func TestXDSErrors(t *testing.T) {
	s := New(Options{})
	good := resource("good", "d", &rlsconfv3.RateLimitDescriptor{Key: "a", RateLimit: policy(rlsconfv3.RateLimitUnit_DAY, 1)})
	if err := s.LoadXDS([]*rlsconfv3.RateLimitConfig{good}, false); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string][]*rlsconfv3.RateLimitConfig{
		"x: config file cannot have empty domain":    {resource("x", "")},
		"x: duplicate domain 'd' in config file":     {good, resource("x", "d")},
		"x: descriptor has empty key":                {resource("x", "e", &rlsconfv3.RateLimitDescriptor{})},
		"x: invalid rate limit unit 'UNKNOWN'":       {resource("x", "e", &rlsconfv3.RateLimitDescriptor{Key: "a", RateLimit: policy(0, 1)})},
		"x: invalid rate limit unit '8'":             {resource("x", "e", &rlsconfv3.RateLimitDescriptor{Key: "a", RateLimit: policy(8, 1)})},
		": duplicate descriptor composite key 'e.a'": {resource("", "e", &rlsconfv3.RateLimitDescriptor{Key: "a"}, &rlsconfv3.RateLimitDescriptor{Key: "a"})},
		"x: should not specify rate limit unit when unlimited": {resource("x", "e", &rlsconfv3.RateLimitDescriptor{Key: "a",
			RateLimit: &rlsconfv3.RateLimitPolicy{Unlimited: true, Unit: 1}})},
	} {
		if err := s.LoadXDS(r, false); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if resp, err := s.ShouldRateLimit(t.Context(), request(t, "d a=1")); err != nil || resp.Statuses[0].CurrentLimit == nil {
		t.Errorf("the rules before are gone: %v %v", resp, err)
	}
	if n := s.totals.ConfigLoadError.Value(); n != 7 {
		t.Errorf("%d errors were counted", n)
	}
	if err := s.LoadXDS([]*rlsconfv3.RateLimitConfig{good, resource("x", "d", &rlsconfv3.RateLimitDescriptor{Key: "b"}), nil}[:2], true); err != nil {
		t.Error(err)
	}
	if err := s.LoadXDS(nil, false); err != nil {
		t.Error(err)
	}
}
