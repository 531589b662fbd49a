package grpcserver

import (
	"errors"
	"sync"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of ordinary messages
	"google.golang.org/grpc/mem"
)

// Message is a message that reads and writes itself: for the services that are
// called so often that what generated messages allocate counts
// (BenchmarkShouldRateLimit in lab/bench/). Ordinary messages travel as ever.
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

// answer is a message on its way to a client.
type answer struct {
	message any
	to      *conn
}

// codec is grpc's own, with a way for a Message, and answers in buffers of their
// connections.
type codec struct {
	encoding.CodecV2
	answers   *sync.Pool
	check     func(message any, data []byte) error // nil if all messages are decoded
	undecoded func(message any, data []byte, err error) []byte
}

func newCodec(check func(message any, data []byte) error, undecoded func(message any, data []byte, err error) []byte) (codec, error) {
	c := encoding.GetCodecV2("proto")
	if c == nil {
		return codec{}, errors.New("grpcserver: grpc has no codec of protobuf messages")
	}
	return codec{c, &sync.Pool{New: func() any { return new(answer) }}, check, undecoded}, nil
}

// wrapAnswer says where a message goes. It is to be marshaled once.
func (c codec) wrapAnswer(message any, to *conn) any {
	if to == nil || message == nil {
		return message
	}
	a := c.answers.Get().(*answer)
	a.message, a.to = message, to
	return a
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	var pool mem.BufferPool = mem.DefaultBufferPool()
	if a, ok := v.(*answer); ok {
		v, pool = a.message, a.to
		*a = answer{}
		c.answers.Put(a)
	}
	if m, ok := v.(Message); ok {
		b := mem.BufferSlice{copyData(m.Encoded(), pool)}
		m.Sent()
		return b, nil
	}
	out, err := c.CodecV2.Marshal(v)
	if err != nil || pool == mem.DefaultBufferPool() {
		return out, err
	}
	b := pool.Get(out.Len())
	out.CopyTo(*b)
	out.Free()
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
}

// copyData is mem.Copy, but for short messages, which it does not take from the pool.
func copyData(data []byte, pool mem.BufferPool) mem.Buffer {
	b := pool.Get(len(data))
	copy(*b, data)
	return mem.NewBuffer(b, pool)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(Message)
	if !ok && c.check == nil && c.undecoded == nil {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	if ok {
		return m.Decode(whole)
	}
	defer whole.Free()
	if c.check != nil {
		if err := c.check(v, whole.ReadOnlyData()); err != nil {
			return err
		}
	}
	err := c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
	if err != nil && c.undecoded != nil {
		if other := c.undecoded(v, whole.ReadOnlyData(), err); other != nil {
			return c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(other)}, v)
		}
	}
	return err
}
