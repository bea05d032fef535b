#!/usr/bin/env bash
# age.sh [RUNS [STREAMS]] - a store in which 20,000 runs of 5,000 streams live and are freed: start, commits and memory must stay what they
# were (three minutes).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
CREMA_AGE_RUNS=${1:-20000} CREMA_AGE_STREAMS=${2:-5000} exec build/dev/bin/test_sink_aging
