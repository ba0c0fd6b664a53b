#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Line coverage of the headers that g++ compiles: builds the unit tests for it in a folder of its own,
# not optimized, runs them, prints a line per header and the total. A line of a template counts once,
# whichever instance ran it. What only a GPU or a second library reaches counts as not covered.
#
# usage: tests/coverage.sh [REGEX]    only the tests whose name it finds a match in; no bound then
# Exit status: 0, or 1 if a test failed or the total is below the bound. About a quarter of an hour on
# two cores: not part of .ci/run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
build=build/coverage
at_least=95  # percent of lines
gcovr_pinned=8.8
mkdir -p "$build"
log=$root/$build/coverage.log
: >"$log"
# shellcheck source=support/setup.sh
. tests/support/setup.sh

find_tools
venv_install "gcovr==$gcovr_pinned"
# What earlier runs counted would be added.
find "$build" -name '*.gcda' -delete
status=0
tests/run.sh --build-dir "$build" --only unit ${1:+--match "$1"} -Dcuda=disabled -Db_coverage=true || status=1
bound=(--fail-under-line "$at_least")
[ $# = 0 ] || bound=()
.venv/bin/gcovr --root . --filter 'include/cede/' --merge-lines --gcov-executable "${CXX/g++/gcov}" \
  "${bound[@]}" "$build" 2>>"$log" || {
  status=1
  echo "coverage: failed, or below $at_least %; what gcovr said is in $log"
}
exit $status
