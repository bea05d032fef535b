#!/usr/bin/env bash
# debian-archive.sh SUITE [deb|deb-src] - prints the lines of sources.list for a suite of Debian, with the archive that apt uses on
# this machine; prints nothing where apt has no archive of Debian, or none that was read yet.
set -euo pipefail
suite=${1:?usage: debian-archive.sh SUITE [deb|deb-src]} type=${2:-deb}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# shellcheck disable=SC2016 # apt-get expands them
# Labels are Debian's own words for its archives; mirrors and proxies carry them along.
apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | sort -u |
    while IFS='|' read -r origin label uri; do
        [[ $origin == Debian ]] || continue
        if [[ -e $keyring ]]; then
            uri="[signed-by=$keyring] $uri"
        fi
        case $label in
            Debian) printf "$type %s %s main\n" "$uri" "$suite" "$uri" "$suite-updates" ;;
            Debian-Security) echo "$type $uri $suite-security main" ;;
        esac
    done
