// Package kafka carries events over Apache Kafka.
//
// The URL is kafka://HOST:PORT,HOST:PORT/TOPIC, or kafkas:// with TLS, with
// USER:PASSWORD@ before the hosts for SASL. Its parameters:
//
//	group            the consumer group, weir by default; sources of one group share the events
//	sasl             plain, scram-sha-256 or scram-sha-512; by default plain with TLS, scram-sha-256 without
//	tls_ca           a file of PEM certificates to trust in place of the system's
//	tls_cert tls_key the client's certificate
//	tls_server_name  the name in the servers' certificates
//
// An event is one message: a CloudEvent in the structured JSON mode of the Kafka
// protocol binding, with the event's partition key as the message's key, so that
// what belongs together stays in order. Producers' batches are compressed with
// Zstandard (Kafka 2.1 or later).
//
// A batch is published when all in-sync replicas have it: what a broker loses
// after that is a matter of the topic's replication. Sources commit an offset
// after its event was taken.
//
// A topic that is missing is made by the brokers if they are set to do so
// (auto.create.topics.enable). Messages that are not events go to TOPIC.dlq.
// What that does not take for ten seconds, although the brokers answer, is dropped,
// counted (Source.Dropped) and logged; while no broker answers it is kept. Events that are not
// taken are offered again, however often.
package kafka
