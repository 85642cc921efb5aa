#!/usr/bin/env python3
"""Whether methods stand in the same order on real text as on the generated world: figures, and Kendall's tau of orders.

Why: the small models are trained on worlds, and what a world shows of methods is worth something only if real text shows it, too.
What: the methods of `jobs/examples/world-comparison.toml`, with the models that hopeval carries, over the world and over questions
of HotpotQA, 2WikiMultihopQA and MuSiQue, where passages are linked if one mentions the title of another. Methods are ordered by
a recall, and those that answer by EM and F1; tau-b compares the orders with that of the world. Nothing is trained here,
and no figure is left out.

    order.py --hopeval PROGRAM --data DIR [--limit 100] [--measure recall_all@2]... [--work DIR] [--out FILE]

`--data` holds `hotpotqa`, `2wikimultihopqa` and `musique`, each with questions in its own format (`dev*` or `train*`) and passages in
`corpus.jsonl.gz`. What is not there is skipped, and said to be. `--limit`: the first so many questions of each.
"""

import argparse
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
FORMATS = ("hotpotqa", "2wikimultihopqa", "musique")
RANKING = ("tfidf", "bm25", "dense", "tfidf_bm25", "single_hop", "promptrank", "efficientrag", "ircot")
ANSWERING = ("no_retrieval", "one_step_qa", "ircot", "promptrank", "efficientrag")
MEASURES = dict.fromkeys(("recall_all@2", "recall_all@5", "recall_frac@2", "recall_frac@5", "recall_frac@10"), RANKING)
MEASURES |= {"em": ANSWERING, "f1": ANSWERING}

REAL = """[dataset]
format = "{format}"
questions = {questions}
[corpus]
source = {corpus}
links = "mentions"

"""


def real(format, folder):
    """The example's job over a real dataset; None where the data are not there."""
    questions = sorted(path for pattern in ("dev*", "train*") for path in folder.glob(pattern))
    corpus = folder / "corpus.jsonl.gz"
    if not questions or not corpus.is_file():
        return None
    dataset = REAL.format(format=format, questions=json.dumps(str(questions[0])), corpus=json.dumps(str(corpus)))
    text, count = re.subn(r"^\[dataset\.world\]\n.*?(?=^\[)", lambda _: dataset, JOB.read_text(), flags=re.M | re.S)
    if count != 1:
        raise SystemExit(f"{JOB} has {count} sections [dataset.world]; one is needed")
    # Real passages are longer, and their words are spelled in more pieces. One prompt too long ends no run.
    return text.replace("batch_tokens = 8192", "batch_tokens = 32768") + "\n[run]\nallowed_failed = 1.0\n"


def tau(first, second):
    """Kendall's tau-b of two lists of numbers for the same things; None where one of them is all ties."""
    pairs = list(itertools.combinations(zip(first, second), 2))
    sign = lambda a, b: (a > b) - (a < b)
    signs = [(sign(a[0], b[0]), sign(a[1], b[1])) for a, b in pairs]
    untied = [sum(s[side] != 0 for s in signs) for side in (0, 1)]
    return sum(a * b for a, b in signs) / math.sqrt(untied[0] * untied[1]) if all(untied) else None


def values(document, measure):
    found = {m["configuration"]: m["value"] for m in document["measures"] if m["stratum"] == "all" and m["measure"] == measure}
    missing = [method for method in MEASURES[measure] if method not in found]
    if missing:
        raise SystemExit(f"the run has no {measure} of {', '.join(missing)}")
    return [found[method] for method in MEASURES[measure]]


def table(documents, measure):
    """A measure's table: a method a row, then tau."""
    columns = {name: values(document, measure) for name, document in documents.items()}
    rows = [f"## {measure}", "", "| method | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    for at, method in enumerate(MEASURES[measure]):
        rows.append("| " + " | ".join([method, *(f"{column[at]:.3f}" for column in columns.values())]) + " |")
    taus = [tau(columns["world"], column) for name, column in columns.items() if name != "world"]
    return [*rows, "| **tau with the world** | | " + " | ".join("-" if t is None else f"**{t:.2f}**" for t in taus) + " |", ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--measure", action="append", choices=MEASURES)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.python = sys.executable
    with tempfile.TemporaryDirectory() as made:
        arguments.work = (arguments.work or pathlib.Path(made)).resolve()
        arguments.work.mkdir(parents=True, exist_ok=True)
        jobs = {"world": JOB.read_text()}
        for format in FORMATS:
            text = real(format, arguments.data.resolve() / format)
            if text is None:
                print(f"SKIPPED: {arguments.data / format} has no questions or no corpus.jsonl.gz", file=sys.stderr)
            else:
                jobs[format] = text
        documents = {}
        for name, text in jobs.items():
            job = arguments.work / f"order-{name}.toml"
            job.write_text(text)
            documents[name] = json.loads(conform.hopeval(arguments, "run", job, "--limit", arguments.limit))
            print(f"{name}: {documents[name]['questions']} questions", file=sys.stderr, flush=True)
    rows = [
        f"# The order of methods on real text, {datetime.date.today()}",
        "",
        f"`ops/reference/order.py`, at {conform.origin(arguments)}. Models trained on generated worlds only;",
        "questions: " + ", ".join(f"{name} {document['questions']}" for name, document in documents.items()) + "; links by mentions of titles on real text.",
        "tau is Kendall's tau-b of the methods' order, 1 for the same order, 0 for an unrelated one.",
        "",
    ]
    text = "\n".join(rows + [row for measure in arguments.measure or MEASURES for row in table(documents, measure)])
    print(text)
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
