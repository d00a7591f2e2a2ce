#!/bin/sh
# Generates the Go code of proto/sluice/v1 with protoc and the plugins that
# go.mod pins. With --check it writes nothing and fails if the committed code
# is not what would be generated.
set -eu
cd "$(dirname "$0")/.."

check=
case "${1-}" in
"") ;;
--check) check=1 ;;
*)
	echo "usage: scripts/proto.sh [--check]" >&2
	exit 2
	;;
esac
command -v protoc >/dev/null || {
	echo "proto.sh: protoc not found: install the protobuf compiler (Debian: protobuf-compiler libprotobuf-dev)" >&2
	exit 1
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin" "$tmp/out"
go build -o "$tmp/bin/" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

protoc -I proto \
	--plugin="$tmp/bin/protoc-gen-go" --plugin="$tmp/bin/protoc-gen-go-grpc" \
	--go_out="$tmp/out" --go_opt=paths=source_relative \
	--go-grpc_out="$tmp/out" --go-grpc_opt=paths=source_relative \
	proto/sluice/v1/*.proto

# The version of protoc itself is not pinned, and the header must not make the
# code depend on it.
for f in "$tmp"/out/sluice/v1/*.pb.go; do
	sed '/^\/\/.*protoc  *v/d' "$f" >"$f.tmp" && mv "$f.tmp" "$f"
done

if [ -z "$check" ]; then
	rm -f proto/sluice/v1/*.pb.go
	cp "$tmp"/out/sluice/v1/*.pb.go proto/sluice/v1/
	exit 0
fi

mkdir "$tmp/have"
cp proto/sluice/v1/*.pb.go "$tmp/have/"
diff -r -q "$tmp/have" "$tmp/out/sluice/v1" >&2 || {
	echo "proto.sh: generated code differs from proto/sluice/v1/*.proto: run scripts/proto.sh and commit the result" >&2
	exit 1
}
