#!/usr/bin/env python3
"""Applies the example patches beside it, one at a time, and runs the tests that judge each of them.

Why: the house promises that a method, a service, a measure and a dataset format are each one file, one line in a table,
and their documentation. A promise that nothing checks does not last: these patches keep it, and a change of the house
that makes one of them longer, or breaks it, is noticed.

What: the tracked tree of HEAD is copied to `errands/tree` in the target folder. For each errand the patch is applied
there (`git apply`), the Rust files that it touches must be formatted, the tests of its crate run, and the patch is
taken back. A Markdown table is printed: the files that the patch touches, the lines that it adds by what they are, and
the result. A line that it removes counts only where no line takes its place. Exit 1 if an errand failed, 2 if nothing
could be looked at.

The copy is kept, and of its files only those are written that differ, so that cargo builds again what they are part of
and no more.

Arguments:
  --only NAME     this errand alone; may be given several times
  --no-test       apply and check formatting only
  --target FOLDER where cargo builds, and where the copy lies; the repository's own `target` without it

Only the standard library is used.
"""

import argparse
import io
import os
import subprocess
import sys
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent

# Errand: (what cargo tests, the table that a line enters it in).
ERRANDS = {
    "method": (["-p", "hopeval-methods"], "jobs/methods/src/methods.rs"),
    "service": (["-p", "hopeval-jobs", "--lib", "services::"], "jobs/src/services.rs"),
    "measure": (["-p", "hopeval-measures"], "results/measures/src/measures.rs"),
    "format": (["-p", "hopeval-datasets"], "jobs/datasets/src/formats.rs"),
}
# The columns of the table: what a line that a patch adds is.
PARTS = ["code", "registry", "documentation", "scenario"]


@dataclass
class Outcome:
    """One errand's row of the table."""

    name: str
    files: list[str]
    added: Counter
    removed: int
    result: str


def part(path: str, registry: str) -> str:
    """What the lines of a file are."""
    if path == registry:
        return "registry"
    if path.endswith(".md"):
        return "documentation"
    return "scenario" if "/tests/scenarios/" in path else "code"


def copy_tree(tree: Path) -> None:
    """Makes `tree` the tracked tree of HEAD, and writes only what differs: cargo goes by the times of files."""
    archive = subprocess.run(["git", "-C", REPOSITORY, "archive", "HEAD"], stdout=subprocess.PIPE, check=True).stdout
    kept = set()
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files.getmembers():
            if member.isfile():
                path = tree / member.name
                kept.add(path)
                content = files.extractfile(member).read()
                if not path.is_file() or path.read_bytes() != content:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
    for path in tree.rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()


def run(tree: Path, command: list[str], **environment: str) -> str | None:
    """Runs a command in the tree; what it printed, if it failed."""
    # The copy may lie in a repository: git must not take it for a part of that.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)} | environment
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=tree, env=environment, **pipe)
    return done.stdout if done.returncode else None


def lines(tree: Path, patch: Path, registry: str) -> tuple[list[str], Counter, int]:
    """The files of a patch, the lines that it adds by what they are, and how many more some file loses than it gains."""
    command = ["git", "apply", "--numstat", str(patch)]
    found = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, text=True, check=True).stdout
    files, added, removed = [], Counter(), 0
    for line in found.splitlines():
        plus, minus, path = line.split("\t")
        files.append(path)
        added[part(path, registry)] += int(plus)
        removed += max(0, int(minus) - int(plus))
    return files, added, removed


def try_errand(name: str, tree: Path, target: Path, test: bool) -> Outcome:
    """Applies one patch, checks and tests it, and takes it back."""
    patch = HERE / f"{name}.patch"
    tests, registry = ERRANDS[name]
    print(f"==> {name}", file=sys.stderr, flush=True)
    if failed := run(tree, ["git", "apply", str(patch)]):
        print(failed, file=sys.stderr)
        return Outcome(name, [], Counter(), 0, "does not apply")
    files, added, removed = lines(tree, patch, registry)
    rust = [file for file in files if file.endswith(".rs")]
    result = "applies, formatted"
    if failed := run(tree, ["rustfmt", "--edition", "2024", "--check", *rust]):
        result = "not formatted"
    elif test:
        result = "tests pass"
        cargo = ["cargo", "test", "--locked", *tests]
        if failed := run(tree, cargo, CARGO_TARGET_DIR=str(target), CARGO_TERM_COLOR="never"):
            result = "tests fail"
    if failed:
        print(failed, file=sys.stderr)
    run(tree, ["git", "apply", "--reverse", str(patch)])
    return Outcome(name, files, added, removed, result)


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as Markdown."""
    rows = [["errand", "files touched", *PARTS, "result"], ["---"] * (3 + len(PARTS))]
    for outcome in outcomes:
        counts = [str(outcome.added[part] or "") for part in PARTS]
        files = "<br>".join(f"`{file}`" for file in outcome.files)
        removed = f", {outcome.removed} lines removed" if outcome.removed else ""
        rows.append([outcome.name, files, *counts, outcome.result + removed])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> int:
    """Tries the errands; the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", action="append", choices=ERRANDS, metavar="NAME")
    arguments.add_argument("--no-test", action="store_true")
    arguments.add_argument("--target", type=Path, default=REPOSITORY / "target", metavar="FOLDER")
    given = arguments.parse_args()
    target = given.target.resolve()
    tree = target / "errands" / "tree"
    try:
        copy_tree(tree)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"cannot copy the tree: {error}", file=sys.stderr)
        return 2
    names = given.only or ERRANDS
    outcomes = [try_errand(name, tree, target, not given.no_test) for name in names]
    print(table(outcomes))
    return 0 if all(outcome.result in ("applies, formatted", "tests pass") for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
