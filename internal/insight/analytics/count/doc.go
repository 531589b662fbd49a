// Package count counts events into rows, each once: [AddEvents] puts together what the
// events of a transaction do to the rows, and writes each row once.
//
// Rows are written in one order everywhere, so that transactions that write the
// same ones wait for each other and do not lock each other up: sources, what was
// seen, limits, counts, requests, latencies, answers, sketches, clients,
// words, arrivals, losses; each by its primary key.
package count
