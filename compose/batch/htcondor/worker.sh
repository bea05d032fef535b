#!/usr/bin/env bash
# worker.sh AGGREGATOR SCHEDULER SPOOL THREADS - what workers.sub runs: a Dask worker inside its agent, in the job's scratch directory.
set -euo pipefail
[[ $# == 4 ]] || { echo "usage: worker.sh AGGREGATOR SCHEDULER SPOOL THREADS" >&2 && exit 2; }
umask 077
mkdir -p "$3"
chmod 700 agent-keys # the transfer does not keep modes, and keys that others may read are refused
chmod 600 agent-keys/agent.key_secret
exec crema-agent --aggregator "$1" --keys agent-keys --spool "$PWD/$3" --drain-timeout 30s -- \
    dask worker "$2" --nthreads "$4" --no-nanny --no-dashboard --local-directory "$PWD"
