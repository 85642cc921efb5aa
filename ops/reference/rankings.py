#!/usr/bin/env python3
"""Shows that a run of another program, brought in as `kind = "rankings"`, has the figures of hopeval's own retriever.

Why: a comparison of two systems says something about the systems only if both are measured alike. A ranking that went
through a file must have the figures that it has without the file.

What, for HotpotQA's questions over a corpus file and over the questions' own passages: bm25s, another implementation of
BM25, ranks with the same formula and the same words, and its ranking is written as a TREC run. hopeval evaluates that
file beside its own BM25 in one run.

* Questions for which both rank the same passages in the same order have the same value in every measure.
* ranx computes its measures of the same file and of exported judgements, question by question. Questions with a gold
  passage that several passages satisfy are left out there: judgements name one of them.
* The exported ranking of hopeval's own BM25, brought in again, has its figures, for every question.

    rankings.py --hopeval target/release/hopeval --data ../shared/data [--folder DIR] [--out FILE]

Needs bm25s 0.3.16 and ranx 0.3.21 from PyPI. Exits with 1 if a figure differs by more than 1e-12 from hopeval's own
(1e-9 from ranx's), with 2 if nothing could be compared.
"""

import argparse
import collections
import csv
import gzip
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import bm25s
import numpy
import ranx

DEPTH = 100
DEPTHS = [1, 2, 5, 10, 20, 100]

# hopeval's measure and ranx's.
SHARED = {"map": "map", "mrr": "mrr"}
for depth in DEPTHS:
    SHARED[f"recall_frac@{depth}"] = f"recall@{depth}"
    SHARED[f"hit@{depth}"] = f"hit_rate@{depth}"
    SHARED[f"precision@{depth}"] = f"precision@{depth}"
    SHARED[f"ndcg@{depth}"] = f"ndcg@{depth}"

OWN_BOUND, RANX_BOUND = 1e-12, 1e-9

OWN = f"""
[service.bm25]
kind = "bm25"
formula = "lucene"
k1 = 0.9
b = 0.4
analyzer = "word"
fields = "title+text"
[method.own]
kind = "one_step"
retriever = "bm25"
k = {DEPTH}
[measures]
recall_at = {DEPTHS}
precision_at = {DEPTHS}
ndcg_at = {DEPTHS}
answer_recall_at = {DEPTHS}
[run]
allowed_failed = 1.0
"""

BROUGHT = """
[method.again]
kind = "rankings"
file = "own.trec"
[method.bm25s]
kind = "rankings"
file = "bm25s.trec"
"""


def lines(binary, *arguments):
    """Standard output of one command."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HOPEVAL_", "RUST_LOG"))}
    command = [str(binary), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    return done.stdout.splitlines()


def words(text):
    return re.findall(r"\w+", text.lower())


def corpus_passages(source, questions):
    """Titles and texts of the passages in the order of their numbers: the first of equal passages is kept."""
    if source == "contexts":
        found = [(title, "".join(sentences)) for row in questions for title, sentences in row["context"]]
    else:
        with gzip.open(source, "rt") as file:
            found = [(row["title"], row["text"]) for row in map(json.loads, file)]
    return list(dict.fromkeys(found))


def falling(scores):
    """The scores, ties replaced by the next smaller numbers in single precision, so that every reader has one order."""
    last, found = numpy.float32(numpy.inf), []
    for score in scores:
        score = float(score) if numpy.float32(score) < last else float(numpy.nextafter(last, numpy.float32(-numpy.inf)))
        last = numpy.float32(score)
        found.append(score)
    return found


def write_run(path, questions, passages):
    """Ranks with bm25s, and writes a TREC run. Passages have their numbers as names."""
    vocabulary, tokens = {}, []
    for title, text in passages:
        tokens.append([vocabulary.setdefault(word, len(vocabulary)) for word in words(f"{title} {text}")])
    retriever = bm25s.BM25(method="lucene", k1=0.9, b=0.4, dtype="float64")
    retriever.index((tokens, vocabulary), show_progress=False)
    with path.open("w") as out:
        for row in questions:
            query = [word for word in words(row["question"]) if word in vocabulary]
            scores = retriever.get_scores(query)
            # Of equal scores the earlier passage, as in hopeval; passages without a word of the query are left out.
            order = [place for place in numpy.argsort(-scores, kind="stable")[:DEPTH] if scores[place] > 0]
            ranked = zip(order, falling([scores[place] for place in order]))
            for rank, (place, score) in enumerate(ranked, 1):
                out.write(f"{row['_id']} Q0 {place} {rank} {score!r} bm25s\n")


def exported(binary, store, cache, configuration):
    """The rows of a configuration's CSV export, by question."""
    export = ["export", "latest", "--format", "csv", "--configuration", configuration]
    found = lines(binary, *export, "--store", store, "--cache", cache)
    return {row["question"]: row for row in csv.DictReader(found)}


def judgements(found):
    judged = {}
    for question, _, document, grade in map(str.split, found):
        judged.setdefault(question, {})[document] = int(grade)
    return judged


def run_of(path):
    ranked = {}
    for line in path.read_text().splitlines():
        question, _, document, _, score, _ = line.split()
        ranked.setdefault(question, {})[document] = float(score)
    return ranked


