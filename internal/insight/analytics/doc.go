// Package analytics keeps what events tell and answers questions about it: who
// was limited, by which rule, how often, whether they deserved it, and whether
// the rules and their algorithms do what they are for.
//
// A [Service] takes events from a queue ([Service.Run]) into a [rows.Database] and
// answers over HTTP ([Service.Handler]). An event is counted once however often it
// comes and however many services share the queue and the database: which events
// were counted is kept beside the counts, and changed with them in one
// transaction.
//
// Counts of outcomes by limit and node are made of roll-ups and are exact.
// Everything that tells of clients is made of records: it is complete for clients
// who were limited, and a sample of the others. Each answer says which of the two
// it is of.
//
// The floors, the lowest first: rows; count, retention and query, which write, prune and
// read them; report, whose answers are made of what query reads; and this package.
package analytics
