#!/usr/bin/env bash
# mutants.sh - proves that the simulator and the tests of the protocol have teeth: builds them with one seeded bug after the other
# (-DCREMA_MUTANT=n, see proto/base/crema_mutant.h) and wants every one to be found. Without any bug they must find none.
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
16 test_power_store a sync that failed is tried again
17 test_power_store the watermark holds though data before it are missing
18 test_power_store after a failed sync what can be read is taken for durable
19 sim            what the agents list is all there is, whatever the writers say
20 sim            the verdict does not wait for the list of writers to be durable
21 sim            what an agent cannot read is held against nobody
'

readonly modules=(
    proto/base/crema_{map,id,error,arena,utf8}.c
    proto/tables/crema_columns.c
    proto/wire/crema_{life,stream,writers,frame,record,wire}.c
    proto/daemon/crema_principal.c
    proto/session/crema_{sender,session,session_next,offset}.c
    aggregator/agg_{awaited,credit,agent,run,text,frames,core,core_ages,core_agents,core_due,core_faults,core_flows,core_keys,core_look,core_next,core_owners,core_runs,core_sink,core_writers}.c
    sink/store/sink_commit.c
)
# test_power_store: the store on a disk that forgets what was not synced
readonly store=(
    proto/base/crema_random.c proto/wire/crema_{failpoint,cost}.c
    sink/store/sink_{store,store_open,store_runs,store_scrub,store_show,store_state,journal,journal_open,journal_read,journal_tail,order,aged,freed,past,refused,scrub,segment,segments,fs,put,tombs,window}.c
    tests/frames.c tests/faulty/{power,store_life}.c
)
wraps=$(sed -n 's/^set(disk_calls \(.*\))/\1/p' tests/faulty/CMakeLists.txt | sed -E 's/([a-z]+)/-Wl,--wrap=\1/g')
readonly wraps
mapfile -t rooms < <(find proto aggregator sink tests tests/sim tests/faulty -name '*.h' -printf '%h\n' | sort -u)
readonly rooms
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
protoc-c --c_out="$work" --proto_path=proto proto/crema.proto

# build NUMBER NAME: the program with that bug, as $work/NAME
build() {
    local sources flags=()
    case $2 in
        sim) sources=(tests/sim/*.c) ;;
        test_power_store)
            sources=("${store[@]}" "tests/faulty/$2.c")
            read -ra flags <<<"$wraps"
            ;;
        *) mapfile -t sources < <(find tests -name "$2.c") ;;
    esac
    "$cc" -std=gnu17 -O1 -w -D_GNU_SOURCE= -DCREMA_MUTANT="$1" "${rooms[@]/#/-I}" \
        -I"$work" "${flags[@]}" "${modules[@]}" "$work/crema.pb-c.c" "${sources[@]}" -o "$work/$2" \
        -lcmocka -lprotobuf-c -lsodium -ldeflate -lz -lm
}

# find NAME: true if the program finds something wrong
find_fault() {
    local arguments=()
    [[ $1 != sim ]] || arguments=(--seeds "$seeds" --first 1)
    ! "$work/$1" "${arguments[@]}" >"$work/out" 2>&1
}

survivors=0
for name in sim test_agg_core test_power_store; do
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
        printf 'mutant %2d found by %-17s %s\n' "$number" "$name," "$(grep -m1 -e '^seed' -e 'ERROR' "$work/out" | cut -c1-90)"
    else
        printf 'mutant %2d SURVIVES %s: %s\n' "$number" "$name" "$text"
        survivors=$((survivors + 1))
    fi
done <<<"$mutants"
echo "mutants: $survivors survive"
((survivors == 0))
