#!/usr/bin/env python3
"""PromptRank and EfficientRAG of hopeval beside the references, question by question; exits with 1 if they differ.

Why: machines that ask in rounds, an engine that packs, shares and batches, and services that meet on several workers must come
to what the methods are on paper. What: hopeval runs both methods with the small models that it carries, each as the paper has
it and in variants that use other parameters, over the first questions of a generated world and of HotpotQA, whose passages are
linked where they mention a title. `promptrank.py` and `efficientrag.py` answer the same questions by transformers, one text at
a time, and `compare.py` compares: rankings, paths, queries, chunks, tags, information, and all their numbers.

    conform.py --hopeval PROGRAM [--hotpotqa DIR] [--questions 50] [--work DIR] [--datasets NAMES] [--only TEXT] [--at-once N] [--out FILE]

`--hotpotqa` holds questions in HotpotQA's format (`dev*.json.gz`) and a corpus (`corpus.jsonl.gz`: title and text of each passage);
without it, HotpotQA is skipped. `--work` keeps the runs and what the references wrote; several programs need several. `--python` has what `README.md` lists; by default, this one.
"""

import argparse
import concurrent.futures
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import compare
import inputs

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

WORLD = """
name = "world"
[dataset.world]
questions = {questions}
passages = 5000
seed = 1
"""

HOTPOTQA = """
name = "hotpotqa"
[dataset]
format = "hotpotqa"
questions = {file}
limit = {questions}
[corpus]
source = {corpus}
links = "mentions"
"""

METHODS = """
[service.tfidf]
kind = "tfidf"
[service.bm25]
kind = "bm25"
[service.links]
kind = "link_tfidf"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
[service.filter]
kind = "lm"
model = "hopeval:filter"
[service.encoder]
kind = "lm"
model = "hopeval:encoder"
max_tokens = 96
normalize = true
[service.dense]
kind = "dense"
encoder = "encoder"

# As in the paper: F = 100, K1 = 5, L = 3, two hops.
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "scorer"

# As little as possible as in the paper.
[method.promptrank_variant]
kind = "promptrank"
retriever = "bm25"
link_ranker = "links"
scorer = "scorer"
pool = 15
hops = 3
first_hops = 3
next_hops = [4]
links_per_passage = [2, 1]
link_ties = "later"
instructions = "hopeval:five"
ensemble = "token_mean"
next_ensemble = "mean"
temperature = 1.4
titles = "first_hop"
path_order = "inverted"
passage_tokens = 90
demonstrations = [{ texts = ["The river Aln runs through Alnwick."], question = "Which river runs through Alnwick?" }]
demonstration_tokens = 12
document_score = "longest"
question_mark = true

[method.promptrank_single_hop]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "scorer"
pool = 30
rerank = "passage"
normalise = "sum"
score_end = false

[method.efficientrag]
kind = "efficientrag"
retriever = "dense"
labeler = "labeler"
filter = "filter"

[method.efficientrag_variant]
kind = "efficientrag"
retriever = "bm25"
labeler = "labeler"
filter = "filter"
k = 5
max_iterations = 3
exclude_seen = true
label_query = "original"
filter_query = "original"
pool = "all"
order = "tag"
chunk = "text"
"""

CONFIGURATIONS = ["promptrank", "promptrank_variant", "promptrank_single_hop", "efficientrag", "efficientrag_variant"]


