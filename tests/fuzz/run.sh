#!/bin/sh
# Runs fuzzers: tests/fuzz/run.sh [--minutes N] [FUZZER...], ten minutes each, all of them by default, two at a time. Each starts from seeds that are
# made here; what it finds worth keeping stays in build/fuzz/corpus. Exit 1 if one found something: the input lies beside its corpus.
set -eu
cd "$(dirname "$0")/../.."
bin=build/fuzz/bin
seconds=600
if [ "${1:-}" = --minutes ]; then
    seconds=$(($2 * 60))
    shift 2
fi
golden=tests/golden
corpus=$bin/../corpus
[ $# -gt 0 ] || set -- frame record wire json run journal spool core store proc config

golden_bytes() { # names of golden files -> fd 1, one behind the other
    for hex in "$golden"/$1.hex; do
        python3 -c 'import sys; sys.stdout.buffer.write(bytes.fromhex(open(sys.argv[1]).read()))' "$hex"
    done
}

journal_of() { # toy, busy -> its first segment
    rm -rf "$corpus/journal-$1"
    "$bin/make_journal_main" "$1" "$corpus/journal-$1" 6
    cat "$corpus/journal-$1"/000001.journal
    rm -rf "$corpus/journal-$1"
}

# Messages as fuzz_core wants them: who speaks, how long the message is.
conversation() {
    python3 - "$golden" <<'END'
import pathlib, struct, sys

golden = pathlib.Path(sys.argv[1])
order = [("HELLO", 1), ("STATE", 0), ("RUN_OPEN", 2), ("OPEN", 1), ("HEARTBEAT", 0x11), ("DATA", 1), ("COMMITTED", 0), ("RUN_END", 2),
         ("BARRIER", 1), ("FULL", 0x71), ("SEALED", 0xF0), ("BYE", 1)]
for name, how in order:
    file = golden / f"message_{name}.hex"
    if file.exists():
        message = bytes.fromhex(file.read_text())
        sys.stdout.buffer.write(struct.pack("<BH", how, len(message)) + message)
END
}

seed() {
    mkdir -p "$corpus/$1"
    case $1 in
        frame | record | wire)
            prefix=record
            [ "$1" = wire ] && prefix=message
            for hex in "$golden/$prefix"_*.hex; do
                name=$(basename "$hex" .hex)
                golden_bytes "$name" >"$corpus/$1/$name"
            done
            ;;
        json)
            printf '{"path":"/x.h5","verdict":"PARTIAL","revision":1,"sha256":"%064d","file_bytes":3,"rows":4,"reasons":[%s]}' 0 \
                '{"code":"records_lost","subject":"a\u00e9\\","count":-7,"text":null}' >"$corpus/json/report"
            printf '{"error":"x","a":[1,-2.5e3,{"a":[[]]},true,false,null,"\\ud83d\\ude00"]}' >"$corpus/json/error"
            ;;
        run)
            { printf '\002' && golden_bytes 'record_*'; } >"$corpus/run/golden"
            { printf '\001' && golden_bytes record_stream && golden_bytes record_dict && golden_bytes record_batch &&
                golden_bytes record_end; } >"$corpus/run/stream"
            ;;
        journal)
            journal_of toy >"$corpus/journal/toy"
            journal_of plain >"$corpus/journal/plain"
            ;;
        spool)
            { printf '\200\001' && golden_bytes record_stream && golden_bytes record_dict && golden_bytes record_batch &&
                golden_bytes record_end; } >"$corpus/spool/stream"
            ;;
        core) conversation >"$corpus/core/conversation" ;;
        store)
            for which in 0 1 2 4; do
                { printf %b "\\00$which" && golden_bytes record_end; } >"$corpus/store/frame-$which"
            done
            printf '\003metadata\ncurve\n    public-key = "%s"\n    secret-key = "%s"\n' \
                'rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7' 'D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs' >"$corpus/store/keys"
            ;;
        proc)
            printf '%s\0' '17 (a) b) S 1 1 1 0 -1 4194560 10 0 0 0 100 20 7 0 20 0 3 0 99 1 2' '9999 50 5 1 0 3 0' \
                "$(printf 'rchar: 1\nread_bytes: 1000\nwrite_bytes: 2000\n')" \
                "$(printf 'Name:\ta\nUid:\t0\t0\t0\t0\nNSpid:\t17\n')" '18 ' '18 (c) R 17 1 1 0 -1 4 1 0 0 0 1 2 3 4 20 0 1 0 99 1 2' \
                "$(printf 'x: 1\nread_bytes: 1\n')" "$(printf ' lo: 1 2 0 0 0 0 0 0 3\n  eth0: 10 1 0 0 0 0 0 0 20 2\n')" 1073741824 '0::/a/b' \
                >"$corpus/proc/two"
            ;;
        config)
            printf 'text = "a"\ntime = 2s\nbytes = 1Gi\nnumber = -3\nflag = false\n' >"$corpus/config/file"
            printf '250ms\0--number=4\0--no-flag\0--bytes\0003M\0--\0x' >"$corpus/config/words"
            printf 'curve\n    public-key = "%s"\n' 'rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7' >"$corpus/config/key"
            ;;
    esac
}

# Until `seconds` are over; a slow or huge input is a finding too.
fuzz() { # what a program would tell its operator on each input is not kept
    "$bin/fuzz_$1" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -close_fd_mask=3 \
        -artifact_prefix="$corpus/$1-" "$corpus/$1" >"$corpus/$1.log" 2>&1
}

# Only what adds something is kept for the next time.
shrink() {
    mkdir "$corpus/$1.small"
    "$bin/fuzz_$1" -merge=1 "$corpus/$1.small" "$corpus/$1" >>"$corpus/$1.log" 2>&1 || true
    rm -rf "${corpus:?}/$1"
    mv "$corpus/$1.small" "$corpus/$1"
}

one() {
    seed "$1"
    if fuzz "$1"; then
        printf '%-8s %s runs, no finding\n' "$1" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$corpus/$1.log")"
        shrink "$1"
    else
        printf '%-8s FOUND SOMETHING: %s\n' "$1" "$(grep -E 'SUMMARY|runtime error|ERROR' "$corpus/$1.log" | head -n 1)"
        echo "$1" >>"$corpus/found"
    fi
}

rm -f "$corpus/found"
mkdir -p "$corpus"
trap 'rm -rf /dev/shm/crema-fuzz-* /tmp/crema-fuzz-*' EXIT
while [ $# -gt 0 ]; do
    one "$1" &
    shift
    if [ $# -gt 0 ]; then
        one "$1" &
        shift
    fi
    wait
done
[ ! -s "$corpus/found" ]
