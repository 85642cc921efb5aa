#!/usr/bin/env python3
"""Shows that a change of the program changed no figure and no key.

Why: keys and stored bytes are what answers are found by. A change that moves one computes, or bills, everything again,
and nobody sees it in a figure. This runs both programs over the same jobs.

What, for each job (the first command's, world-sweep.toml, and tune.toml beside this file, with its searches):
  1. the old program runs it in a store of its own;
  2. the new program runs it over a copy of that store: it must compute nothing, and read the runs that are there;
  3. the new program runs it in an empty store: `outcomes`, `scores` and `measures` must be the same bytes.

    compare.py --old OLD --new NEW [--folder DIR] [--keep]

OLD and NEW are two `hopeval` binaries, and OLD must carry the models that the jobs name. DIR (default: a temporary
folder) keeps OLD's stores: with `--keep` a later call finds them there. Exits with 1 if anything differs.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "jobs" / "examples"
JOBS = {
    "first": EXAMPLES / "world-comparison.toml",
    "sweep": EXAMPLES / "world-sweep.toml",
    "tune": HERE / "tune.toml",
}
TABLES = ["outcomes", "scores", "measures"]


def hopeval(binary, store, *arguments):
    """One command; its document if it printed one."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HOPEVAL_", "RUST_LOG"))}
    command = [str(binary), *arguments, "--store", str(store)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    try:
        return json.loads(done.stdout)
    except ValueError:
        return done.stdout


def run(binary, store, name):
    """Runs a job with its searches: the documents of the searches, and that of the run."""
    job = str(JOBS[name])
    searches = hopeval(binary, store, "tune", job, "--json") if name == "tune" else None
    return searches, hopeval(binary, store, "run", job, "--json")


def digests(store):
    """Digests of the final tables of each run of a store, by the run's id."""
    found = {}
    for final in sorted(pathlib.Path(store).glob("runs/*/final")):
        tables = {}
        for table in TABLES:
            tables[table] = hashlib.sha256((final / f"{table}.parquet").read_bytes()).hexdigest()
        found[final.parent.name] = tables
    return found


def computed(binary, store, searches, document):
    """Requests that services computed for a run and for its searches, the generation of candidates included."""
    total = sum(row.get("computed") or 0 for row in document["cost"])
    for search in (searches or {"selections": []})["selections"]:
        shown = hopeval(binary, store, "show", search["run"], "--json")
        total += sum(row.get("computed") or 0 for row in shown["cost"])
        total += (search.get("generated") or {}).get("computed", 0)
    return total


def selections(store):
    """Selections of a store, as their bytes."""
    return {p.name: p.read_bytes() for p in sorted(pathlib.Path(store).glob("selections/*"))}


def compare(name, old, new, folder, keep):
    """Compares the programs over one job; prints a row of the table, and says whether all is well."""
    before = folder / f"{name}-old"
    marker = folder / f"{name}-old.json"
    if not (keep and marker.exists()):
        shutil.rmtree(before, ignore_errors=True)
        searches, document = run(old, before, name)
        document["computed_by_old"] = computed(old, before, searches, document)
        marker.write_text(json.dumps(document))
    document = json.loads(marker.read_text())
    tables = digests(before)

    copied = folder / f"{name}-copied"
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(before, copied)
    # Runs of the old program, read by the new one.
    shown = {run_id: hopeval(new, copied, "show", run_id, "--json") for run_id in tables}
    read = all(shown[run_id]["measures"] for run_id in tables)
    read &= shown[document["run"]]["measures"] == document["measures"]
    searches, again = run(new, copied, name)
    anew = computed(new, copied, searches, again)
    same_again = digests(copied)[again["run"]] == tables[document["run"]]

    fresh = folder / f"{name}-fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    searches, alone = run(new, fresh, name)
    there = computed(new, fresh, searches, alone)
    own = digests(fresh)
    # Searches are runs, too, in the order of their ids.
    same = list(own.values()) == list(tables.values()) and selections(fresh) == selections(before)
    by_old = document["computed_by_old"]
    good = read and by_old > 0 and there == by_old and anew == 0 and same_again and same
    answers = ["no", "yes"]
    print(
        f"| {name} | {len(tables)} | {by_old} | {answers[read]} | {anew} | {answers[same_again]} | "
        f"{answers[same]} | {there} |",
        flush=True,
    )
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, type=pathlib.Path)
    parser.add_argument("--new", required=True, type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--job", action="append", choices=list(JOBS))
    given = parser.parse_args()
    folder = given.folder or pathlib.Path(tempfile.mkdtemp(prefix="unchanged-"))
    folder.mkdir(parents=True, exist_ok=True)
    print("| job | runs | computed by old | old runs read by new | computed anew | same tables | same tables in an empty "
          "store | computed there |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    good = [compare(name, given.old, given.new, folder, given.keep) for name in given.job or JOBS]
    if not all(good):
        sys.exit("something differs")


if __name__ == "__main__":
    main()
