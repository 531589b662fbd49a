package httpapi

import (
	_ "embed"
	"net/http"
	"strconv"
)

// document is the OpenAPI 3.1 description of this package's paths.
//
//go:embed openapi.json
var document []byte

func openAPI(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(document))}
	// An error here means that the client has gone.
	_, _ = w.Write(document)
}
