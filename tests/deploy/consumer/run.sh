#!/bin/sh
# Installs a build somewhere else and builds a consumer against it twice: with find_package and with pkg-config.
# usage: run.sh BUILD_DIR CMAKE GENERATOR CC VERSION [CFLAGS]
set -eu
build=$1 cmake=$2 generator=$3 cc=$4 version=$5 cflags=${6-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
for program in crema-agent crema-aggregator crema-sink; do
    test -x "$work/prefix/bin/$program"
done

"$cmake" -S "$here" -B "$work/by-cmake" -G "$generator" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_C_FLAGS="$cflags" -DVERSION="$version" >/dev/null
"$cmake" --build "$work/by-cmake" >/dev/null
"$work/by-cmake/consumer" "$version"

# Each installed header stands alone, and none is of the programs.
for header in "$work"/prefix/include/crema/*.h; do
    name=$(basename "$header")
    # shellcheck disable=SC2086 # flags are words
    echo "#include <crema/$name>" | "$cc" $cflags -fsyntax-only -I"$work/prefix/include" -I"$work/prefix/include/crema" -x c -
    test ! -e "$here/../../proto/daemon/$name"
done

PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name crema.pc)")
export PKG_CONFIG_PATH
test "$(pkg-config --modversion crema)" = "$version"
whole="-Wl,--whole-archive,$(find "$work/prefix" -name libcrema.a),--no-whole-archive"
# shellcheck disable=SC2046,SC2086 # flags are words
"$cc" $cflags "$here/consumer.c" "$whole" $(pkg-config --cflags --libs crema) -o "$work/by-pkg-config"
"$work/by-pkg-config" "$version"
