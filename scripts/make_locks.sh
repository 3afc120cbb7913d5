#!/usr/bin/env bash
# make_locks.sh UV [--upgrade]: writes requirements/*.lock, every version with the hashes of its files, for each Python that
# Duramen supports. What is locked keeps its version as long as pyproject.toml allows it; --upgrade takes the newest.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$1
shift

# Extras stay in the locks: pip does not take coverage==7.1 for a pin of coverage[toml], which pytest-cov asks for.
lock() {  # lock NAME SOURCE...
    local name=$1
    shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url \
        --custom-compile-command "make lock" --output-file "requirements/$name.lock" "${options[@]}" "$@"
}
options=("$@")

# The largest first. The others are held to its versions, so that the tests run what the image holds.
lock dev --all-extras pyproject.toml
lock runtime --extra s3 --extra kafka --extra otel --constraint requirements/dev.lock pyproject.toml
lock build --constraint requirements/dev.lock requirements/build.in
lock tools requirements/tools.in
