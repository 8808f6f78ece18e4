#!/usr/bin/env bash
# Installs the system packages that a job needs and this machine lacks, and no others.
#
#   scripts/prepare.sh demo|test|peers|language-peers|report-screenshots
#
# A tool is asked whether it works, not whether a package is installed: compilers and Pythons also come from
# elsewhere. Installs as root, through sudo where that may be (no password, or a person at the terminal), and
# otherwise says what to type.
set -euo pipefail

job=${1:?usage: scripts/prepare.sh demo|test|peers|language-peers|report-screenshots}
rust_floor=1.92 # rust-version in Cargo.toml

works() { "$@" >/dev/null 2>&1; }
links_c() { works cc -x c -o /dev/null - <<<'int main(void) { return 0; }'; }

# Packages (Debian's names) of the tools that do not work here.
missing() {
    links_c || echo gcc libc6-dev
    works pkg-config --version || echo pkg-config
    works pkg-config --exists alsa || echo libasound2-dev # also when pkg-config is missing: it cannot be asked
    works python3 --version || echo python3
    # pip fetches wheels. Debian keeps it, and what `python3 -m venv` needs, in packages of their own.
    works python3 -m pip --version || echo python3-pip
    if [ "$job" != demo ]; then
        works python3 -c 'import ensurepip, venv' || echo python3-venv
    fi
    if [ "$job" = language-peers ]; then
        works c++ --version || echo g++ # llama.cpp
    fi
    if [ "$job" = demo ]; then
        works espeak-ng --version || echo espeak-ng # asks the question
    fi
    if [ "$job" = report-screenshots ]; then
        works chromium --version || works chromium-browser --version || works google-chrome --version || echo chromium fonts-dejavu-core
    fi
    if [ "$job" = test ]; then
        works ffmpeg -version || echo ffmpeg # makes the compressed recordings that the tests read
    fi
}

check_rust() {
    local version
    if ! version=$(rustc --version 2>/dev/null) || ! works cargo --version; then
        echo "Rust $rust_floor or newer is needed, and rustc or cargo was not found. Install it from https://rustup.rs," >&2
        echo "or, if it is installed already, type: . \"\$HOME/.cargo/env\"" >&2
        exit 1
    fi
    version=$(cut -d ' ' -f 2 <<<"$version")
    if [ "$(printf '%s\n' "$rust_floor" "$version" | sort -V | head -n 1)" != "$rust_floor" ]; then
        echo "Rust $rust_floor or newer is needed, found $version. Type: rustup update stable (or see https://rustup.rs)" >&2
        exit 1
    fi
}

check_rust
read -ra packages <<<"$(missing | tr '\n' ' ')"
[ ${#packages[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "Missing here, by their names on Debian: ${packages[*]}. Install them and try again." >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    by_hand="sudo apt-get update && sudo apt-get install -y --no-install-recommends ${packages[*]}"
    if ! command -v sudo >/dev/null || ! { works sudo -n true || { [ -t 0 ] && [ -t 2 ]; }; }; then
        echo "Missing here: ${packages[*]}. Type this, then try again:" >&2
        echo "  $by_hand" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "Installing with ${as_root[*]:+sudo }apt-get: ${packages[*]}" >&2
install=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
if ! "${as_root[@]}" "${install[@]}" update || ! "${as_root[@]}" "${install[@]}" install --no-install-recommends "${packages[@]}"; then
    echo "apt-get could not install ${packages[*]}: see its message above; is the network there?" >&2
    exit 1
fi
read -ra packages <<<"$(missing | tr '\n' ' ')"
if [ ${#packages[@]} -gt 0 ]; then
    echo "Installed, but still not usable: ${packages[*]}. Is another version of the tool first in PATH?" >&2
    exit 1
fi
