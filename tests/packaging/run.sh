#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The ways to get cede into another project: each builds a small program outside the tree, with g++ and
# with nvcc where there is one, and runs it on the host device. Then rules about the headers as a whole.
# Ends with "N passed, N failed, N skipped".
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
# shellcheck source=../support/setup.sh
. "$root/tests/support/setup.sh"
passed=0 failed=0 skipped=0
jobs=$(nproc)
names=()

# start NAME COMMAND...: runs it beside others; finish counts it. Exit status 77: skipped, and the last
# line it wrote says why.
start() {
  local number=${#names[@]}
  names+=("$1")
  shift
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  (
    status=0
    # Not in the condition of an if: errexit would be off inside.
    set +e
    (
      set -e
      "$@"
    ) >"$work/log.$number" 2>&1 </dev/null
    status=$?
    echo $status >"$work/status.$number"
  ) &
}

finish() {
  wait
  local number name
  for number in "${!names[@]}"; do
    name=${names[$number]}
    case $(cat "$work/status.$number") in
      0)
        passed=$((passed + 1))
        echo "packaging: $name passed"
        ;;
      77)
        skipped=$((skipped + 1))
        echo "packaging: $name skipped: $(tail -n 1 "$work/log.$number")"
        ;;
      *)
        failed=$((failed + 1))
        echo "packaging: $name FAILED"
        tail -n 30 "$work/log.$number" >&2
        ;;
    esac
    rm "$work/status.$number"
  done
  names=()
}

# Ends the check as skipped unless the tools are there.
tools() {
  local tool
  for tool; do
    command -v "$tool" >/dev/null || {
      echo "$tool is not installed"
      exit 77
    }
  done
}

# The toolkit's compiler, where it is new enough.
nvcc_usable() { [ -n "$cuda_version" ] && at_least "$cuda_version" "$cuda_needed"; }

need_nvcc() {
  nvcc_usable || {
    echo "no CUDA toolkit $cuda_needed or newer"
    exit 77
  }
}

nvcc_flags=(-std=c++20 -arch=sm_90 -Werror all-warnings)

# by_meson FOLDER g++|nvcc: builds and runs the consumer there, whose subprojects/ holds cede.
by_meson() {
  local folder=$1 build=$1/build-$2 cuda=false program=consumer
  if [ "$2" = nvcc ]; then
    need_nvcc
    cuda=true program=consumer_cuda
  fi
  "$meson" setup "$build" "$folder" "-Dcuda=$cuda" | tee "$build.setup"
  # Whether the parent uses CUDA is not for a summary of ours to say.
  ! grep -q 'CUDA *:' "$build.setup" || return 1
  ninja -C "$build" $program
  "$build/$program"
  # Nothing of ours is built there.
  [ "$(find "$build" -type f -executable -name '*test*' | wc -l)" = 0 ]
}

# by_cmake FOLDER g++|nvcc HOW OPTION...
by_cmake() {
  tools cmake
  local build=$1/build-$2 with=CXX program=consumer how=$3
  if [ "$2" = nvcc ]; then
    need_nvcc
    with='CXX;CUDA' program=consumer_cuda
  fi
  cmake -S "$here/consumer" -B "$build" -G Ninja "-DWITH=$with" "-DHOW=$how" "-DVERSION=$version" "-DCEDE=$root" \
    "${@:4}"
  cmake --build "$build" --target $program
  "$build/$program"
}

# by_hand FOLDER g++|nvcc FLAG...: one compiler command.
by_hand() {
  local program=$1-$2
  if [ "$2" = nvcc ]; then
    need_nvcc
    nvcc "${nvcc_flags[@]}" "$here/consumer/main.cu" "${@:3}" -o "$program"
  else
    "$CXX" -std=c++20 -Wall -Wextra -Werror "$here/consumer/main.cpp" "${@:3}" -o "$program"
  fi
  "$program"
}

meson_install() {
  "$meson" setup "$work/build" "$root" --prefix "$work/prefix" -Dtests=false -Dexamples=false
  "$meson" install -C "$work/build"
}

cmake_install() {
  tools cmake
  cmake -S "$root" -B "$work/cmake-build" -DCMAKE_INSTALL_PREFIX="$work/cmake-prefix"
  cmake --install "$work/cmake-build"
  # The same files, whoever installs them.
  diff -r "$work/prefix/include" "$work/cmake-prefix/include"
  diff -r "$work/prefix/share/cmake" "$work/cmake-prefix/share/cmake"
}

through_pkg_config() {
  tools pkg-config
  local flags words
  flags=$(PKG_CONFIG_PATH=$work/prefix/share/pkgconfig pkg-config --cflags --libs "cede = $version")
  read -r -a words <<<"$flags"
  # nvcc takes what is for its host compiler by this name.
  if [ "$1" = nvcc ]; then words=("${words[@]/#-pthread/-Xcompiler=-pthread}"); fi
  by_hand "$work/pkg-config" "$1" "${words[@]}"
}

