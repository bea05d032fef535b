# zig.sh - sourced with a processor (x86_64 or aarch64) as argument: the compiler for it, and where things are kept. Needs
# CREMA_WHEEL_PYTHON, the Python of an environment with packaging/requirements.lock (`pip install --require-hashes -r`).
# shellcheck shell=bash
readonly glibc=2.17
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=$root/.cache/wheel
export CREMA_TARGET=${1:?which processor: x86_64 or aarch64?}
[[ $CREMA_TARGET == x86_64 || $CREMA_TARGET == aarch64 ]] || {
    echo "$0: no wheel is made for '$CREMA_TARGET', only for x86_64 and aarch64" >&2
    exit 2
}
zig=$("$CREMA_WHEEL_PYTHON" -c 'import ziglang, os; print(os.path.dirname(ziglang.__file__))')
export ZIG_GLOBAL_CACHE_DIR=$cache/zig ZIG_LOCAL_CACHE_DIR=$cache/zig
export CREMA_EMULATOR="qemu-aarch64;-L;/usr/aarch64-linux-gnu"

# Everything that changes what comes out is in the key; comments do not.
key=$(cat "$root"/packaging/{libraries.sh,zig.sh,zig.cmake,sources.sha256,requirements.lock} | grep -v '^#' | sha256sum | cut -c 1-16)
export CREMA_PREFIX=$cache/$CREMA_TARGET-$key
export CREMA_ZIG=$CREMA_PREFIX/bin

# Paths of this machine go into no file: assert() and HDF5's messages have __FILE__. HDF5 1.10.8 has a function without a type.
flags="-target $CREMA_TARGET-linux-gnu.$glibc -g0 -fno-sanitize=undefined -Wno-implicit-int"
flags="$flags -ffile-prefix-map=$cache=. -ffile-prefix-map=$root=."
mkdir -p "$CREMA_ZIG"
for tool in cc c++; do
    printf '#!/bin/sh\nexec "%s/zig" %s %s "$@"\n' "$zig" "$tool" "$flags" >"$CREMA_ZIG/zig-$tool"
done
for tool in ar ranlib; do
    printf '#!/bin/sh\nexec "%s/zig" %s "$@"\n' "$zig" "$tool" >"$CREMA_ZIG/zig-$tool"
done
chmod +x "$CREMA_ZIG"/*
export PATH=$CREMA_ZIG:$PATH CC=zig-cc CXX=zig-c++ AR=zig-ar RANLIB=zig-ranlib CFLAGS=-O2
export PKG_CONFIG_LIBDIR=$CREMA_PREFIX/lib/pkgconfig PKG_CONFIG_PATH=
