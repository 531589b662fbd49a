package envoy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// request reads a request.
func request(t *testing.T, text string) *rlsv3.RateLimitRequest {
	req := &rlsv3.RateLimitRequest{}
	words := strings.Fields(text)
	for i, w := range words {
		if i == 0 {
			if w != "''" {
				req.Domain = w
			}
		} else if n, ok := strings.CutPrefix(w, "hits="); ok {
			req.HitsAddend = uint32(number(t, n))
		} else {
			req.Descriptors = append(req.Descriptors, descriptor(t, w))
		}
	}
	return req
}

var suffix = regexp.MustCompile(`(?:@(\d+)/(\w+?)(?:x(\d+))?)?(?:\+(\d+))?(?:-(\d+))?$`)

func descriptor(t *testing.T, text string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	m := suffix.FindStringSubmatch(text)
	if m[1] != "" {
		unit, ok := rlsv3.RateLimitResponse_RateLimit_Unit_value[m[2]]
		if !ok {
			unit = int32(number(t, m[2]))
		}
		d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(number(t, m[1])), Unit: typev3.RateLimitUnit(unit)}
		if m[3] != "" {
			d.Limit.UnitMultiplier = wrapperspb.UInt32(uint32(number(t, m[3])))
		}
	}
	if m[4] != "" {
		d.HitsAddend = wrapperspb.UInt64(number(t, m[4]))
	}
	if m[5] != "" {
		d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(number(t, m[5])), true
	}
	text = strings.TrimSuffix(text, m[0])
	if text == "" || text == "none" {
		return d
	}
	for _, kv := range strings.Split(text, ",") {
		k, v, _ := strings.Cut(kv, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: k, Value: v})
	}
	return d
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// describe writes a response in one line.
func describe(resp *rlsv3.RateLimitResponse) string {
	var b strings.Builder
	b.WriteString(resp.OverallCode.String())
	for _, st := range resp.Statuses {
		b.WriteString(" | " + st.Code.String())
		if l := st.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " %d/%s", l.RequestsPerUnit, l.Unit)
			if l.UnitMultiplier != nil {
				fmt.Fprintf(&b, "x%d", l.UnitMultiplier.Value)
			}
			if l.Name != "" {
				b.WriteString(" " + l.Name)
			}
		}
		if st.CurrentLimit != nil || st.LimitRemaining != 0 {
			fmt.Fprintf(&b, " left %d", st.LimitRemaining)
		}
		if st.DurationUntilReset != nil {
			fmt.Fprintf(&b, " reset %d", st.DurationUntilReset.Seconds)
			if st.DurationUntilReset.Nanos != 0 {
				b.WriteString(" and a fraction")
			}
		}
	}
	for _, h := range resp.ResponseHeadersToAdd {
		fmt.Fprintf(&b, "; %s: %s", h.Key, h.Value)
	}
	if m := resp.DynamicMetadata; m != nil {
		b.WriteString("; " + plain(structpb.NewStructValue(m)))
	}
	if len(resp.RequestHeadersToAdd)+len(resp.RawBody) > 0 || resp.Quota != nil {
		b.WriteString("; and more: " + prototext.MarshalOptions{}.Format(resp))
	}
	return b.String()
}

// plain writes a value in one way.
func plain(v *structpb.Value) string {
	switch k := v.Kind.(type) {
	case *structpb.Value_StructValue:
		var l []string
		for _, name := range slices.Sorted(maps.Keys(k.StructValue.Fields)) {
			l = append(l, name+": "+plain(k.StructValue.Fields[name]))
		}
		return "{" + strings.Join(l, ", ") + "}"
	case *structpb.Value_ListValue:
		var l []string
		for _, v := range k.ListValue.Values {
			l = append(l, plain(v))
		}
		return "[" + strings.Join(l, ", ") + "]"
	case *structpb.Value_StringValue:
		return strconv.Quote(limitText.ReplaceAllString(k.StringValue, " "))
	}
	return fmt.Sprint(v.AsInterface())
}
