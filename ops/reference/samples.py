#!/usr/bin/env python3
"""Jobs that would compare different samples of questions must be refused, and so must runs without a common question.

Why: a table of a paper may set figures over 200 questions beside figures over 500. One job of hopeval has one dataset,
one draw and one split for all of its methods, and no setting may lead around that.

What: a job over HotpotQA (200 questions of a draw) that runs as it stands. Then the same job, each time with one change
by which a configuration would have other questions, or with a sample that a choice was made on. Each must end with 2,
say what is wrong, and leave no run. `compare` and `report` must refuse two runs over two corpora, and two without a
common question; of runs that share some, `compare` must compare these, and say how many. A ranking that covers a part
of the questions is not refused if the job allows that, so its figures must be over all.

    samples.py --hopeval PROGRAM --work DIR --data DIR

The folder of `--work` must not be there yet; that of `--data` has `hotpotqa/dev_1267.json.gz`. Prints a table, and
exits with 1 if something is not as it must be. It takes some 20 s. Only the standard library is used.
"""

import argparse
import csv
import io
import json
import pathlib
import subprocess
import sys

DATASET = """
[dataset]
format = "hotpotqa"
questions = "{file}"
[dataset.draw]
questions = 200
seed = 0
after = {after}
[corpus]
source = "contexts"
"""
METHODS = """
[service.bm25]
kind = "bm25"
[method.one]
kind = "one_step"
retriever = "bm25"
[method.two]
kind = "one_step"
retriever = "bm25"
k = 20
"""
BROUGHT = """
[method.brought]
kind = "rankings"
file = "{file}"
format = "jsonl"
"""
TUNED = """
[tune]
sample = 128
measure = "recall_all@2"
[[tune.select]]
name = "best_k"
method = "chosen"
parameter = "k"
candidates = [5, 10]
[method.chosen]
kind = "one_step"
retriever = "bm25"
"""
USING = "k = { selection = \"best_k\" }\n"


