# Sourced by up and test: installs missing packages on Debian and Ubuntu, and builds the programs.
# On other systems it installs nothing and prints what is missing.
# shellcheck shell=bash

# The checkout.
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# Debian installs servers where the PATH of root alone reaches.
PATH="$PATH:/usr/local/sbin:/usr/sbin"
if [ -x "${HOME:-}/.cargo/bin/cargo" ]; then
    PATH="$PATH:$HOME/.cargo/bin"
fi

log() {
    printf '%s\n' "$*" >&2
}

die() {
    log "${0##*/}: $*"
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# Runs a command as root.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# install_packages PACKAGE..: from the archive of Debian or Ubuntu, without recommended packages.
install_packages() {
    log "installing: $*"
    local by_hand="apt-get update && apt-get install --no-install-recommends $*"
    if [ "$(id -u)" -ne 0 ] && ! have sudo; then
        die "cannot install packages without sudo; as root, run: $by_hand"
    fi
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
    if ! as_root "${apt[@]}" update >&2 ||
        ! as_root "${apt[@]}" install --yes --no-install-recommends "$@" >&2; then
        die "installing failed; as root, run: $by_hand"
    fi
    local package
    for package in "$@"; do
        stop_service "$package"
    done
}

# A package with a service starts it, now and at every boot. The mesh and the tests start their own
# servers; a service in addition would only occupy a port.
stop_service() {
    if [ -d /run/systemd/system ] && [ -e "/lib/systemd/system/$1.service" ]; then
        log "disabling the service $1, which the package has enabled"
        as_root systemctl --quiet disable --now "$1.service" >&2 || log "cannot disable $1"
    elif [ ! -d /run/systemd/system ] && [ -x "/etc/init.d/$1" ]; then
        log "disabling the service $1, which the package has enabled"
        as_root "/etc/init.d/$1" stop >/dev/null 2>&1 || true
        as_root update-rc.d "$1" disable >/dev/null 2>&1 || true
    fi
}

# The Rust tool chain, not older than the workspace requires.
need_cargo() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
    have cargo || die "no Rust tool chain found; install Rust $wanted or newer at https://rustup.rs"
    found=$(cargo --version | cut -d' ' -f2)
    if [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n1)" != "$wanted" ]; then
        die "cargo $found is older than $wanted; run: rustup update stable (https://rustup.rs)"
    fi
}

# What `plimsoll up` starts, and what the simulation consists of.
# shellcheck disable=SC2034
mesh_programs=(-p plimsoll-node -p plimsoll-aggregator -p plimsoll-cli -p plimsoll-workload)
# shellcheck disable=SC2034
simulation_programs=(-p plimsoll-drills)

# build_programs PACKAGE..: optimised, with a profile that builds in half the time of a release.
# Messages go to standard error.
build_programs() {
    cargo build --manifest-path "$root/Cargo.toml" --locked --profile up --bins "$@" >&2
}

# The folder with the programs that build_programs makes.
programs_dir() {
    local target
    target=$(cargo metadata --manifest-path "$root/Cargo.toml" --locked --no-deps --format-version 1 |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
    printf '%s/up\n' "$target"
}
