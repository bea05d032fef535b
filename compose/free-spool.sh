#!/usr/bin/env bash
# free-spool - runs a command with CREMA_SPOOL set to a directory of the spool volume that nobody uses.
#
# Containers come and go, and what one that was killed had not delivered lies in its directory. The next container takes up such a directory
# before any other, and with it what lies there. The lock is inherited, and free when the last process of this container is gone.
#
#   free-spool crema-agent -- dask worker tcp://scheduler:8786
set -euo pipefail
readonly volume=${CREMA_SPOOL_VOLUME:-/spool}
readonly command=("$@")

run_in() { # run_in DIRECTORY: returns if somebody has it
    local lock
    exec {lock}>"$1.lock"
    if flock --nonblock "$lock"; then
        mkdir -p "$1"
        export CREMA_SPOOL=$1
        exec "${command[@]}"
    fi
    exec {lock}>&-
}

for segment in "$volume"/*/sp-*; do # of those who work, and of those who are gone
    if [[ -e $segment ]]; then
        run_in "${segment%/*}"
    fi
done
for ((slot = 1; slot <= 10000; slot++)); do
    run_in "$volume/$slot"
done
echo "free-spool: no free directory in $volume" >&2
exit 1
