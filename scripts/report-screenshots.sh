#!/usr/bin/env bash
# Opens the page of `firstword log report --html` in a headless Chromium, for logs in which something was made slow, and
# keeps pictures of it: light, dark, and light in grey as a printer has it. Anything that the browser's console says fails.
#
#   scripts/report-screenshots.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:?usage: scripts/report-screenshots.sh FOLDER}
scripts/prepare.sh report-screenshots
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
cargo build -q --locked -p firstword -p firstword-benches --bin firstword --bin log_records
programs=$(scripts/target-folder.sh)/debug
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# shot PAGE PICTURE HEIGHT COLOUR-SCHEME (blink's numbers: 0 dark, 1 light)
shot() {
    # As root, Chromium refuses to run with its sandbox; the page is our own and has no script.
    timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
        --user-data-dir="$scratch/profile" --host-resolver-rules='MAP * ~NOTFOUND' \
        --enable-logging=stderr --blink-settings="preferredColorScheme=$4" \
        --window-size="1100,$3" --screenshot="$2" "file://$1" >"$scratch/log" 2>&1 ||
        { cat "$scratch/log" >&2; exit 1; }
    if grep -E 'CONSOLE' "$scratch/log" >&2; then
        echo "$1: the console of the browser said the above" >&2
        exit 1
    fi
    [ -s "$2" ] || { echo "$2: no picture" >&2; exit 1; }
}

for plant in typical encode queue thermal; do
    "$programs/log_records" "$scratch/$plant" 4000 "$plant" >/dev/null
    page=$folder/$plant.html
    FIRSTWORD_HOME=$scratch "$programs/firstword" log report --html "$page" "$scratch/$plant"
    if grep -E '<script|https?://|javascript:' "$page" >&2; then
        echo "$page: expected a page without scripts and addresses" >&2
        exit 1
    fi
    sed 's|</style>|html{filter:grayscale(1)}</style>|' "$page" >"$scratch/grey.html"
    shot "$page" "$folder/$plant-light.png" 9600 1
    shot "$page" "$folder/$plant-dark.png" 9600 0
    shot "$scratch/grey.html" "$folder/$plant-grey.png" 9600 1
done
echo "pictures are in $folder"
