package envoy

import (
	"maps"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata makes the dynamic metadata of a response: what was asked, and the metadata
// of the limits that let it pass.
func (c *scratch) metadata(req *rlsv3.RateLimitRequest, statuses []*rlsv3.RateLimitResponse_DescriptorStatus) *structpb.Struct {
	descriptors := make([]*structpb.Value, len(req.Descriptors))
	for i, d := range req.Descriptors {
		descriptors[i] = structpb.NewStructValue(describeDescriptor(d))
	}
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(req.Domain),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
	}
	if req.HitsAddend != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(req.HitsAddend))
	}
	var passed map[string]*structpb.Value
	for i := range c.matches {
		if m := &c.matches[i]; m.rule != nil && statuses[i].Code == rlsv3.RateLimitResponse_OK {
			passed = mergeMetadata(passed, m.rule.metadata.GetFields())
		}
	}
	if len(passed) > 0 {
		fields["metadata"] = structpb.NewStructValue(&structpb.Struct{Fields: passed})
	}
	return &structpb.Struct{Fields: fields}
}

// describeDescriptor tells a descriptor.
func describeDescriptor(d *commonv3.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, len(d.Entries))
	for i, e := range d.Entries {
		entries[i] = structpb.NewStringValue(e.Key + "=" + e.Value)
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if d.Limit != nil {
		fields["limit"] = structpb.NewStringValue(d.Limit.String())
	}
	if d.HitsAddend != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(d.HitsAddend.Value))
	}
	return &structpb.Struct{Fields: fields}
}

// mergeMetadata returns a with what b has beside it: of two values the one in a stays,
// two blocks are merged. It changes neither, as both can be those of rules.
func mergeMetadata(a, b map[string]*structpb.Value) map[string]*structpb.Value {
	if len(a) == 0 {
		return b
	}
	m := maps.Clone(a)
	for k, v := range b {
		was, ok := a[k]
		if !ok {
			m[k] = v
			continue
		}
		left, right := was.GetStructValue(), v.GetStructValue()
		if left != nil && right != nil {
			m[k] = structpb.NewStructValue(&structpb.Struct{Fields: mergeMetadata(left.Fields, right.Fields)})
		}
	}
	return m
}
