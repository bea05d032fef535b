#!/usr/bin/env bash
# bare.sh [bookworm|trixie] [--user] [--busy] [--proxy] - clones the commit into a bare unprivileged container of that Debian and runs
# the README's two commands there, word for word: Docker's default capabilities, 64 MB of /dev/shm, no container engine inside. --user: as
# a user with sudo and with 1,024 descriptors at most; --busy: beside four busy loops; --proxy: with http_proxy set. Status 1 if one fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
suite=bookworm user=root limits=() busy="" proxy=""
for word in "$@"; do
    case $word in
        bookworm | trixie) suite=$word ;;
        --user) user=tester limits=(--ulimit nofile=1024:1024) ;;
        --busy) busy=yes ;;
        --proxy) proxy=http://127.0.0.1:8888 ;;
        *)
            sed -n '2,4s/^# //p' "$0"
            [[ $word == -h || $word == --help ]]
            exit
            ;;
    esac
done

compose/base-image.sh "debian:$suite-slim"
clone=$(mktemp -d)
container=$(docker run --detach --init "${limits[@]}" "debian:$suite-slim" sleep infinity)
trap 'docker rm --force --volumes "$container" >/dev/null; rm -rf "$clone"' EXIT
git clone --quiet . "$clone/crema"
git -C "$clone/crema" checkout --quiet --detach "$(git rev-parse HEAD)"

inside() { # inside USER COMMAND
    docker exec --user "$1" --env LC_ALL=C.UTF-8 ${proxy:+--env "http_proxy=$proxy" --env "https_proxy=$proxy"} "$container" bash -c "$2"
}

if [[ -n $proxy ]]; then
    docker exec "$container" sh -c 'apt-get update -q && apt-get install -q -y --no-install-recommends tinyproxy && tinyproxy' >/dev/null
fi
if [[ -n $busy ]]; then
    docker exec --detach "$container" sh -c 'for i in 1 2 3 4; do while :; do :; done & done; wait'
fi

if [[ $user != root ]]; then
    inside root "apt-get update -q && apt-get install -q -y --no-install-recommends sudo && useradd --create-home $user &&
        echo '$user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$user" >/dev/null
fi
home=$([[ $user == root ]] && echo /root || echo "/home/$user")
docker cp --quiet "$clone/crema" "$container:$home/crema" 2>/dev/null || docker cp "$clone/crema" "$container:$home/crema"
inside root "chown -R $user: $home/crema"

failures=0
for command in './dev demo' './dev test'; do
    began=$SECONDS
    echo "== $command ($suite, $user)"
    inside "$user" "cd $home/crema && $command" </dev/null || failures=$((failures + 1))
    echo "== $command: $((SECONDS - began)) s"
done
if [[ $failures != 0 ]]; then
    rm -rf ".cache/log/bare-$suite"
    mkdir -p .cache/log
    docker cp "$container:$home/crema/.cache/log" ".cache/log/bare-$suite"
    echo "logs: $PWD/.cache/log/bare-$suite"
    exit 1
fi
