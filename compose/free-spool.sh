#!/usr/bin/env bash
# free-spool - runs a command with CREMA_SPOOL set to a directory of the spool volume that nobody uses.
#
# Containers come and go, and what one that was killed had not delivered lies in its directory. The next container takes up the first
# directory that is free, and with it whatever lies there. The lock is inherited, and free when the last process of this container is gone.
#
#   free-spool crema-agent -- dask worker tcp://scheduler:8786
set -euo pipefail
readonly volume=${CREMA_SPOOL_VOLUME:-/spool}

for ((slot = 1; slot <= 10000; slot++)); do
    exec {lock}>"$volume/$slot.lock"
    if flock --nonblock "$lock"; then
        mkdir -p "$volume/$slot"
        export CREMA_SPOOL=$volume/$slot
        exec "$@"
    fi
    exec {lock}>&-
done
echo "free-spool: no free directory in $volume" >&2
exit 1
