// Package demo plays traffic of made-up clients to a node, so that there is something
// to see where nobody has any: people, a partner, an office behind one address, a script
// that does not wait, and attackers.
//
// The node is that of package server, with the configuration of weir.yaml and the limits
// of rules.yaml. The hour before the start is played too, in about a second, since a
// verdict on a client needs some minutes of what it did. The same clients then go on
// over the network.
package demo
