#!/usr/bin/env python3
"""Shows that hopeval's paired differences are scipy's, and Holm's adjustment that of statsmodels.

Why: a p value decides which setting is called better. Tests that a library has need no trust in ours.

What, for HotpotQA, 2WikiMultihopQA, MuSiQue and a generated world: a run of five configurations, one with replicates;
then `show --against` each of two of them, and `compare` of one pair. The values of each question come from
`export --format csv`. Beside each other stand:

* `p_t` and `scipy.stats.ttest_rel`; exact p values and `scipy.stats.binomtest`; `p_holm` and
  `statsmodels.stats.multitest.multipletests`: equal to 1e-9, relative for values below 1;
* drawn p values and `scipy.stats.permutation_test`; intervals and `scipy.stats.bootstrap`: within four standard errors
  of the draws of both.

    paired.py --hopeval target/release/hopeval [--data ../shared/data] [--folder DIR]

Needs scipy and statsmodels. Exits with 1 if a figure differs by more, with 2 if nothing could be compared.
"""

import argparse
import collections
import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import scipy.stats
from statsmodels.stats.multitest import multipletests

EQUAL = 1e-9
# hopeval's draws, and those of scipy.
DRAWS, MORE_DRAWS = 10_000, 20_000
# Values of 0 and 1, and others.
MEASURES = ["recall_all@2", "recall_all@10", "recall_frac@10", "ndcg@10", "mrr"]

METHODS = """
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[method.bm25]
kind = "one_step"
retriever = "bm25"
k = 100
[method.bm25_short]
kind = "one_step"
retriever = "bm25"
k = 5
[method.tfidf]
kind = "one_step"
retriever = "tfidf"
k = 100
[method.tfidf_bm25]
kind = "tfidf_bm25"
retriever = "tfidf"
reranker = "bm25"
[method.random]
kind = "random"
k = 100
[method.random.replicates]
draw = [0, 1, 2]
[measures]
recall_at = [2, 5, 10]
ndcg_at = [10]
"""

SETS = {
    "hotpotqa": ("hotpotqa", "dev_1267.json.gz"),
    "2wikimultihopqa": ("2wikimultihopqa", "train_500.json.gz"),
    "musique": ("musique", "train_299.jsonl.gz"),
}


def jobs(data):
    """Name and text of each job."""
    yield "world", f'name = "world"\n[dataset.world]\nquestions = 300\npassages = 3000\nseed = 19\n{METHODS}'
    for name, (format, file) in SETS.items():
        questions = data / name / file
        if not questions.is_file():
            print(f"SKIPPED: {name}: no {questions}", file=sys.stderr)
            continue
        corpus = data / name / "corpus.jsonl.gz"
        dataset = f'[dataset]\nformat = "{format}"\nquestions = "{questions}"\n[corpus]\nsource = "{corpus}"\n'
        yield name, f'name = "{name}"\n{dataset}{METHODS}'


