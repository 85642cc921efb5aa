#!/usr/bin/env python3
"""Whether methods stand in the same order on real text as on the generated world: figures, and Kendall's tau of orders.

Why: the small models are trained on worlds, and what a world shows of methods is worth something only if real text shows it, too.
What: the methods of `jobs/examples/world-comparison.toml`, with the models that hopeval carries, over the world and over questions
of HotpotQA, 2WikiMultihopQA and MuSiQue, where passages are linked if one mentions the title of another. Methods are ordered by
a recall, and those that answer by EM and F1; tau-b compares the orders with that of the world. Nothing is trained here,
and no figure is left out.

With `--generator`, tables of another model follow, a decoder that hopeval did not train: answers from nothing, from one
retrieval of four passages, and by IRCoT with two passages a step, at most four in all and at most three sentences. It
sees three of hopeval's demonstrations without distractors; sentences have at most 60 tokens, and answers are read
without a chain of thought. That is less than the paper's 15 passages, since a processor takes seconds for a question.
What IRCoT's authors published (their table 4) is printed below.

    order.py --hopeval PROGRAM --data DIR [--limit 100] [--measure recall_all@2]... [--generator CHECKPOINT]
             [--threads N] [--work DIR] [--out FILE]

`--data` holds `hotpotqa`, `2wikimultihopqa` and `musique`, each with questions in its own format (`dev*` or `train*`) and passages in
`corpus.jsonl.gz`. What is not there is skipped, and said to be. `--limit`: the first so many questions of each.
"""

import argparse
import csv
import datetime
import itertools
import json
import math
import pathlib
import re
import sys
import tempfile

import conform

JOB = conform.ROOT / "jobs/examples/world-comparison.toml"
ALLOWED = "allowed_failed = 0.05"
METHOD = re.compile(r"^\[method\.(\w+)\]\n.*?(?=^\[)", flags=re.MULTILINE | re.DOTALL)
FORMATS = ("hotpotqa", "2wikimultihopqa", "musique")
RANKING = ("tfidf", "bm25", "dense", "tfidf_bm25", "single_hop", "promptrank", "efficientrag", "ircot")
ANSWERING = ("no_retrieval", "one_step_qa", "ircot", "promptrank", "efficientrag")
MEASURES = dict.fromkeys(("recall_all@2", "recall_all@5", "recall_frac@2", "recall_frac@5", "recall_frac@10"), RANKING)
MEASURES |= {"em": ANSWERING, "f1": ANSWERING}
# A ranking of four passages has no further cut-off.
OF_GENERATOR = {
    "recall_frac@2": ("bm25", "ircot"),
    "recall_frac@4": ("bm25", "ircot"),
    "em": ANSWERING[:3],
    "f1": ANSWERING[:3],
}
DEMONSTRATIONS = conform.ROOT / "jobs/methods/prompts/demonstrations/multihop.jsonl"
PUBLISHED = conform.ROOT / "jobs/papers/published.csv"

REAL = """[dataset]
format = "{format}"
questions = {questions}
[corpus]
source = {corpus}
links = "mentions"

"""

WORLD = re.compile(r"^\[dataset\.world\]\n.*?(?=^\[)", flags=re.MULTILINE | re.DOTALL)

GENERATOR = """[service.bm25]
kind = "bm25"
[service.generator]
kind = "lm"
model = {model}
threads = {threads}
batch_tokens = 8192
cache_tokens = 163840
[method.bm25]
kind = "one_step"
retriever = "bm25"
k = 4
[method.no_retrieval]
kind = "no_retrieval"
generator = "generator"
style = "direct"
{shown}
[method.one_step_qa]
kind = "one_step_qa"
retriever = "bm25"
generator = "generator"
k = 4
style = "direct"
distractors = 0
{shown}
[method.ircot]
kind = "ircot"
retriever = "bm25"
generator = "generator"
k = 2
max_passages = 4
max_steps = 3
read = "direct"
distractors = 0
{shown}
[run]
allowed_failed = 1.0
[measures]
recall_at = [2, 4]
"""
SHOWN = """demonstration_ids = {ids}
max_tokens = 60"""


def dataset_of(text):
    """The part of a job that names its questions and passages."""
    return text[: text.index("[service.")]


def by_generator(text, arguments):
    """A job over the questions of another one, with the methods that a decoder serves."""
    with open(DEMONSTRATIONS, encoding="utf-8") as lines:
        ids = [json.loads(line)["id"] for line in lines][:3]
    shown = SHOWN.format(ids=json.dumps(ids))
    model = json.dumps(str(arguments.generator.resolve()))
    return dataset_of(text) + GENERATOR.format(model=model, threads=arguments.threads, shown=shown)


def tabled(job):
    """A job without the methods that no table here has."""
    return METHOD.sub(lambda found: found[0] if found[1] in RANKING + ANSWERING else "", job)


def real(format, folder):
    """The example's job over a real dataset; None where the data are not there."""
    questions = sorted(path for pattern in ("dev*", "train*") for path in folder.glob(pattern))
    corpus = folder / "corpus.jsonl.gz"
    if not questions or not corpus.is_file():
        return None
    dataset = REAL.format(format=format, questions=json.dumps(str(questions[0])), corpus=json.dumps(str(corpus)))
    text, count = WORLD.subn(lambda _: dataset, tabled(JOB.read_text()))
    if count != 1:
        raise SystemExit(f"{JOB} has {count} sections [dataset.world]; one is needed")
    if ALLOWED not in text:
        raise SystemExit(f"{JOB} lacks the line {ALLOWED!r}")
    # Real passages are longer, and their words are spelled in more pieces. One prompt too long ends no run.
    return text.replace("batch_tokens = 8192", "batch_tokens = 32768").replace(ALLOWED, "allowed_failed = 1.0")


