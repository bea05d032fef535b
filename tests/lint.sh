#!/usr/bin/env bash
# lint.sh format|tidy|all [all-paths]|rewrite - reads the sources. `format` is quick, with the tools of .venv-lint: clang-format, ruff,
# nbstripout and the checks of scripts. `tidy` is the clang-tidy of Debian 12, whose analyzer follows all paths for `all-paths`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.venv-lint/bin:$PATH

c_sources() { # c_sources NAME-PATTERN
    find proto agent aggregator sink tests -type f -name "$1" | sort
}

shell_scripts() {
    printf '%s\n' dev .ci/run
    find compose docs packaging tests python -name '*.sh' | sort
}

format() {
    c_sources '*.[ch]' | xargs clang-format --dry-run -Werror
    if c_sources '*.[ch]' | xargs grep -nE '^.{101,}'; then
        echo "above: longer than 100 columns" # comments, which clang-format does not break
        return 1
    fi
    ruff check .
    ruff format --check .
    nbstripout --verify python/notebooks/*.ipynb # committed without outputs
    shell_scripts | xargs shellcheck -x
}

# The analyzer follows a tenth of the paths that it would by itself, in an eighth of the time. A file that passed is not read again until
# it, a header or the checks change.
export analyzer_limit="--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=20000"
tidy() {
    local headers file key
    headers=$({ clang-tidy --version && echo "$analyzer_limit" && cat .clang-tidy && c_sources '*.h' | xargs cat; } | sha256sum)
    mkdir -p .cache/tidy
    # shellcheck disable=SC2016 # expanded by the inner shell
    while read -r file; do
        key=.cache/tidy/$(cat - "$file" <<<"$headers $file" | sha256sum | cut -c 1-32)
        [[ -e $key ]] || printf '%s\0%s\0' "$file" "$key"
    done < <(c_sources '*.c' | grep -v '/fuzz/') | # those are built elsewhere, or not at all
        xargs --null --no-run-if-empty --max-args 2 --max-procs "$(nproc)" sh -c '
            if said=$(clang-tidy --quiet -p build/dev $analyzer_limit "$1" 2>&1); then
                touch "$2"
            else
                echo "$said" | grep -v "warnings generated"
                exit 1
            fi' sh
}

case ${1:-} in
    format) format ;;
    tidy) tidy ;;
    all)
        [[ ${2:-} != all-paths ]] || analyzer_limit=""
        format
        tidy
        ;;
    rewrite)
        c_sources '*.[ch]' | xargs clang-format -i
        ruff check --quiet --fix-only .
        ruff format .
        ;;
    *)
        echo "usage: lint.sh format|tidy|all [all-paths]|rewrite" >&2
        exit 2
        ;;
esac
