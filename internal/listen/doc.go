// Package listen holds listeners that cut nobody off when they close, and bounds
// on them: on how many connections there are at once, and on how long a peer may
// take nothing of what it is sent.
//
// An idle connection that is closed for another may have a request on its way. Over
// HTTP/2 and gRPC the client is informed by a GOAWAY frame, and makes the request again
// elsewhere. HTTP/1.1 has no such frame: the request fails, as it does where a server
// closes a connection that was idle for too long (RFC 9112 §9.5). It was not carried out
// then, over any protocol: what is read of a connection after it was closed for another is
// dropped, so that a client may send it again.
package listen
