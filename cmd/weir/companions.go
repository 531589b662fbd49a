package main

import (
	"context"
	"errors"
	goflag "flag"
	"fmt"
	"strings"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/certfile"
)

// runByName runs the program that a link of that name stands for: those that
// come with Envoy's rate limit service, with their flags. ok is false if the
// name is none of theirs.
func runByName(name string, args []string, s streams) (code int, ok bool) {
	var run func([]string, streams) error
	switch name {
	case "config_check_cmd", "ratelimit_config_check":
		run = runConfigCheck
	case "client_cmd", "ratelimit_client":
		run = runClient
	default:
		return 0, false
	}
	err := run(args, s)
	if errors.Is(err, goflag.ErrHelp) {
		err = nil
	}
	return statusOf(err, name, s), true
}

func runConfigCheck(args []string, s streams) error {
	f := newFlagSet("config_check_cmd", s)
	dir := f.String("config_dir", "", "path to directory containing rate limit configs")
	merge := f.Bool("merge_domain_configs", false, "whether to merge configurations, referencing the same domain")
	if err := f.Parse(args); err != nil {
		return err
	}
	return checkEnvoy(s, *dir, *merge)
}

func newFlagSet(name string, s streams) *goflag.FlagSet {
	f := goflag.NewFlagSet(name, goflag.ContinueOnError)
	f.SetOutput(s.err)
	return f
}

// askedDescriptors is the flag -descriptors, given once for each: k=v,k=v.
type askedDescriptors []*commonv3.RateLimitDescriptor

// Set implements flag.Value.
func (d *askedDescriptors) Set(text string) error {
	one := &commonv3.RateLimitDescriptor{}
	for pair := range strings.SplitSeq(text, ",") {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || strings.Contains(v, "=") {
			return errors.New("invalid descriptor list")
		}
		one.Entries = append(one.Entries, &commonv3.RateLimitDescriptor_Entry{Key: k, Value: v})
	}
	*d = append(*d, one)
	return nil
}

// String implements flag.Value.
func (d *askedDescriptors) String() string {
	var b strings.Builder
	for _, one := range *d {
		b.WriteString("[")
		for _, e := range one.Entries {
			fmt.Fprintf(&b, " <key=%s, value=%s> ", e.Key, e.Value)
		}
		b.WriteString("] ")
	}
	return b.String()
}

// clientTimeout bounds the one call of the client.
const clientTimeout = 30 * time.Second

func runClient(args []string, s streams) error {
	f := newFlagSet("client_cmd", s)
	addr := f.String("dial_string", "localhost:8081", "url of ratelimit server in <host>:<port> form")
	domain := f.String("domain", "", "rate limit configuration domain to query")
	var list askedDescriptors
	f.Var(&list, "descriptors", "descriptor list to query in <key>=<value>,<key>=<value>,... form")
	ca := f.String("grpc-server-ca-file", "", "path to the server CA file for TLS connection")
	useTLS := f.Bool("grpc-use-tls", false, "Use TLS for connection to server")
	cert := f.String("grpc-cert-file", "", "path to the client cert file for TLS connection")
	key := f.String("grpc-key-file", "", "path to the client key for TLS connection")
	otlp := f.String("oltp-protocol", "", "accepted; this client sends no traces")
	if err := f.Parse(args); err != nil {
		return err
	}
	f.VisitAll(func(f *goflag.Flag) { fmt.Fprintf(s.out, "Flag: --%s=%q\n", f.Name, f.Value) })
	if *otlp != "" {
		fmt.Fprintln(s.err, "client_cmd: no traces are sent: -oltp-protocol has no effect")
	}
	creds := insecure.NewCredentials()
	if *useTLS {
		conf, err := certfile.Client{Cert: *cert, Key: *key, CA: *ca, Compatible: true}.Config(nil)
		if err != nil {
			return err
		}
		creds = credentials.NewTLS(conf)
	}
	conn, err := grpc.NewClient(*addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		fmt.Fprintf(s.out, "error connecting: %s\n", err)
		return errNo
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	res, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: *domain, Descriptors: list, HitsAddend: 1})
	if err != nil {
		fmt.Fprintf(s.out, "request error: %s\n", err)
		return errNo
	}
	fmt.Fprintf(s.out, "response: %s\n", res)
	return nil
}
