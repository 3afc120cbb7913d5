#!/usr/bin/env bash
# fetch_jars.sh WHAT FOLDER TARGET: has Maven fetch what FOLDER/pom.xml names into TARGET/libs, once. A second call does nothing
# until pom.xml or FOLDER/libs.sha256 changes. The latter lists each file with its SHA-256: Maven compares a file only with a
# checksum from the same place. After a change to pom.xml, `LIST=1` writes the list again.
# Status 3: Java or Maven is missing, and the message says how to get them.
set -euo pipefail
what=$1 folder=$2 target=$3
stamp=$target/fetched  # the checksum of the files that libs/ was made from

for command in java mvn; do
    command -v "$command" >/dev/null 2>&1 && continue
    echo "fetch: there is no $command here. $what needs Java 17 and Maven:" \
        "on Debian, apt-get install openjdk-17-jre-headless maven" >&2
    exit 3
done

wanted=$(cat "$folder/pom.xml" "$folder/libs.sha256" | sha256sum)
[ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && [ -z "${LIST:-}" ] && exit 0

mkdir -p "$target"
# Made aside and renamed, so that an interrupted fetch leaves no half of it.
new=$(mktemp -d "$target/libs.XXXXXX")
trap 'rm -rf "$new"' EXIT
echo "fetching $what into $(basename "$target")/libs"
mvn -q -B -Dstyle.color=never -f "$folder/pom.xml" dependency:copy-dependencies -DoutputDirectory="$new"
if [ -n "${LIST:-}" ]; then
    (cd "$new" && sha256sum -- *) >"$folder/libs.sha256"
    wanted=$(cat "$folder/pom.xml" "$folder/libs.sha256" | sha256sum)
fi
"$(dirname "$0")/check_jars.sh" "$new" "$folder/libs.sha256"
rm -rf "$target/libs" "$stamp"
chmod 755 "$new"
mv "$new" "$target/libs"
echo "$wanted" >"$stamp"
