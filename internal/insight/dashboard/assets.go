package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/answer"
)

//go:embed all:dist login.css login.html
var embedded embed.FS

// asset is a file of the page, as it is sent.
type asset struct {
	kind string
	raw  []byte
	// zipped is empty where compressing does not pay.
	zipped []byte
	etag   string
}

// assets are the embedded files by their path beneath /ui/. They are compressed
// once, when the first is asked for.
var assets = sync.OnceValue(func() map[string]*asset {
	out := make(map[string]*asset)
	add := func(name, file string) {
		data, err := embedded.ReadFile(file)
		if err != nil {
			panic(err) // it is in the binary
		}
		out[name] = newAsset(name, data)
	}
	err := fs.WalkDir(embedded, "dist", func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			add(strings.TrimPrefix(p, "dist/"), p)
		}
		return err
	})
	if err != nil {
		panic(err) // as above
	}
	add("assets/login.css", "login.css")
	return out
})

func newAsset(name string, data []byte) *asset {
	sum := sha256.Sum256(data)
	a := &asset{kind: mime.TypeByExtension(path.Ext(name)), raw: data, etag: `"` + hex.EncodeToString(sum[:12]) + `"`}
	switch path.Ext(name) { // whatever the machine's own table says
	case ".js":
		a.kind = "text/javascript; charset=utf-8"
	case ".css":
		a.kind = "text/css; charset=utf-8"
	case ".svg":
		a.kind = "image/svg+xml"
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is one
	}
	if _, err := z.Write(data); err == nil && z.Close() == nil && b.Len() < len(data)*9/10 {
		a.zipped = b.Bytes()
	}
	return a
}

// serveAsset answers for a file. The names of those that Vite made say what is in
// them, so they may be kept for ever.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/ui/")
	a := assets()[name]
	if a == nil {
		answer.Problem{Status: http.StatusNotFound, Detail: "no such file of the dashboard"}.Write(w)
		return
	}
	cache := "public, max-age=31536000, immutable"
	if name == "assets/login.css" {
		cache = "no-cache"
	}
	a.serveContent(w, r, cache)
}

func serveIndex(w http.ResponseWriter, r *http.Request) {
	assets()["index.html"].serveContent(w, r, "no-cache")
}

func (a *asset) serveContent(w http.ResponseWriter, r *http.Request, cache string) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", cache)
	h.Set("Vary", "Accept-Encoding")
	body, etag := a.raw, a.etag
	if a.zipped != nil && takesGzip(r.Header.Values("Accept-Encoding")) {
		body, etag = a.zipped, strings.TrimSuffix(a.etag, `"`)+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// takesGzip reports whether a client accepts gzip, which a weight of 0 denies.
func takesGzip(headers []string) bool {
	for _, header := range headers {
		for part := range strings.SplitSeq(header, ",") {
			coding, weight, _ := strings.Cut(part, ";")
			if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				continue
			}
			_, q, found := strings.Cut(weight, "=")
			n, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return !found || err == nil && n > 0
		}
	}
	return false
}
