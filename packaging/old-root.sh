#!/usr/bin/env bash
# old-root.sh SUITE FILE - writes a root file system of Ubuntu's SUITE as FILE (.tar): its C library and a shell, unpacked and never run.
# Ubuntu's archive still has releases that are older than the oldest in Debian's; Debian 13 has the keys by which it is trusted.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=${1:?usage: old-root.sh SUITE FILE} file=${2:?usage: old-root.sh SUITE FILE}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# apt's settings on this machine stay as they are.
mkdir -p "$work"/{lists/partial,cache/archives/partial}
"$here/debian-archive.sh" trixie | grep -v -- -security >"$work/sources.list"
for setting in "Etc::SourceList \"$work/sources.list" 'Etc::SourceParts "/dev/null' "State::Lists \"$work/lists" "Cache \"$work/cache"; do
    echo "Dir::$setting\";"
done >"$work/apt.conf"
echo 'APT::Sandbox::User "root";' >>"$work/apt.conf"
(
    cd "$work"
    export APT_CONFIG=$work/apt.conf
    apt-get update -q
    apt-get download -q ubuntu-keyring
    dpkg-deb -x ubuntu-keyring_*.deb .
)
keyring=$work/usr/share/keyrings/ubuntu-archive-keyring.gpg
chmod -R go+rX "$work"
mmdebstrap --quiet --variant=extract --include=libc6,busybox-static --format=directory "$suite" "$work/root" \
    "deb [signed-by=$keyring] http://archive.ubuntu.com/ubuntu $suite main"
for name in sh id head; do
    ln -s busybox "$work/root/bin/$name"
done
tar --numeric-owner -C "$work/root" -cf "$file" .
