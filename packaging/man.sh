#!/bin/sh
# man.sh SOURCE DATE OUTPUT: the manual pages that are documents, below OUTPUT/manN, compressed. packaging/shell makes those of the programs.
set -eu
source=$1 date=$2 output=$3
mkdir -p "$output/man5" "$output/man7"
# Sentences are lines of up to 78 characters, but for what is laid out already; a heading needs no paragraph behind it.
tidy() {
    awk '
    /^\.(nf|EX|TS)/ { laid = 1 }
    /^\.(fi|EE|TE)/ { laid = 0 }
    behind && /^\.(PP|LP)$/ { behind = 0; next }
    { behind = heading; heading = /^\.S[HS]$/ }
    laid || /^\./ { print; next }
    {
        line = ""
        n = split($0, words, " ")
        for (i = 1; i <= n; i++) {
            if (line != "" && length(line) + length(words[i]) > 77) {
                print line
                line = ""
            }
            line = line == "" ? words[i] : line " " words[i]
            if (line ~ /^[.'\'']/) line = "\\&" line
        }
        print line
    }'
}
page() { # DOCUMENT SECTION NAME SUMMARY
    {
        printf '.TH %s %s "%s" crema crema\n.SH NAME\n%s \\-\n%s\n' "$(echo "$3" | tr '[:lower:]' '[:upper:]' | sed 's/-/\\-/g')" \
            "$2" "$date" "$(echo "$3" | sed 's/-/\\-/g')" "$4"
        lowdown -Tman "$source/docs/$1" | sed -e 's/\\f(CW/\\fB/g; s/\\fC/\\fB/g' -e '/^\.\\" /d' | tidy
    } | gzip -9n >"$output/man$2/$3.$2.gz"
}
page run-file.md 5 crema-run-file "the HDF5 file of a run"
page protocol.md 7 crema-protocol "the delivery protocol of agents, aggregator, sink and collector"
