package weirpb_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// The generated code is that of the file beside it.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	protoc, err := exec.LookPath("protoc")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_SERVERS") != "" {
			t.Fatal("protoc is not installed: apt-get install protobuf-compiler")
		}
		t.Skip("protoc is not installed: apt-get install protobuf-compiler")
	}
	// So that the go command knows that the test depends on it.
	if _, err := os.ReadFile("weir.proto"); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "set")
	if said, err := exec.Command(protoc, "--proto_path=../..", "--descriptor_set_out="+out, "weir/v1/weir.proto").CombinedOutput(); err != nil {
		t.Fatalf("protoc: %v\n%s", err, said)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	if got := protodesc.ToFileDescriptorProto(weirpb.File_weir_v1_weir_proto); len(set.File) != 1 || !proto.Equal(got, set.File[0]) {
		t.Error("weir.pb.go is stale: make proto")
	}
}
