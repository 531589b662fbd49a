package grpcserver

import (
	"errors"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of ordinary messages
	"google.golang.org/grpc/mem"
)

// Message is a message that reads and writes itself: for the services that are
// called so often that what generated messages allocate counts
// (BenchmarkShouldRateLimit in bench/). Ordinary messages travel as ever.
type Message interface {
	// Decode reads the message. It must Free data when it has no more use for it,
	// which may be later, and may keep slices of it until then.
	Decode(data mem.Buffer) error
	// Encoded returns what is to be sent.
	Encoded() []byte
	// Sent is called when what Encoded returned has been copied: the message is
	// not used by the server any more.
	Sent()
}

// codec is grpc's own, with a way for a Message.
type codec struct{ encoding.CodecV2 }

func newCodec() (codec, error) {
	c := encoding.GetCodecV2("proto")
	if c == nil {
		return codec{}, errors.New("grpcserver: grpc has no codec of protobuf messages")
	}
	return codec{c}, nil
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	b := mem.Copy(m.Encoded(), mem.DefaultBufferPool())
	m.Sent()
	return mem.BufferSlice{b}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	return m.Decode(data.MaterializeToBuffer(mem.DefaultBufferPool()))
}
