package weir

// Rules say which limits a request meets. Implementations are safe for
// concurrent use.
type Rules interface {
	// Match appends the ops by which r meets its limits, and returns the
	// extended slice. No op means that r is not limited. It must not keep dst
	// or r. [Limit.Append] makes the ops of one limit, [Request.Key] its key.
	Match(dst []Op, r *Request) []Op
}

// Limits are rules without a choice: every descriptor meets each limit, under
// the key that its values make.
type Limits []*Limit

// Match implements Rules.
func (ls Limits) Match(dst []Op, r *Request) []Op {
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		key, from := r.descriptorKey(d), len(dst)
		for _, l := range ls {
			dst = l.Append(dst, key, r.costOf(d), r)
		}
		for j := from; j < len(dst); j++ {
			dst[j].Descriptor = uint16(i)
			if d.Peek {
				dst[j].Verb = Peek
			}
		}
	}
	return dst
}

func (r *Request) descriptorKey(d *Descriptor) string {
	if len(d.Entries) == 1 {
		return d.Entries[0].Value
	}
	var few [8]string
	parts := few[:0]
	for _, e := range d.Entries {
		parts = append(parts, e.Value)
	}
	return r.Key(parts...)
}

// costOf returns the cost of descriptor d.
func (r *Request) costOf(d *Descriptor) int64 {
	switch {
	case d.Cost != 0:
		return d.Cost
	case r.Cost != 0:
		return r.Cost
	}
	return 1
}
