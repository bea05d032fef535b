#!/usr/bin/env bash
# fetch-sources.sh FOLDER - puts the source packages that sources.sha256 names into FOLDER: from the archive of Debian that apt uses
# here. apt needs no root for it, and its settings on this machine stay as they are.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?usage: fetch-sources.sh FOLDER}
readonly suites=(bookworm trixie)

mkdir -p "$folder" && cd "$folder"
if sha256sum --quiet --strict --check "$here/sources.sha256" 2>/dev/null; then
    exit 0
fi
rm -rf apt
mkdir -p apt/lists/partial
for suite in "${suites[@]}"; do
    "$here/debian-archive.sh" "$suite" deb-src | grep -v -- -security >>apt/sources.list || true
done
[[ -s apt/sources.list ]] || {
    echo "fetch-sources: apt knows no archive of Debian here; put the files that packaging/sources.sha256 names into $PWD" >&2
    exit 1
}
printf 'Dir::Etc::SourceList "%s";\nDir::Etc::SourceParts "/dev/null";\nDir::State::Lists "%s";\nAPT::Sandbox::User "root";\n' \
    "$PWD/apt/sources.list" "$PWD/apt/lists" >apt/apt.conf
export APT_CONFIG=$PWD/apt/apt.conf
apt-get update -q

# "hdf5_1.10.8+repack1-1.dsc" -> "hdf5=1.10.8+repack1-1"; an epoch is not part of the name.
sed -nE 's/^[0-9a-f]+  ([^_]+)_(.*)\.dsc$/\1 \2/p' "$here/sources.sha256" | while read -r name version; do
    apt-get source -q --download-only "$name=$version" || apt-get source -q --download-only "$name=1:$version"
done
# From the later one: the compiler is newer than what libdeflate of Debian 12 knows, and its fast paths would be left out.
apt-get source -q --download-only --tar-only libdeflate/trixie
sha256sum --quiet --strict --check "$here/sources.sha256" || {
    echo "fetch-sources: the archive has other versions of the files above than packaging/sources.sha256 names" >&2
    echo "  see what apt-cache showsrc says of them now, and name the new ones there" >&2
    exit 1
}
rm -rf apt
