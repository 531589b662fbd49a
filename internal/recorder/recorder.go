// Package recorder remembers what those who count and time HTTP requests tell of
// them.
package recorder

import "net/http"

// Recorder is an http.ResponseWriter that remembers the status of the answer. Make
// it with New.
type Recorder struct {
	http.ResponseWriter
	// Status is 200 until another one is written.
	Status int
	wrote  bool
}

// New returns a recorder of what is written to w.
func New(w http.ResponseWriter) Recorder { return Recorder{ResponseWriter: w, Status: http.StatusOK} }

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(status int) {
	// 1xx answers come before the real one, but for 101, which is the last.
	if !r.wrote && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.Status, r.wrote = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush, hijack and set deadlines.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Method returns a method that is known, or _OTHER, as anybody can make up others.
//
// Source: OpenTelemetry semantic conventions, http.request.method.
func Method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace, "QUERY":
		return m
	}
	return "_OTHER"
}
