# Sourced by scripts/release: the packages of the SDKs, and the SBOMs.
# shellcheck shell=bash disable=SC2154 # scripts/release sets scratch and version
source "$(dirname "${BASH_SOURCE[0]}")/sdk-tools.sh"

# pack_sdks OUT: the wheel and the source distribution for Python, the tarball for npm, and their SBOMs.
pack_sdks() {
    local runtimes=sdk/scenarios/runtimes/node sources=$scratch/sdk-sources
    local node_tools typescript_tools python_tools
    node_tools=$(cached node install_npm $runtimes/package.json $runtimes/package-lock.json)
    typescript_tools=$(cached typescript install_npm sdk/typescript/package.json sdk/typescript/package-lock.json)
    python_tools=$(cached python install_python sdk/python/requirements.txt)
    release_tools=$(cached release install_release_tools deploy/release/{package.json,package-lock.json,requirements.txt})
    node_bin=$node_tools/node_modules/node-24-$node_arch/bin
    # Tools write next to the sources, so they get a copy.
    mkdir -p "$sources"
    tar --create --mode=u+rw,go=rX --exclude=node_modules --exclude=dist --exclude=.build openapi sdk |
        tar --extract --directory "$sources"
    ln -s "$typescript_tools/node_modules" "$sources/sdk/typescript/node_modules"
    logged "$python_tools/python/bin/python" -m build --no-isolation --outdir "$1" "$sources/sdk/python"
    logged pinned_npm run build --prefix "$sources/sdk/typescript"
    logged pinned_npm pack "$sources/sdk/typescript" --pack-destination "$1"
    list_sdks "$sources/sdk" "$1"
}

install_release_tools() {
    install_npm "$1"
    install_python "$1"
}

# Shows the output of a command only if it fails.
logged() {
    "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; die "failed: $*"; }
}

# The bytes of a tarball depend on the version of npm.
pinned_npm() {
    PATH=$node_bin:$PATH node "$release_tools/node_modules/npm/bin/npm-cli.js" "$@"
}

# list_sdks SDK OUT: the SBOMs of the SDKs. An SDK contains none of its dependencies, so its SBOM has
# the declared ones.
list_sdks() {
    pinned_npm sbom --sbom-format=cyclonedx --omit=dev --package-lock-only --prefix "$1/typescript" >"$scratch/npm.cdx.json"
    without_run "$scratch/npm.cdx.json" >"$2/elevo-sdk-typescript-$version.cdx.json"
    "$release_tools/python/bin/python" - "$1/python/pyproject.toml" >"$scratch/requirements.txt" <<'PYTHON'
import sys, tomllib

print(*tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"], sep="\n")
PYTHON
    logged "$release_tools/python/bin/cyclonedx-py" requirements "$scratch/requirements.txt" \
        --pyproject "$1/python/pyproject.toml" --output-reproducible --output-file "$2/elevo-sdk-python-$version.cdx.json"
}

# list_binary OUT: the SBOM of the binaries of both architectures.
list_binary() {
    local sources=$scratch/rust-sources
    # cargo-cyclonedx writes next to the manifests, so it gets a copy.
    mkdir -p "$sources"
    git archive HEAD | tar --extract --directory "$sources"
    (cd "$sources" && cargo cyclonedx --quiet --manifest-path crates/cli/Cargo.toml --format json --spec-version 1.5 \
        --target all --no-build-deps --override-filename sbom)
    without_run "$sources/crates/cli/sbom.json" | sed "s|$sources|/elevo|g" >"$1/elevo-$version.cdx.json"
}

# without_run FILE: prints an SBOM without the parts that differ from run to run.
without_run() {
    python3 - "$1" <<'PYTHON'
import json, os, sys, time

sbom = json.load(open(sys.argv[1]))
sbom.pop("serialNumber", None)
commit = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
sbom["metadata"]["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", commit)
json.dump(sbom, sys.stdout, indent=2)
print()
PYTHON
}
