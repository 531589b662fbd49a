// Package hostile holds the tests of what strangers may do to a node: they run
// the command itself, in front of a real upstream, and attack it over the
// network. threats.txt is the table of the threats and of the tests that
// prove what is done about each; a test here keeps the two together.
//
// An attack passes when the node's memory stays below a bound, somebody else is
// served meanwhile, and all that the attack held is given back afterwards.
// Attackers come from 127.0.0.2, everybody else from 127.0.0.1.
//
//go:generate go test . -run Page$ -page
package hostile
