package envoy

import rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

// LoadXDS takes the rules of all resources in place of those before, as Load does
// those of files.
func (s *Service) LoadXDS(resources []*rlsconfv3.RateLimitConfig, merge bool) error {
	specs := make([]named, len(resources))
	for i, r := range resources {
		specs[i] = named{r.GetName(), &domainSpec{Domain: r.GetDomain(), Descriptors: descriptorsOf(r.GetDescriptors())}}
	}
	set, err := compile(specs, merge, s.opt.NearLimitRatio)
	return s.installRules(set, err)
}

func descriptorsOf(all []*rlsconfv3.RateLimitDescriptor) []descriptorSpec {
	specs := make([]descriptorSpec, len(all))
	for i, d := range all {
		specs[i] = descriptorSpec{
			Key: d.GetKey(), Value: d.GetValue(), RateLimit: limitOf(d.GetRateLimit()), Descriptors: descriptorsOf(d.GetDescriptors()),
			ShadowMode: d.GetShadowMode(), QuotaMode: d.GetQuotaMode(), DetailedMetric: d.GetDetailedMetric(), Metadata: d.GetMetadata().AsMap(),
		}
	}
	return specs
}

func limitOf(p *rlsconfv3.RateLimitPolicy) *limitSpec {
	if p == nil {
		return nil
	}
	spec := &limitSpec{
		RequestsPerUnit: p.GetRequestsPerUnit(), Unit: p.GetUnit().String(), Unlimited: p.GetUnlimited(), Name: p.GetName(),
	}
	for _, r := range p.GetReplaces() {
		spec.Replaces = append(spec.Replaces, replaceSpec{r.GetName()})
	}
	return spec
}
