#!/usr/bin/env bash
# base-image.sh - has the image that everything here is built from, or an older one of Debian, whether or not a registry is at hand.
#
# It is taken as it is if it is there, else pulled, else made of Debian's own packages under the same name, so that the Dockerfile is one
# and the same. The packages come from the archive of Debian that apt uses here, else from mmdebstrap's own default. What this machine's
# administrator added to the certificates and to apt's settings goes into a base that is made here: a build then needs nothing particular
# to any machine.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly image=${1:-debian:bookworm-slim}
readonly tag=${image#debian:}
readonly suite=${tag%-slim}
readonly local_certificates=/usr/local/share/ca-certificates

case ${1:-} in
    -h | --help)
        echo "usage: compose/base-image.sh [debian:SUITE-slim]      makes sure that the image (debian:bookworm-slim) is there"
        exit 0
        ;;
esac

die() {
    echo "base-image: $*" >&2
    exit 1
}

as_root() {
    if [[ $EUID == 0 ]]; then
        "$@"
    else
        sudo "$@"
    fi
}

docker version >/dev/null 2>&1 || die "no container engine answers: is it running, and may you use it? (docker info says more)"
if docker image inspect "$image" >/dev/null 2>&1; then
    echo "$image is here"
    exit 0
fi
if timeout 120 docker pull --quiet "$image" 2>/dev/null; then
    exit 0
fi
[[ $image == debian:* ]] || die "$image cannot be pulled, and only those of Debian can be made here"
echo "$image cannot be pulled: made of Debian's packages"
if ! command -v mmdebstrap >/dev/null; then
    command -v apt-get >/dev/null || die "mmdebstrap is needed for that, and there is no apt-get to install it with"
    as_root apt-get update -q >/dev/null
    as_root apt-get install -q -y --no-install-recommends mmdebstrap >/dev/null
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What apt needs to reach its archive from here.
apt-config dump | grep -E '^Acquire::(Check-|https?::Proxy)' >"$work/apt.conf" || true
archive=()
"$here/../packaging/debian-archive.sh" "$suite" >"$work/sources.list"
[[ ! -s $work/sources.list ]] || archive=("$work/sources.list")

# Runs with the new root directory as its argument.
cat >"$work/customize" <<'END'
#!/bin/sh
set -e
here=$(dirname "$0")
if ls "$here"/certificates/*.crt >/dev/null 2>&1; then
    cp "$here"/certificates/*.crt "$1/usr/local/share/ca-certificates/"
    chroot "$1" update-ca-certificates >/dev/null
    printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$1/etc/pip.conf"
fi
if [ -s "$here/apt.conf" ]; then
    cp "$here/apt.conf" "$1/etc/apt/apt.conf.d/90machine"
fi
rm -f "$1/etc/resolv.conf" "$1/etc/hostname"
END
mkdir "$work/certificates"
cp "$local_certificates"/*.crt "$work/certificates/" 2>/dev/null || true
chmod -R go+rX "$work"
chmod +x "$work/customize"

# From Debian 12 on /usr is merged; a minimal system of before needs nothing for it.
merged=(--include=usr-is-merged --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr)
[[ $suite != bullseye ]] || merged=()

# Into a file first: from a pipe the engine would import half an image as a whole one.
as_root mmdebstrap --quiet --variant=minbase --include=ca-certificates "${merged[@]}" \
    --customize-hook="$work/customize" --aptopt="$work/apt.conf" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    "$suite" "$work/root.tar" "${archive[@]}" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    die "$image could not be made"
}
docker import \
    -c 'CMD ["bash"]' -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    "$work/root.tar" "$image" >/dev/null
echo "$image is made: $(docker image inspect --format '{{.Size}}' "$image" | numfmt --to=si)B"
