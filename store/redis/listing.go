package redis

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

var (
	//go:embed list.lua
	listLua    string
	listScript = rueidis.NewLuaScript(withoutComments(listLua))
)

// syncVersions tells the servers the versions that they do not know, and this node theirs.
func (s *Store) syncVersions(ctx context.Context) error {
	ls := &s.plans.list
	ls.asked.Lock()
	defer ls.asked.Unlock()
	ls.mu.Lock()
	fresh, from := ls.fresh, ls.from
	ls.fresh = nil
	ls.mu.Unlock()
	args := append([]string{strconv.FormatInt(from, 10), strconv.Itoa(maxListed)}, fresh...)
	ctx, cancel := context.WithTimeout(ctx, s.opt.callTimeout())
	defer cancel()
	p := s.nodes.routeTag("versions")
	var reply []rueidis.RedisMessage
	err := p.askServer(func(client rueidis.Client) (err error) {
		reply, err = listScript.Exec(ctx, client, []string{s.opt.Prefix + ":{versions}:list"}, args).ToArray()
		return err
	})
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err != nil || len(reply) != 3 {
		ls.fresh = newestListed(append(fresh, ls.fresh...))
		return cmp.Or(err, errReply)
	}
	now, err1 := reply[0].ToInt64()
	count, err2 := reply[1].ToInt64()
	entries, err3 := reply[2].AsStrSlice()
	if err := cmp.Or(err1, err2, err3); err != nil {
		return fmt.Errorf("list of versions: %w", err)
	}
	ls.from, ls.mine = now, newestListed(append(ls.mine, fresh...))
	if count < int64(min(len(ls.mine), maxListed)) { // the server has lost it
		ls.fresh, ls.mine = newestListed(append(ls.fresh, ls.mine...)), nil
	}
	for _, entry := range entries {
		if family, pl := parseEntry(entry); pl != nil {
			s.plans.learnVersion(family, pl, s.readClock())
		}
	}
	return nil
}

// keepListed reads the list until the store is closed, and adds what it lacks.
func (s *Store) keepListed(ctx context.Context) {
	for last := false; !last; {
		select {
		case <-ctx.Done():
			last = true
		case <-time.After(listEvery):
		case <-s.plans.list.wake:
			time.Sleep(addAfter)
		}
		if last && !s.plans.list.hasFreshEntries() {
			return
		}
		if err := s.syncVersions(context.WithoutCancel(ctx)); err != nil && !last && !Unreachable(err) && s.NotReached() == nil {
			s.faults.Report("limits whose algorithm or period changes may count from zero on other nodes: the list of versions cannot be kept", err)
		}
	}
}
