#!/usr/bin/env bash
# Debian packages in build/package: programs, systemd units, manual pages, completion; checked by lintian, systemd-analyze, mandoc and the
# shells.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cmake --preset package
cmake --build --preset package --parallel "$(nproc)"
(cd build/package && rm -f ./*.deb && cpack)
lintian --fail-on error,warning --allow-root build/package/*.deb
for unit in packaging/systemd/*.service; do
    systemd-analyze security --offline=true --threshold="$([[ $unit == *agent@* ]] && echo 30 || echo 20)" "$unit"
done
for page in build/package/man/man?/*.gz build/package/shell/man1/*.gz; do
    echo "$page"
    gzip -dc "$page" | mandoc -Tlint
done
for page in build/package/shell/zsh/*; do
    zsh -n "$page"
done
for page in build/package/shell/bash/*; do
    bash -n "$page"
done
ls build/package/*.deb
