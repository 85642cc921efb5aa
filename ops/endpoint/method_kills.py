#!/usr/bin/env python3
"""Kills runs of each method that writes, and of judges, in their middle; resumes them under another layout.

    method_kills.py --hopeval PROGRAM --folder DIR [--rounds 4] [--questions 48] [--only GROUP ...] [--seed 1]

Why: `kills.py` and `interruptions.py` kill runs of methods whose questions are a few requests. A question of MIGRES or
FSM is a conversation of many rounds, with draws, rewritten replies and several models; a judge's run reads the tables
of another one. A kill in such a run must cost nothing but time.

What: a group of `GROUPS` is a job of several configurations over a generated world, against `hopeval simulate-llm`.
It is run once without a fault (one process, one worker). Then each round starts the same job in a store of its own,
kills it by SIGKILL when the commit log has a share of the outcomes (drawn between 10 and 45 %), resumes it with other
numbers of processes and workers, kills it again (between 50 and 85 %), and resumes it to its end with other numbers
again. Of several processes one is killed, or the supervisor with all. The group `judges` first has a finished run;
what is killed there is `hopeval judge`.

A round is good if, after it, outcomes, scores, measures and traces have the bytes of the undisturbed run, the server
has seen the same set of request bodies, and `hopeval store verify` finds nothing. A round whose run ended before a kill
came is drawn again. A command that is killed ends by that signal, and one that loses another process with 75: any other
end is a fault of its own, and ends the script. Relevances and entailment come from untrained models of the engine's
tests.

Prints a line for each round and a table, and exits with 1 if a round is not good. Needed: the standard library alone.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import sys
import time

from interruptions import Command, wait_for_death, wait_for_session
from kills import RESUMABLE
from simulated_runs import ROOT, RunFolder, RunState, SimulatedServer, end_session, toml_value
import stored_runs

FIXTURES = ROOT / "engine" / "lm" / "tests" / "fixtures"
# The processes and the workers of each.
LAYOUTS = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]
TABLES = [*stored_runs.FIGURES, "traces"]
SHARES = [(0.10, 0.45), (0.50, 0.85)]
# A run is killed in a few seconds, or something is wrong.
PATIENCE_S = 240
RETRIEVED = {"retriever": "bm25", "k": 4}
RANKED = {"retriever": "bm25", "reranker": "ranker", "retrieved": 8, "passages": 3, "threshold": -1e9}
ENTAILED = {"entailer": "nli"}
GROUPS = {
    "migres": {
        "paper": {"kind": "migres", **RANKED, **ENTAILED},
        "code": {"kind": "migres", "as": "code", **RANKED, **ENTAILED},
        "summ": {"kind": "migres", "knowledge": "summ", "iterations": 3, **RANKED},
        "draws": {"kind": "migres", "draws": 3, "sampling": "code", **RANKED},
    },
    "fsm1": {
        "given": {"kind": "fsm", "variant": "fsm1"},
        "support": {"kind": "fsm", "variant": "fsm1", "setting": 2},
        "replicates": {"kind": "fsm", "variant": "fsm1", "replicates": {"draw": [1, 2]}},
    },
    "fsm2": {
        "given": {"kind": "fsm"},
        "support": {"kind": "fsm", "setting": 2},
        "code": {"kind": "fsm", "as": "code"},
        "backtracks": {"kind": "fsm", "answer_words": 2, "repairs": 2, "backtracks": 3},
    },
    "readers": {
        **{variant: {"kind": "alce", "variant": variant, **RANKED}
           for variant in ("vanilla", "sentences", "summ", "snippet")},
        "rerank": {"kind": "alce", "variant": "rerank", **RANKED, **ENTAILED},
        **{prompt: {"kind": "fsm_baseline", "prompt": prompt} for prompt in ("normal", "cot", "sp_cot", "react")},
    },
    "chains": {
        "ircot": {"kind": "ircot", **RETRIEVED},
        "decompose": {"kind": "decompose", "mode": "sequential", "temperature": 0.7, **RETRIEVED},
        "iter_retgen": {"kind": "iter_retgen", **RETRIEVED},
        "self_ask": {"kind": "self_ask", "generator": "text", **RETRIEVED},
        "act": {"kind": "react", "generator": "text", "retriever": "bm25"},
    },
    "judges": {
        "reader": {"kind": "one_step_qa", **RETRIEVED},
        "iterated": {"kind": "iter_retgen", **RETRIEVED},
        "alone": {"kind": "no_retrieval"},
    },
}
JUDGES = {"migres": "migres", "efficientrag": "efficientrag"}


def endpoint(name, url, api="chat"):
    # llama.cpp's dialect knows no `n`: each draw is a call of its own, whatever waits together.
    return f"""[service.{name}]
