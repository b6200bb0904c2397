# Sourced by scripts/release: the file tree of a release, its archive and its Debian package.
# shellcheck shell=bash disable=SC2154 # scripts/release sets scratch, binaries and gzip_level
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# stage_tree ARCH BOOK TREE: fills TREE with the files that are unpacked over /usr/local. BOOK is the
# directory of the documentation.
stage_tree() {
    local arch=$1 book=$2 tree=$3 share=$3/share
    install -D "$scratch/elevo-$arch" "$tree/bin/elevo"
    ln -s elevo "$tree/bin/workspace-server"
    install -D --mode=644 "$scratch/busybox-$arch.tar.zst" "$share/elevo/images/busybox.tar.zst"
    cp --recursive --no-preserve=mode,ownership "$book" "$share/elevo/docs"

    run_elevo "$arch" man --output "$share/man/man1"
    printf '.so man1/elevo-server-run.1\n' >"$share/man/man1/workspace-server.1"
    mkdir -p "$share"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
    run_elevo "$arch" completions bash >"$share/bash-completion/completions/elevo"
    run_elevo "$arch" completions zsh >"$share/zsh/site-functions/_elevo"
    run_elevo "$arch" completions fish >"$share/fish/vendor_completions.d/elevo.fish"

    install -D --mode=644 "$elevo_root/deploy/systemd/elevo.service" "$tree/lib/systemd/system/elevo.service"
    mkdir -p "$share/doc/elevo"
    install --mode=644 "$elevo_root"/{LICENSE,README.md,CHANGELOG.md,SECURITY.md} "$elevo_root/deploy/debian/elevo.toml" \
        "$share/doc/elevo/"
    "$elevo_root/deploy/release/licences.py" >"$share/doc/elevo/LICENSES-OF-CRATES"
}

# pack_tar TREE FILE: the directory TREE with its name, the same bytes for the same files. Compressed by
# gzip, because a bare system has no other program for it.
pack_tar() {
    tar --create --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=u+rw,go=rX --directory "$(dirname "$1")" "$(basename "$1")" |
        gzip --no-name "-$gzip_level" >"$2"
}

# pack_deb TREE ARCH FILE
#
# cargo-deb takes the files of `target/release` in Cargo.toml from the target directory, so the tree is
# put there.
pack_deb() {
    local target=$scratch/deb-$2 options=()
    local release=$target/$2-unknown-linux-gnu/release
    mkdir -p "$release"
    cp --archive "$1" "$release/package"
    [[ -z $binaries ]] || options+=(--fast --compress-type gz --compress-system)
    (cd "$elevo_root" && CARGO_TARGET_DIR=$target cargo deb --quiet --offline --locked --no-build --no-strip \
        --package elevo-cli --target "$2-unknown-linux-gnu" --output "$3" "${options[@]}")
}
