package httpapi

import (
	"net/http"

	"github.com/weirlimit/weir/answer"
)

// routes are what answers on paths.
type routes map[string]methods

// methods are what answers on one path, by method.
type methods map[string]http.HandlerFunc

// needs returns h, or if have is false a handler that answers 501 with detail.
func needs(have bool, detail string, h http.HandlerFunc) http.HandlerFunc {
	if have {
		return h
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		answer.Problem{Status: http.StatusNotImplemented, Detail: detail}.Write(w)
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	answer.Problem{Status: http.StatusNotFound, Detail: "no such path; /openapi.json lists those that there are"}.Write(w)
}
