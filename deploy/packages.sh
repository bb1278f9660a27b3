# Sourced by up and test: puts missing Debian packages in place and says what it does.
# Elsewhere than on Debian and Ubuntu it installs nothing; it says what would.
# shellcheck shell=bash

# The checkout.
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# Debian keeps servers where only root looks.
PATH="$PATH:/usr/local/sbin:/usr/sbin"
if [ -x "${HOME:-}/.cargo/bin/cargo" ]; then
    PATH="$PATH:$HOME/.cargo/bin"
fi

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "${0##*/}: $*"
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

# install_packages PACKAGE..: from Debian's or Ubuntu's archive, without what they recommend.
install_packages() {
    say "installing: $*"
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

# A package with a service starts it, now and at every boot. The mesh and the tests start
# servers of their own; one that nobody asked for would only sit on a port.
stop_service() {
    if [ -d /run/systemd/system ] && [ -e "/lib/systemd/system/$1.service" ]; then
        say "switching off the service $1, which came with the package"
        as_root systemctl --quiet disable --now "$1.service" >&2 || say "could not: $1"
    elif [ ! -d /run/systemd/system ] && [ -x "/etc/init.d/$1" ]; then
        say "switching off the service $1, which came with the package"
        as_root "/etc/init.d/$1" stop >/dev/null 2>&1 || true
        as_root update-rc.d "$1" disable >/dev/null 2>&1 || true
    fi
}

# The Rust tool chain, not older than the workspace asks for.
need_cargo() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
    have cargo || die "there is no Rust tool chain; get Rust $wanted or newer at https://rustup.rs"
    found=$(cargo --version | cut -d' ' -f2)
    if [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n1)" != "$wanted" ]; then
        die "cargo $found is older than $wanted; run: rustup update stable (https://rustup.rs)"
    fi
}
