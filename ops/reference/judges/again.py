#!/usr/bin/env python3
"""Judges run alone over a finished run, and a second time: nothing is asked then.

What: a run of two readers over a world, then `hopeval judge` by the judges of both papers over it, against a simulated
server of its own, whose log counts calls. The judged run must keep its bytes. The second `hopeval judge` must send
nothing and come to the same figures; so must a run whose judges have the same prompts under other names.

    again.py --hopeval PROGRAM --work DIR [--questions N]

Exits with 1 if one of them does not hold. Only the standard library is used.
"""

import argparse
import hashlib
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "endpoint")]

import simulated_runs  # noqa: E402


def endpoint(name, url):
    return f"""[service.{name}]
kind = "endpoint"
model = "simulated-llm"
base_url = "{url}"
key_env = "SIMULATED_KEY"
identity = "the simulated model"
patience_s = 20
"""


def judges(url, suffix=""):
    return endpoint("judge", url) + "".join(f"""[judge.{rule}{suffix}]
kind = "yes_no"
rule = "{rule}"
generator = "judge"
""" for rule in ("migres", "efficientrag"))


def figures(document):
    """Each judge's figures by configuration and measure; names without a suffix."""
    return {(row["configuration"].replace("_again", ""), row["measure"]): row["value"] for row in document["measures"]
            if row["stratum"] == "all" and row["value"] is not None}


def digest(place, run):
    made = hashlib.sha256()
    for path in sorted((place.store.root / "runs" / run).rglob("*")):
        if path.is_file():
            made.update(str(path.relative_to(place.store.root)).encode() + path.read_bytes())
    return made.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--questions", type=int, default=100)
    arguments = parser.parse_args()
    arguments.work = arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    unique = f"{time.time_ns():x}"
    readers = simulated_runs.SimulatedServer(arguments.hopeval, arguments.work, {"mistake_rate": 0.3}, f"r-{unique}")
    judge = simulated_runs.SimulatedServer(arguments.hopeval, arguments.work, {}, f"j-{unique}")
    job = f"""
name = "judged"
[dataset.world]
questions = {arguments.questions}
passages = 800
seed = 22
[service.bm25]
kind = "bm25"
{endpoint("llm", readers.url)}
[method.reader]
kind = "one_step_qa"
retriever = "bm25"
generator = "llm"
k = 5
[method.alone]
kind = "no_retrieval"
generator = "llm"
[run]
allowed_failed = 1.0
"""
    place = simulated_runs.RunFolder(arguments.hopeval, arguments.work / "judged", job, arguments.work / "cache",
                                     store=f"store-{unique}")
    place.run()
    run, calls, told = place.id(), [], []
    before = digest(place, run)
    for suffix in ("", "", "_again"):
        (place.folder / "judges.toml").write_text(judges(judge.url, suffix))
        told.append(figures(json.loads(place.tell("judge", run, "judges.toml", "--json"))))
        calls.append(len(judge.entries()))
    kept = digest(place, run) == before
    print(f"{arguments.questions} questions, two readers, two judges: calls {calls[0]}, the second time "
          f"{calls[1] - calls[0]} more, under other names {calls[2] - calls[1]} more; {len(told[0])} figures, equal "
          f"{told[0] == told[1] == told[2]}; the judged run's bytes kept {kept}")
    for (configuration, measure), value in sorted(told[0].items()):
        print(f"   {configuration} {measure} {value}")
    readers.stop()
    judge.stop()
    return 0 if calls[0] and calls[0] == calls[2] and told[0] == told[1] == told[2] and told[0] and kept else 1


if __name__ == "__main__":
    sys.exit(main())
