#!/usr/bin/env bash
# The test cluster on a real container engine; whatever happens, the tests take down what they started.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/lib/steps.sh

cluster() {
    limit_s=1800 run_pytest "pytest of the cluster" .venv --durations=0 --durations-min=1 tests/deploy/cluster "$@"
    sed -n '/= measured =/,/^=.*=$/p' "$log" | grep -v '^=' | sed 's/^/    /' || true
}

tallied cluster "$@"
