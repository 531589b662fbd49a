package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/storecalls"
	"github.com/weirlimit/weir/store/internal/transport"
)

// ErrBusy: as many calls wait for the server as may. Nothing was charged.
var ErrBusy = errors.New("store redis: too many calls wait for the server: it is slow or gone; raise in_flight if it is neither")

// TimeoutError: the server did not answer in time.
type TimeoutError struct {
	// Sent: the call had been sent, and may have been applied or be so later. It
	// was not sent again and must not be: it could be charged twice. If false,
	// nothing was charged.
	Sent bool
	// Err is context.DeadlineExceeded, or why the caller's context ended.
	Err    error
	result *transport.Result // of a call that the caller has left
}

func (e *TimeoutError) Error() string {
	if e.Sent {
		return "store redis: no answer in time; the cost may have been charged"
	}
	return "store redis: no answer in time; nothing was charged"
}

// Unwrap returns e.Err.
func (e *TimeoutError) Unwrap() error { return e.Err }

// explainOpen is explain for a server that is only met.
func (s *Store) explainOpen(err error) error {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: store redis: no answer: is it up, and does it speak TLS there or not, as the URL says? (%w)", s.name, err)
	}
	return fmt.Errorf("%s: %w", s.name, explain(err))
}

// failureOf returns the word for why a call failed.
func failureOf(err error) string {
	switch {
	case errors.Is(err, ErrBusy):
		return storecalls.Busy
	case isRefused(err):
		return storecalls.Refused
	case errors.Is(err, errLost):
		return storecalls.Unreachable
	}
	return transport.FailureOf(err)
}

// Unreachable reports whether an error of Open says that servers do not answer, or
// not yet, and not that one that does cannot be used.
func Unreachable(err error) bool {
	if e, ok := replyError(err); ok {
		return isNotServing(e) || e.IsNil() // a Sentinel that knows no primary
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		// That of an alert by TLS is one too: there, somebody answered.
		_, isAlert := errors.AsType[tls.AlertError](err)
		return !isAlert
	}
	return errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rueidis.ErrNoSlot)
}

// isNotServing reports whether a server says that it is there and does not serve yet.
func isNotServing(e *rueidis.RedisError) bool {
	return slices.ContainsFunc([]string{"LOADING", "CLUSTERDOWN", "MASTERDOWN"}, func(sign string) bool { return strings.HasPrefix(e.Error(), sign) })
}

// replyError returns what a server said, however it was wrapped since.
func replyError(err error) (*rueidis.RedisError, bool) {
	return errors.AsType[*rueidis.RedisError](err)
}

// isRefused reports whether an error is what a server said, which was asked and did not
// decide, as with a full memory.
func isRefused(err error) bool {
	_, isReply := replyError(err)
	_, ofRow := errors.AsType[rowError](err)
	return isReply || ofRow
}

// What is wrong where several words of errors say so.
const (
	anotherName = "the server's certificate is for another name: give that by tls_server_name"
	notTaken    = "the server does not take the certificate of tls_cert: name one that has not expired, of an authority that it knows"
	hungUp      = "the server hung up: if it speaks TLS write rediss:// for redis://, and if it wants a certificate name one that it takes by tls_cert and tls_key"
)

