#!/usr/bin/env bash
# package.sh installation|facility [ARG...] - the Debian packages on a real container engine with systemd: installed, upgraded in the
# middle of a run, removed; or the guide docs/sites/shared.md word for word, then what an operator fears.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/lib/steps.sh
tests=tests/deploy/package/test_$1.py
shift

packages_on_systemd() {
    step "Debian packages" packaging/package.sh
    step "base image" compose/base-image.sh
    limit_s=1500 run_pytest "test of packages" .venv -rP "$@" "$tests"
}

tallied packages_on_systemd "$@"
