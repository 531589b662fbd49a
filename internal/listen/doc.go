// Package listen holds listeners with bounds: on how many connections there are
// at once, and on how long a peer may take nothing of what it is sent.
package listen
