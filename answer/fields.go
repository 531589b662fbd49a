package answer

import "github.com/weirlimit/weir"

// Field is a header field of an answer that is no http.ResponseWriter.
type Field struct {
	Name string
	// Value points into the bytes that were appended with it.
	Value []byte
}

// Fields appends the header fields that tell d, made of ops, to fs, in the order
// of their sets, and their values to b. now is as for [Writer.Header]. It
// allocates nothing where there is room, for up to four limits.
func (w *Writer) Fields(b []byte, fs []Field, ops []weir.Op, d weir.Decision, now int64) ([]byte, []Field) {
	var buf [4]policy
	f := w.factsOf(buf[:0], ops, d, !d.Allowed(), now)
	if len(f.policies) == 0 && d.Limit == nil && d.Allowed() {
		return b, fs
	}
	return w.fieldsOf(b, fs, &f)
}

// Refusal is Fields for the refusal d, with the fields that its problem document
// needs too; then it appends that document, doc, to b. The status is the one that
// [Writer.Refuse] would send.
func (w *Writer) Refusal(b []byte, fs []Field, why Reason, ops []weir.Op, d weir.Decision, now int64) (all []byte, fields []Field, doc []byte, status int) {
	var buf [4]policy
	f := w.factsOf(buf[:0], ops, d, true, now)
	b, fs = w.fieldsOf(b, fs, &f)
	fs = append(fs, w.originFields...)
	fs = append(fs, Field{"Content-Type", problemBytes}, Field{"Cache-Control", noStoreBytes}, Field{"X-Content-Type-Options", noSniffBytes})
	status = w.statusOf(why)
	from := len(b)
	b = appendRefusal(b, why, status, &f, ops, d)
	return b, fs, b[from:len(b):len(b)], status
}

// Shared by all answers.
var (
	problemBytes = []byte("application/problem+json")
	noStoreBytes = []byte("no-store")
	noSniffBytes = []byte("nosniff")
)

func (w *Writer) fieldsOf(b []byte, fs []Field, f *facts) ([]byte, []Field) {
	w.prepareFacts(f)
	var ends [maxFields]int
	from := len(b)
	for i, fd := range w.fields {
		if fd.value == exposed {
			b = w.appendExposed(b, nil)
		} else {
			b = f.appendValue(b, fd.value)
		}
		ends[i] = len(b)
	}
	// Not earlier: b may have moved.
	for i, fd := range w.fields {
		if ends[i] > from {
			fs = append(fs, Field{fd.key, b[from:ends[i]:ends[i]]})
		}
		from = ends[i]
	}
	return b, fs
}