# What must not be found is not: another version.
refused_by_version() {
  tools pkg-config cmake
  ! PKG_CONFIG_PATH=$work/prefix/share/pkgconfig pkg-config --exists "cede > $version" || return 1
  ! cmake -S "$here/consumer" -B "$work/refused" -DWITH=CXX -DHOW=package -DVERSION=99.0 \
    -DCMAKE_PREFIX_PATH="$work/prefix" 2>"$work/refused.log" || return 1
  grep -q 'cedeConfig.cmake, version: '"$version" "$work/refused.log"
}

single_header() {
  mkdir -p "$work/single/cede" "$work/single-cuda/cede"
  python3 "$here/amalgamate.py" -o "$work/single/cede/cede.hpp"
  python3 "$here/amalgamate.py" -o "$work/single-cuda/cede/cede.hpp" cede/cuda_device.hpp cede/cede.hpp
  # Each header once, and what it cannot hold is refused in a sentence.
  [ -z "$(grep '^// cede/' "$work/single/cede/cede.hpp" | sort | uniq -d)" ]
  ! python3 "$here/amalgamate.py" cede/rtc.hpp 2>"$work/single/refused" || return 1
  grep -q 'copy include/cede instead' "$work/single/refused"
}

same_text() {
  if [ "$1" = nvcc ]; then
    need_nvcc
    python3 "$here/same_text.py" "$work/single/cede/cede.hpp" .cu cede/cede.hpp -- nvcc "${nvcc_flags[@]}"
  else
    python3 "$here/same_text.py" "$work/single/cede/cede.hpp" .cpp cede/cede.hpp -- "$CXX" -std=c++20
  fi
}

single_header_regions() {
  need_nvcc
  nvcc "${nvcc_flags[@]}" -I"$work/single" "$here/consumer/ported.cu" -o "$work/ported"
  "$work/ported"
}

# A program of g++ alone that wants the GPU.
single_header_with_cuda() {
  need_nvcc
  local toolkit
  toolkit=$(dirname "$(dirname "$(command -v nvcc)")")
  by_hand "$work/single-with-cuda" g++ -I"$work/single-cuda" -isystem "$toolkit/include" \
    -L"$toolkit/lib64" -lcudart_static -pthread -ldl -lrt
}

find_tools
version=$("$meson" introspect --projectinfo "$root/meson.build" |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])')

mkdir -p "$work"/{subproject,wrap}/subprojects "$work/wrap/subprojects/packagefiles" "$work/copy"
for way in subproject wrap; do cp -r "$here"/consumer/. "$work/$way"; done
ln -s "$root" "$work/subproject/subprojects/cede"
tar -C "$root/.." --exclude-vcs --exclude="${root##*/}/build" --exclude="${root##*/}/.venv" \
  --transform "s,^${root##*/},cede-$version," -czf "$work/wrap/subprojects/packagefiles/cede.tar.gz" "${root##*/}"
cat >"$work/wrap/subprojects/cede.wrap" <<END
[wrap-file]
directory = cede-$version
source_filename = cede.tar.gz
source_hash = $(sha256sum "$work/wrap/subprojects/packagefiles/cede.tar.gz" | cut -d' ' -f1)

[provide]
dependency_names = cede
END
cp -r "$root/include/cede" "$work/copy"

start "Meson install" meson_install
start "single header" single_header
finish
start "CMake install" cmake_install
finish
for compiler in nvcc g++; do
  start "Meson subproject ($compiler)" by_meson "$work/subproject" $compiler
  start "Meson wrap file ($compiler)" by_meson "$work/wrap" $compiler
  start "pkg-config ($compiler)" through_pkg_config $compiler
  start "CMake find_package ($compiler)" by_cmake "$work/package" $compiler package \
    -DCMAKE_PREFIX_PATH="$work/prefix"
  start "CMake add_subdirectory ($compiler)" by_cmake "$work/subdirectory" $compiler subdirectory
  start "CMake FetchContent ($compiler)" by_cmake "$work/fetch" $compiler fetch
  start "plain copy ($compiler)" by_hand "$work/by-copy" $compiler -I"$work/copy"
  start "single header ($compiler)" by_hand "$work/by-single" $compiler -I"$work/single"
  start "single header says what the headers say ($compiler)" same_text $compiler
done
start "CMake find_package after CMake's install (g++)" by_cmake "$work/package2" g++ package \
  -DCMAKE_PREFIX_PATH="$work/cmake-prefix"
start "another version is refused" refused_by_version
start "single header: port regions (nvcc)" single_header_regions
start "single header: GPU from g++" single_header_with_cuda
finish
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
