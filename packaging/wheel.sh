#!/usr/bin/env bash
# wheel.sh [WHEEL...] - the wheels of the commit in dist/: x86_64, aarch64, any; each is installed and tried (docs/install.md). The first
# time takes a quarter of an hour of CPU. CREMA_WHEEL_PYTHON is the Python with what packaging/requirements.lock names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/lib/steps.sh
export CREMA_WHEEL_PYTHON=${CREMA_WHEEL_PYTHON:-$PWD/.cache/wheel/tools/bin/python}

wheels() {
    [[ -z $(git status --porcelain) ]] || echo "a wheel is made of what is committed; there is more than that here" >&2
    step "wheels" packaging/wheels.sh dist "$@"
    [[ $# != 0 && " $* " != *" aarch64 "* ]] || check "unit tests on aarch64" packaging/tests.sh aarch64
    run_pytest "pytest of wheels" .venv --confcutdir=tests/deploy/wheels tests/deploy/wheels
    ls -l dist/*.whl
}

tallied wheels "$@"
