#!/usr/bin/env python3
"""The language-model engine against transformers and packed PyTorch, on equal threads, in the same run.

Why: the promise is that no cycle goes into padding, into logits nobody asked for or into work that was done already, and that
what is left runs near the machine's matrix-multiply rate. Without padding, with the head at targets only and shared work
once, a job needs a number of operations that follows from its lengths (`operations.py`); doing those at 0.75 of the
rate is the bar. Beside transformers as people run it (padded batches of 16 in arrival order) that is 3.3 times on GPT-2,
7 on GPT-2 with five instructions after each passage (which arrive instruction by instruction, see `workload.py`), 2.2 on
T5 base and 6 when each passage has been seen, 4.5 on DeBERTa labelling (against padding to 384). Nowhere may packed
PyTorch be faster.

What: makes models of real sizes with random weights (`ops/lm/real_models.py`) and requests with the lengths of real passages
(`workload.py`). For each task it keeps one process of PyTorch (`peers.py`) and starts `hopeval lm bench` for each repeat;
variants run in turn, round by round, as does a product of 2048 x 2048 matrices by NumPy, which is the machine's rate.
Loading, tokenising and JSON are left out of both. A row is the median over rounds: CPU seconds, which a loaded machine stretches
little, and wall seconds; useful GFLOP/s are needed operations per CPU second (per thread, that is), and their share of
the machine's rate; how many times the speed of transformers; the largest difference from hopeval's scores. `seen`
compares passes in which T5's encoder states are there already: needed operations are the decoder's.

Knobs: --tasks, --rounds, --threads, --paths, --documents, --pairs, --passages (sizes of the workload), --skip (variants
whose name holds this), --hopeval, --work (models, requests and the virtual environment; kept), --python, --out.

Needs Python 3.11 with venv, cargo, 6 GB of memory, 8 GB of disk. A round of all tasks takes five CPU minutes.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))
import machine
import operations

PEERS = ["torch==2.11.0", "transformers==5.17.0", "numpy", "safetensors"]
TOLERANCE = 1e-4
T5 = operations.T5
SGEMM = """
import numpy, time
a, b = (numpy.random.default_rng(i).random((2048, 2048), dtype="f4") for i in (0, 1))
a @ b
wall, cpu = time.perf_counter(), time.process_time()
for _ in range(4):
    a @ b
print(4 * 2 * 2048**3 / (time.process_time() - cpu))
"""


class Task:
    def __init__(self, title, model, command, needed, base, seen=None):
        self.title, self.model, self.command, self.needed, self.base = title, model, command, needed, base
        self.seen = seen
        """Needed operations of a second pass, where encoder states are kept."""


PADDED = "transformers, padded 16"
TASKS = {
    "gpt2": Task("GPT-2, one question of PromptRank", "gpt2", "score", operations.gpt2, PADDED),
    "gpt2-instructions": Task("GPT-2, five instructions after each passage", "gpt2", "score", operations.gpt2, PADDED),
    "t5": Task(
        "T5 v1.1 base, one question of PromptRank", "t5-v1.1-base", "score",
        lambda lines: T5.encoder(lines) + T5.decoder(lines), PADDED, T5.decoder,
    ),
    "label": Task(
        "DeBERTa v3 base, labels", "deberta-v3-base", "label", operations.deberta,
        "transformers, padded to 384, batches of 10",
    ),
    "embed": Task("BERT base, embeddings", "bert-base", "embed", operations.bert, PADDED),
}  # fmt: skip


class Measured:
    """A variant's rounds."""

    def __init__(self, seen=False):
        self.cpu, self.wall, self.scores, self.seen, self.counted = [], [], None, seen, {}

    def add(self, answer, scores=None):
        self.cpu.append(answer["cpu_s"])
        self.wall.append(answer["wall_s"])
        self.scores, self.counted = scores if scores is not None else self.scores, answer


class Hopeval:
    def __init__(self, program, threads):
        self.program, self.threads = program, threads

    def run(self, *arguments):
        command = [self.program, "--threads", self.threads, "lm", *arguments]
        done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def bench(self, task, model, requests, *more):
        return self.run("bench", "--model", model, "--task", task.command, "--input", requests, *more)

    def scores(self, task, model, requests):
        """As peers.py gives them."""
        answers = self.run(task.command, "--model", model, "--input", requests)
        if task.command == "score":
            return [statistics.fmean(answer["logprobs"]["1.0"]) for answer in answers]
        if task.command == "label":
            return [[value for row in answer["token_logits"] for value in row] for answer in answers]
        return [answer["embedding"] for answer in answers]


