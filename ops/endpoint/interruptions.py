"""Kills and stops runs with many paid calls in flight, resumes them, and counts repeated calls by the server's log.

A round is one run of `--questions` times 4 calls against a simulated server whose answers take 2.5 s in the median
(lognormal, sigma 0.6). It is interrupted once or twice and then resumed to its end. An interruption comes at a random
number of answers, when at least 30 % of all calls of the job are in flight.

| kind | what is done                                                                                          |
| ---- | ----------------------------------------------------------------------------------------------------- |
| kill | SIGKILL to the process that owns the endpoint; of three processes also to the supervisor              |
| term | SIGTERM to the command                                                                                |

By the server's log, after a kill: the bodies asked again are at most those that were in flight and those answered in
the last second before it, and no others are among them. After SIGTERM: the command leaves with 75 at most 2 s after
the last call that was open has ended, and no body is asked again. After a round: tables have the bytes of an unbroken
run; the money that the run counts is at most the log's, and the log's is at most that and the money of the calls that a
kill may have cost. Every round is a line of `--results`; `--resume` goes on until `--kills` and `--terms` are reached.

    python3 ops/endpoint/interruptions.py --binary target/debug/hopeval --folder DIR --results FILE [--resume]
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import time

from simulated_runs import RunFolder, SimulatedServer, job_text, load, warm_journal
from kills import Generation

CONFIGURATIONS = 4
SHARE = 0.3
LAST_SECOND = 1.0
LEAVE_S = 2.0
LATENCY = {"first_ms": 2500, "sigma": 0.6}
ENDPOINT = """concurrency = 1000
first_pause_s = 0.1
"""


class Command(Generation):
    """A started command, whose processes can be found."""

    def __init__(self, child, processes):
        self.child, self.processes = child, processes


class Round:
    """The folder, the server and the interruptions of a run."""

    def __init__(self, context, number, kind):
        self.context, self.number, self.kind = context, number, kind
        self.choice = random.Random(f"{context.seed} {number}")
        self.folder = context.folder / f"round-{number}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.server = SimulatedServer(context.binary, context.folder, {"latency": LATENCY}, f"round-{number}")
        self.server.log.write_text("")
        job = job_text(self.server.url, context.questions, CONFIGURATIONS, ENDPOINT)
        self.place = RunFolder(context.binary, self.folder, job, context.cache, journal=context.journal)
        self.calls = context.questions * CONFIGURATIONS
        self.cuts = []

    def interrupt(self, share):
        """Starts or resumes the run and interrupts it after this share of answers. `False`: it ended before."""
        processes = self.choice.choice([1, 1, 3])
        child = self.place.start(("resume", "latest") if self.place.id() else ("run", "job.toml"), processes=processes)
        command = Command(child, processes)
        wanted = share * self.calls
        while True:
            summary = self.server.summary()
            if child.poll() is not None:
                sys.exit(f"{self.folder}: ended with {child.returncode}\n{self.place.said()[-4000:]}")
            if summary["in_flight"] >= SHARE * self.calls and summary["answered"] >= wanted:
                break
            if summary["in_flight"] == 0 and summary["answered_bodies"] == self.calls:
                child.wait()
                return False
            time.sleep(0.002)
        time.sleep(self.choice.random() * 0.03)
        victim = self.choice.choice([0, 0, -1]) if self.kind == "kill" else -1
        summary = self.server.summary()
        pid = child.pid if victim == -1 or processes == 1 else command.members()[victim]
        before = time.time()
        os.kill(pid, signal.SIGKILL if self.kind == "kill" else signal.SIGTERM)
        if pid == child.pid or self.kind == "term":
            child.wait()
        else:
            wait_for_death(pid)
        dead = time.time()
        if self.kind == "kill":
            # Of several, the others notice and leave by themselves.
            if victim == -1 and processes > 1:
                wait_for_session(child.pid)
                dead = time.time()
            code = child.wait()
        else:
            code = child.returncode
        self.cuts.append({"kind": self.kind, "processes": processes, "victim": victim, "before": before, "dead": dead,
                          "in_flight": summary["in_flight"], "answered": summary["answered"], "code": code})
        return True

    def run(self):
        context, begun = self.context, time.monotonic()
        try:
            self.interrupt(self.choice.random() * 0.4)
            if self.choice.random() < 0.9:
                self.interrupt(0.45 + self.choice.random() * 0.2)
            self.server.change(latency={"first_ms": 20, "sigma": 0.0})
            code, _ = self.place.run(("resume", "latest"), allowed=(0, 1, 2, 75))
            self.server.stop()
            row = {"round": self.number, "kind": self.kind, "calls": self.calls, "cuts": self.cuts, "load": load(),
                   "wrong": [] if code == 0 else [f"the last resume ended with {code}"]}
            self.judge_cuts(row, self.server.entries())
            self.place.verify()
            if self.place.figures() != context.figures:
                row["wrong"].append("tables differ from the unbroken run's")
            row["seconds"] = round(time.monotonic() - begun, 1)
            return row
        finally:
            self.server.kill()
            if context.clear:
                shutil.rmtree(self.folder, ignore_errors=True)

    def judge_cuts(self, row, entries):
        """Repeated bodies of each interruption, and the money of the whole round."""
        edges = [0.0] + [cut["dead"] for cut in self.cuts] + [float("inf")]
        asked = {}
        for entry in sorted(entries, key=lambda entry: entry["begun"]):
            generation = sum(edge <= entry["begun"] for edge in edges) - 1
            asked.setdefault(entry["body"], []).append((generation, entry))
        bearable = 0.0
        for place, cut in enumerate(self.cuts):
            mine = [entry for entry in entries if edges[place] <= entry["begun"] < cut["dead"]]
            end = lambda entry: entry["begun"] + entry["ms"] / 1000  # noqa: E731
            open_calls = [entry for entry in mine if end(entry) > cut["before"]]
            recent = [entry for entry in mine if cut["before"] - LAST_SECOND <= end(entry) <= cut["before"]]
            excused = {entry["body"] for entry in open_calls + recent}
            repeated = {body for body, calls in asked.items()
                        for (first, _), (then, _) in zip(calls, calls[1:]) if first == place < then}
            cut |= {"open": len(open_calls), "recent": len(recent), "repeated": len(repeated),
                    "others": len(repeated - excused)}
            bearable += sum(entry["money"] for entry in open_calls + recent)
            if self.kind == "kill":
                late = len(repeated) > len(open_calls) + len(recent) or cut["others"]
                if late:
                    ages = sorted(cut["before"] - end(entry) for entry in mine if entry["body"] in repeated - excused)
                    row["wrong"].append(f"{cut['others']} bodies were answered before and asked again: {ages[-5:]}")
                if len(open_calls) < SHARE * self.calls:
                    cut["few"] = True
            else:
                last = max((end(entry) for entry in open_calls), default=cut["before"])
                cut |= {"longest_open_s": round(last - cut["before"], 3), "left_s": round(cut["dead"] - last, 3)}
                if cut["dead"] - last > LEAVE_S:
                    row["wrong"].append(f"left {cut['dead'] - last:.2f} s after the last open call")
                if repeated:
                    row["wrong"].append(f"{len(repeated)} bodies repeated after SIGTERM")
                if cut["code"] != 75:
                    row["wrong"].append(f"SIGTERM ended with {cut['code']}")
        log, counted = sum(entry["money"] for entry in entries), self.place.counted_money()
        row |= {"log_money": log, "counted_money": counted, "bearable_money": bearable, "bodies": len(asked)}
        if not counted - 1e-9 <= log <= counted + bearable + 1e-9:
            row["wrong"].append(f"counted {counted}, log {log}, calls that a kill may have cost {bearable}")
        if len(asked) != self.calls:
            row["wrong"].append(f"{len(asked)} bodies of {self.calls}")


def wait_for_death(pid):
    """Waits until a process that is no child of this one is gone or a zombie."""
    while True:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.001)


def wait_for_session(session):
    """Waits until no process of a session is left; a killed supervisor takes its children with it."""
    while any(pid.isdigit() and session_of(pid) == session for pid in os.listdir("/proc")):
        time.sleep(0.005)


def session_of(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[3]) if fields[0] != "Z" else None
    except (FileNotFoundError, ProcessLookupError):
        return None


def report(rows):
    print("| kind | rounds | interruptions | calls in flight (least, mean) | answered in the last second, mean | "
          "repeated (mean, most) | most of what was allowed | others repeated | left after the last open call, s | "
          "wrong |")
    print("| --- |" + " ---: |" * 9)
    for kind in ["kill", "term"]:
        chosen = [row for row in rows if row["kind"] == kind]
        cuts = [cut for row in chosen for cut in row["cuts"]]
        if not cuts:
            continue
        mean = lambda name: sum(cut[name] for cut in cuts) / len(cuts)  # noqa: E731
        share = max(cut["repeated"] / max(1, cut["open"] + cut["recent"]) for cut in cuts)
        left = max((cut["left_s"] for cut in cuts if "left_s" in cut), default="")
        cells = [kind, len(chosen), len(cuts), f"{min(cut['open'] for cut in cuts)}, {mean('open'):.0f}",
                 f"{mean('recent'):.0f}", f"{mean('repeated'):.0f}, {max(cut['repeated'] for cut in cuts)}",
                 f"{share:.2f}", sum(cut["others"] for cut in cuts), left, sum(bool(row["wrong"]) for row in chosen)]
        print(f"| {' | '.join(map(str, cells))} |")
    log, counted = sum(row["log_money"] for row in rows), sum(row["counted_money"] for row in rows)
    bearable = sum(row["bearable_money"] for row in rows)
    print(f"\nMoney over all rounds: counted {counted:.6f}, by the log {log:.6f}, counted and what interruptions may "
          f"have cost {counted + bearable:.6f}.")


def is_enough(rows, kind, wanted):
    """A kill counts if enough calls were in flight at that moment by the server's log."""
    return sum(not cut.get("few") for row in rows if row["kind"] == kind for cut in row["cuts"]) >= wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("interruptions.jsonl"))
    parser.add_argument("--resume", action="store_true", help="go on with the rounds of the results")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--terms", type=int, default=20)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="end after the round that is under way then")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", dest="clear", action="store_false", help="keep the folders of rounds")
    arguments = parser.parse_args()
    there = arguments.results.exists()
    if there and not arguments.resume:
        parser.error(f"{arguments.results} is there: --resume goes on with it")
    rows = [json.loads(line) for line in arguments.results.read_text().splitlines()] if there else []
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    context = argparse.Namespace(binary=arguments.binary.resolve(), folder=folder, cache=folder / "cache",
                                 seed=arguments.seed, questions=arguments.questions, clear=arguments.clear)
    context.journal = warm_journal(context.binary, folder / "warm", context.cache, questions=context.questions)
    server = SimulatedServer(context.binary, folder, {}, f"unbroken-{time.time_ns():x}")
    job = job_text(server.url, context.questions, CONFIGURATIONS, ENDPOINT)
    place = RunFolder(context.binary, folder / "unbroken", job, context.cache, store=f"store-{time.time_ns():x}")
    place.run()
    context.figures = place.figures()
    server.stop()
    begun = time.monotonic()
    with arguments.results.open("a") as out:
        while not (is_enough(rows, "kill", arguments.kills) and is_enough(rows, "term", arguments.terms)):
            if arguments.minutes and time.monotonic() - begun > 60 * arguments.minutes:
                break
            number = max((row["round"] for row in rows), default=0) + 1
            terms_due = not is_enough(rows, "term", arguments.terms)
            kills_due = not is_enough(rows, "kill", arguments.kills)
            kind = "term" if terms_due and (number % 6 == 0 or not kills_due) else "kill"
            row = Round(context, number, kind).run()
            rows.append(row)
            print(json.dumps(row), file=out, flush=True)
            print(f"{number}: {kind}, {[cut['repeated'] for cut in row['cuts']]} repeated of "
                  f"{[cut['open'] + cut['recent'] for cut in row['cuts']]}: {row['wrong'] or 'good'}, "
                  f"{row['seconds']} s", flush=True)
    report(rows)
    sys.exit(1 if any(row["wrong"] for row in rows) else 0)


if __name__ == "__main__":
    main()
