#!/usr/bin/env bash
# mutants.sh - proves that the simulator and the tests of the protocol have teeth: builds them with one seeded bug after the other
# (-DCREMA_MUTANT=n, see proto/crema_mutant.h) and wants every one to be found. Without any bug they must find none.
#
# usage: tests/mutants.sh [number...]   exit 1 if a mutant survives
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly cc=${CC:-cc} seeds=${SEEDS:-6000}

# number, who finds it, what is wrong
readonly mutants='
 1 sim            received counts as committed
 2 sim            the spool is freed up to what was sent
 3 sim            tables tell what was sent instead of what is there
 4 sim            the verdict comes after a fixed time
 5 sim            the sink takes what does not continue
 6 sim            a new session goes on where the old one stood, and REPLAY is not heeded
 7 sim            the barrier is answered without reading the spool
 8 sim            REPLAY is not heeded and standing still rewinds nothing
 9 sim            the sink acknowledges before the sync
10 sim            silence counts as an answer to the barrier
11 sim            an open stream counts as whole
12 sim            a new sink is trusted with what the old one was sent
13 test_agg_core  an agent that was not let in yet is forgotten
14 test_agg_core  after a restart whoever is here is everybody
15 test_agg_core  an agent is dismissed with records left
'

readonly modules=(
    proto/crema_{map,stream,sender,session,session_next,offset,id,error,frame,arena,record,columns,wire,utf8}.c
    aggregator/agg_{credit,agent,run,text,frames,core,core_agents,core_flows,core_sink,core_runs,core_next}.c
    sink/sink_commit.c
)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
protoc-c --c_out="$work" --proto_path=proto proto/crema.proto

# build NUMBER NAME: the program with that bug, as $work/NAME
build() {
    local sources=(tests/sim/*.c)
    [[ $2 == sim ]] || sources=("tests/$2.c")
    "$cc" -std=gnu17 -O1 -w -DCREMA_MUTANT="$1" -Iproto -Iaggregator -Isink -Itests -Itests/sim -I"$work" \
        "${modules[@]}" "$work/crema.pb-c.c" "${sources[@]}" -o "$work/$2" -lcmocka -ldeflate -lprotobuf-c -lz -lm
}

# find NAME: true if the program finds something wrong
find_fault() {
    local arguments=()
    [[ $1 != sim ]] || arguments=(--seeds "$seeds" --first 1)
    ! "$work/$1" "${arguments[@]}" >"$work/out" 2>&1
}

survivors=0
for name in sim test_agg_core; do
    build 0 "$name"
    if find_fault "$name"; then
        echo "mutants: $name fails without any mutant"
        exit 1
    fi
done
while read -r number name text; do
    [[ -n $number ]] || continue
    [[ $# == 0 || " $* " == *" $number "* ]] || continue
    build "$number" "$name"
    if find_fault "$name"; then
        printf 'mutant %2d found by %-14s %s\n' "$number" "$name," "$(grep -m1 -e '^seed' -e 'ERROR' "$work/out" | cut -c1-90)"
    else
        printf 'mutant %2d SURVIVES %s: %s\n' "$number" "$name" "$text"
        survivors=$((survivors + 1))
    fi
done <<<"$mutants"
echo "mutants: $survivors survive"
((survivors == 0))
