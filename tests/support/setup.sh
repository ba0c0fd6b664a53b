# SPDX-License-Identifier: Apache-2.0
# Sourced by tests/run.sh, examples/run.sh and .ci/run: what they need is installed where it is missing
# (Debian and Ubuntu packages; Meson from PyPI into .venv where the system has none that is new
# enough), and a build directory is configured. Tools write into $log; people get sentences on stderr.
# The caller sets $root (the repository) and $log.

meson_needed=1.4
meson_pinned=1.12.1
cuda_needed=12.5

say() { printf '%s\n' "$*" >&2; }

die() {
  say "$*"
  exit 1
}

# One run at a time in a build directory.
lock() {
  exec 9>"$1/lock"
  flock -n 9 || {
    say "Waiting for another run in $1."
    flock 9
  }
}

# at_least A B: version A is B or newer.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

# install_packages NAME...: 0 when they are there afterwards.
install_packages() {
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" != 0 ]; then command -v sudo >/dev/null || return 1; fi
  say "Installing packages: $*"
  {
    ${apt_updated:-false} ||
      as_root apt-get -o DPkg::Lock::Timeout=300 -o Acquire::http::Timeout=20 update
    apt_updated=true
    as_root env DEBIAN_FRONTEND=noninteractive \
      apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"
  } >>"$log" 2>&1 </dev/null
}

# need NAME...: installs them, or ends with a sentence that says what to do.
need() {
  install_packages "$@" ||
    die "Missing and not installable from here (see $log): $*. On Debian or Ubuntu: apt-get install $*"
}

# The newest g++ that is new enough, in $CXX; left alone if the caller set it.
find_compiler() {
  [ -z "${CXX:-}" ] || return 0
  local candidate
  for candidate in g++ g++-13 g++-12; do
    if command -v "$candidate" >/dev/null &&
      at_least "$("$candidate" -dumpfullversion -dumpversion)" 12; then
      export CXX=$candidate
      # nvcc takes plain g++ unless told.
      [ "$candidate" = g++ ] || export NVCC_PREPEND_FLAGS="-ccbin $candidate ${NVCC_PREPEND_FLAGS:-}"
      return 0
    fi
  done
  return 1
}

# A toolkit that is there but not on PATH is put there.
find_cuda() {
  local folder
  if ! command -v nvcc >/dev/null; then
    for folder in "${CUDA_PATH:-}" "${CUDA_HOME:-}" /usr/local/cuda; do
      if [ -n "$folder" ] && [ -x "$folder/bin/nvcc" ]; then
        export PATH="$folder/bin:$PATH"
        break
      fi
    done
  fi
  cuda_version=
  if command -v nvcc >/dev/null; then
    cuda_version=$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
  fi
  cuda_arch=
  if command -v nvidia-smi >/dev/null; then
    cuda_arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
      head -n 1 | tr -dc '0-9')
  fi
}

have_gpu() { [ -n "$cuda_arch" ] || [ -e /dev/nvidia0 ]; }

make_venv() {
  [ -x "$root/.venv/bin/pip" ] && return 0
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then need python3-venv; fi
  say "Creating .venv for Python tools."
  python3 -m venv "$root/.venv" >>"$log" 2>&1 || die "python3 -m venv .venv failed; see $log"
}

# venv_install REQUIREMENT...
venv_install() {
  make_venv
  "$root/.venv/bin/pip" install --quiet --disable-pip-version-check "$@" >>"$log" 2>&1 </dev/null ||
    die "pip could not install $* into .venv; see $log"
}

find_meson() {
  local candidate
  for candidate in meson "$root/.venv/bin/meson"; do
    if command -v "$candidate" >/dev/null &&
      at_least "$("$candidate" --version 2>/dev/null || echo 0)" "$meson_needed"; then
      meson=$candidate
      return 0
    fi
  done
  say "Installing Meson $meson_pinned into .venv."
  venv_install "meson==$meson_pinned"
  meson=$root/.venv/bin/meson
}

# The tools every build needs; sets $meson, $CXX, $cuda_version and $cuda_arch.
find_tools() {
  local missing=()
  command -v python3 >/dev/null || missing+=(python3 python3-venv)
  command -v ninja >/dev/null || missing+=(ninja-build)
  find_compiler || missing+=(g++)
  [ ${#missing[@]} = 0 ] || need "${missing[@]}"
  if ! find_compiler; then
    need g++-12
    find_compiler || die "No g++ 12 or newer was found; cede needs C++20."
  fi
  find_cuda
  find_meson
}

have_header() { printf '#include <%s>\n' "$1" | "$CXX" -x c++ -E - >/dev/null 2>&1; }

# configure BUILD_DIR OPTION...: meson setup, only where something has changed since the last time.
# Files count too: tests and headers are found when Meson configures.
configure() {
  local build=$1 cuda=()
  shift
  if [ -n "$cuda_version" ] && ! at_least "$cuda_version" "$cuda_needed"; then
    say "The CUDA toolkit found is $cuda_version; cede needs $cuda_needed. Building without CUDA."
    cuda=(-Dcuda=disabled)
  elif [ -n "$cuda_arch" ]; then
    cuda=("-Dcuda-arch=$cuda_arch")
  fi
  local tools="$CXX $("$CXX" -dumpfullversion) cuda ${cuda_version:-none} meson $("$meson" --version)"
  local state
  state=$(
    printf '%s\n' "$tools" "$*" "${cuda[*]}"
    cd "$root" && find include tests examples bench -name '*.[ch]pp' -o -name '*.cu' -o -name '*.pml' |
      LC_ALL=C sort
  )
  local stamp=$build/configured mode=()
  if [ -f "$build/build.ninja" ] && [ -f "$stamp" ]; then
    [ "$(cat "$stamp")" != "$state" ] || return 0
    mode=(--reconfigure)
    # A compiler that came or went needs a fresh look.
    [ "$(head -n 1 "$stamp")" = "$tools" ] || mode=(--wipe)
  elif [ -d "$build/meson-private" ]; then
    mode=(--wipe)
  fi
  say "Configuring $build."
  "$meson" setup "${mode[@]}" "${cuda[@]}" "$@" "$build" "$root" >>"$log" 2>&1 </dev/null ||
    die "Configuring failed; see $log"
  printf '%s\n' "$state" >"$stamp"
}

# build BUILD_DIR TARGET...: ninja, with a sentence now and then where it takes its time.
build() {
  local build=$1 ninja waited=0 step
  shift
  ninja -C "$build" "$@" >>"$log" 2>&1 </dev/null &
  ninja=$!
  while kill -0 "$ninja" 2>/dev/null; do
    sleep 0.5
    waited=$((waited + 1))
    if [ $((waited % 20)) = 4 ]; then
      step=$(tail -c 4000 "$log" | grep -o '^\[[0-9]*/[0-9]*\]' | tail -n 1 || true)
      say "Building $* ${step:+$step}"
    fi
  done
  wait "$ninja" || die "Building $* failed; see $log"
}
