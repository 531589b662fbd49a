package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/overlay"
)

// pluralize returns "1 rule", "2 rules".
func pluralize[T int | int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func units(n int64) string { return pluralize(n, "unit") }

// seconds writes a number of seconds: "12.5s", nil "never".
func seconds(s *float64) string {
	if s == nil {
		return "never"
	}
	return strconv.FormatFloat(*s, 'f', -1, 64) + "s"
}

// modeLine writes a mode that an operator gave a limit for a person.
func modeLine(v *overlay.ModeView) string {
	text := fmt.Sprintf("limit %s of %s/%s: %s, set by %s", v.Limit, v.Domain, v.Rule, v, live.Printable(v.By))
	if v.Reason != "" {
		text += ": " + live.Printable(v.Reason)
	}
	return text + "\n"
}

// overlayLine writes what operators laid over a key for a person.
func overlayLine(v *overlay.View) string {
	text := "banned      "
	switch v.Kind {
	case overlay.Allow:
		text = "let through "
	case overlay.Override:
		text = "overridden   by " + v.Rate
		if v.Burst > 0 {
			text += fmt.Sprintf(" burst %d", v.Burst)
		}
	}
	if v.Until != nil {
		text += " until " + v.Until.Format(time.RFC3339)
	}
	if v.By != "" {
		text += ", set by " + live.Printable(v.By)
	}
	return text + "\n"
}

// indented writes lines of a rules file for a terminal.
func indented(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		b.WriteString("  " + live.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
