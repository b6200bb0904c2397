# Sourced by the scripts of this repository: paths and small helpers.
# shellcheck shell=bash

elevo_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Everything that is built or downloaded goes here, never into the checkout.
elevo_cache=${ELEVO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/elevo}

# The features compiled into our librocksdb.a. They must equal the features of `rocksdb` in
# Cargo.toml; otherwise scripts/rocksdb fails.
rocksdb_features=(lz4 zstd)

# The oldest processor that the library runs on. RocksDB picks its CRC32C at compile time, and the
# plain x86-64 baseline has no instruction for it; westmere (2010) is the first with both SSE4.2
# and PCLMUL.
rocksdb_cpu() {
    case $(uname -m) in
        x86_64) echo westmere ;;
        *) echo generic ;;
    esac
}

# Prints the version of a crate in Cargo.lock, or nothing.
locked_version() {
    awk -v name="\"$1\"" '
        $1 == "name" { found = ($3 == name) }
        $1 == "version" && found { gsub(/"/, "", $3); print $3; exit }
    ' "$elevo_root/Cargo.lock"
}

# Prints the directory for librocksdb.a, which may not exist yet.
rocksdb_dir() {
    local version features
    version=$(locked_version librocksdb-sys)
    [[ -n $version ]] || die "Cargo.lock names no librocksdb-sys"
    features=$(IFS=-; echo "${rocksdb_features[*]}")
    echo "$elevo_cache/rocksdb-$version-$features-$(rocksdb_cpu)"
}

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# 75 -> 1m15s
minutes() {
    printf '%dm%02ds' $(($1 / 60)) $(($1 % 60))
}
