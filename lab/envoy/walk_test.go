package envoy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of YAML of a page.
type block struct {
	page string // as "docs/reference/grpc.md"
	n    int    // the first of its page about Envoy is 0
	text string
}

var (
	heading = regexp.MustCompile(`^(#+) (.*)`)
	// ofEnvoy are words that only configurations of Envoy and its kin have.
	ofEnvoy = regexp.MustCompile(`@type|typed_config|typed_per_filter|context_extensions|descriptor_key|rate_limits:|http_filters|direct_response|string_match|grpc_service|gateway\.envoyproxy\.io|envoyExtAuthz`)
)

// envoyBlocks returns the blocks of a page that are for Envoy, or for Weir behind it: those
// under a heading that names Envoy, and those with its words.
func envoyBlocks(page, text string) (out []block) {
	var headings [7]string // the one of each level that is in force
	var in *strings.Builder
	fence := false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case in != nil && trimmed == "```":
			if ofEnvoy.MatchString(in.String()) || strings.Contains(strings.ToLower(strings.Join(headings[:], " ")), "envoy") {
				out = append(out, block{page, len(out), in.String()})
			}
			in = nil
		case in != nil:
			in.WriteString(line)
		case trimmed == "```yaml" || trimmed == "```yml":
			in = new(strings.Builder)
		case strings.HasPrefix(trimmed, "```"):
			fence = !fence
		case !fence:
			if m := heading.FindStringSubmatch(line); m != nil && len(m[1]) < len(headings) {
				headings[len(m[1])] = m[2]
				clear(headings[len(m[1])+1:])
			}
		}
	}
	return out
}

// pages returns the blocks about Envoy of README, docs and deploy.
func pages(t testing.TB) (out []block) {
	t.Helper()
	const root = "../.."
	for _, top := range []string{"README.md", "docs", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			out = append(out, envoyBlocks(filepath.ToSlash(name), string(text))...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Pages with blocks that are run here.
const (
	pageGRPC        = "docs/reference/grpc.md"
	pageExtAuthz    = "docs/how-to/ext-authz.md"
	pageRateLimit   = "docs/how-to/envoy-ratelimit.md"
	pageForwardAuth = "docs/how-to/forward-auth.md"
	pageComingFrom  = "docs/how-to/coming-from.md"
)

// trial runs blocks of one page behind a real Envoy and counts what the page says of them.
type trial struct {
	name   string
	page   string
	blocks []int
	run    func(t *testing.T, blocks ...string)
}

// trials are those of all blocks; one may be in several.
func trials() []trial {
	return []trial{
		{"the filter", pageGRPC, []int{0}, runGRPCFilter},
		{"costs after the response", pageGRPC, []int{0, 1}, runCostsAfterTheResponse},
		{"concurrency limits", pageGRPC, []int{0, 2, 3}, runConcurrencyLimits},
		{"ext_authz", pageExtAuthz, []int{0}, runExtAuthz},
		{"access logs", pageExtAuthz, []int{0}, runAccessLogs},
		{"forward-auth", pageForwardAuth, []int{0}, runForwardAuthRoutes},
		{"rules of compatible mode", pageRateLimit, []int{0}, runUserRules},
		{"Envoy Gateway", pageRateLimit, []int{1}, neverRun},
		{"bytes that are not UTF-8", pageRateLimit, []int{2}, runBytesThatAreNotUTF8},
		{"rules that stay", pageComingFrom, []int{0}, runAddressRules},
	}
}

// Every block of YAML about Envoy, of any page, is run in a real one, which counts what the
// page says: a block without a trial fails, and so does a trial without its block.
func TestPages(t *testing.T) {
	t.Parallel()
	found := pages(t)
	text := func(page string, n int) string {
		i := slices.IndexFunc(found, func(b block) bool { return b.page == page && b.n == n })
		if i < 0 {
			t.Fatalf("%s has no block %d about Envoy any more", page, n)
		}
		return found[i].text
	}
	all := trials()
	for _, b := range found {
		if !slices.ContainsFunc(all, func(r trial) bool { return r.page == b.page && slices.Contains(r.blocks, b.n) }) {
			t.Errorf("%s: no trial runs block %d about Envoy:\n%s", b.page, b.n, b.text)
		}
	}
	for _, r := range all {
		var texts []string
		for _, n := range r.blocks {
			texts = append(texts, text(r.page, n))
		}
		t.Run(r.name, func(t *testing.T) {
			processes(t)
			r.run(t, texts...)
		})
	}
}

// neverRun is for blocks whose page says that what reads them was never run.
func neverRun(t *testing.T, blocks ...string) {
	parse(t, blocks[0])
	text, err := os.ReadFile("../../" + pageRateLimit)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "Envoy Gateway itself was never run") {
		t.Error("the page does not say that Envoy Gateway was never run")
	}
}

// Every file for Envoy is started by a test, which is named here.
func TestEnvoyFiles(t *testing.T) {
	t.Parallel()
	known := map[string]string{
		"envoy/ext-authz-grpc.yaml":        "TestExtAuthzFiles",
		"envoy/ext-authz-http.yaml":        "TestExtAuthzFiles",
		"envoy/ratelimit.yaml":             "TestRateLimitFile",
		"envoy-gateway/envoy-gateway.yaml": "", // says that it was never run
	}
	files, err := filepath.Glob("../../deploy/envoy*/*")
	if err != nil || len(files) != len(known) {
		t.Errorf("%d files for Envoy, %d are known: %v", len(files), len(known), err)
	}
	for _, path := range files {
		name, err := filepath.Rel("../../deploy", path)
		if err != nil {
			t.Fatal(err)
		}
		test, ok := known[filepath.ToSlash(name)]
		if !ok {
			t.Errorf("no test starts deploy/%s", name)
		}
		if test == "" && !strings.Contains(deployed(t, name), "was never run") {
			t.Errorf("no test starts deploy/%s, and it does not say so", name)
		}
	}
}

// The walk finds blocks by their headings and by their words, whatever page they are on.
func TestEnvoyBlocksAreFound(t *testing.T) {
	t.Parallel()
	text := "# A\n\n```yaml\na: 1\n```\n\n## Envoy\n\n```yaml\nb: 1\n```\n\n### Deeper\n\n- item\n\n  ```yaml\n  c: 1\n  ```\n\n```console\n# Not a heading\n```\n\n```yaml\nd: 1\n```\n\n## B\n\n```yaml\ne: 1\n```\n\n```yaml\nrate_limits: []\n```\n"
	var got []string
	for _, b := range envoyBlocks("page", text) {
		got = append(got, strings.TrimSpace(b.text))
	}
	if want := []string{"b: 1", "c: 1", "d: 1", "rate_limits: []"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
