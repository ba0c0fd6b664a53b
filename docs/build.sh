#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the API reference of the public headers into build/docs/html; installs doxygen where it is
# missing. A warning fails it: every public name is documented. In the folders named below some are not
# yet; there may not be more of those.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
mkdir -p build/docs
log=$root/build/docs/build.log
: >"$log"
# shellcheck source=../tests/support/setup.sh
. tests/support/setup.sh

pending='include/cede/(colocate|policy|tuning)/'
undocumented_at_most=165

command -v doxygen >/dev/null || need doxygen
warnings=$root/build/docs/warnings
doxygen docs/Doxyfile 2>"$warnings" || die "doxygen failed: $(tail -n 5 "$warnings")"
undocumented=$(grep -cE "$pending.*is not documented" "$warnings" || true)
if grep -vE "$pending.*is not documented" "$warnings"; then
  die "The lines above are warnings of doxygen; document what they name, or mend the comment."
fi
[ "$undocumented" -le "$undocumented_at_most" ] ||
  die "$undocumented names of $pending are not documented (see $warnings); $undocumented_at_most may be."
echo "API reference: build/docs/html/index.html, no warning but $undocumented names not documented in $pending"
