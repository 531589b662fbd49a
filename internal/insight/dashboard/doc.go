// Package dashboard is the web page for operators: how the service is, whether
// its rules do what they are meant to, who is throttled, and the actions that
// follow from it.
//
// The page is built from web/ by Vite (make dashboard), its files lie in dist/ and
// are embedded, so that building Weir needs no Node and the page needs no network but its own
// origin. It knows the service by its URLs alone (/v1/analytics, /v1/live,
// /v1/rules, /v1/admin and so on), which the caller serves beside it.
//
// With a token the page is behind a login: a session is a signed cookie that
// scripts cannot read, [Dashboard.Accept] turns it into the bearer token that
// the other handlers ask for, and a request that changes something must carry a
// header that no other site can send.
package dashboard
