package client_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/retryafter"
)

var update = flag.Bool("update", false, "write browser/test/fields.json anew")

// answerCase is an answer, and for how many milliseconds it asks to be left
// alone.
type answerCase struct {
	Status int               `json:"status"`
	Fields map[string]string `json:"fields"`
	Wait   int64             `json:"wait"`
}

// TestBrowserReadsAnswersAlike: the cases by which the browser module is tested
// say what this module reads.
func TestBrowserReadsAnswersAlike(t *testing.T) {
	var cases []answerCase
	add := func(status int, fields ...string) {
		c := answerCase{Status: status, Fields: map[string]string{}}
		h := http.Header{}
		for i := 0; i < len(fields); i += 2 {
			c.Fields[fields[i]] = fields[i+1]
			h.Set(fields[i], fields[i+1])
		}
		wait, ok := retryafter.Parse(&http.Response{StatusCode: status, Header: h}, time.UnixMilli(1_700_000_000_000))
		if ok {
			c.Wait = wait.Milliseconds()
		}
		cases = append(cases, c)
	}
	for _, v := range []string{
		"7", "0", "007", "-1", "1.5", "x", "", "Tue, 14 Nov 2023 22:13:27 GMT", "Tue, 14 Nov 2023 22:13:13 GMT", "2023-11-14T22:13:27Z",
		"Tuesday, 14-Nov-23 22:13:27 GMT", "Tuesday, 14-Nov-23 22:13:13 GMT", "Tue Nov 14 22:13:27 2023", "Tue Nov 14 22:13:13 2023",
		"Fri Dec  1 00:00:00 2023", "Friday, 01-Dec-23 00:00:00 GMT", "Thursday, 01-Jan-68 00:00:00 GMT", "Friday, 01-Dec-69 00:00:00 GMT",
		"Mon, 14 Nov 2023 22:13:27 GMT", "Xyz, 14 Nov 2023 22:13:27 GMT", "Tue, 14-Nov-23 22:13:27 GMT", "Tuesday, 14 Nov 2023 22:13:27 GMT",
		"Tuesday, 14-Nov-2023 22:13:27 GMT", "Tue Nov 14 22:13:27 2023 GMT", "Tue Nov 14 22:13:27 23", "Sun, 31 Feb 2024 00:00:00 GMT",
		"Thu, 29 Feb 2024 00:00:00 GMT", "Thu Feb 29 00:00:00 2024", "Wed, 29 Feb 2023 00:00:00 GMT", "Tue, 14 Nov 2023 24:00:00 GMT",
		"Tue, 14 Nov 2023 22:13:60 GMT", "Tue, 14 Nov 2023 22:13:27 UTC", "Tue, 14 Nov 2023 22:13:27 +0200", "Tue, 14 Nom 2023 22:13:27 GMT",
		"Tue Nov 00 22:13:27 2023", "Tue Nov 31 22:13:27 2023",
	} {
		add(429, "Retry-After", v)
	}
	// In Date, by any of the three.
	add(429, "Retry-After", "Tuesday, 14-Nov-23 22:13:27 GMT", "Date", "Tue Nov 14 22:13:20 2023")
	add(429, "Retry-After", "Tue Nov 14 22:13:27 2023", "Date", "Tuesday, 14-Nov-23 22:13:10 GMT")
	add(503, "Retry-After", "7")
	add(200, "Retry-After", "7")
	add(500, "Retry-After", "7")
	add(429, "Retry-After", "Tue, 14 Nov 2023 22:13:27 GMT", "Date", "Tue, 14 Nov 2023 22:13:20 GMT")
	add(429, "Retry-After", "Tue, 14 Nov 2023 22:13:27 GMT", "Date", "Tue, 14 Nov 2023 22:13:10 GMT")
	add(429, "Retry-After", "7", "RateLimit", `"a";r=0;t=9`)
	add(429, "RateLimit", `"a";r=0;t=9`)
	add(200, "RateLimit", `"a";r=0;t=9`, "Age", "1")
	add(200, "RateLimit", `"a";r=0;t=9`, "Age", "0")
	add(200, "RateLimit-Remaining", "0", "RateLimit-Reset", "30")
	add(200, "RateLimit-Remaining", "1", "RateLimit-Reset", "30")
	add(200, "RateLimit-Remaining", "0", "RateLimit-Reset", "30", "RateLimit", "malformed")
	add(200, "RateLimit-Remaining", "0", "RateLimit-Reset", "30", "RateLimit", `"a";r=0;t=5`)
	add(200, "RateLimit-Remaining", "0", "RateLimit-Reset", "30", "RateLimit", `"a";r=4;t=5`)
	add(200, "RateLimit-Remaining", "0", "RateLimit-Reset", "30", "RateLimit", `"a";r=4;t=5`, "Age", "1")
	for _, v := range []string{
		`"permin";r=0;t=30`, `"a";r=0;t=1,"b";r=0;t=2`, `"a";r=0;t=1	, 	"b";r=3`, `"a"`, `"a";r`, `"a";r=0;t`, `"a";r=0;t=0`,
		`"a";r=0;t=1,`, `"a"; r=0;  t=1`, `"a" ;r=0;t=1`, `a;r=0;t=1`, `("a" "b");r=0;t=1`, `"a";r=-1;t=1`, `"a";r=0;t=-1`,
		`"a";r=0;t=1.5`, `"a";r=0;t=1000000000000000`, `"a";r=0;t=01`, `"a";r=1;r=0;t=9`, `"a";r=1;t=-1,"b";r=0;t=5`, `"a";r;r=0;t=x;t=9`, `"a";r=0;r;t=9`,
		`"\"\\";r=0;t=1`, `"\a";r=0;t=1`, `"a";pk=:aGk=:;r=0;t=5`, `"a";pk=::;r=0;t=5`, `"a";x=:a:;r=0;t=1`, `"a";x=%"%ff";r=0;t=1`,
		`"a";x=?1;y=tok/en:;z="s";d=@-5;e=%"%c3%bc";r=0;t=5`, `"a";x=?2;r=0;t=1`, `"a";X=1;r=0;t=1`, `"a";*x;r=0;t=1`, `"a";x=%"%C3";r=0;t=1`,
		`"a";x=:a b:;r=0;t=1`, `"a";x=1.;r=0;t=1`, `"a";x=1.1234;r=0;t=1`, `"a";x=-;r=0;t=1`, `"a";x=123456789012.5;r=0;t=1`,
		`"a";x=1234567890123.5;r=0;t=1`, `"a";x=@1.5;r=0;t=1`, `"a";;r=0;t=1`, `"a";r=0;t=1;`, `limit=100, remaining=0, reset=5`,
	} {
		add(200, "RateLimit", v)
	}
	want, err := json.MarshalIndent(cases, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	path := filepath.Join("browser", "test", "fields.json")
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what this module reads (%v): go test ./client -update", path, err)
	}
}
