#!/usr/bin/env bash
# Runs the program for aarch64 under qemu with the aarch64 ONNX Runtime, and compares what it says with this machine's own:
# a transcript, and the first tokens of a language model. Models are fetched as by `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/prepare.sh test
cargo build --locked -p firstword --bin firstword
own=$(scripts/target-folder.sh)/debug/firstword
scripts/pull.sh "$own"
program=$(scripts/cross.sh cross-test | tail -n 1)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
eval "$(cross/aarch64 env)"

count=0
# passed WHAT
passed() {
    count=$((count + 1))
    echo "ok: $1"
}
# same WHAT COMMAND...: both programs print the same.
same() {
    local what=$1
    shift
    "$own" "$@" >"$folder/own" 2>"$folder/own.messages"
    if ! cross/aarch64 run "$program" --ort-library "$FIRSTWORD_CROSS_ONNXRUNTIME" "$@" >"$folder/aarch64" 2>"$folder/messages"; then
        cat "$folder/messages" >&2
        echo "failed: $what" >&2
        exit 1
    fi
    [ -s "$folder/own" ] || {
        echo "failed: $what: this machine's program printed nothing" >&2
        exit 1
    }
    diff "$folder/own" "$folder/aarch64" || {
        echo "failed: $what: expected this machine's lines (<), found others (>)" >&2
        exit 1
    }
    passed "$what: $(head -c 60 "$folder/own" | head -n 1)"
}

# arc4random came with glibc 2.36: this is what the gate is there for.
echo '#include <stdlib.h>
int main(void) { return (int)arc4random(); }' >"$folder/newer.c"
"${CC_aarch64_unknown_linux_gnu:?}" -o "$folder/newer" "$folder/newer.c"
if cross/gate --glibc 2.35 "$folder/newer" 2>"$folder/messages"; then
    echo "failed: the gate lets a program through that needs glibc 2.36" >&2
    exit 1
fi
grep -q 'GLIBC_2.36' "$folder/messages"
passed "the gate stops a program that needs a newer glibc"
if cross/gate "$own" 2>"$folder/messages"; then
    echo "failed: the gate lets a program for another processor through" >&2
    exit 1
fi
grep -q 'expected a program for AArch64' "$folder/messages"
passed "the gate stops a program for another processor"

# Both clips lie in the store once pulled.
clips=$("$own" model list --format json | python3 -c 'import json, sys; print(next(e["path"] for e in map(json.loads, sys.stdin) if e["name"] == "demo-clips"))')
same "version" --version
same "transcript" transcribe "$(find -L "$clips" -name beckett.wav | head -n 1)"
same "first tokens of a language model" chat --model smollm2-135m-instruct --max-tokens 8 "What is the capital of Japan?"
echo "$count passed, 0 failed"
