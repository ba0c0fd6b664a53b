#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the benchmarks and measures: bench/run.sh RECORD PROGRAM[@PART][:FILTER]... --help says more.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/bench
log=$build/run.log

usage() {
  cat <<'END'
usage: bench/run.sh [--build-dir DIR] [--limit SECONDS] RECORD PROGRAM[@PART][:FILTER]...

Builds the programs (adapters, domains, early_return, flags, port, preemption, scheduler, slices) and runs
them one after the other on the GPU; the rows they measure go into RECORD, a JSON file, where they replace
those of the same names. FILTER is a regular expression on the names of rows, to measure a record in parts. A
program that takes longer than the limit (default 480 s) is stopped; what it wrote before is lost, so choose
a smaller part. PART, of the scheduler alone, is I/N, the I-th of N parts that the program chooses, or `rest`:
one part after another, without those whose rows RECORD has already, measured with the headers as they are.

  bench/run.sh bench/results/h200/adapters.json adapters preemption port
  bench/run.sh some.json 'adapters:/saxpy/' 'adapters:/spmv/large/'
  bench/run.sh bench/results/h200/scheduler.json scheduler@rest   # again after an interruption: goes on
END
}

limit=480
while [ $# -gt 0 ]; do
  case $1 in
    --build-dir) build=$(realpath -m "$2"); log=$build/run.log; shift 2 ;;
    --limit) limit=$2; shift 2 ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "unknown argument: $1; see --help" >&2; exit 2 ;;
    *) break ;;
  esac
done
if [ $# -lt 2 ]; then
  usage >&2
  exit 2
fi
record=$(realpath -m "$1")
shift

mkdir -p "$build"
# shellcheck source=../tests/support/setup.sh
. "$root/tests/support/setup.sh"
lock "$build"
: >"$log"
find_tools
have_gpu || die "There is no GPU to measure on."
configure "$build" -Dtests=false -Dexamples=false -Dbench=true -Dbuildtype=release
targets=()
for part in "$@"; do
  program=${part%%:*}
  targets+=("bench/bench-${program%%@*}")
done
build "$build" "${targets[@]}"

# The record says what was measured, and with which headers.
CEDE_COMMIT=$(python3 "$root/tests/support/context.py" commit)
CEDE_TREE=$(python3 "$root/tests/support/context.py" tree)
CEDE_DRIVER=$(python3 "$root/tests/support/context.py" driver)
export CEDE_COMMIT CEDE_TREE CEDE_DRIVER
number=0
# measure NAME FILTER ARGUMENT...: one run of a program, and its rows into the record.
measure() {
  local name=$1 filter=$2
  shift 2
  number=$((number + 1))
  timeout "$limit" "$build/bench/bench-$name" "$@" "--benchmark_filter=$filter" \
    --benchmark_out="$build/part$number.json" --benchmark_out_format=json >>"$log" 2>&1 ||
    die "bench-$name did not end well; its output is in $log"
  python3 "$root/bench/merge.py" "$record" "$build/part$number.json"
}

for part in "$@"; do
  name=${part%%:*}
  filter=.
  [ "$name" = "$part" ] || filter=${part#*:}
  piece=
  case $name in *@*) piece=${name#*@}; name=${name%%@*} ;; esac
  case $piece in
    '')
      say "bench: $part"
      measure "$name" "$filter"
      ;;
    rest)
      "$build/bench/bench-$name" --plan "--benchmark_filter=$filter" >"$build/plan.csv" 2>>"$log" ||
        die "bench-$name has no parts; its output is in $log"
      python3 "$root/bench/merge.py" --rest "$record" "$CEDE_TREE" "$build/plan.csv" >"$build/rest.txt"
      while read -r piece; do
        say "bench: $name, part $piece"
        # The parts are those of the rows that the filter chose.
        measure "$name" "$filter" --part "$piece" </dev/null
      done <"$build/rest.txt"
      ;;
    *)
      say "bench: $part"
      measure "$name" "$filter" --part "$piece"
      ;;
  esac
done
say "Wrote $record."
