#!/usr/bin/env python3
"""Whether `hopeval:writer` really reasons: IRCoT beside one retrieval and one reading on a world, with two controls.

Why: a chain of thought that only repeats its question would find what one retrieval finds, and any further query
brings passages. So IRCoT has to collect more gold passages than one retrieval of 15, and to answer better, where a
question needs three or four passages; and it has to lose that when its sentences are another question's, or when one
retrieval is given just as many passages as IRCoT collected.

What: one run over a generated world (retrieval alone, reading without passages, one-step QA, IRCoT), all by the
program. Then IRCoT again, behind a server that writes for each question the sentences which the writer wrote for
another question with as many gold passages. One retrieval with as many passages is the first run's ranking, cut.
Differences are paired by question; their 95 % intervals are bootstrap percentiles (10,000 resamples, seeded).

A world has few questions of three and four gold passages (53 and 66 of 1,000, seed 1), so that their intervals are as
wide as what is sought. So `--as-many` draws as many questions of two, of three and of four: the first of each in a
larger world.

Several seeds are several worlds, and a row is over the questions of all of them. What DIR has of a run before is not
computed again.

    reasoning.py --hopeval PROGRAM --work DIR [--questions 1000] [--as-many] [--seed 1]... [--k 4]
                 [--model hopeval:writer] [--out FILE]

Exits with 1 if a bound is missed. Needed: numpy, pyarrow.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys

import numpy
import pyarrow.parquet

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "endpoint")]

import simulated_runs  # noqa: E402
from chat_server import ChatServer  # noqa: E402

MOST = 15  # passages
PASSAGES = 5000
SIZES = (2, 3, 4)  # gold passages of a question
GENERATED = 9  # times as many questions as are drawn: one of 14 has four gold passages
NAME = 'name = "reasoning"\n'
WORLD = """
[dataset.world]
questions = {questions}
passages = {passages}
seed = {seed}
"""
FILES = """
[dataset]
format = "world"
questions = {questions}
[corpus]
source = {corpus}
"""
BM25 = """
[service.bm25]
kind = "bm25"
"""
FIRST = """
[service.writer]
kind = "lm"
model = {model}
batch_tokens = 8192
[method.one_step]
kind = "one_step"
retriever = "bm25"
k = 15
[method.no_retrieval]
kind = "no_retrieval"
generator = "writer"
style = "direct"
demonstrations = []
instruction = "Answer in a few words. "
max_tokens = 24
[method.one_step_qa]
kind = "one_step_qa"
retriever = "bm25"
generator = "writer"
style = "direct"
k = 15
demonstrations = []
distractors = 0
instruction = "Answer in a few words. "
max_tokens = 24
"""
IRCOT = """
[method.ircot]
kind = "ircot"
retriever = "bm25"
generator = "writer"
read = "none"
k = {k}
demonstrations = []
distractors = 0
instruction = "Write the next step. "
max_tokens = 80
[run]
allowed_failed = 1.0
"""
OTHERS = """
[service.writer]
kind = "endpoint"
model = "sentences-of-another-question"
base_url = "{url}"
identity = "sentences of another question, {digest}"
context_tokens = 100000
patience_s = 20
"""
ASKED = re.compile(r".*\nQ: Write the next step\. (.*?)\nA:(.*)$", re.DOTALL)


def others_sentences(chains):
    """What a server replies that writes, for each question, the sentences of its chain in `chains`, one a call."""

    def reply(prompt):
        question, chain = ASKED.match("\n" + prompt).groups()
        sentences = chains[question]
        for said, sentence in enumerate(sentences):
            if chain.strip() == " ".join(sentences[:said]):
                return sentence
        return "So the answer is: unknown."

    return reply


def as_many_of_each(program, folder, questions, seed, rivals=0, split="eval"):
    """The files of a world's first questions of two, three and four gold passages, as many of each."""
    name = f"{split}-{seed}-{questions}-{rivals}"
    made = folder / f"world-{name}"
    settings = {"questions": GENERATED * questions, "passages": PASSAGES, "seed": seed, "rivals": rivals}
    settings |= {"split": split, "out": made}
    subprocess.run([program, "world", *(f"--{name}={value}" for name, value in settings.items())], check=True)
    of_size = {size: [] for size in SIZES}
    with open(made / "questions.jsonl", encoding="utf-8") as lines:
        for line in lines:
            of_size[len(json.loads(line)["gold"])].append(line)
    shares = {size: questions // len(SIZES) + (n < questions % len(SIZES)) for n, size in enumerate(SIZES)}
    if lacking := [size for size, share in shares.items() if len(of_size[size]) < share]:
        raise SystemExit(f"{made}: too few questions of {lacking[0]} gold passages")
    drawn = folder / f"as-many-{name}.jsonl"
    drawn.write_text("".join("".join(of_size[size][:share]) for size, share in shares.items()), encoding="utf-8")
    return drawn, made / "corpus.jsonl"


class Tables:
    """The final tables of a finished run."""

    def __init__(self, place):
        self.folder = place.store.root / "runs" / place.id()
        self.questions = {
            row["id"]: row
            for row in pyarrow.parquet.read_table(
                self.folder / "questions.parquet", columns=["id", "text", "gold"]
            ).to_pylist()
        }

    def rows(self, table, **wanted):
        filters = [(key, "=", value) for key, value in wanted.items()]
        return pyarrow.parquet.read_table(self.folder / f"final/{table}.parquet", filters=filters or None).to_pylist()

    def rankings(self, configuration):
        rows = self.rows("outcomes", configuration=configuration)
        failed = [row["question"] for row in rows if row["status"] != "ok"]
        if failed:
            raise SystemExit(f"{configuration}: {len(failed)} questions failed, {failed[0]} first")
        return {row["question"]: row["ranked"] for row in rows}

    def scores(self, configuration, measure):
        return {
            row["question"]: row["value"] for row in self.rows("scores", configuration=configuration, measure=measure)
        }

    def chains(self):
        return {
            row["question"]: [note["text"] for note in row["notes"] if note["name"] == "sentence"]
            for row in self.rows("traces", configuration="ircot")
        }


def recall(ranked, gold):
    """The share of a question's gold passages among the first 15."""
    return sum(any(passage in ranked[:MOST] for passage in equal) for equal in gold) / len(gold)


def difference(one, other, ids, generator):
    """The mean of one less other over questions, and its 95 % interval."""
    values = numpy.array([one[id] - other[id] for id in ids])
    means = values[generator.integers(0, len(values), (10_000, len(values)))].mean(axis=1)
    return values.mean(), *numpy.percentile(means, [2.5, 97.5])


def by_size(golds):
    """Questions by how many gold passages they have."""
    found = {}
    for id, gold in golds.items():
        found.setdefault(len(gold), []).append(id)
    return found


def runs_of_world(given, work, seed):
    """A world's two runs: the writer's, and IRCoT with sentences of another question."""
    work.mkdir(parents=True, exist_ok=True)
    if given.as_many:
        files = as_many_of_each(given.hopeval, work, given.questions, seed)
        questions, corpus = (json.dumps(str(file)) for file in files)
        dataset = FILES.format(questions=questions, corpus=corpus)
    else:
        dataset = WORLD.format(questions=given.questions, passages=PASSAGES, seed=seed)
    world, ircot = NAME + dataset + BM25, IRCOT.format(k=given.k)

    def finished(name, job):
        place = simulated_runs.RunFolder(given.hopeval, work / name, job, work / "cache", store="store")
        place.run()
        return Tables(place)

    made = finished("writer", world + FIRST.format(model=json.dumps(given.model)) + ircot)
    chains, texts = made.chains(), {id: row["text"] for id, row in made.questions.items()}
    sizes = by_size({id: row["gold"] for id, row in made.questions.items()})
    donors = {id: ids[(n + len(ids) // 2) % len(ids)] for ids in sizes.values() for n, id in enumerate(ids)}
    given_away = {texts[id]: chains[donor] for id, donor in donors.items()}
    # The store stays, and answers for the same identity are not asked for again: other sentences are another model.
    digest = hashlib.sha256(json.dumps(given_away, sort_keys=True).encode()).hexdigest()[:16]
    url = ChatServer(others_sentences(given_away)).url
    others = finished("others", world + OTHERS.format(url=url, digest=digest) + ircot)
    for id, written in others.chains().items():
        # By its text: some questions of a world are asked twice, and have one donor.
        donated = given_away[texts[id]]
        if written[:1] != donated[:1]:
            raise SystemExit(f"{id}: its chain begins with {written[:1]}, not with its donor's {donated[:1]}")
    return made, others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--as-many", action="store_true", help="as many questions of two, three and four passages")
    parser.add_argument("--seed", type=int, action="append", help="of a world; 1 without it")
    parser.add_argument("--k", type=int, default=4, help="passages of a step of IRCoT")
    parser.add_argument("--model", default="hopeval:writer")
    parser.add_argument("--out", type=pathlib.Path)
    given = parser.parse_args()
    seeds = given.seed or [1]
    # By seed and question.
    golds, recalls, f1, em, collected = {}, {}, {}, {}, {}
    for seed in seeds:
        made, others = runs_of_world(given, given.work.resolve() / f"seed-{seed}", seed)
        gold = {id: row["gold"] for id, row in made.questions.items()}
        ranked = {"ircot": made.rankings("ircot"), "one_step": made.rankings("one_step")}
        ranked["others"] = others.rankings("ircot")
        ranked["as_many"] = {id: ranked["one_step"][id][: len(ranked["ircot"][id])] for id in gold}
        golds |= {(seed, id): passages for id, passages in gold.items()}
        collected |= {(seed, id): len(ranked["ircot"][id]) for id in gold}
        for name, found in ranked.items():
            recalls.setdefault(name, {}).update({(seed, id): recall(found[id], gold[id]) for id in gold})
        for values, measure in ((f1, "f1"), (em, "em")):
            for name in ("no_retrieval", "one_step_qa", "ircot"):
                scores = made.scores(name, measure)
                values.setdefault(name, {}).update({(seed, id): value for id, value in scores.items()})
    of_size = by_size(golds)
    generator = numpy.random.default_rng(1)
    missed = [f"{size} gold passages: no question" for size in (3, 4) if size not in of_size]

    def compared(values, one, other, ids, bound):
        mean, low, high = difference(values[one], values[other], ids, generator)
        if low <= 0:
            missed.append(bound)
        return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]" + ("" if low > 0 else " **missed**")

    lines = [
        f"# Whether the writer reasons, {datetime.date.today()}",
        "",
        f"`ops/reference/reasoning.py`: {pathlib.Path(given.model).name}; worlds of {given.questions} questions"
        f"{', as many of each size,' if given.as_many else ''} and {PASSAGES:,} passages, seeds {seeds}; BM25, "
        f"K = {given.k}, IRCoT without a reader of its own.",
        "",
        "## Recall in 15 passages",
        "",
        "| gold passages | n | IRCoT | one retrieval of 15 | one retrieval, as many as IRCoT "
        "| sentences of another question | collected | IRCoT less one retrieval | less as many "
        "| less another's sentences |",
        "| ---: " * 10 + "|",
    ]
    for size, ids in sorted(of_size.items()):
        means = [numpy.mean([recalls[name][id] for id in ids]) for name in ("ircot", "one_step", "as_many", "others")]
        passages = numpy.mean([collected[id] for id in ids])
        cells = [
            compared(recalls, "ircot", other, ids, f"{size} gold passages: {other}")
            if size > 2
            else "{:+.3f} [{:+.3f}, {:+.3f}]".format(*difference(recalls["ircot"], recalls[other], ids, generator))
            for other in ("one_step", "as_many", "others")
        ]
        lines.append(
            f"| {size} | {len(ids)} | "
            + " | ".join(f"{mean:.3f}" for mean in means)
            + f" | {passages:.1f} | "
            + " | ".join(cells)
            + " |"
        )
    lines += [
        "",
        "## Answers",
        "",
        "| gold passages | n | F1, EM of IRCoT | one-step QA | no retrieval "
        "| F1: IRCoT less one-step QA | one-step QA less none |",
        "| ---: | ---: | --- | --- | --- | --- | --- |",
    ]
    for size, ids in [*sorted(of_size.items()), ("all", list(golds))]:
        means = [
            f"{numpy.mean([f1[name][id] for id in ids]):.3f}, {numpy.mean([em[name][id] for id in ids]):.3f}"
            for name in ("ircot", "one_step_qa", "no_retrieval")
        ]
        pairs = (("ircot", "one_step_qa"), ("one_step_qa", "no_retrieval"))
        cells = [
            compared(f1, *pair, ids, "F1: " + " above ".join(pair))
            if size == "all"
            else "{:+.3f} [{:+.3f}, {:+.3f}]".format(*difference(f1[pair[0]], f1[pair[1]], ids, generator))
            for pair in pairs
        ]
        lines.append(f"| {size} | {len(ids)} | " + " | ".join([*means, *cells]) + " |")
    lines += ["", "Missed: " + ("; ".join(missed) or "none") + ".", ""]
    print("\n".join(lines))
    if given.out:
        given.out.write_text("\n".join(lines))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
