#!/usr/bin/env bash
# Regenerate the code for our protos beside them. `make check` runs this into a temporary folder and compares.
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
