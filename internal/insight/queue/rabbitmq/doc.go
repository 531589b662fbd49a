// Package rabbitmq carries events over RabbitMQ, by AMQP 0-9-1.
//
// The URL is amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST?queue=QUEUE, or
// amqps:// with TLS. Of several hosts the first that answers is used. Without a
// vhost it is /, without a user guest. Its parameters:
//
//	queue            weir by default; sources of one queue share the events
//	type             quorum (by default) or classic, of a queue that is made
//	tls_ca           a file of PEM certificates to trust in place of the system's
//	tls_cert tls_key the client's certificate, which also logs in if the broker takes EXTERNAL
//	tls_server_name  the name in the broker's certificate
//
// A message is a batch of events, a JSON array of CloudEvents (content type
// application/cloudevents-batch+json), of about 256 KiB, compressed with gzip
// (content encoding gzip) and persistent. CloudEvents has no binding to AMQP
// 0-9-1; this is the batched mode of its other bindings.
//
// A batch is published when the broker has confirmed its messages, and returned
// none of them for want of a queue. Sources acknowledge a message after its events
// were taken.
//
// A queue that is missing is made, durable. One that exists stays as it is.
// Messages that are not events go to the queue QUEUE.dlq. What that does not take for ten
// seconds, although the broker answers, is dropped, counted (Source.Dropped) and logged; while
// the broker does not answer it is kept. Events that are not taken are offered again, however
// often. A broker closes the
// channel of a source that has not acknowledged for half an hour
// (consumer_timeout): events that are not taken for so long are offered anew, and
// quorum queues of RabbitMQ 4 drop a message after the twentieth time unless their
// delivery limit is set otherwise.
package rabbitmq
