#!/usr/bin/env bash
# wheels.sh FOLDER [WHEEL...] - makes the wheels of the commit that is checked out, in FOLDER: x86_64 and aarch64 with the programs inside,
# `any` without them for everybody else; all three if none is named. Two runs on one commit make the same bytes. What it needs is in
# libraries.sh; CREMA_WHEEL_PYTHON is the Python that zig.sh speaks of.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mkdir -p "${1:?usage: wheels.sh FOLDER [x86_64|aarch64|any]...}" && cd "$1" && pwd)
shift

# make_wheel WHEEL: of the commit, not of what lies beside it, and with the commit's time.
make_wheel() (
    local wheel=$1 processor=$1 settings
    [[ $wheel != any ]] || processor=x86_64
    # shellcheck source=packaging/zig.sh
    . "$here/zig.sh" "$processor"
    "$here/libraries.sh" "$processor"
    settings=(
        "build-dir=$cache/build" "cmake.define.CMAKE_TOOLCHAIN_FILE=$here/zig.cmake"
        cmake.define.CMAKE_EXE_LINKER_FLAGS=-s install.strip=false # strip knows one processor, the linker both
    )
    if [[ $wheel == any ]]; then
        settings+=(wheel.platlib=false build.targets=crema_python_files)
    else
        settings+=("cmake.define.CREMA_LICENSES=$CREMA_PREFIX/licenses")
        export _PYTHON_HOST_PLATFORM=manylinux_${glibc/./_}_$processor
    fi
    SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    umask 022
    rm -rf "$cache/tree" "$cache/build"
    mkdir -p "$cache/tree"
    git -C "$root" archive HEAD | tar -x -C "$cache/tree"
    cd "$cache/tree"
    rm -f "$folder"/coffea_crema-*"$wheel.whl"
    "$CREMA_WHEEL_PYTHON" - "$folder" "${settings[@]}" <<'END'
import sys

from scikit_build_core import build

folder, *settings = sys.argv[1:]
build.build_wheel(folder, dict(setting.split("=", 1) for setting in settings))
END
    rm -rf "$cache/tree" "$cache/build"
)

[[ $# -gt 0 ]] || set -- x86_64 aarch64 any
"$here/fetch-sources.sh" "$here/../.cache/wheel/sources"
for wheel in "$@"; do
    make_wheel "$wheel"
done
