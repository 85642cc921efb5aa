#!/usr/bin/env python3
"""Shows that trec_eval computes hopeval's figures from exported runs and judgements.

Why: `--format trec` and `--format qrels` are for people who use other programs. trec_eval sorts equal scores by the
documents' names, so a careless export has other figures there than hopeval shows.

What, for HotpotQA, 2WikiMultihopQA, MuSiQue and a generated world: a run of rankings with many equal scores, over a
corpus file and over the questions' own passages; then, for each configuration, `export --format trec`, `qrels` and
`csv`. pytrec_eval, which is trec_eval's own C code, computes recall, nDCG, MAP and reciprocal rank of each question.
They are compared with the columns of the CSV file, question by question, and so are their means.

    trec_eval.py --hopeval target/release/hopeval [--data ../shared/data] [--folder DIR]

Needs pytrec_eval, from PyPI `pytrec_eval` or, as a wheel, `pytrec-eval-terrier`. Exits with 1 if a figure differs by
more than 1e-12, with 2 if nothing could be compared.
"""

import argparse
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

import pytrec_eval

# hopeval's measure: trec_eval's, as pytrec_eval asks for it and as it answers.
DEPTHS = [1, 2, 5, 10, 20, 100]
MEASURES = {"map": ("map", "map"), "mrr": ("recip_rank", "recip_rank")}
for depth in DEPTHS:
    MEASURES[f"recall_frac@{depth}"] = (f"recall.{depth}", f"recall_{depth}")
    MEASURES[f"hit@{depth}"] = (f"success.{depth}", f"success_{depth}")
    MEASURES[f"ndcg@{depth}"] = (f"ndcg_cut.{depth}", f"ndcg_cut_{depth}")

BOUND = 1e-12

# Methods whose rankings have equal scores, and some that have few.
REST = f"""
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[method.bm25]
kind = "one_step"
retriever = "bm25"
k = 100
[method.tfidf]
kind = "one_step"
retriever = "tfidf"
k = 100
[method.tfidf_bm25]
kind = "tfidf_bm25"
retriever = "tfidf"
reranker = "bm25"
[method.given]
kind = "given"
retriever = "bm25"
[method.random]
kind = "random"
k = 100
[measures]
recall_at = {DEPTHS}
ndcg_at = {DEPTHS}
[run]
allowed_failed = 1.0
"""

SETS = {
    "hotpotqa": ("hotpotqa", "dev_1267.json.gz"),
    "2wikimultihopqa": ("2wikimultihopqa", "train_500.json.gz"),
    "musique": ("musique", "train_299.jsonl.gz"),
}


def jobs(data):
    """Name and text of each job."""
    world = "[dataset.world]\nquestions = 300\npassages = 3000\nseed = 19\n"
    yield "world", f'name = "world"\n{world}{REST}'
    for name, (format, file) in SETS.items():
        questions = data / name / file
        if not questions.is_file():
            print(f"SKIPPED: {name}: no {questions}", file=sys.stderr)
            continue
        dataset = f'[dataset]\nformat = "{format}"\nquestions = "{questions}"\n'
        for kind, source in (("contexts", "contexts"), ("corpus", str(data / name / "corpus.jsonl.gz"))):
            job = f"{name}-{kind}"
            yield job, f'name = "{job}"\n{dataset}[corpus]\nsource = "{source}"\n{REST}'


def lines(binary, store, *arguments):
    """Standard output of one command."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HOPEVAL_", "RUST_LOG"))}
    command = [str(binary), *arguments, "--store", str(store)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    return done.stdout.splitlines()


def judgements(found):
    judged = {}
    for question, _, document, grade in map(str.split, found):
        judged.setdefault(question, {})[document] = int(grade)
    return judged


def rankings(found):
    ranked = {}
    for question, _, document, _, score, _ in map(str.split, found):
        documents = ranked.setdefault(question, {})
        if document in documents:
            sys.exit(f"{question} ranks {document} twice")
        documents[document] = float(score)
    return ranked


def compare(binary, store, configuration, judged):
    """Questions, compared values, values that differ, and the largest difference of a configuration."""
    named = ["--configuration", configuration]
    export = lambda format: lines(binary, store, "export", "latest", "--format", format, *named)
    ranked = rankings(export("trec"))
    theirs = pytrec_eval.RelevanceEvaluator(judged, {asked for asked, _ in MEASURES.values()}).evaluate(ranked)
    ours = {row["question"]: row for row in csv.DictReader(export("csv"))}
    compared, wrong, largest = 0, [], 0.0
    for measure, (_, name) in MEASURES.items():
        sums, questions = [0.0, 0.0], 0
        for question, row in ours.items():
            if row[measure] == "":
                if question in judged:
                    wrong.append((question, measure, None, "judged"))
                continue
            # A question without a ranking counts as 0, as with trec_eval -c.
            pair = (float(row[measure]), theirs.get(question, {}).get(name, 0.0))
            sums, questions, compared = [a + b for a, b in zip(sums, pair)], questions + 1, compared + 1
            largest = max(largest, abs(pair[0] - pair[1]))
            if abs(pair[0] - pair[1]) > BOUND:
                wrong.append((question, measure, *pair))
        if questions and abs(sums[0] - sums[1]) / questions > BOUND:
            wrong.append(("mean", measure, *sums))
    return len(ours), compared, wrong, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True, type=pathlib.Path)
    repository = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=pathlib.Path, default=repository.parent / "shared" / "data")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the stores here")
    arguments = parser.parse_args()
    folder = arguments.folder or pathlib.Path(tempfile.mkdtemp(prefix="hopeval-trec-"))
    folder.mkdir(parents=True, exist_ok=True)
    print("| job | configuration | questions | values | differ | largest difference |")
    print("| --- | --- | --- | --- | --- | --- |")
    total = bad = 0
    for name, text in jobs(arguments.data.resolve()):
        (folder / f"{name}.toml").write_text(text)
        store = folder / name
        lines(arguments.hopeval, store, "run", str(folder / f"{name}.toml"), "--json")
        judged = judgements(lines(arguments.hopeval, store, "export", "latest", "--format", "qrels"))
        for configuration in ("bm25", "tfidf", "tfidf_bm25", "given", "random"):
            questions, compared, wrong, largest = compare(arguments.hopeval, store, configuration, judged)
            print(f"| {name} | {configuration} | {questions} | {compared} | {len(wrong)} | {largest:.1e} |", flush=True)
            for found in wrong[:5]:
                print("differs:", *found, file=sys.stderr)
            total, bad = total + compared, bad + len(wrong)
    print(f"\n{total} values of {len(MEASURES)} measures, {bad} differ by more than {BOUND}")
    sys.exit(2 if total == 0 else bad > 0)


main()
