#!/usr/bin/env bash
# Regenerate the code for our protos. `make check` runs this into a temporary folder and compares.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-.}
python=${PYTHON:-.venv/bin/python}
PATH="$(cd "$(dirname "$python")" && pwd):$PATH"
protos=(log_tier/proto/*.proto serving_tier/proto/*.proto router/proto/*.proto)
"$python" -m grpc_tools.protoc -I . --python_out="$out" --mypy_out="quiet:$out" --grpc_python_out="$out" \
    "${protos[@]}"
# Protos without a service need no service file.
rm -f "$out"/log_tier/proto/problem_pb2_grpc.py

# The public protos lie where buf and other languages' generators expect a package duramen.v1. Their Python code belongs
# to the router: its modules are moved there, and what they import of each other with them.
public=$(mktemp -d)
trap 'rm -rf "$public"' EXIT
"$python" -m grpc_tools.protoc -I protos --python_out="$public" --mypy_out="quiet:$public" \
    --grpc_python_out="$public" protos/duramen/v1/*.proto
sed -i 's/^from duramen\.v1 import /from router.proto import /' "$public"/duramen/v1/*
mkdir -p "$out/router/proto"
mv "$public"/duramen/v1/* "$out/router/proto/"