// explain says what a human can do about an error of a server.
func explain(err error) error {
	switch {
	case err == nil, errors.Is(err, weir.ErrClosed):
		return err
	case errors.Is(err, rueidis.ErrClosing):
		return weir.ErrClosed
	case errors.Is(err, context.DeadlineExceeded):
		return &TimeoutError{Sent: true, Err: err}
	}
	text := err.Error()
	for _, known := range []struct{ sign, cure string }{
		{"WRONGPASS", "the user or password in the URL is wrong"},
		{"NOAUTH", "the server wants a password: write redis://user:password@host"},
		{"invalid username-password pair", "the user or password in the URL is wrong"},
		{"AUTH failed", "the user or password in the URL is wrong"},
		{"NOPERM", "the user may not do this: allow it +@scripting +@read +@write +time +info on the keys of the store"},
		{"OOM ", "the server's memory is full: raise its maxmemory"},
		{"READONLY", "this is a replica: name the primary, or the Sentinels by redis+sentinel://"},
		{"MOVED ", "this server is part of a cluster: write redis+cluster:// for redis://"},
		{"CROSSSLOT", "this server is part of a cluster: write redis+cluster:// for redis://"},
		{"CLUSTERDOWN", "the cluster does not serve all slots: see CLUSTER INFO"},
		{"DB index is out of range", "there is no such database: see the server's databases setting"},
		{"invalid DB index", "there is no such database: see the server's databases setting"},
		{"SELECT is not allowed in cluster mode", "a cluster has database 0 alone: leave the number out of the URL"},
		{"unknown command 'SENTINEL'", "the server is no Sentinel: name the Sentinels, whose port is 26379 by default, or write redis:// for redis+sentinel://"},
		{"No such master with that name", "the Sentinels watch over no primary of that name: SENTINEL MASTERS tells the names"},
		{"LOADING", "the server is reading its data from disk"},
		{"first record does not look like a TLS handshake", "the server does not speak TLS on this port: write redis:// for rediss://"},
		{"certificate signed by unknown authority", "name the authority of the server's certificate by tls_ca"},
		{"cannot validate certificate for", anotherName},
		{"certificate is valid for", anotherName},
		{"certificate is not valid for any names", anotherName},
		{"certificate has expired or is not yet valid", "renew the server's certificate, or set the clock of this machine"},
		{"tls: expired certificate", notTaken},
		{"tls: bad certificate", notTaken},
		{"tls: unknown certificate", notTaken}, // or its authority
		{"certificate required", "the server wants a certificate: name one by tls_cert and tls_key"},
		{"connection reset by peer", hungUp},
		{"broken pipe", hungUp},
		{"connection refused", "nobody listens there: is the server up, and the port right?"},
		{"no such host", "no such host: check the name"},
		{"no such file or directory", "no such socket: is the server up, and its unixsocket set?"},
	} {
		if strings.Contains(text, known.sign) {
			return fmt.Errorf("store redis: %s (%w)", known.cure, err)
		}
	}
	return fmt.Errorf("store redis: %w", err)
}

// A rowError is what a server said of one row: it answered, and decided the others.
type rowError string

func (e rowError) Error() string { return string(e) }

var errReply = errors.New("the script's reply is not a list of integers")

// A rejection: the server answered that it cannot decide this call, for the sake of its
// keys or limits. Nothing was charged, and others are decided as ever.
type rejection struct{ error }

func (e rejection) Unwrap() error { return e.error }

// unserved begin errors by which a server serves nobody, even where a script ran into
// them.
var unserved = []string{
	"OOM ", "READONLY", "NOPERM", "MISCONF", "NOREPLICAS", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "NOAUTH", "NOSCRIPT", "TRYAGAIN", "MOVED ", "ASK ", "CROSSSLOT",
}

// hasLeft reports whether a server that was a primary says that it serves no longer, or not
// yet, though its name may lead to another by now.
func hasLeft(err error) bool {
	return err != nil && isRefused(err) && slices.ContainsFunc(
		[]string{"READONLY", "NOREPLICAS", "MASTERDOWN", "LOADING", "MISCONF", "NOAUTH"},
		func(sign string) bool { return strings.Contains(err.Error(), sign) })
}

// isRejection reports whether err is what a script said of the keys or limits that it
// was given.
func isRejection(err error) bool {
	row, ofRow := errors.AsType[rowError](err)
	text := string(row)
	if e, ok := replyError(err); ok {
		text, ofRow = e.Error(), false
	}
	if slices.ContainsFunc(unserved, func(sign string) bool { return strings.Contains(text, sign) }) {
		return false
	}
	return ofRow || strings.Contains(text, "WRONGTYPE") || strings.Contains(text, "user_script") || strings.Contains(text, "Error running script")
}

// errSpoilt: a key has a value that no script of ours writes.
var errSpoilt = rejection{errors.New("store redis: a key holds what no script of Weir writes")}

// isSpoilt reports whether err may be about a key that no script of ours wrote.
func isSpoilt(err error) bool {
	_, ok := errors.AsType[rejection](err)
	return ok
}

// errLost: the keys of a lost part wait for it, or all parts are lost.
var errLost = errors.New("store redis: the server does not answer, as was logged with the reason")
var errLostPart = fmt.Errorf("%w, and no other takes over its keys: it is one of a cluster, or ring_on_loss is policy, or the limit is pinned", errLost)

// isLoss reports whether an error says that the server is away or does not serve yet,
// not that it refuses.
func isLoss(err error) bool {
	if e, ok := replyError(err); ok && isNotServing(e) {
		return true
	}
	return err != nil && !isRefused(err) && !errors.Is(err, context.Canceled)
}
