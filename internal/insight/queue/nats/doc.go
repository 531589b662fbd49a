// Package nats carries events over NATS JetStream.
//
// The URL is nats://HOST:PORT,HOST:PORT/STREAM, or natss:// with TLS, with
// USER:PASSWORD@ before the hosts where the servers ask for it. Its parameters:
//
//	group            the durable consumer, weir by default; sources of one share the events
//	creds            a file of credentials (JWT and seed)
//	tls_ca           a file of PEM certificates to trust in place of the system's
//	tls_cert tls_key the client's certificate
//	tls_server_name  the name in the servers' certificates
//
// A message is a batch of events, a JSON array of CloudEvents (content-type
// application/cloudevents-batch+json), of about 256 KiB and compressed with gzip.
// It has a hash of its content as its Nats-Msg-Id, so that the servers keep once
// what is sent again within their duplicate window.
//
// A batch is published when the stream has acknowledged its messages. How much a
// server that loses power may forget is its own setting (sync_interval), and
// replicas help. Sources acknowledge a message after its events were taken.
//
// A stream that is missing is made: on disk, as a work queue, on the subject
// STREAM.events. One that exists must have that subject, and stays as it is.
// Messages that are not events go to the subject STREAM.dlq, and a stream
// STREAM_dlq is made where no other has it. What that does not take for ten seconds,
// although the servers answer, is left out, counted (Source.Dropped) and logged; while no
// server answers it is kept. Events that are not taken are offered again, however often.
package nats
