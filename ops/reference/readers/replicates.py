#!/usr/bin/env python3
"""FSM's replicates: five draws at temperature 0.8 have deviation and interval, and equal seeds give the same again.

What: FSM2 and FSM1 over the paragraphs of a world, `draw = [0, 1, 2, 3, 4]`, against `hopeval simulate-llm` whose
sampled answers are wrong at times. Two runs in stores of their own, against servers of their own, have the same bodies
in the servers' logs and the same bytes of outcomes, scores and measures; a third one with another seed has no body of
theirs. Mean and deviation (n - 1) in `hopeval show --json` are those of the five figures in the table `measures`.

    replicates.py --hopeval PROGRAM --work DIR [--questions N]

Exits with 1 if one of them does not hold. Needed: pyarrow.
"""

import argparse
import collections
import json
import pathlib
import statistics
import sys
import time

import pyarrow.parquet

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "endpoint")]

import simulated_runs  # noqa: E402

DRAWS = 5


def job_text(arguments, url, seed):
    # llama.cpp's dialect knows no `n`: each draw is a call of its own, whatever waits together.
    return f"""
name = "replicates"
[dataset.world]
questions = {arguments.questions}
passages = 800
seed = 22
[service.llm]
kind = "endpoint"
base_url = "{url}"
model = "simulated-llm"
dialect = "llama_cpp"
key_env = "SIMULATED_KEY"
identity = "the simulated model"
seed = {seed}
patience_s = 20
[method.fsm2]
kind = "fsm"
generator = "llm"
[method.fsm2.replicates]
draw = {list(range(DRAWS))}
[method.fsm1]
kind = "fsm"
variant = "fsm1"
generator = "llm"
[method.fsm1.replicates]
draw = {list(range(DRAWS))}
[run]
allowed_failed = 1.0
"""


def run(arguments, name, seed):
    """The run's folder, the bodies of the server's log, and the bytes of its tables."""
    server = simulated_runs.SimulatedServer(arguments.hopeval, arguments.work, {"sampled_mistake_rate": 0.4},
                                            f"{name}-{time.time_ns():x}")
    place = simulated_runs.RunFolder(arguments.hopeval, arguments.work / name, job_text(arguments, server.url, seed),
                                     arguments.work / "cache", store=f"store-{time.time_ns():x}")
    place.run()
    entries = server.entries()
    server.stop()
    final = place.store.root / "runs" / place.id() / "final"
    tables = {table: (final / f"{table}.parquet").read_bytes() for table in simulated_runs.stored_runs.FIGURES}
    return place, collections.Counter(entry["body"] for entry in entries), tables


def replicates_of(document):
    found = document["replicates"]
    return found if isinstance(found, list) else [row for rows in found.values() for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--questions", type=int, default=100)
    arguments = parser.parse_args()
    arguments.work = arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    place, bodies, tables = run(arguments, "first", 7)
    _, bodies_again, tables_again = run(arguments, "second", 7)
    _, bodies_other, tables_other = run(arguments, "other-seed", 1000)
    same = {name: tables[name] == tables_again[name] for name in tables}
    print(f"{arguments.questions} questions, {2 * DRAWS} replicates: {bodies.total()} calls; the second run's bodies "
          f"equal {bodies == bodies_again}, bytes of tables equal {same}; with another seed {(bodies & bodies_other).total()} "
          f"bodies in common", flush=True)
    final = place.store.root / "runs" / place.id() / "final"
    rows = pyarrow.parquet.read_table(final / "measures.parquet").to_pylist()
    values = collections.defaultdict(list)
    for row in rows:
        if row["stratum"] == "all" and row["value"] is not None:
            values[row["configuration"].split("#")[0], row["measure"]].append(row["value"])
    wrong, compared = [], 0
    document = json.loads(place.tell("show", place.id(), "--json"))
    for row in replicates_of(document):
        if row.get("stratum", "all") != "all" or row.get("value", row.get("mean")) is None:
            continue
        figures = values[row["configuration"], row["measure"]]
        own = (row.get("value", row.get("mean")), row["deviation"])
        compared += 1
        wanted = (statistics.fmean(figures), statistics.stdev(figures))
        if len(figures) != DRAWS or any(abs(a - b) > 1e-12 for a, b in zip(own, wanted)):
            wrong.append((row["configuration"], row["measure"], own, wanted))
        if row["measure"] in ("em", "f1"):
            print(f"   {row['configuration']} {row['measure']}: {[round(figure, 4) for figure in figures]}: {row}")
    print(f"mean and deviation: {compared - len(wrong)} of {compared} as restated", *wrong[:5], sep="\n   ")
    held = bodies == bodies_again and all(same.values()) and not bodies & bodies_other and compared and not wrong
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