def at_least_one(text):
    """A count of the command line."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed are whole numbers from 1 on")
    return int(text)


def hopeval(arguments, *words):
    places = ["--store", arguments.work / "store", "--cache", arguments.work / "cache"]
    command = [arguments.hopeval, *words, *places, "--json"]
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def evaluated(arguments, name, text):
    """A finished run of the job."""
    job = arguments.work / f"{name}.toml"
    job.write_text(text + METHODS)
    id = json.loads(hopeval(arguments, "run", job))["run"]
    return inputs.Run(arguments.work / "store" / "runs" / id)


def compared(arguments, run, configuration):
    """A configuration of a run beside the reference of its method."""
    method = run.configurations[configuration]["method"]
    wanted = arguments.work / f"{run.folder.name}-{configuration}.jsonl"
    command = [arguments.python, HERE / f"{method}.py", "--run", run.folder, "--configuration", configuration, "--out", wanted]
    command += ["--corpus", arguments.work / "cache" / "corpora" / run.corpus_key]
    for service, folder in inputs.own_models(run, arguments.work / "cache").items():
        command += ["--model", f"{service}={folder}"]
    subprocess.run(list(map(str, command)), check=True)
    transcripts = None
    if method == "efficientrag":
        transcripts = arguments.work / f"{run.folder.name}-{configuration}-transcripts.jsonl"
        questions = [word for id, _ in run.questions for word in ("--question", id)]
        shown = hopeval(arguments, "show", run.folder.name, *questions, "--configuration", configuration)
        transcripts.write_text(shown, encoding="utf-8")
    return compare.compare(run, configuration, wanted, transcripts, arguments.tolerance)


def row(name, configuration, found):
    alike = f"{found.questions - found.differ} of {found.questions}"
    cells = [name, configuration, alike, f"{found.numbers:,}", f"{found.largest:.1e}", f"{found.equal:,}", str(found.near)]
    return "| " + " | ".join(cells) + " |"


def origin(arguments):
    """Which program and which peers."""
    git = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(list(map(str, git)), stdout=subprocess.PIPE, text=True).stdout.strip() or "unknown"
    version = subprocess.run([str(arguments.hopeval), "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"commit {commit}, {version}"


def heading(arguments):
    shown = "import torch, transformers; print(f'torch {torch.__version__}, transformers {transformers.__version__}')"
    peers = subprocess.run([str(arguments.python), "-c", shown], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return [
        f"# The methods beside their references, {datetime.date.today()}",
        "",
        f"`ops/reference/conform.py`, at {origin(arguments)}, {peers}; the small models that hopeval carries.",
        f"Tolerance {arguments.tolerance:g}. What each configuration is stands in the script, what is compared in `compare.py`.",
        "",
        "* *numbers*: scores of passages and paths; scores of retrieval and logits of tags.",
        "* *equal neighbours*: neighbours of a ranking with the same score to the last bit, all of them in the order of their numbers in the corpus.",
        "* *near ties*: rankings in another order than the reference's, where its scores are closer together than the tolerance.",
        "",
        "| questions of | configuration | alike | numbers | largest difference | equal neighbours | near ties |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--hotpotqa", type=pathlib.Path)
    parser.add_argument("--questions", type=at_least_one, default=50)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--python", type=pathlib.Path, default=sys.executable)
    parser.add_argument("--datasets", default="world,hotpotqa", help="comma-separated")
    parser.add_argument("--only", default="", help="configurations whose name holds this")
    parser.add_argument("--at-once", type=at_least_one, default=1, help="references that run at the same time, each on one core")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--out", type=pathlib.Path, help="the table as a file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        arguments.work = (arguments.work or pathlib.Path(made)).resolve()
        arguments.work.mkdir(parents=True, exist_ok=True)
        wanted = arguments.datasets.split(",")
        if not wanted or set(wanted) - {"world", "hotpotqa"}:
            parser.error(f"--datasets {arguments.datasets}: there are world and hotpotqa")
        jobs = {"world": WORLD.format(questions=arguments.questions)} if "world" in wanted else {}
        if "hotpotqa" in wanted and arguments.hotpotqa:
            files = sorted(arguments.hotpotqa.resolve().glob("dev*.json*"))
            corpus = arguments.hotpotqa.resolve() / "corpus.jsonl.gz"
            if len(files) != 1 or not corpus.is_file():
                parser.error(f"--hotpotqa {arguments.hotpotqa}: one dev*.json* and corpus.jsonl.gz are needed")
            quoted = {"file": json.dumps(str(files[0])), "corpus": json.dumps(str(corpus))}
            jobs["hotpotqa"] = HOTPOTQA.format(questions=arguments.questions, **quoted)
        elif "hotpotqa" in wanted:
            print("SKIPPED: HotpotQA, for want of --hotpotqa", file=sys.stderr)
        chosen = [configuration for configuration in CONFIGURATIONS if arguments.only in configuration]
        if not jobs or not chosen:
            parser.error("nothing is left to compare")
        table, wrong = heading(arguments), 0
        for name, text in jobs.items():
            run = evaluated(arguments, name, text)
            pool = concurrent.futures.ThreadPoolExecutor(arguments.at_once)
            for configuration, found in zip(chosen, pool.map(lambda of: compared(arguments, run, of), chosen)):
                wrong += found.differ + (found.questions != arguments.questions)
                table.append(row(name, configuration, found))
                print("\n".join([*found.lines, table[-1]]), file=sys.stderr, flush=True)
        text = "\n".join([*table, ""])
        print(text)
        if arguments.out:
            arguments.out.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
