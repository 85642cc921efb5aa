#!/usr/bin/env python3
"""PromptRank from questions to ranked passages: hopeval beside a straightforward loop over transformers, and what a sweep costs.

Why: a method's price is that of the whole pipeline, and an evaluation tries many settings. The bars: five times the loop's
questions for one configuration, fifty times for a sweep of 60 points, and for a sweep at most 1.5 times the device's time of its
most expensive point alone.

What: a generated world, PromptRank with the T5 that hopeval carries, on the same cores. The loop (`loop.py`) keeps models and indexes
open and is timed from the first question to the last. hopeval is timed as a process, start and tables included, with corpus and
indexes in the cache and an empty store. Both in turn, medians over rounds, in processor and in wall seconds; what both ranked
is compared.

* `one`: one instruction, the paper's F = 100, K1 = 5, L = 3.
* `sweep`: 5 temperatures x 3 ensembles of five instructions x 2 K1 x 2 L. The loop answers one point for each (K1, L), since
  neither temperature nor ensemble changes what it computes; each stands for fifteen.
* `cost`: the sweep, its most expensive point alone, and other points alone, hopeval only: seconds of the device, and whether the final
  tables of a point alone are the sweep's to the byte (`sweep.py`).
* `every`: all points, each alone, over few questions: whether each one's final tables are the sweep's to the byte. Each is on an
  empty store, which over hundreds of questions takes hours, unless --every-pool makes F smaller; with --every-onto they share one
  of their own, which the sweep never saw: each point's run scores what no point alone has scored before it.

Knobs: --tasks, --questions, --sweep-questions, --cost-questions, --every-questions, --every-pool, --every-onto, --passages,
--rounds, --cores, --hopeval, --python, --work (cache, stores and the virtual environment; kept), --out.

Needs Python 3.11 with venv, cargo, 3 GB of memory.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "reference")]
import inputs
import machine
import sweep

PEERS = ["torch==2.11.0", "transformers==5.17.0", "tokenizers", "safetensors", "pyarrow", "regex", "scikit-learn", "scipy", "numpy"]
TOLERANCE = 1e-3
"""Of scores: batches that are padded round differently."""
LEAST_ALIKE = 0.95
"""Of rankings: the share that has the same first ten passages."""

JOB = """
name = "pipeline"
[dataset.world]
questions = {questions}
passages = {passages}
seed = 1
[service.tfidf]
kind = "tfidf"
[service.links]
kind = "link_tfidf"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "scorer"
{more}
"""


class Hopeval:
    """Runs of the program, each on an empty store and a full cache."""

    def __init__(self, options):
        self.options, self.cache = options, options.work / "cache"
        self.threads = len(options.cores.split(","))
        self.peak_mib = None
        """Memory of the last run's process at most."""

    def run(self, name, text, onto=False):
        """The document of a run, its folder, and the processor and wall seconds of the process. `onto` keeps what the store has."""
        options = self.options
        job, store = options.work / f"{name}.toml", options.work / f"store-{name}"
        job.write_text(text)
        if not onto:
            shutil.rmtree(store, ignore_errors=True)
        command = [options.hopeval, "--threads", self.threads, "run", job, "--workers", self.threads, "--store", store]
        command += ["--cache", self.cache, "--json"]
        wall = time.perf_counter()
        process = subprocess.Popen(machine.pinned(command, options.cores), stdout=subprocess.PIPE, text=True)
        shown = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - wall
        process.returncode = os.waitstatus_to_exitcode(status)
        self.peak_mib = used.ru_maxrss / 1024
        if status:
            sys.exit(f"hopeval failed: {' '.join(map(str, command))}")
        document = json.loads(shown)
        return document, store / "runs" / document["run"], used.ru_utime + used.ru_stime, wall


def loop(hopeval, folder):
    """The process that runs the loop, over the questions of a run."""
    run = inputs.Run(folder)
    command = [hopeval.options.python, "-W", "ignore", HERE / "loop.py", "--run", folder, "--threads", hopeval.threads]
    command += ["--corpus", hopeval.cache / "corpora" / run.corpus_key]
    for service, model in inputs.own_models(run, hopeval.cache).items():
        command += ["--model", f"{service}={model}"]
    # Threads that wait do not count.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(hopeval.threads))
    environment = dict(os.environ, OMP_WAIT_POLICY="PASSIVE", TOKENIZERS_PARALLELISM="false", **threads)
    return machine.Peer(machine.pinned(command, hopeval.options.cores), environment)


class Agreement:
    """Of what the loop ranked with hopeval's outcomes."""

    def __init__(self):
        self.rankings, self.alike, self.largest = 0, 0, 0.0

    def add(self, outcomes, ranked):
        for question, wanted in ranked.items():
            found = dict(zip(outcomes[question]["ranked"], outcomes[question]["scores"]))
            wanted_by = dict(map(tuple, wanted))
            # A path that one side expanded and the other did not, for a score that is as good.
            both = found.keys() & wanted_by.keys()
            self.largest = max([self.largest, *(abs(found[passage] - wanted_by[passage]) for passage in both)])
            self.rankings += 1
            self.alike += outcomes[question]["ranked"][:10] == [passage for passage, _ in wanted[:10]]

    def is_good(self):
        """Nearly all rankings alike; scores within the tolerance of each other tell others apart by chance."""
        return self.alike >= LEAST_ALIKE * self.rankings > 0 and self.largest <= TOLERANCE

    def text(self):
        return f"{self.alike} of {self.rankings} rankings have the same first ten passages, the largest difference of a score is {self.largest:.1e}"


