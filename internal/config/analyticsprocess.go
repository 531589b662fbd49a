package config

import (
	"errors"
	"fmt"
	"reflect"
)

// AnalyticsProcess is everything that a process of analytics is told.
type AnalyticsProcess struct {
	Events    string `name:"events" required:"" placeholder:"URL" help:"Queue to take events out of: kafka://HOST:PORT/TOPIC or amqp://HOST:PORT/VHOST?queue=QUEUE, as given to weir serve."`
	Analytics `embed:""`
	Listen    string `name:"listen" default:"127.0.0.1:6071" placeholder:"[HOST:]PORT" help:"Address of /v1/analytics/, metrics and health. A port alone is on 127.0.0.1."`
	Token     Secret `name:"admin-token" kong:"-" placeholder:"TOKEN" help:"Token that requests carry as Authorization: Bearer TOKEN, at least 16 bytes. Required as soon as the address is not loopback."`
	TokenFile string `name:"admin-token-file" placeholder:"FILE" help:"File that holds the token, in place of WEIR_ADMIN_TOKEN."`
	TLS       TLS    `embed:"" prefix:"tls-"`
	Log       Log    `embed:""`
}

// ReadVariables sets what has no flag, by its environment variable or its default.
func (c *AnalyticsProcess) ReadVariables() error {
	walkLeaves(reflect.ValueOf(c).Elem(), "", "", func(s Setting, v reflect.Value) {
		if s.Flag == "" {
			setDefault(s, v)
		}
	})
	return readVariables(c)
}

// Check reports what is wrong with c that can be seen without opening anything.
func (c *AnalyticsProcess) Check() error {
	var errs []error
	if _, err := FindQueueKind("--events", c.Events); err != nil {
		errs = append(errs, fmt.Errorf("%w; events that stay in a server are kept by weir serve", err))
	}
	if c.URL == Off {
		errs = append(errs, errors.New("--analytics off keeps nothing: give sqlite:PATH or postgres://HOST/DATABASE"))
	}
	errs = append(errs, c.TLS.checkFiles("tls"), c.Admin().checkToken(), c.Analytics.checkDatabase(), c.Log.checkWords())
	return errors.Join(append(errs, checkBounds(&c.Analytics, "analytics.", func(string) bool { return true })...)...)
}

// Address returns where to listen.
func (c *AnalyticsProcess) Address() string { return WithHost(c.Listen, Loopback) }

// Admin returns what operators are let in by.
func (c *AnalyticsProcess) Admin() *Admin { return &Admin{Token: c.Token, TokenFile: c.TokenFile} }