def tau(first, second):
    """Kendall's tau-b of two lists of numbers for the same things; None where one of them is all ties."""
    pairs = list(itertools.combinations(zip(first, second), 2))
    sign = lambda a, b: (a > b) - (a < b)
    signs = [(sign(a[0], b[0]), sign(a[1], b[1])) for a, b in pairs]
    untied = [sum(s[side] != 0 for s in signs) for side in (0, 1)]
    return sum(a * b for a, b in signs) / math.sqrt(untied[0] * untied[1]) if all(untied) else None


def values(document, measure, methods):
    found = {
        m["configuration"]: m["value"]
        for m in document["measures"]
        if m["stratum"] == "all" and m["measure"] == measure
    }
    missing = [method for method in methods if method not in found]
    if missing:
        raise SystemExit(f"the run has no {measure} of {', '.join(missing)}")
    return [found[method] for method in methods]


def table(documents, measure, methods, with_tau=True):
    """A measure's table: a method a row, then tau."""
    columns = {name: values(document, measure, methods) for name, document in documents.items()}
    rows = [f"## {measure}", "", "| method | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    for at, method in enumerate(methods):
        rows.append("| " + " | ".join([method, *(f"{column[at]:.3f}" for column in columns.values())]) + " |")
    if not with_tau:  # Two or three methods have no order to speak of.
        return [*rows, ""]
    taus = [tau(columns["world"], column) for name, column in columns.items() if name != "world"]
    last = " | ".join("-" if t is None else f"**{t:.2f}**" for t in taus)
    return [*rows, f"| **tau with the world** | | {last} |", ""]


def partial(documents, measures):
    """The means that are not over all questions, said in words."""
    rows = []
    for name, document in documents.items():
        for m in document["measures"]:
            wanted = m["stratum"] == "all" and m["configuration"] in measures.get(m["measure"], ())
            if wanted and m["coverage"] != 1:
                rows.append(f"* {name}, {m['configuration']}: {m['measure']} covers {m['coverage']} of {m['n']}")
    return [*rows, ""] if rows else ["Every mean is over all questions.", ""]


def counts(documents):
    return ", ".join(f"{name} {document['questions']}" for name, document in documents.items())


def published():
    """IRCoT's table 4: F1 by method, model and reader."""
    with open(PUBLISHED, encoding="utf-8", newline="") as file:
        cells = [row for row in csv.DictReader(file) if row["paper"] == "ircot" and row["item"] == "table 4"]
    found = {}
    for row in cells:
        value = f"{float(row['value']) / 100:.3f}" + (f" +- {float(row['std']) / 100:.3f}" if row["std"] else "")
        found.setdefault((row["system"], row["model"], row["setting"]), {})[row["dataset"]] = value
    names = list(dict.fromkeys(row["dataset"] for row in cells))
    rows = ["## F1 that IRCoT's authors published (table 4)", ""]
    rows += [
        "Other models, demonstrations and corpora, and 15 passages; deviations over three sets of demonstrations.",
        "",
    ]
    rows += ["| method | model | reader | " + " | ".join(names) + " |", "| --- | --- | --- |" + " --- |" * len(names)]
    for key, row in found.items():
        rows.append("| " + " | ".join([*key, *(row.get(name, "-") for name in names)]) + " |")
    return [*rows, ""]


def evaluated(arguments, name, text):
    """The figures of a job's run."""
    job = arguments.work / f"{name}.toml"
    job.write_text(text)
    document = json.loads(conform.hopeval(arguments, "run", job, "--limit", arguments.limit))
    print(f"{name}: {document['questions']} questions", file=sys.stderr, flush=True)
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--measure", action="append", choices=MEASURES)
    parser.add_argument("--generator", type=pathlib.Path, help="a decoder's folder; ops/lm/from_gguf.py makes one")
    parser.add_argument("--threads", type=int, default=2, help="of the generator")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.python = sys.executable
    if arguments.generator and not (arguments.generator / "config.json").is_file():
        parser.error(f"{arguments.generator} is no checkpoint's folder: it has no config.json")
    with tempfile.TemporaryDirectory() as made:
        arguments.work = (arguments.work or pathlib.Path(made)).resolve()
        arguments.work.mkdir(parents=True, exist_ok=True)
        jobs = {"world": tabled(JOB.read_text())}
        for format in FORMATS:
            text = real(format, arguments.data.resolve() / format)
            if text is None:
                print(f"SKIPPED: {arguments.data / format} has no questions or no corpus.jsonl.gz", file=sys.stderr)
            else:
                jobs[format] = text
        documents = {name: evaluated(arguments, f"order-{name}", text) for name, text in jobs.items()}
        others = {}
        if arguments.generator:
            others = {n: evaluated(arguments, f"generator-{n}", by_generator(t, arguments)) for n, t in jobs.items()}
    measures = {measure: MEASURES[measure] for measure in arguments.measure or MEASURES}
    rows = [
        f"# The order of methods on real text, {datetime.date.today()}",
        "",
        f"`ops/reference/order.py`, at {conform.origin(arguments)}. Models trained on generated worlds only;",
        f"questions: {counts(documents)}; links by mentions of titles on real text.",
        "tau is Kendall's tau-b of the methods' order, 1 for the same order, 0 for an unrelated one.",
        "",
        *partial(documents, measures),
    ]
    for measure, methods in measures.items():
        rows += table(documents, measure, methods)
    if others:
        rows += [f"# With {arguments.generator.resolve().name}", "", f"Questions: {counts(others)}.", ""]
        rows += partial(others, OF_GENERATOR)
        for measure, methods in OF_GENERATOR.items():
            rows += table(others, measure, methods, with_tau=False)
    text = "\n".join([*rows, *published()])
    print(text)
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
