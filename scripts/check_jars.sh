#!/usr/bin/env bash
# check_jars.sh FOLDER LIST: whether FOLDER has the files of LIST, which sha256sum has written, each with its bytes, and no other.
set -euo pipefail
folder=$1
list=$(realpath "$2")
cd "$folder"
sha256sum --check --strict --quiet "$list"
others=$(comm -13 <(awk '{print $2}' "$list" | sort) <(find . -mindepth 1 -printf '%P\n' | sort))
[ -z "$others" ] || { echo "not in $list:" $others >&2; exit 1; }