kind = "endpoint"
model = "simulated-llm"
base_url = "{url}"
api = "{api}"
dialect = "llama_cpp"
key_env = "SIMULATED_KEY"
identity = "the simulated model"
concurrency = 8
seed = 7
patience_s = 60
"""


def job_text(group, url, questions):
    methods = ""
    for name, settings in GROUPS[group].items():
        lines = {"generator": "llm"} | settings
        methods += f"[method.{name}]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in lines.items())
    models = "".join(f'[service.{name}]\nkind = "lm"\nmodel = "{FIXTURES / folder}"\nthreads = 1\n'
                     for name, folder in (("ranker", "roberta-rerank"), ("nli", "bert-sequence")))
    return f"""
name = "killed"
[dataset.world]
questions = {questions}
passages = 800
seed = 22
[service.bm25]
kind = "bm25"
{models}entail_label = "yes"
{endpoint("llm", url)}{endpoint("text", url, "completions")}{methods}
[measures]
format = true
[run]
allowed_failed = 1.0
chunk = 2
in_flight = 2
"""


def judges_text(url):
    return endpoint("judge", url) + "".join(
        f'[judge.{name}]\nkind = "yes_no"\nrule = "{rule}"\ngenerator = "judge"\n' for name, rule in JUDGES.items())


class MethodRun:
    """A job of a group in a store of its own, against a server of its own."""

    def __init__(self, context, group, name, latency, finished=None):
        self.group = group
        self.server = SimulatedServer(context.hopeval, context.folder, {"latency": latency}, f"{group}-{name}")
        self.server.log.write_text("")
        folder = context.folder / f"{group}-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        url = finished.server.url if finished else self.server.url
        self.place = RunFolder(context.hopeval, folder, job_text(group, url, context.questions), context.cache)
        self.before = set()
        if finished:
            shutil.copytree(finished.place.store.root, self.place.store.root)
            self.before = set(stored_runs.runs(self.place.store))
            (folder / "judges.toml").write_text(judges_text(self.server.url))

    def id(self):
        """The run that is looked at: of judges the judging one."""
        made = sorted(set(stored_runs.runs(self.place.store)) - self.before)
        return made[-1] if made else None

    def command(self):
        """The first command, or the one that goes on."""
        if self.id():
            return "resume", self.id()
        return ("judge", *self.before, "judges.toml") if self.before else ("run", "job.toml")

    def outcomes(self):
        return RunState(self.place.store, self.id()).outcomes if self.id() else 0

    def tables(self):
        return stored_runs.figures(self.place.store, self.id(), TABLES)

    def bodies(self):
        return {entry["body"] for entry in self.server.entries()}


def kill(run, layout, share, whole, choice):
    """Starts or resumes the run, kills it behind this share of outcomes. What was done; none if the run ended."""
    processes, workers = layout
    child = run.place.start(run.command(), processes=processes, workers=workers)
    limit = time.monotonic() + PATIENCE_S
    while run.outcomes() < share * whole:
        if child.poll() is not None:
            if child.returncode != 0:
                raise SystemExit(f"{run.place.folder}: ended with {child.returncode}\n{run.place.said()[-3000:]}")
            return None
        if time.monotonic() > limit:
            end_session(child)
            raise SystemExit(f"{run.place.folder}: {run.outcomes()} of {whole} outcomes in {PATIENCE_S} s")
        time.sleep(0.002)
    members = Command(child, processes).members()
    victim = choice.choice([-1, *members]) if processes > 1 else -1
    try:
        os.kill(members.get(victim, child.pid), signal.SIGKILL)
        wanted = -signal.SIGKILL if victim == -1 else RESUMABLE
    except ProcessLookupError:
        # It has ended by itself, as the others are about to.
        wanted = 0
    if processes > 1 and victim != -1:
        wait_for_death(members[victim])
    code = child.wait()
    wait_for_session(child.pid)
    outcomes = run.outcomes()
    if code not in (0, wanted) or (code == 0 and outcomes < whole):
        raise SystemExit(f"{run.place.folder}: process {victim} of {processes} was killed, and the command ended with "
                         f"{code} at {outcomes} of {whole} outcomes\n{run.place.said()[-3000:]}")
    met = code != 0 and 0 < outcomes < whole
    return {"layout": f"{processes}x{workers}", "victim": victim, "outcomes": outcomes} if met else None


def round_of(context, group, number, whole, wanted, bodies, finished):
    """One round: two kills and the end. None if a kill came too late."""
    choice = random.Random(f"{context.seed} {group} {number}")
    layouts = [choice.choice(LAYOUTS)]
    while len(layouts) < 3:
        layouts.append(choice.choice([layout for layout in LAYOUTS if layout != layouts[-1]]))
    run = MethodRun(context, group, f"round-{number}", {"first_ms": context.latency_ms, "sigma": 0.5}, finished)
    try:
        cuts = []
        for layout, (low, high) in zip(layouts, SHARES):
            cuts.append(kill(run, layout, low + choice.random() * (high - low), whole, choice))
            if cuts[-1] is None:
                return None
        run.server.change(latency={"first_ms": 0, "sigma": 0.0})
        processes, workers = layouts[2]
        run.place.run(run.command(), processes=processes, workers=workers)
        found, wrong = run.tables(), []
        wrong += [f"{table} differs" for table in TABLES if found[table] != wanted[table]]
        if run.bodies() != bodies:
            wrong.append(f"{len(run.bodies() ^ bodies)} bodies differ")
        run.place.verify()
        return {"cuts": cuts, "end": f"{processes}x{workers}", "wrong": wrong}
    finally:
        run.server.kill()


def check(context, group):
    finished = None
    if group == "judges":
        finished = MethodRun(context, group, "judged", {})
        finished.place.run()
    run = MethodRun(context, group, "undisturbed", {}, finished)
    run.place.run(run.command())
    whole, wanted, bodies = run.outcomes(), run.tables(), run.bodies()
    run.server.stop()
    names = [name for name in TABLES if wanted[name] is None]
    print(f"{group}: {whole} outcomes, {len(bodies)} bodies" + (f"; no table {names}" if names else ""), flush=True)
    rows, number = [], 0
    while len(rows) < context.rounds and number < 4 * context.rounds:
        number += 1
        begun = time.monotonic()
        row = round_of(context, group, number, whole, wanted, bodies, finished)
        if row is None:
            print(f"{group} {number}: a kill came too late", flush=True)
            continue
        rows.append(row)
        cuts = ", ".join(f"{cut['layout']} at {cut['outcomes']}" for cut in row["cuts"])
        print(f"{group} {number}: killed {cuts}; ended {row['end']}: {row['wrong'] or 'good'}, "
              f"{time.monotonic() - begun:.1f} s", flush=True)
    if finished:
        finished.server.stop()
    return {"whole": whole, "bodies": len(bodies), "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--folder", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--questions", type=int, default=48)
    parser.add_argument("--latency-ms", type=float, default=25, help="median of a call's time in the rounds")
    parser.add_argument("--only", action="append", choices=list(GROUPS))
    parser.add_argument("--seed", type=int, default=1)
    context = parser.parse_args()
    context.folder.mkdir(parents=True, exist_ok=True)
    context.cache = context.folder / "cache"
    found = {group: check(context, group) for group in context.only or GROUPS}
    print("\n| group | configurations | outcomes | bodies | rounds | kills | outcomes at the kills | layouts | wrong |")
    print("| --- |" + " ---: |" * 6 + " --- | ---: |")
    for group, told in found.items():
        rows = told["rows"]
        cuts = [cut for row in rows for cut in row["cuts"]]
        layouts = collections.Counter([cut["layout"] for cut in cuts] + [row["end"] for row in rows])
        spread = f"{min(cut['outcomes'] for cut in cuts)} to {max(cut['outcomes'] for cut in cuts)}" if cuts else ""
        print(f"| {group} | {len(GROUPS[group])} | {told['whole']} | {told['bodies']} | {len(rows)} | {len(cuts)} | "
              f"{spread} | {', '.join(f'{name} {count}' for name, count in sorted(layouts.items()))} | "
              f"{sum(bool(row['wrong']) for row in rows)} |")
    whole = all(len(told["rows"]) == context.rounds for told in found.values())
    sys.exit(0 if whole and not any(row["wrong"] for told in found.values() for row in told["rows"]) else 1)


if __name__ == "__main__":
    main()
