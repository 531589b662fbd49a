package rules_test

import (
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/rules"
)

const exampleFile = `domain: api
descriptors:
  - key: client_id
    limit: 100/minute
    overrides:
      acme: 1000/minute
`

func ExampleParse() {
	set, err := rules.Parse("api.yaml", []byte(exampleFile), rules.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{
		{Entries: []weir.Entry{{Key: "client_id", Value: "acme"}}},
	}}
	for _, op := range set.Match(nil, r) {
		fmt.Println(op.Limit.Name, op.Limit.Count, op.Limit.Period, op.Key)
	}
	// Output: client_id of acme 1000 1m0s acme
}

func ExampleParse_faults() {
	_, err := rules.Parse("api.yaml", []byte(`domain: api
descriptors:
  - key: client_id
    rate_limit: {unit: minuet, requests_per_unit: 100}
  - kye: path
`), rules.Options{})
	fmt.Println(err)
	// Output:
	// api.yaml:4:24: api/client_id: unknown unit "minuet" (did you mean "minute"?)
	// api.yaml:5:5: api: unknown key "kye" (did you mean "key"?)
	// api.yaml:5:5: api: descriptor has no key (give it a key: the name of the entry that it matches)
}

func ExampleSet_Explain() {
	set, err := rules.Parse("api.yaml", []byte(exampleFile), rules.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	x := set.Explain(&weir.Request{Domain: "api", Descriptors: []weir.Descriptor{
		{Entries: []weir.Entry{{Key: "client_id", Value: "42"}}},
		{Entries: []weir.Entry{{Key: "path", Value: "/"}}},
	}})
	for _, s := range x.Descriptors {
		fmt.Printf("%s: %s: %s\n", s.Entries[0].Key, s.Outcome, s.Why)
		for _, tried := range s.Levels {
			fmt.Printf("  %s\n", tried.Why)
		}
	}
	// Output:
	// client_id: limited: the limits of the rule
	//   no rule for this value; the rule for the key takes every value
	// path: no rule: entry 1 matches no rule
	//   no rule for key "path"; there are rules for client_id
}
