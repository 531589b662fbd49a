package metrics

import "time"

// Certificate is that of a listener.
type Certificate struct {
	// File is where it lies.
	File string
	// Expires is when the one in use ends.
	Expires time.Time
}

// collectCertificates tells of each file once, of the certificate in use that ends
// first: listeners may share a file, and have read it at different times.
func collectCertificates(all []Certificate, out sink) {
	first := make(map[string]time.Time, len(all))
	for _, c := range all {
		if at, ok := first[c.File]; !ok || c.Expires.Before(at) {
			first[c.File] = c.Expires
		}
	}
	expires := out.gauges("weir_certificate_expires_timestamp_seconds", "When the certificate in use by a listener expires.", "file")
	for file, at := range first {
		expires.set(float64(at.Unix()), validLabel(file))
	}
}
