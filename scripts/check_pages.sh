#!/usr/bin/env bash
# The reference pages that are committed must be what docstrings and command line give.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
scripts/generate_pages.sh "$fresh"
for page in API.md CLI.md; do
    cmp -s "$fresh/$page" "docs/$page" || {
        echo "docs/$page is not what the code gives: run make docs" >&2
        exit 1
    }
done
echo "generated pages match the code"
