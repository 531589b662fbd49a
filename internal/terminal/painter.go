package terminal

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
)

// painter writes the lines of commands in colour, for a terminal. What a line begins with
// tells its colour. It is behind the cleaner, so that no colour comes from a name.
type painter struct {
	w io.Writer
	// held is the beginning of a line that has not ended.
	held []byte
}

// SGR parameters of what lines say.
const (
	red, green, yellow, bold = "31", "32", "33", "1"
)

// paints are what a line can begin with: the first that matches counts, and its first
// group is painted.
var paints = []struct {
	begins *regexp.Regexp
	sgr    string
}{
	{regexp.MustCompile(`^(?:\S.*?:\d+:\d+: )(warning):`), yellow},
	{regexp.MustCompile(`^(\S.*?:\d+:\d+):`), red},
	{regexp.MustCompile(`^((?:now: )?refused|REACHES NO FRONT END:|FAIL|weir:|\d+ faults?,.*|\d+ cases, [1-9]\d* failed)`), red},
	{regexp.MustCompile(`^((?:now: )?allowed|ok\b|\d+ rules? in \d+ files?: good)`), green},
	{regexp.MustCompile(`^(note|see ` + "`" + `weir.*)`), yellow},
	{regexp.MustCompile(`^(domain \S.*|descriptor \d+\b.*| *limit \S.*|counters|request  .*|route  .*|over the rules.*)$`), bold},
	{regexp.MustCompile(`^(\d+ requests? of \d.*|\S.* \(domain \S+\)| +(?:met|limit|refused) .* (?:limit|%|key)| +(?:refused most by|requests \(·\)) .*)$`), bold},
}

// Write implements io.Writer.
func (p *painter) Write(text []byte) (int, error) {
	p.held = append(p.held, text...)
	end := bytes.LastIndexByte(p.held, '\n') + 1
	var out []byte
	for line := range bytes.Lines(p.held[:end]) {
		out = append(out, paint(line)...)
	}
	p.held = append(p.held[:0], p.held[end:]...)
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

// flush writes the beginning of a line that has not ended.
func (p *painter) flush() error {
	_, err := p.w.Write(paint(p.held))
	p.held = nil
	return err
}

// paint returns a line in its colour.
func paint(line []byte) []byte {
	for _, rule := range paints {
		if at := rule.begins.FindSubmatchIndex(bytes.TrimSuffix(line, []byte("\n"))); at != nil {
			return slices.Concat(line[:at[2]], []byte("\x1b["+rule.sgr+"m"), line[at[2]:at[3]], []byte("\x1b[m"), line[at[3]:])
		}
	}
	return line
}

// WantsColour reports whether w is a terminal that has colours, or colours are forced, and
// nobody has said no to them: see https://no-color.org and https://bixense.com/clicolors.
func WantsColour(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	// Forced or not, a terminal may have to be asked to show them.
	f, isFile := w.(*os.File)
	shown := isFile && IsTerminal(f) && os.Getenv("TERM") != "dumb" && showColours(f)
	force := os.Getenv("CLICOLOR_FORCE")
	return shown || force != "" && force != "0"
}

// IsTerminal reports whether somebody watches what is written to w.
func IsTerminal(w io.Writer) bool {
	f, ok := Unwrap(w).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