def output(binary, store, *arguments):
    """Standard output of one command."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HOPEVAL_", "RUST_LOG"))}
    command = [str(binary), *arguments, "--store", str(store)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    return done.stdout


class Scores:
    """The values of each configuration, by measure and question; replicates as their mean."""

    def __init__(self, binary, store):
        self.binary, self.store, self.known = binary, store, {}

    def of(self, configuration, measure):
        if configuration not in self.known:
            names = [f"random#{n}" for n in (1, 2, 3)] if configuration == "random" else [configuration]
            tables = [self.table(name) for name in names]
            self.known[configuration] = {
                measure: {
                    question: sum(float(table[question][measure]) for table in tables) / len(tables)
                    for question in tables[0]
                    if all(table[question][measure] != "" for table in tables)
                }
                for measure in MEASURES
            }
        return self.known[configuration][measure]

    def table(self, name):
        text = output(self.binary, self.store, "export", "latest", "--format", "csv", "--configuration", name)
        return {row["question"]: row for row in csv.DictReader(text.splitlines())}

    def pair(self, own, other, measure):
        """The values of both, for the questions that both have."""
        mine, theirs = self.of(own, measure), self.of(other, measure)
        both = [question for question in mine if question in theirs]
        return numpy.array([mine[q] for q in both]), numpy.array([theirs[q] for q in both])


class Tally:
    """Compared figures by kind."""

    def __init__(self):
        self.compared, self.wrong, self.largest = collections.Counter(), [], collections.Counter()

    def equal(self, kind, name, ours, theirs):
        self.near(kind, name, ours, theirs, EQUAL * min(1.0, max(abs(theirs), 1e-300)))

    def near(self, kind, name, ours, theirs, bound):
        self.compared[kind] += 1
        error = abs(ours - theirs) / bound if bound > 0 else float(ours != theirs) * 2
        self.largest[kind] = max(self.largest[kind], error)
        if not error <= 1:
            self.wrong.append((kind, name, ours, theirs, bound))


def compare_row(row, own, other, name, tally):
    """One difference beside scipy's."""
    differences = own - other
    assert row["n"] == len(differences), (name, row["n"], len(differences))
    tally.near("mean difference", name, row["difference"], float(differences.mean()), 1e-12)
    if len(set(differences)) == 1:
        assert row["p_t"] is None, name
    else:
        tally.equal("paired t", name, row["p_t"], float(scipy.stats.ttest_rel(own, other).pvalue))
    told = differences[differences != 0]
    if len({round(abs(difference), 12) for difference in told}) <= 1:
        assert row["p_kind"] == "exact", name
        won = int((told > 0).sum())
        exact = scipy.stats.binomtest(won, len(told), 0.5).pvalue if len(told) else 1.0
        tally.equal("exact McNemar", name, row["p"], float(exact))
    else:
        assert row["p_kind"] == "drawn", name
        drawn = scipy.stats.permutation_test(
            (differences,), numpy.mean, permutation_type="samples", n_resamples=MORE_DRAWS, rng=7, vectorized=True,
            batch=500,
        ).pvalue
        error = math.sqrt(max(drawn * (1 - drawn), 1 / DRAWS) * (1 / DRAWS + 1 / MORE_DRAWS))
        tally.near("drawn p, in 4 standard errors", name, row["p"], float(drawn), 4 * error)
    if len(set(differences)) > 1:
        interval = scipy.stats.bootstrap(
            (differences,), numpy.mean, n_resamples=MORE_DRAWS, method="percentile", rng=7, batch=500
        ).confidence_interval
        # The standard error of a quantile is that of its share, over the density there.
        density = scipy.stats.norm.pdf(1.96) / (differences.std(ddof=1) / math.sqrt(len(differences)))
        error = math.sqrt(0.025 * 0.975 * (1 / DRAWS + 1 / MORE_DRAWS)) / density
        # The mean of few different values moves in steps.
        step = numpy.abs(told).min() / len(differences)
        for end, theirs in (("low", interval.low), ("high", interval.high)):
            bound = 4 * error + step
            tally.near("interval, in 4 standard errors", f"{name} {end}", row[end], float(theirs), bound)


def check_holm(rows, name, tally):
    """The adjusted p values of one family."""
    adjusted = multipletests([row["p"] for row in rows], method="holm")[1]
    for row, theirs in zip(rows, adjusted):
        tally.equal("Holm", name, row["p_holm"], float(theirs))


def check_run(binary, store, name, tally):
    scores = Scores(binary, store)
    wanted = [argument for measure in MEASURES for argument in ("--measure", measure)]
    for against in ("bm25", "random"):
        shown = json.loads(output(binary, store, "show", "latest", "--against", against, "--json", *wanted))
        families = collections.defaultdict(list)
        for row in shown["differences"]:
            families[row["measure"]].append(row)
            title = f"{name} {row['configuration']} - {against} {row['measure']}"
            compare_row(row, *scores.pair(row["configuration"], against, row["measure"]), title, tally)
        for measure, rows in families.items():
            check_holm(rows, f"{name} {against} {measure}", tally)
    sides = ["latest:bm25", "latest:tfidf", "latest:tfidf_bm25"]
    pairs = json.loads(output(binary, store, "compare", *sides, "--json", *wanted))["pairs"]
    families = collections.defaultdict(list)
    for pair in pairs:
        for row in pair["quality"]:
            families[row["measure"]].append(row)
            compared = pair["compared"]["configuration"]
            title = f"{name} compare {compared} {row['measure']}"
            compare_row(row, *scores.pair(compared, "bm25", row["measure"]), title, tally)
    for measure, rows in families.items():
        check_holm(rows, f"{name} compare {measure}", tally)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True, type=pathlib.Path)
    repository = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=pathlib.Path, default=repository.parent / "shared" / "data")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the stores here")
    arguments = parser.parse_args()
    folder = arguments.folder or pathlib.Path(tempfile.mkdtemp(prefix="hopeval-paired-"))
    folder.mkdir(parents=True, exist_ok=True)
    tally = Tally()
    for name, text in jobs(arguments.data.resolve()):
        (folder / f"{name}.toml").write_text(text)
        output(arguments.hopeval, folder / name, "run", str(folder / f"{name}.toml"), "--json")
        check_run(arguments.hopeval, folder / name, name, tally)
        print(f"{name}: {sum(tally.compared.values())} figures so far, {len(tally.wrong)} differ", file=sys.stderr)
    print("| figures | compared | largest difference, of what is allowed |\n| --- | --- | --- |")
    for kind, count in tally.compared.items():
        print(f"| {kind} | {count} | {tally.largest[kind]:.2g} |")
    for found in tally.wrong[:20]:
        print("differs:", *found, file=sys.stderr)
    print(f"\n{sum(tally.compared.values())} figures, {len(tally.wrong)} differ")
    sys.exit(2 if not tally.compared else len(tally.wrong) > 0)


main()
