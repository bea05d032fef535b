#!/usr/bin/env bash
# run.sh [ARG...] - measures all that docs/performance.md shows of the programs as they are shipped; figures go to build/bench.
# run.sh --paired|--enter|--seal|--page|--looking [ARG...] - one bench of that name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
case ${1:-} in
    --paired | --enter | --seal | --page | --looking) exec .venv/bin/python "tests/bench/${1#--}.py" "${@:2}" ;;
esac
mkdir -p build/bench
.venv/bin/python tests/bench/hook.py
.venv/bin/python tests/bench/restart.py
.venv/bin/python tests/bench/chain.py --json build/bench/chain.json "$@"
for name in idle beside growth reading; do
    .venv/bin/python "tests/bench/$name.py" --json "build/bench/$name.json"
done