def compare_values(pairs, measures, bound):
    """Compared values, values that differ by more than the bound, and the largest difference."""
    compared = wrong = 0
    largest = 0.0
    for ours, theirs in pairs:
        for measure in measures:
            if (ours[measure] == "") != (theirs[measure] == ""):
                wrong += 1
                continue
            if ours[measure] == "":
                continue
            difference = abs(float(ours[measure]) - float(theirs[measure]))
            compared, wrong, largest = compared + 1, wrong + (difference > bound), max(largest, difference)
    return compared, wrong, largest


def several_golds(questions, passages):
    """Questions with a gold title that several passages have."""
    titles = collections.Counter(title for title, _ in passages)
    return {row["_id"] for row in questions for title, _ in row["supporting_facts"] if titles[title] > 1}


def compare_corpus(binary, folder, questions_file, source, report):
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(questions_file, "rt") as file:
        questions = json.load(file)
    passages = corpus_passages(source, questions)
    store, cache = folder / "store", folder / "cache"
    head = f'name = "rankings"\n[dataset]\nformat = "hotpotqa"\nquestions = "{questions_file}"\n'
    head += f'[corpus]\nsource = "{source}"\n'
    places = ["--store", store, "--cache", cache]

    job = folder / "job.toml"
    job.write_text(head + OWN)
    lines(binary, "run", job, "--json", *places)
    own_run = lines(binary, "export", "latest", "--format", "trec", "--configuration", "own", *places)
    (folder / "own.trec").write_text("\n".join(own_run) + "\n")
    write_run(folder / "bm25s.trec", questions, passages)
    job.write_text(head + OWN + BROUGHT)
    shown = json.loads("\n".join(lines(binary, "run", job, "--json", *places)))
    if shown["questions"] != len(questions):
        sys.exit(f"hopeval evaluates {shown['questions']} of {len(questions)} questions")
    own, again, brought = (exported(binary, store, cache, name) for name in ("own", "again", "bm25s"))
    measures = [name for name in next(iter(own.values())) if "@" in name or name in ("map", "mrr")]

    equal = [question for question in own if own[question]["ranked"] == brought[question]["ranked"]]
    same = compare_values(((own[question], brought[question]) for question in equal), measures, OWN_BOUND)
    report("bm25s beside hopeval's BM25, equal rankings", len(equal), *same)
    same = compare_values(((own[question], again[question]) for question in own), measures, OWN_BOUND)
    report("hopeval's BM25, exported and brought in", len(own), *same)

    judged = judgements(lines(binary, "export", "latest", "--format", "qrels", *places))
    left_out = several_golds(questions, passages)
    judged = {question: documents for question, documents in judged.items() if question not in left_out}
    ranked = run_of(folder / "bm25s.trec")
    shared = sorted(question for question in judged if question in ranked)
    qrels = ranx.Qrels({question: judged[question] for question in shared})
    run = ranx.Run({question: ranked[question] for question in shared})
    theirs = {question: {} for question in shared}
    ranx.evaluate(qrels, run, list(SHARED.values()), make_comparable=False)
    for name, measure in SHARED.items():
        for question in shared:
            theirs[question][name] = run.scores[measure][question]
    pairs = ((brought[question], theirs[question]) for question in shared)
    report("the file of bm25s, by hopeval and by ranx", len(shared), *compare_values(pairs, list(SHARED), RANX_BOUND))
    return len(own), len(equal), len(left_out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True, type=pathlib.Path)
    parser.add_argument("--data", required=True, type=pathlib.Path, help="the folder with hotpotqa/")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the stores here")
    parser.add_argument("--out", type=pathlib.Path, help="writes the table here")
    arguments = parser.parse_args()
    folder = arguments.folder or pathlib.Path(tempfile.mkdtemp(prefix="hopeval-rankings-"))
    data = arguments.data.resolve() / "hotpotqa"
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("bm25s", "ranx", "numpy"))
    text = [f"{versions}, Python {platform.python_version()}", ""]
    text += ["| corpus | compared | questions | values | differ | largest difference |"]
    text += ["| --- | --- | --- | --- | --- | --- |"]
    notes, total, bad = [], 0, 0
    for name, source in (("corpus file", str(data / "corpus.jsonl.gz")), ("contexts", "contexts")):

        def report(compared, questions, values, wrong, largest):
            nonlocal total, bad
            total, bad = total + values, bad + wrong
            text.append(f"| {name} | {compared} | {questions} | {values} | {wrong} | {largest:.1e} |")
            print(text[-1], flush=True)

        place = folder / name.replace(" ", "-")
        counts = compare_corpus(arguments.hopeval, place, data / "dev_1267.json.gz", source, report)
        note = "{}: {} questions, of {} the rankings are equal; {} have a gold title of several passages"
        notes.append(note.format(name, *counts))
    text += ["", *notes, "", f"{total} values, {bad} differ by more than {OWN_BOUND} (ranx: {RANX_BOUND})"]
    print("\n".join(text[-4:]))
    if arguments.out:
        arguments.out.write_text("\n".join(text) + "\n")
    sys.exit(2 if total == 0 else bad > 0)


main()
