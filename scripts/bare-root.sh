# Sourced by tests of an installation: root file systems of bare distributions.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

# cached_root SUITE [PACKAGE...]: prints the directory of a minimal Debian in the cache, and makes it if it
# is new. No program may write to it: see new_root.
cached_root() {
    local suite=$1 packages directory lock
    shift
    packages=$(IFS=,; echo "$*")
    directory=$elevo_cache/roots/$suite${packages:+-${packages//,/-}}
    mkdir -p "$elevo_cache/roots"
    # Another run may be making the same.
    exec {lock}>"$directory.lock"
    flock "$lock"
    if [[ ! -e $directory.complete ]]; then
        install_packages mmdebstrap
        rm -rf --one-file-system "$directory"
        # In namespaces of its own, so that its mounts end with it.
        unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
            mmdebstrap --quiet --variant=minbase ${packages:+"--include=$packages"} "$suite" "$directory" >&2
        touch "$directory.complete"
    fi
    flock --unlock "$lock"
    echo "$directory"
}

# new_root CACHED ROOT: mounts a copy of a cached root that can be changed. Its changes are in ROOT.changes.
new_root() {
    mkdir -p "$2" "$2.changes"/{upper,work}
    mount -t overlay -o "lowerdir=$1,upperdir=$2.changes/upper,workdir=$2.changes/work" overlay "$2"
    mount -t proc proc "$2/proc"
    mount --rbind /dev "$2/dev"
    mount --rbind /sys "$2/sys"
}

# start_engine ROOT: starts the container engine of a root that has docker.io. An overlay cannot be above
# another, so the data of the engine and of the server are outside of the root's overlay.
#
# Call this in namespaces of networks and processes: two engines in one network would delete each other's
# bridge, and the engine ends with the namespace.
start_engine() {
    local directory end=$((SECONDS + 60))
    for directory in docker elevo; do
        mkdir -p "$1.$directory" "$1/var/lib/$directory"
        mount --bind "$1.$directory" "$1/var/lib/$directory"
    done
    in_root "$1" dockerd --log-level warn >"$1.engine.log" 2>&1 &
    local engine=$!
    # The root may have the engine without its command.
    until docker --host "unix://$1/run/docker.sock" version >/dev/null 2>&1; do
        if ((SECONDS > end)) || [[ ! -d /proc/$engine ]]; then
            tail -n 20 "$1.engine.log" >&2
            die "the container engine in $1 did not start"
        fi
        sleep 0.1
    done
}

# in_root ROOT COMMAND...: runs a program in a root, with the environment of a fresh login of root.
in_root() {
    env --ignore-environment PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        TERM=dumb DEBIAN_FRONTEND=noninteractive chroot "$@"
}
