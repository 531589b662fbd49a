package answer

import (
	"fmt"
	"net/http"
	"net/url"
)

const (
	allowOriginKey = "Access-Control-Allow-Origin"
	varyKey        = "Vary"
)

// allowOrigin makes w let scripts of an origin read its refusals.
//
// Source: Fetch Standard, CORS protocol.
func (w *Writer) allowOrigin(origin string) error {
	switch origin {
	case "":
		return nil
	case "*":
	default:
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			return fmt.Errorf("allowed origin %q: write * or a scheme and a host, such as https://app.example.org", origin)
		}
		w.originFields = append(w.originFields, Field{varyKey, []byte("Origin")})
	}
	w.originFields = append(w.originFields, Field{allowOriginKey, []byte(origin)})
	return nil
}

// allowed adds to a refusal what lets scripts of the origin read it. What the
// handler has said of origins stands.
func (w *Writer) allowed(h http.Header) {
	if len(w.originFields) == 0 || h[allowOriginKey] != nil {
		return
	}
	for _, f := range w.originFields {
		h.Add(f.Name, string(f.Value))
	}
}
