#!/usr/bin/env bash
# The reference pages: docs/API.md from docstrings, docs/CLI.md from the command line's declarations. Into docs, or
# into the folder that is named.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
into=${1:-docs}
"$python" scripts/generate_api_page.py >"$into/API.md"
"$python" scripts/generate_cli_page.py >"$into/CLI.md"
