#!/bin/sh
# Runs every fuzzer for a while: tests/fuzz/run.sh BINARY_DIR [SECONDS EACH]. The corpus grows in BINARY_DIR/corpus.
set -eu
bin=$1
seconds=${2:-60}
golden=$(dirname "$0")/../golden

seed() { # fuzzer, prefix of golden files
    mkdir -p "$bin/corpus/$1"
    for hex in "$golden/$2"_*.hex; do
        python3 -c 'import sys; sys.stdout.buffer.write(bytes.fromhex(open(sys.argv[1]).read()))' "$hex" \
            > "$bin/corpus/$1/$(basename "$hex" .hex)"
    done
}

seed fuzz_frame record
seed fuzz_record record
seed fuzz_wire message
for fuzzer in fuzz_frame fuzz_record fuzz_wire; do
    "$bin/$fuzzer" -max_total_time="$seconds" -max_len=16384 -timeout=5 -rss_limit_mb=512 -print_final_stats=1 \
        -artifact_prefix="$bin/corpus/$fuzzer-" "$bin/corpus/$fuzzer"
done
