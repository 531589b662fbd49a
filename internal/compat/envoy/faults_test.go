package envoy

import (
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"gopkg.in/yaml.v2"
)

// descriptorMessage is a descriptor of a request.
type descriptorMessage = *commonv3.RateLimitDescriptor

// loadErrors returns the errors that loading the files can tell, whichever of a
// block's keys, and of the files, is looked at first.
func loadErrors(files []File, merge bool) map[string]bool {
	all := map[string]bool{}
	for _, f := range files {
		var tree map[any]any
		if err := yaml.Unmarshal(f.Content, &tree); err != nil {
			all[f.Name+": error loading config file: "+typeNames.Replace(err.Error())] = true
			continue
		}
		eachFault(tree, func(err error) { all[f.Name+": "+err.Error()] = true })
	}
	permute(files, 0, func() {
		if err := CheckFiles(files, merge); err != nil {
			all[err.Error()] = true
		}
	})
	return all
}

// permute calls do with the files in every order.
func permute(files []File, from int, do func()) {
	if from == len(files) {
		do()
	}
	for i := from; i < len(files); i++ {
		files[from], files[i] = files[i], files[from]
		permute(files, from+1, do)
		files[from], files[i] = files[i], files[from]
	}
}

// eachFault calls do with what checkKeys could say of each part of a block.
func eachFault(block map[any]any, do func(error)) {
	for k, v := range block {
		if k == "metadata" {
			continue
		}
		switch v := v.(type) {
		case map[any]any:
			eachFault(v, do)
		case []any:
			for _, item := range v {
				if b, ok := item.(map[any]any); ok {
					eachFault(b, do)
					continue
				}
				if err := checkKeys(map[any]any{"key": []any{item}}); err != nil {
					do(err)
				}
			}
			continue
		}
		if err := checkKeys(map[any]any{k: v}); err != nil {
			do(err)
		}
	}
}
