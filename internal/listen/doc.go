// Package listen holds listeners that cut nobody off when they close, and bounds
// on them: on how many connections there are at once, and on how long a peer may
// take nothing of what it is sent.
package listen
