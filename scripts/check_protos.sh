#!/usr/bin/env bash
# The generated code that is committed must be what the protos give.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
scripts/generate_protos.sh "$fresh"
for folder in log_tier/proto serving_tier/proto router/proto; do
    for file in "$fresh/$folder"/*; do
        cmp -s "$file" "$folder/$(basename "$file")" || {
            echo "$folder/$(basename "$file") is not what its proto gives: run make protos" >&2
            exit 1
        }
    done
done
echo "generated code matches the protos"
