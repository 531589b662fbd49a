// Package broker is what the queues of events have in common: how their URLs
// read, how events become messages and messages events, how long to wait before
// trying again, and how what runs is ended.
package broker
