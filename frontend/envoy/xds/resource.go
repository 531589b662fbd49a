package xds

import (
	"fmt"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Numbers of fields of RateLimitDescriptor that envoyproxy/ratelimit reads, and
// that the published Go types do not name yet.
// Source: envoyproxy/ratelimit, api/ratelimit/config/ratelimit/v3/rls_conf.proto.
const (
	fieldQuotaMode = 7
	fieldMetadata  = 8
)

// decode returns the resources of a response. Its error is what the management
// server is told.
func decode(res *discoveryv3.DiscoveryResponse) ([]*rlsconfv3.RateLimitConfig, error) {
	if got := res.GetTypeUrl(); got != "" && got != TypeURL {
		return nil, fmt.Errorf("response is of type %q, want %q", got, TypeURL)
	}
	configs := make([]*rlsconfv3.RateLimitConfig, 0, len(res.GetResources()))
	for _, any := range res.GetResources() {
		c := new(rlsconfv3.RateLimitConfig)
		if err := anypb.UnmarshalTo(any, c, proto.UnmarshalOptions{}); err != nil {
			return nil, err
		}
		if err := checkMetadata(c.GetDescriptors()); err != nil {
			return nil, err
		}
		configs = append(configs, c)
	}
	return configs, nil
}

// checkMetadata decodes what the Go types left undecoded.
func checkMetadata(ds []*rlsconfv3.RateLimitDescriptor) error {
	for _, d := range ds {
		if _, err := Metadata(d); err != nil {
			return err
		}
		if err := checkMetadata(d.GetDescriptors()); err != nil {
			return err
		}
	}
	return nil
}

// QuotaMode returns the field quota_mode of a descriptor, which the published Go
// type does not name.
func QuotaMode(d *rlsconfv3.RateLimitDescriptor) bool {
	m := d.ProtoReflect()
	if f := m.Descriptor().Fields().ByNumber(fieldQuotaMode); f != nil {
		return m.Get(f).Bool()
	}
	on := false
	eachUnknown(m, func(num protowire.Number, typ protowire.Type, value []byte) {
		if num == fieldQuotaMode && typ == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(value)
			on = v != 0
		}
	})
	return on
}

// Metadata returns the field metadata of a descriptor, which the published Go
// type does not name; nil if there is none. It returns an error where that field
// cannot be decoded, which is never the case in a set that a [Client] hands on.
func Metadata(d *rlsconfv3.RateLimitDescriptor) (s *structpb.Struct, err error) {
	m := d.ProtoReflect()
	if f := m.Descriptor().Fields().ByNumber(fieldMetadata); f != nil {
		if m.Has(f) {
			s, _ = m.Get(f).Message().Interface().(*structpb.Struct)
		}
		return s, nil
	}
	eachUnknown(m, func(num protowire.Number, typ protowire.Type, value []byte) {
		if num != fieldMetadata || typ != protowire.BytesType || err != nil {
			return
		}
		if s == nil {
			s = new(structpb.Struct)
		}
		encoded, _ := protowire.ConsumeBytes(value)
		err = proto.UnmarshalOptions{Merge: true}.Unmarshal(encoded, s)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// eachUnknown calls do for each field of m that its type does not name. value
// starts with the field's value.
func eachUnknown(m protoreflect.Message, do func(num protowire.Number, typ protowire.Type, value []byte)) {
	for b := m.GetUnknown(); len(b) > 0; {
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return // decoding has checked that there is none such
		}
		n := protowire.ConsumeFieldValue(num, typ, b[tag:])
		if n < 0 {
			return
		}
		do(num, typ, b[tag:tag+n])
		b = b[tag+n:]
	}
}

// UnitName returns the name of a unit of time, also of those that the published
// Go type does not name, or its number if it has none.
func UnitName(u rlsconfv3.RateLimitUnit) string {
	switch u {
	case 0:
		return "UNKNOWN"
	case 1:
		return "SECOND"
	case 2:
		return "MINUTE"
	case 3:
		return "HOUR"
	case 4:
		return "DAY"
	case 5:
		return "MONTH"
	case 6:
		return "YEAR"
	case 7:
		return "WEEK"
	}
	return strconv.Itoa(int(u))
}
