// Package rules reads which limits a request meets from files: the YAML of
// Lyft's ratelimit and Envoy, and a superset of it.
//
//	domain: api
//	descriptors:
//	  - key: client_id
//	    limit: 100/minute
//	    overrides:
//	      acme: 1000/minute
//
// [Load] compiles files to a [Set], which is immutable and implements
// weir.Rules: matching a request costs a few look-ups per entry, however many
// rules there are, and allocates nothing. [Live] reloads them when they change
// and keeps the last good set when they cannot be read. [Check] says in
// addition what is likely wrong, [Set.Explain] why a request meets what it
// meets.
//
// docs/reference/rules.md describes the files.
package rules
