#!/usr/bin/env bash
# dask-jobqueue and the guide docs/sites/htcondor.md on a real HTCondor of one node. It takes no jobs of root: the tests are an ordinary
# user, which root is here to them, and no process of theirs outlives them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/lib/steps.sh

in_condor_user() {
    local id=$((EUID ? EUID : 1))
    # shellcheck disable=SC2016 # expanded by the inner shell, which is the one that reaps
    unshare --user --map-user="$id" --map-group="$id" --pid --fork --kill-child --mount-proc bash -c '"$@"; exit $?' - "$@"
}

condor() {
    step "HTCondor of Debian 13" tests/deploy/condor/fetch.sh .cache/condor
    run "test condor" in_condor_user .venv/bin/python -m pytest "$@" tests/deploy/condor
    count_pytest
}

tallied condor "$@"
