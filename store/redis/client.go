package redis

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"
)

// workers of a pipeline to a whole server, and of one to a range of slots.
const (
	serverWorkers = 4
	rangeWorkers  = 1
)

// clientOption returns what the client library is told, for servers at hosts.
func (a *address) clientOption(hosts []string) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: hosts,
		Username:    a.user, Password: a.password, SelectDB: a.database,
		ClientName: "weir",
		TLSConfig:  a.TLS,
		Dialer:     net.Dialer{Timeout: a.callTimeout(), KeepAlive: timeout / 2},
		// What a server that answers not was sent is given up after this.
		ConnWriteTimeout: a.callTimeout(),
		// Answers are never cached here, and nothing is sent twice.
		DisableCache: true,
		DisableRetry: true,
		// Half a mebibyte each is for larger commands than ours.
		ReadBufferEachConn:  32 << 10,
		WriteBufferEachConn: 32 << 10,
	}
	switch a.kind {
	case single, ringed:
		o.ForceSingleClient = true
	case sentinel:
		o.Sentinel = rueidis.SentinelOption{MasterSet: a.master, Username: a.sentinelUser, Password: a.sentinelPassword,
			Dialer: o.Dialer, TLSConfig: a.TLS, ClientName: o.ClientName,
			// In case that the message of a failover is missed.
			TopologyRefreshInterval: time.Second}
	case clustered:
		o.ClusterOption = rueidis.ClusterOption{ShardsRefreshInterval: 5 * time.Second, MaxMovedRedirections: 5}
		o.PipelineMultiplex = 1
	}
	o.DialCtxFn = func(ctx context.Context, to string, d *net.Dialer, conf *tls.Config) (net.Conn, error) {
		network := "tcp"
		if a.socket {
			network = "unix"
		}
		return a.files.Dial(ctx, d, conf, network, to)
	}
	return o
}
