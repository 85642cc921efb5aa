#!/usr/bin/env python3
"""Measures what a race of a search saves, and whether it chooses what the whole grid would have.

Why: a race stops candidates after few questions. It is worth having only if it still finds the best candidate, or one
that the questions cannot tell from it, for much less work. One lucky seed shows nothing, so there are twenty.

What, for each seed: a generated world of its own with 1,000 questions for the sample, and PromptRank with 60
instructions over the built-in scorer. An instruction stands in every prompt, so no two candidates share a request to
the model. The race, with its defaults, comes first, in an empty store. Then the whole grid runs in the same store. Its
seconds of the device are those of both together: each request is computed once, and every request of the race is one
of the grid. Each line has the grid's best candidate, the race's choice, and whether they are one, or else the interval
of their paired difference over all questions (the choice less the best, 95 %, bootstrap). Then come the candidates that
still stood after each rung, the seconds of the device of both, and the ratio.

    python3 ops/race/seeds.py BINARY [--seeds 1-20] [--race KEY=VALUE]... [--folder DIR]

Knobs: the pool (passages scored for a question and candidate) and the passages' tokens are as small as they can be, so
that a seed takes two minutes of one core; `--questions` and `--candidates` make trials cheaper and are no measurement.
Needs the standard library only. Exits with 1 if a choice lies outside the interval of the best, or a ratio is above a
third.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VERBS = ["Read", "Study", "Look through", "Use", "Go through", "Combine"]
PLACES = ["the document above", "the text", "all of the passages", "what is said here", "these facts"]
TASKS = ["and ask a question.", "to write the question that it answers."]

JOB = """
name = "race-{kind}-{seed}"
[dataset.world]
questions = 1
passages = 400
seed = {other}
[service.tfidf]
kind = "tfidf"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
[method.found]
kind = "promptrank"
retriever = "tfidf"
scorer = "scorer"
hops = 1
pool = {pool}
passage_tokens = {tokens}
[measures]
recall_at = [1, 2]
[tune]
sample = {questions}
seed = {seed}
measure = "{measure}"
[tune.world]
questions = {questions}
passages = {passages}
seed = {seed}
[[tune.select]]
name = "{kind}"
method = "found"
parameter = "instructions"
candidates = {candidates}
{race}
"""

SAME = "the same"


def instructions(count):
    """So many different instructions."""
    all_of_them = [f"{verb} {place} {task}" for task in TASKS for place in PLACES for verb in VERBS]
    if not 2 <= count <= len(all_of_them):
        sys.exit(f"--candidates: {count}; allowed: 2 to {len(all_of_them)}")
    return all_of_them[:count]


class SeedStore:
    """A store, and the commands over it."""

    def __init__(self, binary, folder, name):
        self.binary, self.folder, self.name = binary, folder, name
        self.wall = 0.0

    def document(self, *arguments):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("HOPEVAL_", "RUST_LOG"))}
        places = ["--store", str(self.folder / self.name), "--cache", str(self.folder / "cache")]
        command = [self.binary, *arguments, *places, "--json"]
        begun = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.wall += time.monotonic() - begun
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    def tune(self, job):
        return self.document("tune", str(job), "--workers", "1")["selections"][0]

    def device_seconds(self, runs):
        """What these runs really computed, in seconds of the device."""
        rows = [row for run in runs for row in self.document("show", run)["cost"]]
        return sum(row["device_s"] or 0.0 for row in rows if row["configuration"] is None)


def write_job(folder, kind, seed, options, race):
    """A job file: its world, its candidates, and a race or none."""
    text = JOB.format(
        kind=kind,
        seed=seed,
        other=seed + 1000,
        pool=options.pool,
        tokens=options.tokens,
        questions=options.questions,
        passages=options.passages,
        measure=options.measure,
        candidates=json.dumps(instructions(options.candidates)),
        race=race,
    )
    path = folder / f"{kind}-{seed}.toml"
    path.write_text(text)
    return path


def paired_interval(store, run, best, chosen, measure):
    """The interval of the paired difference of two candidates of the grid, the chosen one less the best."""
    rows = store.document("show", run, "--against", best, "--measure", measure)["differences"]
    row = next(row for row in rows if row["configuration"] == chosen)
    return row["low"], row["high"]


def measure_seed(folder, seed, options):
    """One seed: a line of the table, and whether both conditions hold."""
    store = SeedStore(str(Path(options.binary).resolve()), folder, f"store-{seed}")
    keys = "".join(f"{key}\n" for key in options.race)
    found = store.tune(write_job(folder, "race", seed, options, f"[tune.select.race]\n{keys}"))
    race_wall = store.wall
    whole = store.tune(write_job(folder, "grid", seed, options, ""))
    race_seconds = store.device_seconds([*found["race"]["runs"], found["run"]])
    grid_seconds = race_seconds + store.device_seconds([whole["run"]])
    numbers = {text: number for number, text in enumerate(instructions(options.candidates))}
    best, chosen = whole["candidates"][0], found["candidates"][0]
    name = lambda candidate: f"grid.{numbers[candidate['value']]:04}"  # noqa: E731
    scores = {candidate["value"]: candidate["score"] for candidate in whole["candidates"]}
    if scores[chosen["value"]] != chosen["score"]:
        grid_score = scores[chosen["value"]]
        sys.exit(f"seed {seed}: {name(chosen)} has {chosen['score']} in the race and {grid_score} in the grid")
    verdict, good = SAME, True
    if best["value"] != chosen["value"]:
        low, high = paired_interval(store, whole["run"], name(best), name(chosen), options.measure)
        good = low <= 0.0 <= high
        verdict = f"{low:+.4f} to {high:+.4f}"
    ratio = race_seconds / grid_seconds
    survivors = [rung["candidates"] - rung["stopped"] for rung in found["race"]["rungs"]]
    line = [
        str(seed),
        f"{name(best)} {best['score']:.4f}",
        f"{name(chosen)} {chosen['score']:.4f}",
        verdict,
        " ".join(map(str, survivors)),
        f"{grid_seconds:.1f}",
        f"{race_seconds:.1f}",
        f"{ratio:.3f}",
        f"{race_wall:.0f} + {store.wall - race_wall:.0f}",
    ]
    return line, verdict == SAME, good, ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("binary")
    parser.add_argument("--seeds", default="1-20", help="the first and the last seed")
    parser.add_argument("--race", action="append", default=[], metavar="KEY=VALUE", help="a line of the race's table")
    parser.add_argument("--folder", type=Path, help="keeps the stores there")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--passages", type=int, default=1000)
    parser.add_argument("--pool", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--measure", default="recall_frac@1")
    options = parser.parse_args()
    first, last = (int(part) for part in options.seeds.split("-"))
    header = ["seed", "grid's best", "race's choice", "difference", "stood on", "grid s", "race s", "ratio", "wall s"]
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header), flush=True)
    same, good, ratios = 0, 0, []
    for seed in range(first, last + 1):
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            line, is_same, is_good, ratio = measure_seed(folder, seed, options)
        print("| " + " | ".join(line) + " |", flush=True)
        same, good = same + is_same, good + is_good
        ratios.append(ratio)
    print(
        f"\n{len(ratios)} seeds: the grid's best in {same}, it or one within its interval in {good}; "
        f"device seconds of the race over the grid's: {min(ratios):.3f} to {max(ratios):.3f}, "
        f"mean {sum(ratios) / len(ratios):.3f}"
    )
    return 0 if good == len(ratios) and max(ratios) <= 1 / 3 else 1


if __name__ == "__main__":
    sys.exit(main())
