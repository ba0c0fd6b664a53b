#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The ways to use cede from another project: as a Meson subproject, installed and found through
# pkg-config or CMake. Builds a small program each way and runs it. Ends with "N passed, N failed, N
# skipped".
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
# shellcheck source=../support/setup.sh
. "$root/tests/support/setup.sh"
passed=0 failed=0 skipped=0

check() {
  local name=$1
  shift
  # Not in the condition of an if: errexit would be off inside.
  set +e
  (
    set -e
    "$@"
  ) >>"$log" 2>&1 </dev/null
  local status=$?
  set -e
  if [ $status = 0 ]; then
    passed=$((passed + 1))
    echo "packaging: $name passed"
  else
    failed=$((failed + 1))
    echo "packaging: $name FAILED"
    tail -n 30 "$log" >&2
  fi
}

subproject() {
  cp -r "$here/consumer" "$work/subproject"
  mkdir -p "$work/subproject/subprojects"
  ln -s "$root" "$work/subproject/subprojects/cede"
  "$meson" setup "$work/subproject/build" "$work/subproject" | tee "$work/subproject/setup.log"
  # Whether the parent uses CUDA is not for a summary of ours to say.
  ! grep -q 'CUDA *:' "$work/subproject/setup.log" || return 1
  ninja -C "$work/subproject/build"
  "$work/subproject/build/consumer"
  # Nothing of ours is built there.
  [ "$(find "$work/subproject/build" -type f -executable -name '*test*' | wc -l)" = 0 ]
}

install_it() {
  "$meson" setup "$work/build" "$root" --prefix "$work/prefix" -Dtests=false -Dexamples=false
  "$meson" install -C "$work/build"
}

through_pkg_config() {
  local flags
  flags=$(PKG_CONFIG_PATH=$work/prefix/share/pkgconfig pkg-config --cflags --libs "cede = $version")
  # shellcheck disable=SC2086
  "$CXX" -std=c++20 "$here/consumer/main.cpp" $flags -o "$work/by_pkg_config"
  "$work/by_pkg_config"
}

through_cmake() {
  mkdir "$work/cmake"
  cp "$here/consumer/main.cpp" "$work/cmake"
  cat >"$work/cmake/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.20)
project(consumer CXX)
find_package(cede $version EXACT REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE cede::cede)
END
  cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$work/prefix"
  cmake --build "$work/cmake/build"
  "$work/cmake/build/consumer"
}

find_tools
version=$("$meson" introspect --projectinfo "$root/meson.build" |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])')
check "Meson subproject" subproject
check "installation" install_it
for tool in pkg-config cmake; do
  if command -v $tool >/dev/null; then
    check "$tool" "through_${tool/-/_}"
  else
    skipped=$((skipped + 1))
    echo "packaging: $tool skipped: it is not installed"
  fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
