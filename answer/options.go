package answer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/textproto"
	"slices"
	"strings"
)

// Options configures a [Writer].
type Options struct {
	// Headers names the sets of header fields to write, see Sets. Zero means
	// IETF08 and XRateLimit.
	Headers []string `yaml:"headers"`
	// Names gives fields other names: the key is the name that a set gives the
	// field, the value the name to send, "X-RateLimit-Limit" as
	// "X-Rate-Limit-Limit". Upper and lower case are one. Retry-After keeps its
	// name. Zero means the names of the sets.
	Names map[string]string `yaml:"names"`
	// Reset is the form of X-RateLimit-Reset and RateLimit-Reset, see Styles.
	// Zero means Delta.
	Reset string `yaml:"reset"`
	// Jitter spreads the clients that a refusal sends away: what is told to
	// them to wait is longer by a random part of it, at most this many percent,
	// 0 to 100, rounded up to a whole second. Zero means that everybody is told
	// the truth.
	Jitter int `yaml:"jitter"`
	// Expose lists the fields in Access-Control-Expose-Headers, without which
	// no script in a browser can read them across origins. Zero means not.
	Expose bool `yaml:"expose"`
	// AllowOrigin is the Access-Control-Allow-Origin of refusals, "*" or an origin
	// such as "https://app.example.org": no upstream answers them, and without it a
	// script of another origin sees a network error and not the refusal. Zero means
	// none.
	AllowOrigin string `yaml:"allow_origin"`
	// Status is the HTTP status of a request over its limit, 400 to 599. Zero
	// means 429.
	Status int `yaml:"status"`
	// PartitionKey signs the keys of counters, at least 16 bytes that are kept
	// secret: every member of RateLimit and RateLimit-Policy in the syntax of
	// IETF08 then carries 12 bytes of HMAC-SHA-256 as pk, by which a client can
	// tell two counters of one limit apart. Zero means no pk.
	PartitionKey []byte `yaml:"-"`
	// Rand returns a random number from 0 to n-1, safe for concurrent use, for
	// Jitter. Zero means math/rand/v2.Int64N.
	Rand func(n int64) int64 `yaml:"-"`
}

const (
	maxFieldName    = 64 // bytes of a field's name
	minPartitionKey = 16 // bytes
)

// New returns a writer. Its errors name every option that is wrong: a set or
// style that it does not know, two fields of one name, a name that is none or
// has another meaning, a number out of range.
func New(opt Options) (*Writer, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("answer: "+format, args...)) }

	if len(opt.Headers) == 0 {
		opt.Headers = []string{IETF08, XRateLimit}
	}
	if opt.Rand == nil {
		opt.Rand = rand.Int64N
	}
	opt.Status = cmp.Or(opt.Status, 429)
	if opt.Status < 400 || opt.Status > 599 {
		bad("status %d is not one of an error: use 400 to 599", opt.Status)
	}
	if opt.Jitter < 0 || opt.Jitter > 100 {
		bad("jitter of %d percent: use 0 to 100", opt.Jitter)
	}
	opt.Reset = cmp.Or(opt.Reset, Delta)
	w := &Writer{jitter: int64(opt.Jitter), random: opt.Rand, status: opt.Status, style: style(opt.Reset)}
	if !slices.Contains(Styles(), opt.Reset) {
		bad("unknown style of reset %q, use %s", opt.Reset, strings.Join(Styles(), ", "))
	}
	if n := len(opt.PartitionKey); n > 0 && n < minPartitionKey {
		bad("partition key of %d bytes: use at least %d random ones", n, minPartitionKey)
	}
	w.chooseFields(opt.Headers, bad)
	if len(opt.PartitionKey) > 0 && slices.ContainsFunc(w.fields, func(f field) bool { return f.value == stateList }) {
		w.partition = newPartition(opt.PartitionKey)
	}
	w.renameFields(opt.Names, bad)
	if opt.Expose {
		w.exposeFields()
	}
	if err := w.allowOrigin(opt.AllowOrigin); err != nil {
		bad("%w", err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return w, nil
}

// chooseFields takes the fields of the sets of the given names.
func (w *Writer) chooseFields(names []string, bad func(string, ...any)) {
	for i, name := range names {
		at := slices.Index(Sets(), name)
		switch {
		case at < 0:
			bad("unknown set of headers %q, use %s", name, strings.Join(Sets(), ", "))
		case slices.Contains(names[:i], name):
			bad("set of headers %q is named twice", name)
		default:
			for _, f := range sets[at].fields {
				if !slices.Contains(w.fields, f) {
					w.fields = append(w.fields, f)
				}
			}
		}
	}
	w.fields = append(w.fields, always...)
}

// reserved are names of fields with another meaning, beside those that begin
// with "Access-Control-" or "Content-".
var reserved = []string{"Age", "Allow", "Cache-Control", "Connection", "Date", "Etag", "Expires", "Keep-Alive",
	"Last-Modified", "Link", "Location", "Retry-After", "Server", "Set-Cookie", "Strict-Transport-Security", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Vary", "Via", "Www-Authenticate", "X-Content-Type-Options"}

// renameFields gives the fields their names, and sees that no two have the same.
func (w *Writer) renameFields(names map[string]string, bad func(string, ...any)) {
	from, renamed := make([]string, len(w.fields)), make([]bool, len(w.fields))
	for i, f := range w.fields {
		from[i] = f.key
	}
	for _, old := range slices.Sorted(maps.Keys(names)) {
		name, found := names[old], false
		key := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !isToken(name):
			bad("name %q for %s is not one of a header field: use letters, digits and dashes, at most %d", name, old, maxFieldName)
			continue
		case slices.Contains(reserved, key) || strings.HasPrefix(key, "Access-Control-") || strings.HasPrefix(key, "Content-"):
			bad("name %s for %s has another meaning", key, old)
			continue
		}
		for i := range from {
			if strings.EqualFold(from[i], old) && from[i] != always[0].key {
				if renamed[i] {
					bad("%s is given two names", from[i])
				}
				w.fields[i].key, renamed[i], found = key, true, true
			}
		}
		if !found {
			bad("field %q, which is to be named %s, is not one of the chosen sets or cannot be renamed", old, name)
		}
	}
	for i, f := range w.fields {
		for _, g := range w.fields[:i] {
			if f.key == g.key {
				bad("two fields are named %s: choose one set of them, or give one of them another name", f.key)
			}
		}
	}
}

// isToken reports whether name can be the name of a field. Source: RFC 9110
// §5.6.2, less the characters that some servers drop or rewrite.
func isToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return name != "" && len(name) <= maxFieldName
}
