#!/usr/bin/env bash
# tests.sh PROCESSOR - runs the unit tests of the three programs, linked as those in a wheel are, on PROCESSOR: x86_64 or aarch64, which
# qemu runs where it is not this machine's. libraries.sh has been run before. The first time takes three minutes of CPU.
set -euo pipefail
# shellcheck source=packaging/zig.sh
. "$(dirname "${BASH_SOURCE[0]}")/zig.sh" "$@"
readonly build=$cache/tests-$CREMA_TARGET

# Left out: the simulator and power cuts, which take long, what looks at sources, and test_hot_paths, which counts the instructions of
# gcc's programs and needs a linker with --wrap.
mapfile -t tests < <(cd "$root" && find tests -name 'test_*.c' -not -path '*/faulty/*' -not -name test_hot_paths.c -printf '%f\n' | sed 's/\.c$//' | sort)
skipped=()
if [[ $CREMA_TARGET != $(uname -m) ]]; then
    # qemu fills in no TCP_INFO (reactor's flood, unsent), a program in it cannot start itself (sealer, sealing), and its memory, which
    # grows with each thread that was started, is not that of the program (aging, memory).
    skipped=(test_sink_aging test_crema_reactor test_crema_unsent test_sink_memory test_sink_sealer test_sink_sealing)
fi
for name in "${skipped[@]}"; do
    mapfile -t tests < <(printf '%s\n' "${tests[@]}" | grep -vx "$name")
done

cmake -S "$root" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/packaging/zig.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_COMPILE_WARNING_AS_ERROR=OFF
cmake --build "$build" --target "${tests[@]}"
ctest --test-dir "$build" --parallel "$(nproc)" --output-on-failure --timeout 300 \
    --tests-regex "^($(
        IFS='|'
        echo "${tests[*]}"
    ))\$"
