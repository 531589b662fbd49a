package howto

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stays are the commands that run until the page ends, with what each prints when it is
// ready. They run in the background, as in a second terminal of a reader.
var stays = []struct{ command, ready *regexp.Regexp }{
	{regexp.MustCompile(`\bweir serve\b`), regexp.MustCompile(`(?m)^admin +http`)},
	{regexp.MustCompile(`\bweir ratelimit\b`), regexp.MustCompile(`Listening for debug`)},
	{regexp.MustCompile(`\bweir analytics\b`), regexp.MustCompile(`(?m)^(reports|admin|analytics) +http`)},
	{regexp.MustCompile(`\bweir demo\b`), regexp.MustCompile(`Ctrl-C ends the demo`)},
	{regexp.MustCompile(`\bweir tail\b`), nil},
	{regexp.MustCompile(`\bredis-server\b`), regexp.MustCompile(`Ready to accept connections`)},
	{regexp.MustCompile(`\bcurl -N\b`), nil},
	{regexp.MustCompile(`^go run server\.go`), regexp.MustCompile(`listening`)},
}

// port is what tells commands that stay from each other: the one before on the same port
// is ended, as a reader would by Ctrl-C.
var port = regexp.MustCompile(`--(?:http|port)[ =](?:\S*:)?(\d+)`)

// within is how long a command of a page may take, and wrong one of a page that is to fail.
const within, wrong = 30 * time.Second, 3 * time.Second

// A shell runs the commands of one page, one after the other in one Bash.
type shell struct {
	dir    string
	stdin  io.Writer
	result *bufio.Reader // a line for each command: its exit status, or its process id
	number int
	within time.Duration  // how long a command may take
	kept   map[string]int // process ids of commands that stay, by program and port
}

// startShell starts Bash in a folder. It ends with the page's process.
func startShell(dir string, within time.Duration) (*shell, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir, cmd.ExtraFiles = dir, []*os.File{w}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.Close()
	if _, err := io.WriteString(stdin, "set -o pipefail\n"); err != nil {
		return nil, err
	}
	return &shell{dir: dir, stdin: stdin, result: bufio.NewReader(r), within: within, kept: map[string]int{}}, nil
}

// run types the command of a step and compares what it prints.
func (s *shell) run(ctx context.Context, st step) error {
	ctx, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	s.number++
	out := filepath.Join(os.TempDir(), fmt.Sprintf("output.%d", s.number))
	for _, stay := range stays {
		if stay.command.MatchString(st.command) && !strings.Contains(st.command, "--help") && !strings.Contains(st.command, "--print-config") {
			return s.keep(ctx, st, stay.ready, out)
		}
	}
	status, err := s.enter(ctx, fmt.Sprintf("{ %s\n} >%s 2>&1 </dev/null; echo $? >&3\n", st.command, out))
	printed, _ := os.ReadFile(out) // an absent file has no output
	switch {
	case err != nil:
		return fmt.Errorf("%w; it printed:\n%s", err, printed)
	case len(st.output) > 0 && !matchOutput(st.output, string(printed)):
		return fmt.Errorf("the page says that it prints:\n%s\nit ended with status %d, and printed:\n%s", strings.Join(st.output, "\n"), status, printed)
	case len(st.output) == 0 && status != 0:
		return fmt.Errorf("it ended with status %d, and printed:\n%s", status, printed)
	}
	return nil
}

// keep starts a command that stays, and waits until it is ready and has printed what the
// page says.
func (s *shell) keep(ctx context.Context, st step, ready *regexp.Regexp, out string) error {
	name := strings.Fields(st.command)[0]
	if m := port.FindStringSubmatch(st.command); m != nil {
		name += m[1]
	}
	if pid := s.kept[name]; pid != 0 && ready != nil {
		if err := end(ctx, pid); err != nil {
			return err
		}
	}
	command := regexp.MustCompile(`\s# .*$`).ReplaceAllString(st.command, "")
	pid, err := s.enter(ctx, fmt.Sprintf("%s >%s 2>&1 </dev/null &\necho $! >&3\n", strings.TrimSuffix(command, "&"), out))
	if err != nil {
		return err
	}
	s.kept[name] = pid
	for {
		printed, _ := os.ReadFile(out) // absent until the shell has opened it
		if (ready == nil || ready.Match(printed)) && (len(st.output) == 0 || matchOutput(st.output, string(printed))) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready, or does not print what the page says:\n%s\nit printed:\n%s", strings.Join(st.output, "\n"), printed)
		case <-time.After(20 * time.Millisecond):
		}
		if !runs(pid) {
			printed, _ = os.ReadFile(out)
			return fmt.Errorf("it ended, and printed:\n%s", printed)
		}
	}
}

// enter types text that ends by writing one number.
func (s *shell) enter(ctx context.Context, text string) (int, error) {
	if _, err := io.WriteString(s.stdin, text); err != nil {
		return 0, err
	}
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := s.result.ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		if l.err != nil {
			return 0, fmt.Errorf("the shell ended: %w", l.err)
		}
		return strconv.Atoi(strings.TrimSpace(l.text))
	case <-ctx.Done():
		return 0, fmt.Errorf("it did not end within %s", s.within)
	}
}

// end ends a process and waits until it is gone.
func end(ctx context.Context, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	for runs(pid) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the command before, process %d, does not end", pid)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// runs reports whether a process runs: one whose parent has not asked for its status does
// not.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
