#!/usr/bin/env bash
# Makes the Go code of proto/ anew: scripts/proto.sh
#
# protoc is Debian's protobuf-compiler; the plugins are those of tools/go.mod.
set -euo pipefail

cd "$(dirname "$0")/.."
module=$(go list -m)
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -modfile=tools/go.mod -o "$bin" \
  google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
# The module's path stands here and not in the .proto files, whose bytes are in
# the generated code: so the module can be renamed.
package="Mweir/v1/weir.proto=$module/proto/weir/v1;weirpb"
PATH="$bin:$PATH" protoc --proto_path=proto \
  --go_out=. --go_opt="module=$module,$package" \
  --go-grpc_out=. --go-grpc_opt="module=$module,$package" \
  weir/v1/weir.proto
