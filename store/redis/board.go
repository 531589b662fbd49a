package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/documents"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
)

var _ documents.Board = (*Store)(nil)

// A document is one key, PREFIX:{NAME}: its version in sixteen digits, and its
// data. No counter has such a name: those have more after the braces. It has no
// expiry, so only a maxmemory-policy that forgets keys without one forgets it.
//
// Versions are the server's time in microseconds, or one more than the last: a
// document that was lost is not taken for one that is there.

var (
	//go:embed read.lua
	readLua string
	//go:embed swap.lua
	swapLua string

	readScript = rueidis.NewLuaScript(withoutComments(readLua))
	swapScript = rueidis.NewLuaScript(withoutComments(swapLua))
)

// ReadDocument implements documents.Board: one script, and no data unless it has
// changed. It waits a second, or Options.Timeout if that is more.
func (in inside) ReadDocument(ctx context.Context, name string, known int64) (documents.Document, error) {
	s := in.of
	reply, err := runDocument(ctx, s, readScript, name, strconv.FormatInt(known, 10), strconv.Itoa(documents.MaxDocument))
	if err != nil {
		return documents.Document{}, err
	}
	d := documents.Document{Now: reply.now, Version: reply.version}
	if len(reply.rest) > 0 {
		text, err := reply.rest[0].ToString()
		if err != nil {
			return documents.Document{}, explain(errReply)
		}
		d.Data = []byte(text)
	}
	return d, nil
}

// SwapDocument implements documents.Board, as ReadDocument does.
func (in inside) SwapDocument(ctx context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	s := in.of
	if len(d.Data) > documents.MaxDocument {
		return documents.Document{}, fmt.Errorf("store redis: %w: %d bytes, more than %d", documents.ErrDocument, len(d.Data), documents.MaxDocument)
	}
	reply, err := runDocument(ctx, s, swapScript, name, strconv.FormatInt(was, 10), strconv.FormatInt(d.Version, 10), string(d.Data))
	if err != nil {
		return documents.Document{}, err
	}
	if len(reply.rest) == 0 {
		return documents.Document{}, documents.ErrChanged
	}
	d.Version, d.Now = reply.version, reply.now
	return d, nil
}

// documentReply is what both scripts say.
type documentReply struct {
	now, version int64
	rest         []rueidis.RedisMessage
}

// runDocument runs a script, and tells the watcher if there is no answer.
func runDocument(ctx context.Context, s *Store, script *rueidis.Lua, name string, args ...string) (documentReply, error) {
	r, err := askDocument(ctx, s, script, name, args)
	if err != nil && s.watcher != nil {
		s.watcher.Fail(failureOf(err))
	}
	return r, err
}

func askDocument(ctx context.Context, s *Store, script *rueidis.Lua, name string, args []string) (documentReply, error) {
	if s.closed.Load() {
		return documentReply{}, weir.ErrClosed
	}
	t := tagForKey(name)
	key := s.opt.Prefix + ":{" + t + "}"
	ctx, cancel := context.WithTimeout(ctx, s.opt.callTimeout())
	defer cancel()
	p := s.nodes.routeTag(t)
	var values []rueidis.RedisMessage
	err := p.askServer(func(client rueidis.Client) (err error) {
		values, err = script.Exec(ctx, client, []string{key}, args).ToArray()
		return err
	})
	if e, ok := replyError(err); ok && strings.Contains(e.Error(), "WRONGTYPE") {
		return documentReply{}, fmt.Errorf("store redis: %w: %s holds something else", documents.ErrDocument, key)
	}
	if err != nil {
		return documentReply{}, err
	}
	var r documentReply
	if len(values) < 2 {
		return r, explain(errReply)
	}
	now, err1 := values[0].ToInt64()
	version, err2 := values[1].ToInt64()
	if err := errors.Join(err1, err2); err != nil {
		return r, explain(errReply)
	}
	if version < 0 {
		return r, fmt.Errorf("store redis: %w: %s is damaged or larger than %d bytes", documents.ErrDocument, key, documents.MaxDocument)
	}
	if s.nowFunc != nil {
		now = s.nowFunc()
	}
	return documentReply{now, version, values[2:]}, nil
}
