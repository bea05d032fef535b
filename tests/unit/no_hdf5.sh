#!/bin/sh
# no_hdf5.sh NM LIBRARY SINK: no object of sink/store and sink/serve may hold a symbol of HDF5; those of sink/file must, or
# this looks at nothing.
set -eu
nm=$1 library=$2 sink=$3
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
ar x "$library"
knows_hdf5() { # FOLDER
    for source in "$sink/$1"/*.c; do
        object=$(basename "$source").o
        case $object in *_main.c.o) continue ;; esac
        "$nm" "$object" | grep -qE ' U _?H5[A-Z]' && echo "$1/$object knows HDF5"
    done
    true
}
if [ -z "$(knows_hdf5 file)" ]; then
    echo "no object of sink/file knows HDF5: this test looks at the wrong objects" >&2
    exit 1
fi
found=$(knows_hdf5 store; knows_hdf5 serve)
[ -z "$found" ] || { echo "$found" >&2; exit 1; }
