#!/usr/bin/env bash
# Builds the native module under a sanitizer and runs its tests; not part of the ordinary checks.
#
#     tests/native/sanitize.sh address     # memory errors and undefined behaviour
#     tests/native/sanitize.sh thread      # data races
#
# PYTHON names the interpreter (python3 by default), further arguments go to pytest. Needs g++ on Linux.
set -euo pipefail
cd "$(dirname "$0")/../.."

kind=${1:?address or thread}
shift
python=$(command -v "${PYTHON:-python3}")
case $kind in
    address) flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined"; library=libasan.so ;;
    # It ends a process that gets no memory, which one test is about.
    thread) flags="-fsanitize=thread"; library=libtsan.so; set -- -k "not no_memory" "$@" ;;
    *) echo "unknown sanitizer: $kind" >&2; exit 2 ;;
esac

tests=$PWD/tests/native
work=$PWD/build/sanitize-$kind  # kept, so that a second run only compiles what changed
mkdir -p "$work"
cmake -S . -B "$work/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS="$flags -O1 -fno-omit-frame-pointer" \
    -DPython_EXECUTABLE="$python" -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" > "$work/log"
cmake --build "$work/build" --parallel 2 >> "$work/log" || { tail -40 "$work/log"; exit 1; }
rm -rf "$work/path"
mkdir "$work/path"
cp -r jwarp "$work/path/jwarp"
rm -f "$work/path/jwarp/"_native*.so
cp "$work/build/"_native*.so "$work/path/jwarp/"

# Python, JAX and LLVM are not built for this. How XLA hands a task to its threads cannot be seen, so everything
# that runs on them would count as a race.
cat > "$work/races" <<'END'
race:xla::
race:Eigen::ThreadPoolTempl
race:libllvmlite.so
END
export ASAN_OPTIONS="detect_leaks=0:abort_on_error=1:handle_segv=0:allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1"
export TSAN_OPTIONS="ignore_noninstrumented_modules=1:suppressions=$work/races:halt_on_error=0:exitcode=66:die_after_fork=0${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
export LD_PRELOAD="$(g++ -print-file-name=$library) $(g++ -print-file-name=libstdc++.so)" PYTHONPATH="$work/path"
# There, so that no other copy of the package is found first.
cd "$work/path"
"$python" -c "from jwarp import _native; print(_native.__file__)"
"$python" -m pytest -q -p no:cacheprovider -c "$tests/../../pyproject.toml" "$tests" "$@"
