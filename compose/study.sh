#!/usr/bin/env bash
# study.sh - one analysis on the test cluster with 1, 2, 4, ... workers: a folder of run files, and a table of how it scales.
#
# It has a cluster of its own, apart from one that you may have up, and takes it down at the end, also when it fails. Each run gets fresh
# workers, so that none has anything of the run before it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

workers=1,2,4 repeat=1 events=1000000 chunksize=25000 limit_s=600
output=study-$(date -u +%Y%m%dT%H%M%SZ)

help() {
    cat <<END
usage: compose/study.sh [OPTION...]      (or ./dev study [OPTION...])

Runs one analysis on the test cluster at several numbers of workers and compares the runs.

  --workers LIST     numbers of workers, from the smallest on ($workers)
  --repeat N         runs at each number ($repeat)
  --events N         events that the analysis reads ($events)
  --chunksize N      events in a chunk ($chunksize)
  --timeout SECONDS  for one run; longer ends the study ($limit_s)
  --output DIR       for run files, scaling.csv and scaling.txt ($output)
  --help, --version
END
}

die() {
    echo "study: $*" >&2
    exit "${status:-1}"
}

number() { # number OPTION VALUE
    [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || status=2 die "$1 wants a number of at least 1, not '$2'"
    echo "$2"
}

while [[ $# -gt 0 ]]; do
    case $1 in
        -h | --help) help && exit ;;
        --version)
            sed -nE 's/^project\(crema VERSION ([0-9.]+).*/study \1/p' "$here/../CMakeLists.txt"
            exit
            ;;
        --workers | --repeat | --events | --chunksize | --timeout | --output)
            [[ $# -ge 2 ]] || status=2 die "$1 wants a value"
            ;;
        *) status=2 die "what is '$1'? compose/study.sh --help" ;;
    esac
    case $1 in
        --workers)
            [[ $2 =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || status=2 die "--workers wants numbers such as 1,2,4, not '$2'"
            workers=$2
            ;;
        --repeat) repeat=$(number "$1" "$2") ;;
        --events) events=$(number "$1" "$2") ;;
        --chunksize) chunksize=$(number "$1" "$2") ;;
        --timeout) limit_s=$(number "$1" "$2") ;;
        --output) output=$2 ;;
    esac
    shift 2
done

# Container names, volumes and network of this study alone; no port that something else may hold.
export COMPOSE_PROJECT_NAME=${CREMA_STUDY_PROJECT:-crema-study-$$} JUPYTER_PORT="" DASHBOARD_PORT=""
export ANALYSIS_EVENTS=$events ANALYSIS_CHUNKSIZE=$chunksize

if docker compose version >/dev/null 2>&1; then
    engine=(docker compose)
elif command -v docker-compose >/dev/null; then
    engine=(docker-compose)
else
    die "neither docker compose nor docker-compose is here"
fi
docker version >/dev/null 2>&1 || die "no container engine answers: is it running, and may you use it? (docker info says more)"

log=$(mktemp)
compose() {
    "${engine[@]}" --project-directory "$here" -f "$here/compose.yaml" "$@"
}

quietly() { # quietly WHAT COMMAND...: its output is shown if it fails
    local what=$1
    shift
    "$@" >"$log" 2>&1 </dev/null || {
        tail -n 30 "$log" >&2
        die "$what failed"
    }
}

take_down() {
    compose down --volumes --timeout 10 >/dev/null 2>&1 || echo "study: $COMPOSE_PROJECT_NAME could not be taken down" >&2
    rm -f "$log"
}

images_are_there() {
    compose config | sed -nE 's/^ +image: +//p' | sort -u | xargs docker image inspect >/dev/null 2>&1
}

mapfile -t counts < <(tr , '\n' <<<"$workers" | sort -nu)
mkdir -p "$output"
output=$(cd "$output" && pwd)
[[ -z $(find "$output" -maxdepth 1 -name '*.h5' -print -quit) ]] || die "$output has run files already: give another --output"

trap take_down EXIT
trap 'exit 130' INT TERM

if ! images_are_there; then
    echo "images are missing: built now, which takes some minutes" >&2
    quietly "the base image" "$here/base-image.sh"
    quietly "building the images" compose build
fi

readonly runs=$((${#counts[@]} * repeat))
echo "study of $runs runs with ${counts[*]} workers, $events events, into $output" >&2
quietly "starting the cluster" compose up -d --no-build sink aggregator scheduler
done_runs=0
for n in "${counts[@]}"; do
    for ((i = 1; i <= repeat; i++)); do
        done_runs=$((done_runs + 1))
        began=$SECONDS
        printf 'run %d of %d: %d workers ... ' "$done_runs" "$runs" "$n" >&2
        quietly "starting $n workers" compose up -d --no-build --no-deps --force-recreate --scale "worker=$n" worker
        quietly "the analysis on $n workers" timeout --foreground --kill-after=30 "$limit_s" "${engine[@]}" --project-directory "$here" -f "$here/compose.yaml" \
            run --rm -T analysis python -m crema.demo --scheduler=tcp://scheduler:8786 --cache=/data --workers="$n" \
            --events="$events" --chunksize="$chunksize"
        echo "$((SECONDS - began)) s" >&2
    done
done

# shellcheck disable=SC2016 # expanded in the container
compose run --rm -T --no-deps --user "$(id -u):$(id -g)" --volume "$output:/out" analysis \
    sh -ec 'cp /runs/*.h5 /out/ && crema scaling /out/*.h5 --csv /out/scaling.csv | tee /out/scaling.txt' </dev/null
echo "run files, scaling.csv and scaling.txt are in $output" >&2