def sgemm(python, threads):
    """Operations a CPU second."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads))
    done = subprocess.run([python, "-c", SGEMM], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return float(done.stdout)


def difference(theirs, ours):
    flat = lambda scores: [v for s in scores for v in (s if isinstance(s, list) else [s])]
    theirs, ours = flat(theirs), flat(ours)
    if len(theirs) != len(ours):
        sys.exit(f"{len(theirs)} scores of PyTorch's, {len(ours)} of hopeval's")
    return max(abs(a - b) if a == a and b == b else float("inf") for a, b in zip(theirs, ours))


def measure(name, task, options, python, hopeval):
    model, requests = options.work / "models" / task.model, options.work / "requests" / f"{name}.jsonl"
    variants, rates = {}, []
    peer = machine.Peer([python, "-W", "ignore", HERE.parent / "peers.py", name, model, requests, options.threads])
    peers = [v for v in peer.ready if not any(skipped in v for skipped in options.skip)]
    for number in range(options.rounds):
        for variant in peers:
            measured = variants.setdefault(variant, Measured("kept" in variant))
            answer = peer.ask(variant)
            measured.add(answer, answer["scores"])
        if task.command == "score" and not task.seen:
            variants.setdefault("hopeval, nothing shared", Measured()).add(
                hopeval.bench(task, model, requests, "--no-share")[0]
            )
        passes = hopeval.bench(task, model, requests, "--repeat", 2 if task.seen else 1)
        variants.setdefault("hopeval", Measured()).add(passes[0])
        if task.seen:
            variants.setdefault("hopeval, passages seen", Measured(True)).add(passes[1])
        rates.append(sgemm(python, options.threads))
        done = ", ".join(f"{variant} {measured.cpu[-1]:.1f}" for variant, measured in variants.items())
        print(f"{name}, round {number + 1}, CPU s: {done}", file=sys.stderr, flush=True)
    peer.close()
    return variants, statistics.median(rates), hopeval.scores(task, model, requests)


def report(task, lines, variants, rate, scores):
    """The task's table, and whether all scores agree."""
    needed, median = task.needed(lines), lambda values: statistics.median(values)
    base = median(variants[task.base].cpu) if task.base in variants else None
    tokens = sum(len(line.get("ids", [])) + len(line.get("prompt_ids", [])) + len(line.get("target_ids", [])) for line in lines)
    ours = variants["hopeval"].counted
    text = [
        f"## {task.title}",
        "",
        f"{len(lines)} requests, {tokens:,} tokens; needed {needed / 1e12:.2f} TFLOP"
        + (f", {task.seen(lines) / 1e12:.2f} when the passages have been seen" if task.seen else "")
        + f"; machine {rate / 1e9:.1f} GFLOP/s a CPU second. hopeval counts {ours['requested_tokens']:,} tokens requested, "
        f"{ours['computed_tokens']:,} computed, {ours['operations'] / 1e12:.2f} TFLOP.",
        "",
        "| variant | CPU s | wall s | requests / CPU s | useful GFLOP/s | of the machine's | times transformers | largest difference |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    agree = True
    for variant, measured in variants.items():
        cpu = median(measured.cpu)
        useful = (task.seen(lines) if measured.seen else needed) / cpu
        off = difference(measured.scores, scores) if measured.scores is not None else None
        agree = agree and (off is None or off <= TOLERANCE)
        cells = [
            variant, f"{cpu:.2f}", f"{median(measured.wall):.2f}", f"{len(lines) / cpu:.2f}", f"{useful / 1e9:.1f}",
            f"{useful / rate:.2f}", f"{base / cpu:.2f}" if base else "-", "-" if off is None else f"{off:.1e}",
        ]  # fmt: skip
        text.append("| " + " | ".join(f"**{c}**" if variant.startswith("hopeval") and i else c for i, c in enumerate(cells)) + " |")
    return text + [""], agree


def prepare(options):
    """The interpreter with PyTorch, the program, models and requests."""
    options.work.mkdir(parents=True, exist_ok=True)
    python = options.python or machine.interpreter(options.work, PEERS)
    program = options.hopeval or machine.program("hopeval")
    models = sorted({TASKS[name].model for name in options.tasks})
    subprocess.run([python, machine.ROOT / "ops/lm/real_models.py", options.work / "models", *models], check=True)
    sizes = [f"--{size}={getattr(options, size)}" for size in ("paths", "documents", "pairs", "passages")]
    subprocess.run([python, HERE.parent / "workload.py", options.work / "requests", *sizes], check=True)
    return python, Hopeval(program, options.threads)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(TASKS), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--paths", type=int, default=30, help="one-hop paths")
    parser.add_argument("--documents", type=int, default=16, help="passages with five instructions each")
    parser.add_argument("--pairs", type=int, default=16, help="of query and chunk")
    parser.add_argument("--passages", type=int, default=32, help="to embed")
    parser.add_argument("--skip", action="append", default=[], help="variants of PyTorch whose name holds this")
    parser.add_argument("--hopeval", type=pathlib.Path, help="the program; by default it is built")
    parser.add_argument("--work", type=pathlib.Path, default=machine.ROOT / "target" / "bench-lm")
    parser.add_argument("--python", type=pathlib.Path, help="has the packages; by default a virtual environment is made")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    unknown = [name for name in options.tasks if name not in TASKS]
    if unknown:
        parser.error(f"no task {', '.join(unknown)}; there are {', '.join(TASKS)}")
    python, hopeval = prepare(options)
    tables, agree = [], True
    for name in options.tasks:
        task = TASKS[name]
        variants, rate, scores = measure(name, task, options, python, hopeval)
        requests = (options.work / "requests" / f"{name}.jsonl").read_text().splitlines()
        table, same = report(task, [json.loads(line) for line in requests], variants, rate, scores)
        print("\n".join(table), flush=True)
        tables, agree = tables + table, agree and same
    versions = machine.versions(python, ("torch", "transformers", "numpy"))
    head = [
        f"# The language-model engine, {datetime.date.today()}",
        "",
        f"{machine.processor()}; {options.threads} thread(s), float32; load average at the end {machine.load()}; {versions}.",
        f"Medians of {options.rounds} rounds, variants in turn; `ops/bench/lm/run.py`, which says what the columns are.",
        "",
    ]
    if options.out:
        options.out.write_text("\n".join(head + tables))
    print("\n".join(head))
    if not agree:
        sys.exit(f"scores differ by more than {TOLERANCE}")


if __name__ == "__main__":
    main()
