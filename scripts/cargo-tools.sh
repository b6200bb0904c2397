# Sourced by scripts that need commands of Cargo with pinned versions.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# cargo_tool SUBCOMMAND VERSION: uses the one on PATH if it is that version, else builds it into the
# cache.
cargo_tool() {
    local found
    found=$(cargo "$1" --version 2>/dev/null | grep --only-matching --max-count=1 '[0-9]*\.[0-9]*\.[0-9]*' | head -n 1) || true
    if [[ $found != "$2" ]]; then
        echo "cargo-$1: found ${found:-none}, building $2"
        # The tool runs only a few times, so build speed matters more than its speed.
        CARGO_TARGET_DIR=$elevo_cache/tools-target \
            CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
            CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
            cargo install --quiet --locked --force --root "$elevo_cache" --version "$2" "cargo-$1"
        rm -rf "$elevo_cache/tools-target"
    fi
    echo "cargo-$1 $2"
}
