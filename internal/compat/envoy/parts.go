package envoy

import (
	"bytes"
	"errors"
	"fmt"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirlimit/weir/internal/wire"
)

// MaxParts is how many descriptors and entries a request may have together. An empty one
// takes two bytes of a message, and some fifty times as much when it is decoded.
const MaxParts = 4096

// errParts is returned for a request that has more parts than MaxParts.
var errParts = fmt.Errorf("the request has more than %d descriptors and entries", MaxParts)

// CheckMessage returns an error for a RateLimitRequest that is not to be decoded, as it
// has more than MaxParts descriptors and entries. What is no message at all is left to
// those who decode it. It is for grpcserver.Options.
func CheckMessage(message any, data []byte) error {
	if _, ok := message.(*rlsv3.RateLimitRequest); !ok {
		return nil
	}
	parts := 0
	err := eachMessage(data, 2, func(descriptor []byte) error {
		if parts++; parts > MaxParts {
			return errParts
		}
		return eachMessage(descriptor, 1, func([]byte) error {
			if parts++; parts > MaxParts {
				return errParts
			}
			return nil
		})
	})
	if errors.Is(err, errParts) {
		return err
	}
	return nil
}

// eachMessage calls do with each embedded message of a field of b.
func eachMessage(b []byte, num protowire.Number, do func([]byte) error) error {
	return wire.Each(b, func(f wire.Field) error {
		if f.Is(num, protowire.BytesType) {
			return do(f.Bytes)
		}
		return nil
	})
}

// checkJSON is CheckMessage for JSON. It takes braces within strings for parts.
func checkJSON(body []byte) error {
	if bytes.Count(body, []byte{'{'}) > MaxParts {
		return errParts
	}
	return nil
}
