# Sourced by scripts that need Debian packages.
# shellcheck shell=bash

# Installs the given Debian packages that are missing, without starting their services: scripts start
# their own. Runs in a subshell, so that its trap does not replace that of the caller.
install_packages() (
    missing=()
    for package in "$@"; do
        [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            missing+=("$package")
    done
    ((${#missing[@]} > 0)) || exit 0
    [[ $(id --user) == 0 ]] || die "needs the packages ${missing[*]}; install them, or run this as root"
    echo "installing ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet=2 >&2
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    apt-get install --quiet=2 --yes --no-install-recommends \
        --option DPkg::Lock::Timeout=300 "${missing[@]}" >/dev/null
)
