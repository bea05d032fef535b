# Steps of a long command, for scripts to source: each prints a line, its output goes to .cache/log/, and tests are counted.
# The working directory is the top of the tree.
# shellcheck shell=bash
passed=0 failed=0 skipped=0 flaky=0 status=0 log="" lacking=()

die() {
    echo "dev: $*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null
}

# Cores that may be used. A container's quota counts, of which nproc knows nothing.
cores() {
    local all quota=max period=1
    all=$(nproc)
    [[ ! -r /sys/fs/cgroup/cpu.max ]] || read -r quota period </sys/fs/cgroup/cpu.max
    [[ $quota == max || $((quota / period)) -ge $all ]] || all=$((quota < period ? 1 : quota / period))
    echo "$all"
}

# Processes of pytest: tests wait a good deal, so five for two cores; no more than there is memory for, or than tests share well.
processes() {
    local most=$(($(cores) * 5 / 2)) room
    room=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)
    [[ $most -le 16 ]] || most=16
    [[ $most -le $room ]] || most=$((room > 0 ? room : 1))
    echo "$most"
}

# ---------------------------------------------------------------- steps

# Runs a command with its output in .cache/log/NAME.log, prints how far it is once per minute and how long it took in the
# end; leaves its exit status in $status. Called plainly, never behind `if` or `||`, which would switch off `set -e` in it.
run() { # run NAME COMMAND...
    local name=$1 began=$SECONDS job waited=0
    shift
    mkdir -p .cache/log
    log=.cache/log/${name//[^a-z0-9]/-}.log
    printf '%-28s' "$name"
    (
        set -e
        "$@"
    ) >"$log" 2>&1 </dev/null &
    job=$!
    while kill -0 "$job" 2>/dev/null && sleep 0.2; do
        if ((++waited % 300 == 0)); then
            printf '%s ' "$(tail -c 4000 "$log" | grep -aoE '[0-9]+(%\]|/[0-9]+\]|/[0-9]+ Test)' | tail -n 1 | tr -d '] Test')"
        fi
    done
    status=0
    wait "$job" || status=$?
    printf '%6d s%s\n' $((SECONDS - began)) "$([[ $status == 0 ]] || echo '  FAILED')"
}

show_log() { # its end, without what ctest says of tests that passed
    grep -avE '^ +Start +[0-9]+: |\.\.\. +Passed ' "$log" | tail -n 30 | sed 's/^/    /' || true
    echo "    the whole log: $PWD/$log"
}

step() { # what the rest needs
    run "$@"
    if [[ $status != 0 ]]; then
        show_log
        die "$1 failed with exit status $status"
    fi
}

check() { # a test in itself
    run "$@"
    if [[ $status == 0 ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        show_log
    fi
}

# Lines such as "mounted file systems (no CAP_SYS_ADMIN): 3; parsl (not in this environment): 1" become one, with the sums.
sums_of_lacking() {
    awk -F'; ' '
        { for (i = 1; i <= NF; i++) if (match($i, /: [0-9]+$/)) sums[substr($i, 1, RSTART - 1)] += substr($i, RSTART + 2) }
        END { for (what in sums) print what ": " sums[what] }' | sort | awk '{ printf "%s%s", (NR > 1 ? "; " : ""), $0 }'
}

lacks() { # lacks LINE: what a step could not test; the end of the whole run says it again
    [[ -n $1 ]] || return 0
    lacking+=("$1")
    echo "not tested here: $1"
}

not_tested() { # not_tested WHAT (REASON)
    lacks "$*: 1"
    skipped=$((skipped + 1))
}

# Adds the numbers of a test runner's closing lines; a runner that failed without any counts as one failure.
count() { # lines such as "3 failed" on standard input
    local failed_before=$failed word number
    while read -r number word; do
        case $word in
            passed) passed=$((passed + number)) ;;
            failed | error | errors) failed=$((failed + number)) ;;
            skipped) skipped=$((skipped + number)) ;;
        esac
    done
    if [[ $status != 0 ]]; then
        [[ $failed -gt $failed_before ]] || failed=$((failed + 1))
        show_log
    fi
    flaky=$((flaky + $(grep -ac '^flaky ' "$log" || true)))
    grep -aE '^(flaky|CREMA_SEED)' "$log" || true
}

count_pytest() { # its closing line is "=== 1 failed, 9 passed, 2 skipped in 3.21s ==="
    count < <(tail -n 1 "$log" | grep -oE '[0-9]+ (passed|failed|errors?|skipped)')
    lacks "$(sed -n 's/^not tested here: //p' "$log" | sums_of_lacking)"
}

# The closing line is "90% tests passed, 1 tests failed out of 10". ctest knows nothing of the tests in a program, which say in its own
# log what they lack (lib/must.h): a program counts as passed unless all that it has were skipped.
count_ctest() { # count_ctest LastTest.log
    local bad=0 all=0 none=0 skips=0 lacking_here=""
    if read -r bad all < <(sed -nE 's/.* ([0-9]+) tests failed out of ([0-9]+)$/\1 \2/p' "$log"); then
        read -r none skips < <(awk '
            /^Output:$/ { ok = missing = 0 }
            /^not tested here: / { missing++; skips++ }
            /^\[  PASSED  \] / { ok += $4 }
            /^Test Passed\.$/ && missing && !ok { none++ }
            END { print none + 0, skips + 0 }' "$1")
        lacking_here=$(sed -nE 's/^not tested here: (.*)/\1: 1/p' "$1" | sums_of_lacking)
    fi
    count < <(printf '%d %s\n' $((all - bad - none)) passed "$bad" failed "$skips" skipped)
    lacks "$lacking_here"
}

# Ends it after $limit_s seconds, if given, with time to take down what it started. Figures are in lines "measured: ...".
run_pytest() { # run_pytest NAME ENVIRONMENT ARGUMENT...
    run "$1" timeout --signal=INT --kill-after=120 "${limit_s:-0}" "$2/bin/python" -m pytest --durations=40 "${@:3}"
    count_pytest
    sed -n 's/^measured: /    /p' "$log"
}

tally() { # tally STATUS: the last lines
    [[ ${#lacking[@]} -lt 2 ]] || echo "not tested here: $(printf '%s\n' "${lacking[@]}" | sums_of_lacking)"
    [[ $failed -gt 0 || $1 == 0 ]] || failed=1 # stopped before the tests could say anything
    echo "$passed passed, $failed failed, $skipped skipped$([[ $flaky == 0 ]] || echo ", $flaky flaky")"
}

tallied() { # tallied COMMAND...
    trap 'tally $?' EXIT
    "$@"
    [[ $failed == 0 ]]
}
