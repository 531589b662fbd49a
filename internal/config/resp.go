package config

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// RESP configures the listener that speaks the Redis protocol.
type RESP struct {
	Listen       string        `yaml:"listen" name:"resp" placeholder:"[HOST:]PORT" help:"Address of the Redis protocol. It serves commands for the rules, and CL.THROTTLE as redis-cell has it: see docs/reference/redis-protocol.md. A port alone is on 127.0.0.1; unix:PATH is a Unix socket. off means none."`
	User         string        `yaml:"user" kong:"-" was:"resp-user" placeholder:"NAME" help:"User that Redis clients authenticate as. Empty means default, which clients may leave out."`
	Password     Secret        `yaml:"password" name:"resp-password" kong:"-" placeholder:"PASSWORD" help:"Password of Redis clients. Required as soon as the address is not loopback."`
	PasswordFile string        `yaml:"password_file" name:"resp-password-file" kong:"-" placeholder:"FILE" help:"File that holds the password, in place of resp.password."`
	TLS          TLS           `yaml:"tls" embed:"" prefix:"resp-tls-"`
	MaxClients   int64         `yaml:"max_clients" kong:"-" was:"resp-max-clients" default:"4096" placeholder:"N" least:"1" most:"1048576" help:"Most concurrent connections of Redis clients, and a quarter of them for one client: an IPv4 address, or an IPv6 /64. The one that is idle for longest is closed for a new one; where all have commands in flight, the new one gets an error and is closed. Loopback, trust and identity.proxies.trusted have no bound for one client. Where there is a password, unauthenticated clients replace each other once they hold a quarter."`
	IdleTimeout  time.Duration `yaml:"idle_timeout" kong:"-" was:"resp-idle-timeout" default:"0s" placeholder:"DURATION" least:"0" help:"How long a Redis client may send nothing. 0 means without end, as clients keep pools: TCP keep-alive ends the connection of a machine that is gone."`
	Timeout      time.Duration `yaml:"timeout" kong:"-" was:"resp-timeout" default:"10s" placeholder:"DURATION" positive:"" help:"How long a Redis client may take to authenticate, to send the rest of a command, and to read its replies."`
}

// checkAccess reports what is wrong with r that can be seen without opening anything.
func (r *RESP) checkAccess() error {
	if r.Listen == "" {
		return nil
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	secret := r.Password != "" || r.PasswordFile != ""
	if r.Password != "" && r.PasswordFile != "" {
		bad("resp.password and resp.password_file are both set: keep one")
	}
	if r.User != "" && !secret {
		bad("resp.user has no password: set resp.password_file (WEIR_RESP_PASSWORD_FILE)")
	}
	if !secret && r.TLS.ClientCA == "" && r.IsRemote() {
		bad("--resp %s can be reached from other machines, and whoever connects may spend and reset: set resp.password_file (WEIR_RESP_PASSWORD_FILE), or listen on 127.0.0.1", r.Listen)
	}
	if r.PasswordFile == "" {
		errs = append(errs, r.checkPassword(string(r.Password)))
	}
	return errors.Join(errs...)
}

// checkPassword returns an error for a password that others can find by trying.
func (r *RESP) checkPassword(password string) error {
	if password == "" || len(password) >= minSecret || !r.IsRemote() {
		return nil
	}
	return fmt.Errorf("the password of Redis clients has fewer than %d bytes, and --resp %s can be reached from other machines, which would find it: use `openssl rand -hex 16`, or listen on 127.0.0.1", minSecret, r.Listen)
}

// IsRemote reports whether other machines reach the listener.
func (r *RESP) IsRemote() bool {
	addr := r.Address()
	return !strings.HasPrefix(addr, UnixPrefix) && !IsLoopback(addr)
}

// Address returns where to listen: a port alone is on loopback.
func (r *RESP) Address() string { return WithHost(r.Listen, Loopback) }

// ReadPassword returns what clients must give, empty for nothing.
func (r *RESP) ReadPassword() (string, error) {
	if r.PasswordFile == "" {
		return string(r.Password), nil
	}
	data, err := ReadSecret("resp.password_file", r.PasswordFile)
	if err == nil {
		err = r.checkPassword(string(data))
	}
	return string(data), err
}
