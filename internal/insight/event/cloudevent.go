package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxEncoded is the most bytes of an event that Decode takes.
const MaxEncoded = 64 << 10

// MaxRegion is the most bytes of a region.
const MaxRegion = 63

// maxOutcomes is the most outcomes of a roll-up that Decode takes: more than there
// are.
const maxOutcomes = 32

// ContentType is that of an event as Encode writes it, ContentTypeBatch that of a
// JSON array of them.
const (
	ContentType      = "application/cloudevents+json"
	ContentTypeBatch = "application/cloudevents-batch+json"
)

// typePrefix begins the type of every event; the kind and a version follow.
const typePrefix = "com.github.weirlimit.weir."

// Types of events.
const (
	TypeRecord = typePrefix + "record.v2"
	TypeRollup = typePrefix + "rollup.v2"
	TypeLoss   = typePrefix + "loss.v1"
)

// sourcePrefix begins the source of every event; the node follows.
const sourcePrefix = "/weir/"

// cloudEvent is an event in the structured JSON form of CloudEvents 1.0.2.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Time            time.Time       `json:"time"`
	Subject         string          `json:"subject,omitempty"`
	DataContentType string          `json:"datacontenttype"`
	PartitionKey    string          `json:"partitionkey"`
	Region          string          `json:"region,omitempty"`
	Data            json.RawMessage `json:"data"`
}

// content returns the event's type, what it is about, and its data.
func (e *Event) content() (kind, subject string, data any) {
	switch {
	case e.Record != nil:
		return TypeRecord, e.Record.subject(), e.Record
	case e.Rollup != nil:
		return TypeRollup, e.Rollup.subject(), e.Rollup
	}
	return TypeLoss, "", e.Loss
}

// PartitionKey names what must be told in order: a client under a limit, a limit,
// a node.
func (e *Event) PartitionKey() string {
	switch {
	case e.Record != nil:
		return e.Record.subject() + "/" + e.Record.Key
	case e.Rollup != nil:
		return e.Rollup.subject()
	}
	return e.Source
}

func (p *LimitRef) subject() string { return p.Domain + "/" + p.Rule }

// Encode returns the event in the structured JSON form of CloudEvents 1.0.2.
func (e *Event) Encode() ([]byte, error) {
	kind, subject, content := e.content()
	data, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	return json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: strconv.FormatUint(e.Sequence, 10), Source: sourcePrefix + e.Source, Type: kind, Subject: subject,
		Time: e.Time, DataContentType: "application/json", PartitionKey: e.PartitionKey(), Region: e.Region, Data: data,
	})
}

// Decode reads what Encode has written, in this version or the one before. An event
// of another program or of a later version is an error.
func Decode(b []byte) (Event, error) {
	e, err := decodeEvent(b)
	if err != nil {
		return Event{}, fmt.Errorf("event: %w", err)
	}
	return e, nil
}

func decodeEvent(b []byte) (e Event, err error) {
	if len(b) > MaxEncoded {
		return e, fmt.Errorf("%d bytes are more than the %d that an event has", len(b), MaxEncoded)
	}
	var in cloudEvent
	if err = json.Unmarshal(b, &in); err != nil {
		return e, fmt.Errorf("not a CloudEvent in JSON: %w", err)
	}
	if in.SpecVersion != "1.0" {
		return e, fmt.Errorf("CloudEvents version %q: 1.0 is known", in.SpecVersion)
	}
	var ok bool
	if e.Source, ok = strings.CutPrefix(in.Source, sourcePrefix); !ok || e.Source == "" {
		return e, fmt.Errorf("source %q is not a node", in.Source)
	}
	if e.Sequence, err = strconv.ParseUint(in.ID, 10, 64); err != nil || e.Sequence == 0 {
		return e, fmt.Errorf("id %q is not a number from one on", in.ID)
	}
	if len(in.Region) > MaxRegion {
		return e, fmt.Errorf("region of %d bytes: at most %d are known", len(in.Region), MaxRegion)
	}
	e.Time, e.Region = in.Time, in.Region
	var data any
	switch in.Type {
	case TypeRecord, typeRecordV1:
		e.Record = new(Record)
		data = e.Record
	case TypeRollup, typeRollupV1:
		e.Rollup = new(Rollup)
		data = e.Rollup
	case TypeLoss:
		e.Loss = new(Loss)
		data = e.Loss
	default:
		return e, fmt.Errorf("type %q is not known", in.Type)
	}
	if len(in.Data) == 0 || string(in.Data) == "null" {
		return e, errors.New("an event without data")
	}
	if err = in.readData(data); err != nil {
		return e, fmt.Errorf("data of %s: %w", in.Type, err)
	}
	return e, nil
}

// readData reads the data of either version into a *Record, a *Rollup or a *Loss.
func (in *cloudEvent) readData(into any) (err error) {
	if in.Type == typeRecordV1 || in.Type == typeRollupV1 {
		if in.Data, err = upgradeV1(in.Data); err != nil {
			return err
		}
	}
	if err = json.Unmarshal(in.Data, into); err != nil {
		return err
	}
	if c, ok := into.(interface{ check() error }); ok { // a loss is four numbers
		return c.check()
	}
	return nil
}

// check checks what a roll-up tells.
func (r *Rollup) check() error {
	if len(r.Counts) > maxOutcomes {
		return fmt.Errorf("counts of %d outcomes: at most %d are known", len(r.Counts), maxOutcomes)
	}
	if len(r.Requests) > maxOutcomes {
		return fmt.Errorf("requests of %d outcomes: at most %d are known", len(r.Requests), maxOutcomes)
	}
	if r.Latency != nil {
		if err := r.Latency.checkBuckets(); err != nil {
			return err
		}
	}
	if r.Responses != nil {
		return r.Responses.checkTimes()
	}
	return nil
}
