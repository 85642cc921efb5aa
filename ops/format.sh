#!/usr/bin/env bash
# Formats every Rust file of the repository, or with `--check` says which are not formatted.
#
# Why: `cargo fmt` follows `mod` declarations and does not see the modules that a table declares by a macro
# (jobs/methods/src/methods.rs, jobs/datasets/src/formats.rs, results/measures/src/measures.rs).
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files --cached --others --exclude-standard -- '*.rs' | while read -r file; do
    # A file that was just deleted is still in the index.
    if [ -f "$file" ]; then echo "$file"; fi
done | xargs rustfmt --edition 2024 "$@"
