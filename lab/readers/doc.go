// Package readers compares how Weir reads requests with how real servers read the same
// bytes: which route, whose credential, which limited value. Of a request that passes,
// every server finds what was counted, or the request is not served by it.
//
// The folder servers has a small program for each server, with the router, the query
// parser and the cookie parser that its users take. `go test -run Family ./lab/readers`
// with WEIR_SOAK=1 starts them and asks them anew; testdata/readings.txt is what they
// read, which the tests replay without them. WEIR_UPDATE=1 beside WEIR_SOAK=1 records it.
package readers