def compared(hopeval, name, text, points, questions):
    """Rounds of hopeval and of the loop over `points`, pairs of a configuration and how many configurations it stands for."""
    # Fills the cache, and gives the loop its questions and parameters.
    _, folder, *_ = hopeval.run(name, text)
    peer, agreement = loop(hopeval, folder), Agreement()
    ask = lambda configuration: peer.ask(json.dumps({"configuration": configuration, "questions": questions}))
    ours, theirs = [], []
    for number in range(hopeval.options.rounds):
        answers = [(ask(configuration), stands_for) for configuration, stands_for in points]
        theirs.append([sum(answer[f"{clock}_s"] * stands_for for answer, stands_for in answers) for clock in ("cpu", "wall")])
        _, folder, cpu, wall = hopeval.run(name, text)
        ours.append([cpu, wall])
        run = inputs.Run(folder)
        for (configuration, _), (answer, _) in zip(points, answers):
            agreement.add(run.outcomes(configuration), answer["ranked"])
        print(f"{name}, round {number + 1}: loop {theirs[-1][0]:.1f} CPU s, hopeval {cpu:.1f}", file=sys.stderr, flush=True)
    peer.close()
    return [[statistics.median(column) for column in zip(*rounds)] for rounds in (ours, theirs)], agreement


def table(title, answered, ours, theirs, bar):
    """Rows of both, with rates of `answered` questions times configurations."""
    rows = [
        f"## {title}",
        "",
        "| | CPU s | wall s | answered / CPU s | answered / wall s | times the loop (CPU) | times the loop (wall) | bar |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, (cpu, wall) in (("transformers, padded 16", theirs), ("**hopeval**", ours)):
        cells = [name, f"{cpu:.1f}", f"{wall:.1f}", f"{answered / cpu:.2f}", f"{answered / wall:.2f}"]
        cells += [f"{theirs[0] / cpu:.1f}", f"{theirs[1] / wall:.1f}", str(bar) if name.startswith("**") else "-"]
        rows.append("| " + " | ".join(cells) + " |")
    return [*rows, ""]


def one(hopeval):
    options = hopeval.options
    text = JOB.format(questions=options.questions, passages=options.passages, more="")
    (ours, theirs), agreement = compared(hopeval, "one", text, [("promptrank", 1)], options.questions)
    rows = table(f"One configuration, {options.questions} questions", options.questions, ours, theirs, 5)
    return [*rows, f"{agreement.text()}.", ""], agreement.is_good()


def swept(hopeval):
    options = hopeval.options
    text = JOB.format(questions=options.sweep_questions, passages=options.passages, more=sweep.job())
    points = sweep.by_cost()
    (ours, theirs), agreement = compared(hopeval, "sweep", text, points, options.sweep_questions)
    count = len(sweep.points())
    title = f"A sweep of {count} points, {options.sweep_questions} questions"
    rows = table(title, count * options.sweep_questions, ours, theirs, 50)
    note = f"The loop ran {len(points)} points, each standing for {points[0][1]} of the same cost; answered are questions times points. "
    return [*rows, f"{note}{agreement.text()}.", ""], agreement.is_good()


def cost(hopeval):
    options = hopeval.options
    text = lambda more: JOB.format(questions=options.cost_questions, passages=options.passages, more=more)
    return sweep.cost(hopeval, text, options.cost_questions, options.rounds)


def every(hopeval):
    options = hopeval.options
    pool = f"pool = {options.every_pool}\n"
    text = lambda more: JOB.format(questions=options.every_questions, passages=options.passages, more=pool + more)
    line, equal = sweep.every(hopeval, text, options.every_questions, options.every_onto)
    return ["## Every point alone", "", f"F = {options.every_pool}. {line}", ""], equal


TASKS = {"one": one, "sweep": swept, "cost": cost, "every": every}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(TASKS), help="comma-separated")
    parser.add_argument("--questions", type=int, default=200, help="of `one`")
    parser.add_argument("--sweep-questions", type=int, default=20, help="of `sweep`")
    parser.add_argument("--cost-questions", type=int, default=300, help="of `cost`")
    parser.add_argument("--every-questions", type=int, default=10, help="of `every`")
    parser.add_argument("--every-pool", type=int, default=100, help="F of `every`: paths of the first hop that are scored")
    parser.add_argument("--every-onto", action="store_true", help="points of `every` share a store that the sweep never saw")
    parser.add_argument("--passages", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", default="0", help="comma-separated; each has a thread")
    parser.add_argument("--hopeval", type=pathlib.Path, help="the program; by default it is built")
    parser.add_argument("--python", type=pathlib.Path, help="has the packages; by default a virtual environment is made")
    parser.add_argument("--work", type=pathlib.Path, default=machine.ROOT / "target" / "bench-pipeline")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    unknown = [name for name in options.tasks if name not in TASKS]
    if unknown:
        parser.error(f"no task {', '.join(unknown)}; there are {', '.join(TASKS)}")
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    options.python = options.python or machine.interpreter(options.work, PEERS)
    options.hopeval = options.hopeval or machine.program("hopeval")
    hopeval, rows, good = Hopeval(options), [], True
    for name in options.tasks:
        more, agree = TASKS[name](hopeval)
        print("\n".join(more), flush=True)
        rows, good = rows + more, good and agree
    versions = machine.versions(options.python, ("torch", "transformers", "scikit-learn"))
    head = [
        f"# PromptRank, the whole pipeline, {datetime.date.today()}",
        "",
        f"{machine.processor()}; {hopeval.threads} thread(s) on cores {options.cores}; load averages at the end {machine.load()}; {versions}.",
        f"A world of {options.passages:,} passages; medians of {options.rounds} rounds, both in turn; `ops/bench/pipeline/run.py`.",
        "",
    ]
    if options.out:
        options.out.write_text("\n".join(head + rows))
    print("\n".join(head))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
