#!/usr/bin/env bash
# libraries.sh PROCESSOR - builds the libraries that the programs in a wheel are linked with, as archives (.a), of Debian's sources, for
# PROCESSOR: x86_64 or aarch64. The folder has the licences as well. The same inputs are built once; it takes six minutes of CPU.
# Beside what `dev` installs it needs autoconf, automake, binutils, dpkg-dev, libtool, make and patch; for aarch64 also qemu-user and
# libc6-arm64-cross; and first `packaging/fetch-sources.sh .cache/wheel/sources`.
set -euo pipefail
# shellcheck source=packaging/zig.sh
. "$(dirname "${BASH_SOURCE[0]}")/zig.sh" "$@"
readonly sources=$cache/sources work=$cache/work-$CREMA_TARGET licenses=$CREMA_PREFIX/licenses
readonly libraries=(zlib libdeflate libsodium protobuf-c zeromq3 czmq hdf5)

with_cmake() {
    mkdir build && cd build # where they run, HDF5 looks for what its own checks have written
    cmake -S .. -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/packaging/zig.cmake" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$CREMA_PREFIX" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
        -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF "$@"
    cmake --build .
    cmake --install .
}

with_configure() {
    ./configure --quiet --host="$CREMA_TARGET-linux-gnu" --prefix="$CREMA_PREFIX" --libdir="$CREMA_PREFIX/lib" \
        --enable-static --disable-shared --with-pic "$@"
    make -j"$(nproc)" install
}

build_zlib() {
    CFLAGS="-O2 -fPIC" ./configure --static --prefix="$CREMA_PREFIX"
    make -j"$(nproc)" install
}

build_libdeflate() {
    with_cmake -DLIBDEFLATE_BUILD_SHARED_LIB=OFF -DLIBDEFLATE_BUILD_GZIP=OFF
}

build_libsodium() {
    autoreconf --force --install
    with_configure
}

build_protobuf-c() {
    with_configure --disable-protoc
}

build_zeromq3() {
    # What it asks by running a program it asks of a foreign processor as well: qemu runs that.
    sed -i -e 's/ AND NOT CMAKE_CROSSCOMPILING//' -e 's/if(NOT CMAKE_CROSSCOMPILING AND NOT MSVC)/if(NOT MSVC)/' CMakeLists.txt
    with_cmake -DBUILD_SHARED=OFF -DBUILD_TESTS=OFF -DWITH_PERF_TOOL=OFF -DWITH_DOC=OFF -DENABLE_CPACK=OFF \
        -DENABLE_CURVE=ON -DWITH_LIBSODIUM=ON -DWITH_LIBSODIUM_STATIC=ON -DENABLE_DRAFTS=OFF -DWITH_LIBBSD=OFF -DWITH_OPENPGM=OFF -DWITH_NORM=OFF -DWITH_VMCI=OFF
}

build_czmq() {
    with_cmake -DCZMQ_BUILD_SHARED=OFF -DCZMQ_BUILD_STATIC=ON -DENABLE_DRAFTS=OFF -DCZMQ_WITH_UUID=OFF -DCZMQ_WITH_SYSTEMD=OFF \
        -DCZMQ_WITH_LZ4=OFF -DCZMQ_WITH_LIBCURL=OFF -DCZMQ_WITH_NSS=OFF -DCZMQ_WITH_LIBMICROHTTPD=OFF
}

build_hdf5() { # without the date and the host of its build
    with_cmake -DHDF5_ENABLE_EMBEDDED_LIBINFO=OFF -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_EXAMPLES=OFF
}

build_cmocka() { # for the tests of the programs alone
    with_cmake -DWITH_EXAMPLES=OFF
}

keep_licenses() { # keep_licenses NAME: Debian's list of who wrote what, and the texts themselves
    mkdir -p "$licenses/$1"
    [[ ! -e debian/copyright ]] || cp debian/copyright "$licenses/$1/"
    find . -maxdepth 1 -type f \( -name 'LICENSE*' -o -name 'COPYING*' \) -exec cp {} "$licenses/$1/" \;
}

build() { # build NAME, once: Debian's patches applied, where it has any that matter here
    [[ ! -e $CREMA_PREFIX/$1.complete ]] || return 0
    rm -rf "${work:?}/$1"
    mkdir "$work/$1"
    cd "$work/$1"
    if [[ -e $(echo "$sources/$1"_*.dsc) ]]; then
        rmdir "$work/$1"
        dpkg-source --no-check --extract "$sources/$1"_*.dsc "$work/$1"
        cd "$work/$1"
    else
        tar -xf "$sources/$1"_*.orig.tar.* --strip-components=1
    fi
    [[ $1 == cmocka ]] || keep_licenses "$1"
    "build_$1"
    touch "$CREMA_PREFIX/$1.complete"
}

# What the compiler itself adds to a program: the C++ runtime, its own, and the start of every program.
keep_compiler_licenses() {
    local part
    mkdir -p "$licenses/zig"
    cp "$zig/LICENSE" "$licenses/zig/"
    for part in libcxx libcxxabi libunwind; do
        cp "$zig/lib/$part/LICENSE.TXT" "$licenses/zig/$part-LICENSE.TXT"
    done
    cp "$zig/lib/libc/glibc/LICENSES" "$licenses/zig/glibc-LICENSES"
}

say_sources() {
    cat <<'END'
The programs in crema/bin are linked with the libraries in the folders beside this file, unchanged but for Debian's patches, and with the
runtime of their compiler (zig). These are source packages of Debian 12 and 13; `apt-get source NAME` fetches them where the system has a
deb-src line. HASH is SHA-256.

END
    grep -v cmocka "$root/packaging/sources.sha256"
}

# must_have ARCHIVE SYMBOL...: what a build that guessed wrongly would leave out, without a word.
must_have() {
    local archive=$1 symbols symbol
    shift
    symbols=$(nm "$CREMA_PREFIX/lib/$archive" 2>/dev/null)
    for symbol in "$@"; do
        grep -qE " $symbol\$" <<<"$symbols" || {
            echo "libraries: $archive is built without $symbol" >&2
            exit 1
        }
    done
}

check_fast_paths() {
    must_have libzmq.a epoll_create1 epoll_wait eventfd accept4 pthread_setname_np sodium_init clock_gettime
    case $CREMA_TARGET in
        x86_64)
            must_have libsodium.a stream_salsa20_xmm6 crypto_onetimeauth_poly1305_sse2_implementation \
                crypto_stream_salsa20_xmm6int_avx2_implementation crypto_stream_chacha20_dolbeau_avx2_implementation \
                crypto_scalarmult_curve25519_sandy2x_implementation crypto_aead_aes256gcm_encrypt blake2b_compress_avx2
            must_have libdeflate.a crc32_x86_pclmulqdq_avx
            ;;
        aarch64)
            must_have libsodium.a crypto_onetimeauth_poly1305_donna_implementation
            must_have libdeflate.a crc32_arm_crc crc32_arm_pmullx4
            ;;
    esac
}

if [[ -e $CREMA_PREFIX/complete ]]; then
    exit 0
fi
mkdir -p "$work"
for name in "${libraries[@]}" cmocka; do
    (build "$name")
done
check_fast_paths
keep_compiler_licenses
say_sources >"$licenses/README"
rm -rf "$work"
touch "$CREMA_PREFIX/complete"
