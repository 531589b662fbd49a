package envoy

import (
	"fmt"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirlimit/weir/internal/wire"
)

// Fields of a descriptor that are newer than the module's types. They are read
// from what it does not know.
const (
	quotaModeField = 7
	metadataField  = 8
)

// LoadXDS takes the rules of all resources in place of those before, as Load does
// those of files.
func (s *Service) LoadXDS(resources []*rlsconfv3.RateLimitConfig, merge bool) error {
	specs := make([]named, len(resources))
	for i, r := range resources {
		descriptors, err := descriptorsOf(r.GetDescriptors())
		if err != nil {
			return s.use(nil, fmt.Errorf("%s: %w", r.GetName(), err))
		}
		specs[i] = named{r.GetName(), &domainSpec{Domain: r.GetDomain(), Descriptors: descriptors}}
	}
	set, err := compile(specs, merge, s.opt.NearLimitRatio)
	return s.use(set, err)
}

func descriptorsOf(all []*rlsconfv3.RateLimitDescriptor) ([]descriptorSpec, error) {
	specs := make([]descriptorSpec, len(all))
	for i, d := range all {
		spec := &specs[i]
		*spec = descriptorSpec{
			Key: d.GetKey(), Value: d.GetValue(), RateLimit: limitOf(d.GetRateLimit()),
			ShadowMode: d.GetShadowMode(), DetailedMetric: d.GetDetailedMetric(),
		}
		var err error
		if spec.Descriptors, err = descriptorsOf(d.GetDescriptors()); err != nil {
			return nil, err
		}
		if err := newer(spec, d.ProtoReflect().GetUnknown()); err != nil {
			return nil, err
		}
	}
	return specs, nil
}

// newer reads the fields that the module does not know.
func newer(spec *descriptorSpec, unknown []byte) error {
	var meta *structpb.Struct
	err := wire.Each(unknown, func(f wire.Field) error {
		switch {
		case f.Is(quotaModeField, protowire.VarintType):
			spec.QuotaMode = f.N != 0
		case f.Is(metadataField, protowire.BytesType):
			if meta == nil {
				meta = &structpb.Struct{}
			}
			// Repeated, the field is one message: later parts add to earlier ones.
			if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(f.Bytes, meta); err != nil {
				return fmt.Errorf("error parsing metadata: %w", err)
			}
		}
		return nil
	})
	if meta != nil {
		spec.Metadata = meta.AsMap()
	}
	return err
}

func limitOf(p *rlsconfv3.RateLimitPolicy) *limitSpec {
	if p == nil {
		return nil
	}
	spec := &limitSpec{
		RequestsPerUnit: p.GetRequestsPerUnit(), Unlimited: p.GetUnlimited(), Name: p.GetName(),
		// The units have the same numbers there.
		Unit: rlsv3.RateLimitResponse_RateLimit_Unit(p.GetUnit()).String(),
	}
	for _, r := range p.GetReplaces() {
		spec.Replaces = append(spec.Replaces, replaceSpec{r.GetName()})
	}
	return spec
}
