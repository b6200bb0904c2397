# Sourced by the scripts of this repository: paths and small helpers.
# shellcheck shell=bash

elevo_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Everything that is built or downloaded goes here, never into the checkout.
elevo_cache=${ELEVO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/elevo}

# The features compiled into our librocksdb.a. They must equal the features of `rocksdb` in
# Cargo.toml; otherwise scripts/rocksdb fails.
rocksdb_features=(lz4 zstd)

# The architecture to build for, x86_64 or aarch64: that of this machine, or another one with Debian's
# cross compiler.
elevo_arch=${ELEVO_ARCH:-$(uname -m)}
elevo_target=$elevo_arch-unknown-linux-gnu

# The oldest processor that the library runs on. RocksDB picks its CRC32C at compile time, and the
# plain x86-64 baseline has no instruction for it; westmere (2010) is the first with both SSE4.2
# and PCLMUL. On aarch64, RocksDB asks the kernel for the instruction before it uses it.
rocksdb_cpu() {
    case $elevo_arch in
        x86_64) echo westmere ;;
        aarch64) echo armv8-crc ;;
        *) die "$elevo_arch is not an architecture that Elevo is built for; x86_64 and aarch64 are" ;;
    esac
}

# The flags that make librocksdb-sys pass that processor to the C++ compiler.
rocksdb_rustflags() {
    case $elevo_arch in
        x86_64) echo "-Ctarget-cpu=$(rocksdb_cpu)" ;;
        aarch64) echo "-Ctarget-feature=+crc,+aes" ;;
    esac
}

# Points Cargo and the C compilers at Debian's cross compiler if the architecture is not that of this
# machine.
use_cross_compiler() {
    [[ $elevo_arch != "$(uname -m)" ]] || return 0
    command -v "$elevo_arch-linux-gnu-g++" >/dev/null ||
        die "$elevo_arch-linux-gnu-g++ is missing; install g++-${elevo_arch//_/-}-linux-gnu"
    if command -v rustup >/dev/null; then
        (cd "$elevo_root" && rustup --quiet target add "$elevo_target")
    fi
    local variable=${elevo_target//-/_}
    export "CARGO_TARGET_${variable^^}_LINKER=$elevo_arch-linux-gnu-gcc"
}

# remap_flags TARGET_DIRECTORY: prints flags for rustc that keep the paths of this machine out of a
# binary, so that builds in two directories give the same bytes.
remap_flags() {
    echo "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
        "--remap-path-prefix=$elevo_root=/elevo" "--remap-path-prefix=$1=/target"
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
