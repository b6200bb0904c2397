# Sourced by scripts that need the tools of the SDKs, with pinned versions.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The processor in the names of the packages of Node.js.
# shellcheck disable=SC2034 # used by the scripts that source this
case $(uname -m) in
    aarch64) node_arch=arm64 ;;
    *) node_arch=x64 ;;
esac

# cached NAME COMMAND FILES...: prints the directory in the cache with what the pinned versions in
# the files stand for. COMMAND fills it, with the files in it, if it is new.
cached() {
    local name=$1 command=$2 directory lock
    shift 2
    directory=$elevo_cache/sdk-$name-$(cat "$@" | sha256sum | cut -c1-16)
    mkdir -p "$elevo_cache"
    # Another run may be installing the same.
    exec {lock}>"$directory.lock"
    flock "$lock"
    if [[ ! -e $directory/complete ]]; then
        rm -rf "$directory"
        mkdir -p "$directory"
        cp "$@" "$directory"
        "$command" "$directory" >&2
        touch "$directory/complete"
    fi
    flock --unlock "$lock"
    echo "$directory"
}

install_npm() {
    npm ci --prefix "$1" --no-audit --no-fund --loglevel=error
}

install_python() {
    "${python:-python3}" -m venv "$1/python"
    "$1/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$1"/*.txt
}
