# Recipes for daily work; `just` lists them. CI does not need just: it runs .ci/run.

set shell := ["bash", "-euo", "pipefail", "-c"]

[private]
default:
    @just --list

# Everything that CI checks
ci:
    .ci/run

# Build RocksDB into the cache (once per machine)
rocksdb:
    scripts/rocksdb

# Ordinary tests; arguments go to nextest
test *args: rocksdb
    scripts/env cargo nextest run --locked --workspace {{ args }}

# Doctests
doctest: rocksdb
    scripts/env cargo test --locked --workspace --doc

# Long tests at full length; arguments go to nextest
soak *args:
    scripts/soak {{ args }}

# Benchmarks against git, restic and others, e.g. `just bench engine --quick`
bench *args: rocksdb
    scripts/env cargo run --locked --release -p elevo-bench -- {{ args }}

fmt:
    cargo fmt --all

lint:
    scripts/env cargo clippy --locked --workspace --all-targets -- -D warnings

doc:
    RUSTDOCFLAGS="-D warnings" scripts/env cargo doc --locked --no-deps --workspace

deny:
    scripts/env cargo deny --locked check