class Program:
    def __init__(self, options):
        self.options, self.jobs = options, 0

    def call(self, *words):
        done = subprocess.run([self.options.hopeval, *words, "--store", "store", "--cache", "cache"], text=True,
                              cwd=self.options.work, capture_output=True)
        return done.returncode, done.stdout, done.stderr

    def job(self, text, *words, command="run"):
        """Writes a job and gives it to a command."""
        self.jobs += 1
        path = self.options.work / f"job-{self.jobs:02}.toml"
        path.write_text(text)
        return self.call(command, path.name, *words)

    def runs(self):
        folder = self.options.work / "store" / "runs"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--hopeval", "--work", "--data"):
        parser.add_argument(name, required=True, type=lambda text: pathlib.Path(text).resolve())
    options = parser.parse_args()
    options.work.mkdir(parents=True)
    program, rows = Program(options), []
    file = options.data / "hotpotqa" / "dev_1267.json.gz"

    def dataset(after=0):
        return 'name = "samples"\n' + DATASET.format(file=file, after=after)

    def note(what, expected, found, said, wrong=""):
        good = found == expected and not wrong
        rows.append((what, said.strip(), good))
        if not good:
            print(f"wrong: {what}: {expected} expected, {found} found; {wrong}\n{said}", file=sys.stderr)

    def refused(what, needle, text, command="run"):
        before = program.runs()
        code, _, said = program.job(text, command=command)
        wrong = "" if needle in said else f"it does not say {needle!r}"
        note(what, 2, code, said, wrong if program.runs() == before else "a run was made")

    def exported(run, configuration):
        """The rows of a configuration, by the columns' names."""
        code, out, said = program.call("export", run, "--format", "csv", "--configuration", configuration)
        if code != 0:
            sys.exit(said)
        return list(csv.DictReader(io.StringIO(out)))

    def finished(what, text):
        """Runs a job that must end well; returns its document."""
        code, out, said = program.job(text, "--json")
        if code != 0:
            sys.exit(f"{what} ended with {code}\n{said}")
        return json.loads(out)

    # What the changes below start from is a good job, and its run is what the commands compare.
    base = dataset() + METHODS
    first = finished("the job as it stands", base)
    for key, value in [("limit", 100), ("questions", 100), ("draw", 1), ("sample", 100), ("stratum", '"bridge"'),
                       ("dataset", '"other"')]:  # fmt: skip
        refused(f"`{key}` in a method", f"unknown field `{key}`", base + f"{key} = {value}\n")
    refused("`limit` in a sweep", "unknown field `limit`", base + "[method.two.sweep]\nlimit = [100, 200]\n")
    refused("a second dataset", "duplicate key", base + '[dataset]\nformat = "musique"\n')
    # Answers of the next 200 questions, and of half of this job's.
    others = finished("the next 200", dataset(after=200) + METHODS)
    for name, run in [("others", others), ("own", first)]:
        lines = [json.dumps({"id": row["question"], "answer": "yes"}) for row in exported(run["run"], "one")]
        (options.work / f"{name}.jsonl").write_text("\n".join(lines[: 100 if name == "own" else None]) + "\n")
    refused("answers of other questions", "field `id`", base + BROUGHT.format(file="others.jsonl"))
    some = base + BROUGHT.format(file="own.jsonl")
    code, _, said = program.job(some)
    note("answers of half of the questions", 1, code, said, "" if "100 not_in_file" in said else "it does not say so")
    half = finished("the same, allowed", some + "[run]\nallowed_failed = 1.0\n")
    rows_of = {row["measure"]: row for row in half["measures"]
               if row["configuration"] == "brought" and row["stratum"] == "all"}  # fmt: skip
    right = sum(float(row["em"]) for row in exported(half["run"], "brought") if row["em"])
    found = [(rows_of[measure]["n"], rows_of[measure]["value"]) for measure in ("em", "f1")]
    wrong = "" if 0 < right < 100 else "all answers are right, or none"
    note("the same, allowed: the mean is over 200", (200, right / 200), found[0], f"n, em: {found[0]}", wrong)
    note("the same, allowed: n of F1", 200, found[1][0], f"n: {found[1][0]}")
    # A choice and the questions that it was made on.
    refused("a choice on evaluated questions", "dataset.draw", base + TUNED, command="tune")
    code, _, said = program.job(dataset(after=128) + METHODS + TUNED, command="tune")
    if code != 0:
        sys.exit(f"tune ended with {code}\n{said}")
    chosen = METHODS + '[method.chosen]\nkind = "one_step"\nretriever = "bm25"\n' + USING
    refused("a choice of another job over its sample", "are in the sample of", dataset(after=64) + chosen)
    # Commands over two runs.
    part = finished("a choice over other questions", dataset(after=128) + chosen)
    without_links = dataset().replace("[corpus]\n", '[corpus]\nlinks = "none"\n') + METHODS
    pairs = [("two corpora", finished("another corpus", without_links), ("another", "corpus")),
             ("no common question", others, ("no question of run",))]  # fmt: skip
    for what, other, needles in pairs:
        for command, more in [("compare", []), ("report", ["--out", "page.html"])]:
            code, _, said = program.call(command, first["run"], other["run"], *more)
            wrong = "" if all(needle in said for needle in needles) else "other words"
            wrong += " a page was written" * (options.work / "page.html").exists()
            note(f"`{command}` of two runs: {what}", 2, code, said, wrong)
    code, out, said = program.call("compare", f"{first['run']}:one", f"{part['run']}:one")
    told = next((line for line in out.splitlines() if "questions of both" in line), "")
    note("`compare` of two runs: some common questions", (0, "72"), (code, told.split(" ")[0]), told)
    print("| what was tried | | what hopeval says |\n| --- | --- | --- |")
    for what, said, good in rows:
        text = " ".join(said.split())
        print(f"| {what} | {'as it must be' if good else '**WRONG**'} | {text.replace('|', chr(92) + '|')[:400]} |")
    sys.exit(0 if all(row[2] for row in rows) else 1)


if __name__ == "__main__":
    main()
