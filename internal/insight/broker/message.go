package broker

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"

	"github.com/weirlimit/weir/internal/insight/event"
)

const (
	// packed is about how many bytes of events one message has, before
	// compression. Brokers take a megabyte unless told otherwise.
	packed = 256 << 10
	// maxMessage is the most bytes of a message, after decompression, that is read.
	maxMessage = 8 << 20
)

// Message is a batch of events as CloudEvents 1.0.2 has it: a JSON array.
type Message struct {
	// ID is a hash of the events: the same events have the same.
	ID string
	// Encoding is how Body is compressed: gzip, or nothing.
	Encoding string
	Body     []byte
}

// Encode calls each with the events of a batch, as they go to a queue. The error names
// those that cannot be published, an *event.Invalid.
func Encode(batch []event.Event, each func(e *event.Event, encoded []byte)) error {
	var invalid *event.Invalid
	for i := range batch {
		b, err := encode(&batch[i])
		switch {
		case err == nil:
			each(&batch[i], b)
			continue
		case invalid == nil:
			invalid = &event.Invalid{Err: err}
		}
		invalid.Events = append(invalid.Events, i)
	}
	if invalid != nil {
		return invalid
	}
	return nil
}

func encode(e *event.Event) ([]byte, error) {
	b, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.ID(), err)
	}
	if len(b) > event.MaxEncoded {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that an event has", e.ID(), len(b), event.MaxEncoded)
	}
	return b, nil
}

// Pack returns events as messages. The error is that of Encode: they are without the events
// that it names.
func Pack(events []event.Event) (out []Message, err error) {
	var body []byte
	err = Encode(events, func(_ *event.Event, encoded []byte) {
		if len(body) > 0 && len(body)+len(encoded) > packed {
			out, body = append(out, seal(body)), nil
		}
		body = append(append(body, ','), encoded...)
	})
	if len(body) > 0 {
		out = append(out, seal(body))
	}
	return out, err
}

// Publish packs events as messages and sends those, if there are any, and then names the
// events that are not in them. The error is event.ErrClosed once life has ended.
func Publish[M any](ctx context.Context, l *Life, batch []event.Event, pack func([]event.Event) ([]M, error), send func(context.Context, []M) error) error {
	ctx, leave, err := l.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	messages, invalid := pack(batch)
	if len(messages) > 0 {
		if err := send(ctx, messages); err != nil {
			if l.Closed() {
				return event.ErrClosed
			}
			return err
		}
	}
	return invalid
}

// seal makes a message of a list that begins with a comma.
func seal(body []byte) Message {
	body[0] = '['
	body = append(body, ']')
	sum := sha256.Sum256(body)
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is one
	}
	_, _ = z.Write(body) // a buffer takes all
	_ = z.Close()
	return Message{ID: hex.EncodeToString(sum[:16]), Encoding: "gzip", Body: buf.Bytes()}
}

// Unread is a piece of a message that is not an event, and why.
type Unread struct {
	// ContentType and Encoding are those of Body.
	ContentType, Encoding string
	Body                  []byte
	Err                   error
	// At are attributes for the log that say where it was, Origin is the message in the
	// words of the broker's library. Both are nil where they are not needed.
	At     []any
	Origin any
}

// Unpack returns the events of a message, and what in it is none.
func Unpack(contentType, encoding string, body []byte) ([]event.Event, []Unread) {
	none := func(err error) ([]event.Event, []Unread) {
		return nil, []Unread{{ContentType: contentType, Encoding: encoding, Body: body, Err: err}}
	}
	text, err := inflate(encoding, body)
	if err != nil {
		return none(err)
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return none(fmt.Errorf("content type %q: %w", contentType, err))
	}
	var pieces []json.RawMessage
	switch kind {
	case event.ContentType:
		pieces = []json.RawMessage{text}
	case event.ContentTypeBatch:
		if err := json.Unmarshal(text, &pieces); err != nil {
			return none(fmt.Errorf("not a list of events: %w", err))
		}
	default:
		return none(fmt.Errorf("content type %q: %s and %s are known", contentType, event.ContentType, event.ContentTypeBatch))
	}
	var events []event.Event
	var unread []Unread
	for _, piece := range pieces {
		e, err := event.Decode(piece)
		if err != nil {
			unread = append(unread, Unread{ContentType: event.ContentType, Body: piece, Err: err})
			continue
		}
		events = append(events, e)
	}
	return events, unread
}

func inflate(encoding string, body []byte) ([]byte, error) {
	var from io.Reader = bytes.NewReader(body)
	switch encoding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(from)
		if err != nil {
			return nil, err
		}
		from = z
	default:
		return nil, fmt.Errorf("content encoding %q: gzip is known", encoding)
	}
	text, err := io.ReadAll(io.LimitReader(from, maxMessage+1))
	if err == nil && len(text) > maxMessage {
		err = errors.New("a message of more than 8 MiB")
	}
	return text, err
}
