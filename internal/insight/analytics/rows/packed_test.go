package rows

import "testing"

// What is packed is unpacked as the same, and bytes of others are an error or counts.
func FuzzTiming(f *testing.F) {
	f.Add((&Timing{Every: 256}).MarshalRow())
	all := &Timing{Every: 1}
	for i := range all.Times {
		all.Times[i] = int64(i)
	}
	f.Add(all.MarshalRow())
	f.Add([]byte{1, 241, 1, 1})
	f.Fuzz(func(t *testing.T, packed []byte) {
		var a, b Timing
		if a.MergeRow(packed) != nil {
			return
		}
		if err := b.MergeRow(a.MarshalRow()); err != nil || a != b {
			t.Errorf("%x: %+v, %v", packed, b, err)
		}
	})
}

func FuzzAnswering(f *testing.F) {
	all := &Answering{head: [...]int64{1, 2, 3, 4, 5, 6, 7}}
	f.Add(all.MarshalRow())
	for i := range all.Times {
		all.Times[i] = int64(i)
	}
	f.Add(all.MarshalRow())
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, packed []byte) {
		var a, b Answering
		if a.MergeRow(packed) != nil {
			if a != (Answering{}) {
				t.Errorf("%x: half of it is merged: %+v", packed, a)
			}
			return
		}
		if err := b.MergeRow(a.MarshalRow()); err != nil || a != b {
			t.Errorf("%x: %+v, %v", packed, b, err)
		}
	})
}
