#!/usr/bin/env bash
# Everything that must hold. Ends with the tests that were skipped and one line with the counts.
#
#   FIRSTWORD_SHARED   folder of shared recordings and goldens [default: ../shared beside the checkout]
#   FIRSTWORD_NO_SKIP  1: a skipped test is a failure
#   XDG_CACHE_HOME     onnxruntime-genai, which some tests compare with, is made once in firstword/peers below it
set -euo pipefail
cd "$(dirname "$0")/.."

export FIRSTWORD_SHARED=${FIRSTWORD_SHARED:-$(dirname "$PWD")/shared}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
log=$folder/log
times=$folder/times
: >"$times"

# step NAME COMMAND…: runs it and notes how long it took.
step() {
    local name=$1 begin=$SECONDS failed=0
    shift
    echo "== $name"
    "$@" || failed=$?
    printf '%6d s  %s%s\n' $((SECONDS - begin)) "$name" "$([ "$failed" -eq 0 ] || echo "  FAILED")" >>"$times"
    return "$failed"
}

status=0
step "prepare" scripts/prepare.sh test
# A lint that fails does not hide what the tests would say.
step "lint" scripts/lint.sh || status=1
step "build the tests" cargo test --workspace --locked --no-run
step "fetch models" scripts/pull.sh "$(scripts/target-folder.sh)/debug/firstword"
# Gemma comes under terms of Google's (https://ai.google.dev/gemma/terms), which whoever runs the tests accepts here, for
# testing. The demo does not fetch it.
step "fetch Gemma" "$(scripts/target-folder.sh)/debug/firstword" model pull gemma-3-270m --accept-licence
# Where there is none for this machine, the tests that compare with it are skipped by name.
step "fetch onnxruntime-genai" scripts/genai.sh "$folder/genai" || true
FIRSTWORD_GENAI_PYTHON=$(cat "$folder/genai" 2>/dev/null || true)
export FIRSTWORD_GENAI_PYTHON
step "queries over exports" scripts/export-queries.sh || status=1
step "tests" scripts/run-tests.sh "$log" || status=1

echo
echo "Time by step:"
cat "$times"
[ "$status" -eq 0 ] || echo "Something failed: see above."
scripts/count-tests.sh "$log" || status=1
exit "$status"
