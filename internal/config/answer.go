package config

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/answer"
)

// Answer configures what HTTP answers tell of limits.
type Answer struct {
	Headers          []string `yaml:"headers" name:"response-headers" kong:"-" was:"answer-headers" sep:"," default:"ietf-08,x-ratelimit" placeholder:"SET" help:"Sets of header fields to send. ietf-08 (RateLimit and RateLimit-Policy as lists), ietf-07 (as a dictionary; not beside ietf-08), ietf-06 (RateLimit-Limit, -Remaining, -Reset), x-ratelimit (X-RateLimit-Limit, -Remaining, and -Retry-After on refusals), x-ratelimit-reset (the same and X-RateLimit-Reset), none. Retry-After is sent in any case."`
	Names            []string `yaml:"names" kong:"-" was:"answer-names" sep:"," placeholder:"FIELD=NAME" help:"Other names for header fields, such as X-RateLimit-Limit=X-Rate-Limit-Limit."`
	Reset            string   `yaml:"reset" kong:"-" was:"answer-reset" default:"delta" enum:"delta,epoch,epoch_ms,http_date,iso8601" help:"Form of X-RateLimit-Reset and RateLimit-Reset: ${enum}. delta is seconds from now, epoch seconds and epoch_ms milliseconds since 1970."`
	Jitter           int64    `yaml:"jitter" kong:"-" was:"answer-jitter" default:"0" placeholder:"PERCENT" help:"Random part that is added to the Retry-After of refusals, at most this many percent of it, 0 to 100. It is rounded up to a second, and spreads the retries of clients."`
	Expose           bool     `yaml:"expose" kong:"-" was:"answer-expose" default:"false" help:"List the fields in Access-Control-Expose-Headers, so that scripts in browsers can read them across origins."`
	AllowOrigin      string   `yaml:"allow_origin" kong:"-" was:"answer-allow-origin" placeholder:"ORIGIN" help:"Access-Control-Allow-Origin of refusals: * or an origin such as https://app.example.org. Its scripts then see a refusal and not a network error. Empty means none."`
	Status           int64    `yaml:"status" name:"response-status" kong:"-" was:"answer-status" default:"429" placeholder:"CODE" help:"HTTP status of refusals, 400 to 599."`
	PartitionKeyFile string   `yaml:"partition_key_file" kong:"-" was:"answer-partition-key-file" placeholder:"FILE" help:"File whose content signs the keys of counters, at least 16 bytes. RateLimit then carries 12 bytes of HMAC as pk, by which clients distinguish counters. Empty means no pk."`
}

// options returns what a writer is made with, but for the partition key.
func (a *Answer) options() (answer.Options, error) {
	opt := answer.Options{Headers: a.Headers, Reset: a.Reset, Expose: a.Expose, AllowOrigin: a.AllowOrigin, Names: make(map[string]string)}
	// Out of every range of answer.New what does not fit an int.
	opt.Jitter = int(min(max(a.Jitter, -1), 1000))
	opt.Status = int(min(max(a.Status, 1), 1000))
	for _, text := range a.Names {
		field, name, ok := strings.Cut(text, "=")
		field, name = strings.TrimSpace(field), strings.TrimSpace(name)
		if _, twice := opt.Names[field]; !ok || twice {
			return opt, fmt.Errorf("response.names %q must be FIELD=NAME, each field once", text)
		}
		opt.Names[field] = name
	}
	return opt, nil
}

// checkOptions reports what is wrong with a that can be seen without its files.
func (a *Answer) checkOptions() error {
	_, err := a.newWriter(nil)
	return err
}

// newWriter returns the writer of all HTTP answers. The key may be nil.
func (a *Answer) newWriter(partitionKey []byte) (*answer.Writer, error) {
	opt, err := a.options()
	if err != nil {
		return nil, err
	}
	opt.PartitionKey = partitionKey
	w, err := answer.New(opt)
	if err != nil {
		return nil, fmt.Errorf("section response: %w", err)
	}
	return w, nil
}

// OpenAnswerWriter returns the writer that all front ends share.
func (c *Config) OpenAnswerWriter() (*answer.Writer, error) {
	key, err := ReadSecret("response.partition_key_file", c.Answer.PartitionKeyFile)
	if err != nil {
		return nil, err
	}
	return c.Answer.newWriter(key)
}
