#!/usr/bin/env bash
# Runs a coverage-guided fuzzer over the decoders of launches and plans; not part of the ordinary checks.
#
#     tests/native/fuzz.sh 3600        # seconds; inputs that reach new code go to tests/native/corpus.zip
#
# Needs clang with libFuzzer and its sanitizers; CLANG names it (clang++ by default).
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:?seconds}
shift
work=$PWD/build/fuzz
mkdir -p "$work/found"
"${CLANG:-clang++}" -std=c++17 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
    -Icuda/runtime -Icuda/runtime/third_party tests/native/fuzz_decoders.cc \
    cuda/runtime/core/{formula,launch,layout,plan}.cc cuda/runtime/cpu/layout.cc -o "$work/decoders"
python3 -m zipfile -e tests/native/corpus.zip "$work/found"
"$work/decoders" -max_total_time="$seconds" -max_len=512 -print_final_stats=1 "$@" "$work/found"
# The fewest inputs that reach the same code are kept.
rm -rf "$work/kept"
mkdir "$work/kept"
"$work/decoders" -merge=1 "$work/kept" "$work/found"
python3 -m zipfile -c tests/native/corpus.zip "$work"/kept/*
