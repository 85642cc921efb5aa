#!/usr/bin/env python3
"""Asks a model with random weights behind vLLM by every method that writes: nothing may go wrong in hopeval.

    nonsense.py --hopeval BINARY --python PYTHON --tokenizer FOLDER --folder DIR [--questions 200] [--only NAME ...]
                [--data HOTPOTQA]

Why: a method's loops must end, and its readers of replies must fail in good order, whatever a model writes. Random
weights write what nobody thinks of: half words, stray brackets, markers in odd places, other alphabets.

What: a Llama of random weights in f32, with 4,096 tokens of context, behind vLLM; `--questions` questions of a
generated world, or of HotpotQA with `--data`, whose corpus then is the given paragraphs. Relevances and entailment come
from untrained models of the engine's tests. It must hold that

* the run ends with 0, and nothing in what it says is a panic;
* there is one outcome for each question and configuration;
* the model answers: an outcome fails only by a text that cannot be read or by a prompt that is too long, and the texts
  of each configuration have tokens;
* no question makes more calls of any kind than its method's `most_requests`, which `CASES` restates as numbers;
* the measure `format` is 0 of each method that has a form.

FOLDER has the tokenizer: a folder that `llama.py` made. PYTHON is an interpreter as for `servers.py`; run the script
with it. Prints one JSON document, and exits with 1 if anything of this does not hold.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from llama import build_model  # noqa: E402
from servers import ServerCheck  # noqa: E402

FIXTURES = Path(__file__).resolve().parents[2] / "engine" / "lm" / "tests" / "fixtures"
RETRIEVED = {"retriever": "bm25", "k": 2}
RANKED = {"retriever": "bm25", "reranker": "ranker", "retrieved": 6, "passages": 3, "threshold": -1e9}
ENTAILED = {"entailer": "nli"}
SMALL_MODELS = {"labeler": "labeler", "filter": "filter"}


def fsm_texts(rounds, repairs, backtracks):
    return ((rounds + backtracks) * 5 + 1 + backtracks) * (1 + repairs)


# Method, name, parameters, the most requests of a question by kind.
CASES = [
    ("no_retrieval", "cot", {}, {"generate": 1}),
    ("no_retrieval", "direct", {"style": "direct"}, {"generate": 1}),
    ("one_step_qa", "cot", RETRIEVED, {"retrieve": 1, "generate": 1}),
    ("one_step_qa", "code", RETRIEVED | {"as": "code"}, {"retrieve": 1, "generate": 1}),
    ("ircot", "paper", RETRIEVED, {"retrieve": 8, "generate": 9}),
    ("ircot", "code", RETRIEVED | {"as": "code"}, {"retrieve": 10, "generate": 11}),
    ("decompose", "parallel", RETRIEVED, {"retrieve": 10, "generate": 2}),
    ("decompose", "sequential", RETRIEVED | {"mode": "sequential"}, {"retrieve": 10, "generate": 12}),
    ("decompose", "sampled", RETRIEVED | {"temperature": 0.7}, {"retrieve": 10, "generate": 6}),
    ("iter_retgen", "paper", RETRIEVED | {"iterations": 3}, {"retrieve": 3, "generate": 3}),
    ("iter_retgen", "code", RETRIEVED | {"as": "code"}, {"retrieve": 3, "generate": 9}),
    ("self_ask", "snippet", RETRIEVED, {"retrieve": 11, "generate": 22}),
    ("self_ask", "documents", RETRIEVED | {"evidence": "documents"}, {"retrieve": 11, "generate": 12}),
    ("self_ask", "code", RETRIEVED | {"as": "code"}, {"retrieve": 6, "generate": 36}),
    ("react", "paper", {"retriever": "bm25"}, {"generate": 14, "passages": 7, "retrieve": 7}),
    ("react", "code", {"retriever": "bm25", "as": "code"}, {"generate": 14, "passages": 7, "retrieve": 7}),
    ("migres", "paper", RANKED | ENTAILED, {"retrieve": 16, "rerank": 34, "generate": 28, "entail": 360}),
    ("migres", "code", RANKED | ENTAILED | {"as": "code"},
     {"retrieve": 32, "rerank": 16, "generate": 28, "entail": 360}),
    ("migres", "summ", RANKED | {"knowledge": "summ", "iterations": 3, "most_compressed": 4},
     {"retrieve": 10, "rerank": 10, "generate": 34}),
    ("fsm", "fsm1", {"variant": "fsm1"}, {"generate": fsm_texts(4, 1, 1), "passages": 1}),
    ("fsm", "fsm2", {}, {"generate": fsm_texts(4, 1, 1), "passages": 1}),
    ("fsm", "fsm2, setting 2", {"setting": 2}, {"generate": fsm_texts(4, 1, 1), "passages": 1}),
    ("fsm", "code", {"as": "code"}, {"generate": fsm_texts(4, 1, 0), "passages": 1}),
    ("fsm_baseline", "normal", {"prompt": "normal"}, {"generate": 1, "passages": 1}),
    ("fsm_baseline", "cot", {"prompt": "cot", "setting": 2}, {"generate": 1, "passages": 1}),
    ("fsm_baseline", "sp_cot", {"prompt": "sp_cot"}, {"generate": 1, "passages": 1}),
    ("fsm_baseline", "react", {"prompt": "react"}, {"generate": 1, "passages": 1}),
    ("alce", "vanilla", RANKED, {"retrieve": 1, "rerank": 1, "generate": 1}),
    ("alce", "sentences", RANKED | {"variant": "sentences"}, {"retrieve": 1, "rerank": 4, "generate": 1}),
    ("alce", "summ", RANKED | {"variant": "summ", "most_compressed": 4}, {"retrieve": 1, "rerank": 1, "generate": 5}),
    ("alce", "rerank", RANKED | ENTAILED | {"variant": "rerank"},
     {"retrieve": 1, "rerank": 1, "generate": 4, "entail": 80}),
    ("efficientrag", "generator", RETRIEVED | SMALL_MODELS,
     # Each chunk of a level is labelled, and each kept one has a query of its own: 2, 4, 8, 16 with `k` 2.
     {"retrieve": 15, "label": 30, "filter": 30, "generate": 1}),
    ("efficientrag_data", "greedy", RETRIEVED, {"retrieve": 8, "generate": 16}),
    ("efficientrag_data", "sampled", RETRIEVED | {"temperature": 0.5}, {"retrieve": 8, "generate": 48}),
]
# Their replies have a form.
FORMED = {"react", "migres", "fsm", "fsm_baseline"}
# They continue their own text; with token ids or a text as the prompt, that needs no template.
CONTINUING = {"self_ask", "react"}
# The statuses that texts can lead to. Behind a server that refuses everything the other claims would hold, too.
STATUSES = {"ok", "parse_failure", "context_overflow"}
# Methods without an own bound on the tokens of a reply beside `max_tokens`.
CAPPED = {"self_ask": {"reader_tokens": 24}, "alce": {"summary_tokens": 24}}

HEAD = """
name = "nonsense"
{dataset}
[service.bm25]
kind = "bm25"
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
threads = 1
[service.filter]
kind = "lm"
model = "hopeval:filter"
threads = 1
[service.ranker]
kind = "lm"
model = "{folder}/roberta-rerank"
threads = 1
[service.nli]
kind = "lm"
model = "{folder}/bert-sequence"
entail_label = "yes"
threads = 1
[measures]
format = true
[run]
allowed_failed = 1.0
"""
ENDPOINT = """
[service.{service}]
kind = "endpoint"
model = "{name}"
base_url = "{url}"
api = "{api}"
dialect = "vllm"
tokenizer = "{model}"
context_tokens = 4096
concurrency = 32
seed = 7
patience_s = 60
"""
WORLD = "[dataset.world]\nquestions = {questions}\npassages = 2000\nseed = 22\n"
HOTPOTQA = """[dataset]
format = "hotpotqa"
questions = "{data}/dev_1267.json.gz"
limit = {questions}
[corpus]
source = "contexts"
"""


def key_of(method, name):
    return f"{method}_{name}".replace(", ", "_").replace(" ", "_")


def job_text(options, url, cases):
    dataset = (HOTPOTQA if options.data else WORLD).format(data=options.data, questions=options.questions)
    text = HEAD.format(dataset=dataset, folder=options.folder)
    for service, api in [("llm", "chat"), ("text", "completions")]:
        text += ENDPOINT.format(service=service, api=api, name=options.model.name, url=url, model=options.model)
    for method, name, parameters, _ in cases:
        generator = {"generator": "text" if method in CONTINUING else "llm", "max_tokens": options.max_tokens}
        text += f"[method.{key_of(method, name)}]\nkind = {json.dumps(method)}\n"
        for key, value in (generator | CAPPED.get(method, {}) | parameters).items():
            text += f"{key} = {json.dumps(value)}\n"
    return text


def make_model(options):
    """Random weights, beside the tokenizer of another folder."""
    options.model.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(options.tokenizer / name, options.model / name)
    vocabulary = len(json.loads((options.model / "tokenizer.json").read_text())["model"]["vocab"])
    build_model(vocabulary, options.seed).eval().float().save_pretrained(str(options.model), safe_serialization=True)


def examine(store, run, cases):
    """What of the run is not as it must be, and what is told of each configuration."""
    import pyarrow.parquet

    final = store / "runs" / run / "final"
    rows = pyarrow.parquet.read_table(final / "outcomes.parquet").to_pylist()
    measures = pyarrow.parquet.read_table(final / "measures.parquet").to_pylist()
    formats = {row["configuration"]: row["value"] for row in measures
               if row["measure"] == "format" and row["stratum"] == "all"}  # fmt: skip
    told, wrong = {}, []
    for method, name, _, most in cases:
        key = key_of(method, name)
        of_case = [row for row in rows if row["configuration"] == key]
        statuses, reached, written = Counter(row["status"] for row in of_case), Counter(), 0
        for row in of_case:
            calls = Counter()
            for call in row["calls"]:
                calls[call["kind"]] += call["calls"]
                written += call["completion_tokens"]
            for kind, count in calls.items():
                reached[kind] = max(reached[kind], count)
                if count > most.get(kind, 0):
                    wrong.append(f"{key}, {row['question']}: {count} of kind {kind} where {most.get(kind, 0)} are most")
        told[key] = {
            "outcomes": len(of_case), "statuses": dict(statuses), "written_tokens": written,
            "calls": {kind: [reached[kind], most.get(kind, 0)] for kind in sorted(reached)},
            "format": formats.get(key),
        }  # fmt: skip
        wrong += [f"{key}: {statuses[status]} outcomes are {status}" for status in sorted(statuses.keys() - STATUSES)]
        if not written:
            wrong.append(f"{key}: the model wrote nothing")
        if formats.get(key) != (0.0 if method in FORMED else None):
            wrong.append(f"{key}: the measure `format` is {formats.get(key)}")
    return rows, told, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--hopeval", "--tokenizer", "--folder"):
        parser.add_argument(name, required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--python", required=True, type=lambda text: Path(text).absolute())
    parser.add_argument("--data", type=lambda text: Path(text).resolve(), help="HotpotQA; without it, a world")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=24, help="of each reply")
    parser.add_argument("--only", action="append", help="methods; without it, all")
    parser.add_argument("--seed", type=int, default=1, help="of the weights")
    parser.add_argument("--port", type=int, default=18091)
    parser.add_argument("--threads", type=int, default=1, help="the server's threads")
    parser.add_argument("--running", action="store_true", help="a server of DIR/random runs at the port already")
    options = parser.parse_args()
    options.server, options.model = "vllm", options.folder / "random"
    if not options.running:
        make_model(options)
    for name in ("roberta-rerank", "bert-sequence"):
        shutil.copytree(FIXTURES / name, options.folder / name, dirs_exist_ok=True)
    cases = [case for case in CASES if not options.only or case[0] in options.only]
    server = ServerCheck(options)
    (options.folder / "job.toml").write_text(job_text(options, server.url, cases))
    server.start()
    begun = time.monotonic()
    try:
        code, out, said = server.hopeval("run", "job.toml", "--store", "store", "--cache", "cache", "--json")
    finally:
        server.stop()
    (options.folder / "said.log").write_text(said)
    wrong = [f"exit code {code}: {said[-2000:]}"] if code != 0 else []
    wrong += [line for line in said.splitlines() if "panicked" in line]
    seconds = round(time.monotonic() - begun, 1)
    found = {"questions": options.questions, "configurations": len(cases), "seconds": seconds}
    if out:
        rows, told, others = examine(options.folder / "store", json.loads(out)["run"], cases)
        wrong += others
        if len(rows) != options.questions * len(cases):
            wrong.append(f"{len(rows)} outcomes")
        found |= {"outcomes": len(rows), "cases": told}
    version = subprocess.run([str(options.hopeval), "--version"], capture_output=True, text=True)
    print(json.dumps(found | {"program": version.stdout.strip(), "wrong": wrong}, indent=1))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
