package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// setInWords returns the limits in words of the domain api.
func setInWords(t *testing.T, texts ...string) *limits.Set {
	t.Helper()
	conf := config.Defaults()
	conf.Limits = texts
	w, err := config.ReadWords(conf, func(*weir.Limit) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return limits.NewSet(w.Layers...)
}

// Whoever asks for a reload is told that limits in words do not change by it.
func TestReloadOfWordsIsLogged(t *testing.T) {
	var log bytes.Buffer
	(&ruleSet{live: rules.Fixed(setInWords(t, "1/second")), log: slog.New(slog.NewTextHandler(&log, nil))}).reloadFiles()
	if !strings.Contains(log.String(), "there is no rules file") {
		t.Errorf("logged %q", &log)
	}
}
