#!/usr/bin/env bash
#SBATCH --job-name=crema
#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=B:TERM@120
#
# crema.sh - one analysis as one Slurm job: sink, aggregator and Dask's scheduler on its first node, a worker with its agent for each task.
#
#   sbatch --nodes=4 --ntasks=64 crema.sh python analysis.py
#
# The analysis finds the cluster in DASK_SCHEDULER_ADDRESS, which `distributed.Client()` takes by itself, and crema in CREMA_AGGREGATOR.
#
#   CREMA_RUNS      where run files go, on a file system that all nodes see (runs/ where sbatch was called)
#   CREMA_SCRATCH   on each node's own disk: what is recorded and not yet delivered ($TMPDIR, else /tmp)
#   CREMA_DRAIN_S   seconds for the delivery of what is left when the analysis has ended (30)
set -euo pipefail

[[ -n ${SLURM_JOB_ID:-} ]] || { echo "crema: this is a job: sbatch $0 COMMAND..." >&2 && exit 2; }
[[ $# -gt 0 ]] || { echo "crema: no analysis: sbatch $0 COMMAND..." >&2 && exit 2; }

runs=${CREMA_RUNS:-$PWD/runs}
scratch=${CREMA_SCRATCH:-${TMPDIR:-/tmp}}
drain_s=${CREMA_DRAIN_S:-30}
work=$runs/job-$SLURM_JOB_ID
mkdir -p "$runs"
mkdir -m 700 "$work"

say() {
    echo "crema: $*" >&2
}

# start NAME COMMAND...: a server in the background, until it says that it is ready; $endpoint is where it listens.
start() {
    local name=$1 i
    shift
    : >"$work/$name.out"
    "$@" >>"$work/$name.out" 2>"$work/$name.log" &
    for ((i = 0; i < 600; i++)); do
        endpoint=$(sed -nE 's/.*"event":"ready".*"endpoint":"([^"]+)".*/\1/p' "$work/$name.out")
        [[ -z $endpoint ]] || return 0
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    tail -n 5 "$work/$name.log" >&2
    say "$name does not start"
    exit 1
}

stop() { # stop PID...: asks, and waits
    kill -TERM "$@" 2>/dev/null || true
    wait "$@" 2>/dev/null || true
}

crema-aggregator --make-keys "$work/keys" >/dev/null

start sink crema-sink --bind 'tcp://127.0.0.1:*' --store "$work/store" --output "$runs" --keys "$work/keys"
sink=$!
start aggregator crema-aggregator --bind 'tcp://0.0.0.0:*' --sink "$endpoint" --keys "$work/keys"
aggregator=$!
CREMA_AGGREGATOR=tcp://$(hostname):${endpoint##*:}
export CREMA_AGGREGATOR CREMA_AGENT_KEYS=$work/keys/agent CREMA_AGENT_DRAIN_TIMEOUT=${drain_s}s

crema-agent --spool "$scratch/crema-$SLURM_JOB_ID-scheduler" -- \
    dask scheduler --port 0 --no-dashboard --scheduler-file "$work/scheduler.json" >"$work/scheduler.log" 2>&1 &
scheduler=$!
# shellcheck disable=SC2016 # expanded in each task
srun --overlap --kill-on-bad-exit=0 bash -c 'exec crema-agent --spool "$1/crema-$SLURM_JOB_ID-$SLURM_PROCID" -- \
    dask worker --scheduler-file "$2/scheduler.json" --nthreads "${SLURM_CPUS_PER_TASK:-1}" --no-dashboard --local-directory "$1"' \
    - "$scratch" "$work" >"$work/workers.log" 2>&1 &
workers=$!
for ((i = 0; i < 600; i++)); do
    [[ ! -s $work/scheduler.json ]] || break
    sleep 0.1
done
DASK_SCHEDULER_ADDRESS=$(sed -nE 's/.*"address": "([^"]+)".*/\1/p' "$work/scheduler.json")
export DASK_SCHEDULER_ADDRESS
say "aggregator $CREMA_AGGREGATOR, scheduler $DASK_SCHEDULER_ADDRESS"

status=0
CREMA_KEYS=$work/keys/client "$@" &
analysis=$!
trap 'kill -TERM $analysis 2>/dev/null' TERM # the time is nearly up, or somebody cancelled
wait $analysis || status=$?
wait $analysis 2>/dev/null || status=$?

# In this order, so that each delivers to one that is still there.
say "the analysis ended with exit status $status; what is left is delivered within $drain_s s"
stop "$workers"
stop "$scheduler"

# The epilogue on every node: a worker that was killed together with its agent left its spool behind.
# shellcheck disable=SC2016 # expanded on each node
srun --overlap --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1 bash -c '
    left=0
    for spool in "$1/crema-$SLURM_JOB_ID"-*; do
        [[ -d $spool ]] || continue
        timeout --signal=TERM --kill-after="$2" 2 crema-agent --spool "$spool" || true # it delivers what is left, then goes
        if [[ -z $(find "$spool" -name "sp-*" -print -quit) ]]; then
            rm -rf "$spool"
        else
            echo "crema: not delivered: $(hostname):$spool" >&2
            left=1
        fi
    done
    exit $left' - "$scratch" "$((drain_s + 10))" >"$work/epilogue.log" 2>&1 || cat "$work/epilogue.log" >&2

stop "$aggregator"
stop "$sink"

# A run without its file stays as a journal, from which the file can be made.
for journal in "$work"/store/*-*-*-*-*/; do
    run=$(basename "$journal")
    if [[ -d $journal && ! -e $runs/$run.h5 ]]; then
        say "run $run has no file yet; make it with: crema-sink rebuild $journal --output $runs/$run.h5"
        exit $((status ? status : 1))
    fi
done
rm -rf "$work"
exit "$status"
