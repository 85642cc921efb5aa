#!/usr/bin/env python3
"""Applies the example patches beside it, one at a time, and runs the tests that judge each of them.

Why: the house promises that a method, a service, a measure and a dataset format are each one file, one line in a table,
and their documentation. A promise that nothing checks does not last: these patches keep it, and a change of the house
that makes one of them longer, or breaks it, is noticed: its length by CI, which applies them, its tests by whoever runs this.

What: the tracked tree of HEAD is copied to `errands/tree` in the target folder. For each errand the patch is applied
there (`git apply`), the Rust files that it touches must be formatted, the tests of its crate run, and the patch is
taken back. A Markdown table is printed: the files that the patch touches, the lines that it adds, and the result.
Exit 1 if an errand failed, 2 if nothing could be looked at.

* code, tests: lines of the new file before its `#[cfg(test)]`, and from there on; blank lines and comments count. What
  stands in `tests` is of tests, too
* table: lines of the table that the errand is entered in
* documentation: Markdown, and comments in the table
* scenario: what a method asks and answers, as a test reads it
* removed: lines that the patch takes out or changes

The copy is kept, and of its files only those are written that differ, so that cargo builds again what they are part of
and no more. The patches are those beside this file, committed or not.

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

# Errand: (what cargo tests, the file of the table that a line enters it in).
ERRANDS = {
    "method": (["-p", "hopeval-methods"], "jobs/methods/src/methods.rs"),
    "service": (["-p", "hopeval-jobs", "--lib", "services::"], "jobs/src/services.rs"),
    "measure": (["-p", "hopeval-measures"], "results/measures/src/measures.rs"),
    "format": (["-p", "hopeval-datasets"], "jobs/datasets/src/formats.rs"),
}
# The columns of the table: what a line is that a patch adds, or that it removes.
PARTS = ["code", "tests", "table", "documentation", "scenario", "removed"]
# The results that are good.
GOOD = ["applies", "tests pass"]


@dataclass
class Outcome:
    """One errand's row of the table."""

    name: str
    files: list[str]
    lines: Counter
    result: str


def part(path: str, line: str, registry: str) -> str:
    """What a line is that a patch adds to a file."""
    if path.endswith(".md") or (path == registry and line.lstrip().startswith("//")):
        return "documentation"
    if path == registry:
        return "table"
    if "/tests/scenarios/" in path:
        return "scenario"
    return "tests" if path.startswith("tests/") else "code"


def read_patch(patch: Path, registry: str) -> tuple[list[str], Counter]:
    """The files of a patch, and the lines that it adds and removes by what they are."""
    files, counts, tests = [], Counter(), False
    for line in patch.read_text(encoding="utf-8").splitlines():
        if line.startswith("+++ "):
            files.append(line.removeprefix("+++ b/"))
            tests = False
        elif line.startswith("+"):
            tests = tests or line == "+#[cfg(test)]"
            kind = part(files[-1], line[1:], registry)
            counts["tests" if tests and kind == "code" else kind] += 1
        elif line.startswith("-") and not line.startswith("--- "):
            counts["removed"] += 1
    return files, counts


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
                    path.chmod(member.mode)
    for path in tree.rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()


class CommandFailure(Exception):
    """What a command that failed had printed."""


def run(tree: Path, command: list[str], **environment: str) -> str:
    """Runs a command in the tree; what it printed."""
    # Where the copy lies in a repository, git would take it for a part of that, and skip the paths of a patch.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)} | environment
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=tree, env=environment, **pipe)
    if done.returncode:
        raise CommandFailure(done.stdout)
    return done.stdout


def is_longer(outcome: Outcome, registry: str) -> bool:
    """Whether an errand needs more than a file, a line in its table, and documents (a method: a scenario; a kind of
    service: a table in the harness of the tests)."""
    tables = (registry, "tests/support/harness.rs")
    code = [file for file in outcome.files if file.endswith(".rs") and file not in tables]
    # A line of the table may have a comment.
    return len(code) != 1 or outcome.lines["table"] > 1 or outcome.lines["removed"] > 0


def try_errand(name: str, tree: Path, target: Path, test: bool) -> Outcome:
    """Applies one patch, checks and tests it, and takes it back."""
    patch = HERE / f"{name}.patch"
    tests, registry = ERRANDS[name]
    outcome = Outcome(name, [], Counter(), "does not apply")
    print(f"==> {name}", file=sys.stderr, flush=True)
    try:
        run(tree, ["git", "apply", str(patch)])
        outcome.files, outcome.lines = read_patch(patch, registry)
        outcome.result = "is longer than it has to be"
        if is_longer(outcome, registry):
            raise CommandFailure(f"{name} touches {outcome.files}: more than a file, a line in {registry}, and documents")
        outcome.result = "is not formatted"
        rust = [file for file in outcome.files if file.endswith(".rs")]
        run(tree, ["rustfmt", "--edition", "2024", "--check", *rust])
        outcome.result = GOOD[0]
        if test:
            outcome.result = "tests fail"
            print(run(tree, ["cargo", "test", "--locked", *tests], CARGO_TARGET_DIR=str(target)), file=sys.stderr)
            outcome.result = GOOD[1]
    except CommandFailure as failure:
        print(failure, file=sys.stderr)
    if outcome.files:
        run(tree, ["git", "apply", "--reverse", str(patch)])
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as Markdown."""
    rows = [["errand", "files", *PARTS, "result"], ["---"] * (3 + len(PARTS))]
    for outcome in outcomes:
        counts = [str(outcome.lines[part]) for part in PARTS]
        rows.append([outcome.name, "<br>".join(f"`{file}`" for file in outcome.files), *counts, outcome.result])
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
    return 0 if all(outcome.result in GOOD for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
