package main

import (
	"strings"
	"testing"
)

func TestDescriptors(t *testing.T) {
	ds, err := descriptors([]string{"user=1", "path=/a=b", "+", "ip=::1", "empty="})
	if err != nil {
		t.Fatal(err)
	}
	if len(ds) != 2 || len(ds[0].Entries) != 2 || ds[0].Entries[1].Value != "/a=b" || ds[1].Entries[0].Value != "::1" || ds[1].Entries[1].Value != "" {
		t.Errorf("%+v", ds)
	}
	for _, bad := range []string{"", "+", "a=1 +", "+ a=1", "a", "=1", "a=1 + + b=1"} {
		if ds, err := descriptors(strings.Fields(bad)); err == nil || !strings.Contains(err.Error(), "key=value") {
			t.Errorf("%q: %+v, %v", bad, ds, err)
		}
	}
}

// FuzzDescriptors: what is accepted has an entry in every descriptor and a key
// in every entry, and no word is lost.
func FuzzDescriptors(f *testing.F) {
	f.Add("a=1 b=2 + c=3")
	f.Add("+ + =")
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Fields(line)
		ds, err := descriptors(words)
		if err != nil {
			return
		}
		n := len(ds) - 1 // the plus signs
		for _, d := range ds {
			if len(d.Entries) == 0 {
				t.Errorf("%q: a descriptor without entries", line)
			}
			for _, e := range d.Entries {
				if e.Key == "" {
					t.Errorf("%q: an entry without a key", line)
				}
				n++
			}
		}
		if n != len(words) {
			t.Errorf("%q: %d words became %d", line, len(words), n)
		}
	})
}
