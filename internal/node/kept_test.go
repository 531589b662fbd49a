package node_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// clientNames asks a server for the clients that it knows of.
func (r *running) clientNames(t *testing.T) map[string]bool {
	t.Helper()
	var list struct{ Clients []struct{ Key string } }
	if code := r.question(t, "clients", "", &list); code != 200 {
		t.Fatalf("clients: %d", code)
	}
	names := map[string]bool{}
	for _, c := range list.Clients {
		names[c.Key] = true
	}
	return names
}

// A client has one name across a restart, or a warning at the start says that it has not.
func TestFamilyNamesAcrossRestarts(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, database, secret string
		plain, warns           bool
		oneName                bool // of a client, after restarts
	}{
		{"a file and a secret of the process", "sqlite:", "", false, true, false},
		{"a file and a stored secret", "sqlite:", secret, false, false, true},
		{"a file and plain keys", "sqlite:", "", true, false, true},
		{"memory", "memory:", "", false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			database := c.database
			if database == "sqlite:" {
				database += filepath.Join(t.TempDir(), "weir.db")
			}
			var last *running
			for round := range 3 {
				if last != nil {
					if err := last.drain(); err != nil {
						t.Fatal(err)
					}
				}
				conf := local("1/hour by client_id")
				conf.Analytics.URL, conf.Events.SecretFile, conf.Events.Unhashed, conf.Events.Sample = database, c.secret, c.plain, 1
				var log bytes.Buffer
				last = runLogged(t, conf, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				want := round // a name of each process
				if c.oneName {
					want = min(round, 1)
				}
				if c.database != "memory:" {
					if names := len(last.clientNames(t)); names != want {
						t.Errorf("after %d restarts a client has %d names, not %d", round, names, want)
					}
				}
				for range 3 {
					last.ask(t, "one")
				}
				defer func() {
					warned := strings.Contains(log.String(), "events.secret_file")
					if warned != c.warns {
						t.Errorf("warned: %v; the log has %q", warned, &log)
					}
				}()
			}
			if err := last.drain(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// How many clients there were is said where the sample tells it, and else said not to be
// known: never that those were all who were limited.
func TestFamilyClientsSeen(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sample, clients, limited int64
		known                    bool
	}{
		{1000, 41, 1, false}, {1000, 41, 41, false}, {0, 41, 1, false}, {0, 5, 0, false},
		{1, 41, 1, true}, {1, 41, 41, true}, {1, 7, 0, true},
	} {
		t.Run(fmt.Sprintf("one in %d, %d of %d limited", c.sample, c.limited, c.clients), func(t *testing.T) {
			t.Parallel()
			database := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
			start := func() *running {
				conf := local("3/hour by client_id")
				conf.Analytics.URL, conf.Events.SecretFile, conf.Events.Sample = database, secret, c.sample
				return run(t, conf)
			}
			r := start()
			for i := range c.clients {
				n := 1
				if i < c.limited {
					n = 5
				}
				for range n {
					r.ask(t, fmt.Sprint("client", i))
				}
			}
			if err := r.drain(); err != nil {
				t.Fatal(err)
			}
			r = start()
			type seen struct {
				KeysLimited   int64 `json:"keys_limited"`
				KeysSeen      int64 `json:"keys_seen"`
				KeysSeenKnown bool  `json:"keys_seen_known"`
			}
			var overview seen
			if code := r.question(t, "overview", "", &overview); code != 200 {
				t.Fatalf("overview: %d", code)
			}
			want := seen{c.limited, 0, c.known}
			if c.known {
				want.KeysSeen = c.clients
			}
			if overview != want {
				t.Errorf("%+v, not %+v", overview, want)
			}
			if err := r.drain(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
