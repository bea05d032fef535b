#!/usr/bin/env bash
# predict.sh [DIR] - real runs on 1 to 16 threads, those on most threads predicted from the others by replay; status 1 if a prediction is
# off by more than 10 % (ten minutes; a quiet machine).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PYTHONPATH=tests/lib .venv/bin/python tests/study/make_runs.py "${1:-build/predict}"
exec .venv/bin/python tests/study/held_back.py "${1:-build/predict}"
