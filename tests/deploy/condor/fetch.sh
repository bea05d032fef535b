#!/usr/bin/env bash
# fetch.sh DIRECTORY - HTCondor of Debian 13, whatever this system is: its programs in DIRECTORY/usr, unpacked and never installed, with the
# libraries that they need. They are made to use those in place of this system's, which are older; what they start does not notice.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(realpath -m "${1:?usage: fetch.sh DIRECTORY}")
[[ ! -e $root/complete ]] || exit 0
rm -rf "$root"
mkdir -p "$root"
archive=$root/sources.list
"$here/../../packaging/debian-archive.sh" trixie >"$archive"
[[ -s $archive ]] || echo "deb http://deb.debian.org/debian trixie main" >"$archive"
mmdebstrap --quiet --variant=extract --include=condor --format=tar trixie "$root/packages.tar" "$archive"
tar --no-same-owner -C "$root" --exclude='./usr/share/*' -xf "$root/packages.tar" ./usr
rm "$root/packages.tar"
libraries=$(dirname "$root"/usr/lib/*/libc.so.6):$root/usr/lib
find "$root"/usr/{bin,sbin,libexec/condor} -type f -name 'condor_*' | while read -r program; do
    if loader=$(patchelf --print-interpreter "$program" 2>/dev/null); then
        patchelf --set-interpreter "$root/usr$loader" --force-rpath --set-rpath "$libraries" "$program"
    fi
done
CONDOR_CONFIG=/dev/null "$root/usr/bin/condor_version"
touch "$root/complete"
