"""Takes the simulated server away from a run, or makes it refuse for good, and resumes the run.

| case                              | the server, from a third of the calls on                | wanted |
| --------------------------------- | ------------------------------------------------------- | ------ |
| dead                              | is killed, and started again after `--outage` s (180)   | 0      |
| stopped                           | is stopped by SIGSTOP for as long, its connections open | 0      |
| failing                           | answers 503 for as long                                 | 0      |
| dead, stopped, failing for good   | as above, and patience is 5 s                           | 75     |
| limiting, gone for good           | 429 and 404 without end                                 | 75     |
| unauthorized, forbidden,          | 401, 403,                                               |        |
| quota_used_up, payment_required   | 429, 402; also from the first call on                   | 2      |
| unknown                           | never had the model                                     | 2      |

A run that ends with 0 has no failed outcome. One that ends with 75 or 2 does so within `--bound` seconds (5) after the
verdict: the end of the patience, counted from the moment when the server was taken away, or the first answer that says
no. It names the command that goes on, and keeps nothing of what failed: when the server is mended, `resume` gives the
bytes of an unbroken run, every body is answered once by the server's log, and none twice. Each of these cases runs with
1 and 3 processes.

A case is a line of `--results`; `--resume` leaves out those that are there.

    python3 ops/endpoint/outages.py --binary target/debug/hopeval --folder DIR --results FILE [--resume]
"""

import argparse
import collections
import json
import pathlib
import signal
import sys
import threading
import time

from simulated_runs import RunFolder, SimulatedServer, job_text, load, warm_journal

PATIENCE = 5
ENDPOINT = """concurrency = 16
stall_s = 2.0
first_pause_s = 0.1
longest_pause_s = 2.0
"""
REFUSALS = ["unauthorized", "forbidden", "quota_used_up", "payment_required"]
ENDLESS = {"dead": None, "stopped": None, "failing": "unavailable", "limiting": "limit_bare", "gone": "not_found"}


class Case:
    """A run whose server is taken away."""

    def __init__(self, context, name, processes):
        self.context, self.name, self.processes = context, name, processes
        self.folder = context.folder / f"{name.replace(' ', '-')}-{processes}"

    def place_at(self, server, patience):
        job = job_text(server.url, self.context.questions, 4, ENDPOINT + f"patience_s = {patience}\n")
        return RunFolder(self.context.binary, self.folder, job, self.context.cache, store=f"store-{time.time_ns():x}",
                         journal=self.context.journal)

    def serve(self, **settings):
        name = f"{self.folder.name}-{time.time_ns():x}"
        settings = {"latency": {"first_ms": 100}} | settings
        return SimulatedServer(self.context.binary, self.context.folder, settings, name)

    def wait_for_calls(self, server, child, share):
        wanted = share * self.context.questions * 4
        while child.poll() is None and server.summary()["answered"] < wanted:
            time.sleep(0.01)

    def take_away(self, server, kind):
        """Makes the server fail as a case wants it; how to mend it."""
        if kind == "dead":
            server.kill()
            return server.start
        if kind == "stopped":
            server.child.send_signal(signal.SIGSTOP)
            return lambda: server.child.send_signal(signal.SIGCONT)
        server.change(faults={"rate": 1.0, "kinds": [ENDLESS.get(kind) or kind]})
        return lambda: server.change(faults={"rate": 0.0})

    def pass_by(self, kind):
        """An outage that ends."""
        server, seconds = self.serve(), self.context.outage
        place = self.place_at(server, 600)
        child = place.start(processes=self.processes)
        self.wait_for_calls(server, child, 1 / 3)
        mend = self.take_away(server, kind)
        time.sleep(seconds)
        alive = child.poll() is None
        mended = time.monotonic()
        mend()
        code = child.wait()
        after = time.monotonic() - mended
        row = self.row(server, place, code) | {"outage_s": seconds, "alive": alive, "after_s": round(after, 1)}
        row["wrong"] = [] if code == 0 and alive else [f"exit code {code}, alive at the end of the outage: {alive}"]
        row["wrong"] += self.compare(place, server, row)
        return row

    def leave(self, kind, wanted, begun_without):
        """An outage that is longer than the patience, or a refusal."""
        server = self.serve(**({"models": ["another"]} if kind == "unknown" else {}))
        place = self.place_at(server, PATIENCE)
        mend = lambda: server.change(models=["simulated-llm"])  # noqa: E731
        if kind != "unknown" and begun_without:
            mend = self.take_away(server, kind)
        child = place.start(processes=self.processes)
        taken = time.time()
        if kind != "unknown" and not begun_without:
            self.wait_for_calls(server, child, 1 / 3)
            taken = time.time()
            mend = self.take_away(server, kind)
        child.wait()
        ended, code, said = time.time(), child.returncode, place.said()
        row = self.row(server, place, code) if kind != "stopped" else {"code": code}
        if kind in ENDLESS:
            verdict = taken + PATIENCE
        else:
            first = [entry["begun"] + entry["ms"] / 1e3 for entry in server.entries() if entry["status"] in REFUSED]
            verdict = min(first, default=ended)
        row["after_verdict_s"] = round(ended - verdict, 2)
        wrong = [] if code == wanted else [f"exit code {code}, not {wanted}: {said[-800:]}"]
        if not 0 <= ended - verdict <= self.context.bound:
            wrong.append(f"left {ended - verdict:.1f} s after the verdict")
        if "hopeval resume" not in said:
            wrong.append(f"no command that goes on: {said[-800:]}")
        mend()
        row["resume"], _ = place.run(("resume", "latest"), allowed=(0, 1, 2, 75), processes=self.processes)
        row["failed_calls"] = row.get("calls", 0)
        row = row | self.row(server, place, code)
        row["wrong"] = wrong + ([] if row["resume"] == 0 else [f"resume ended with {row['resume']}"])
        row["wrong"] += self.compare(place, server, row)
        return row

    def row(self, server, place, code):
        answers = collections.Counter(entry["body"] for entry in server.entries() if entry["outcome"] == "answered")
        return {"code": code, "calls": len(server.entries()), "answered": len(answers),
                "twice": sum(count > 1 for count in answers.values()), "load": load()}

    def compare(self, place, server, row):
        wrong = []
        place.verify()
        if place.figures() != self.context.figures:
            wrong.append("tables differ from the unbroken run's")
        found = place.rows(4)
        row["failed_outcomes"] = sum(found[name]["status"] != outcome["status"]
                                     for name, outcome in self.context.rows.items())
        if row["failed_outcomes"]:
            wrong.append(f"{row['failed_outcomes']} outcomes failed")
        if row["answered"] != self.context.bodies:
            wrong.append(f"{row['answered']} bodies answered of {self.context.bodies}")
        # A stopped server answers calls that its caller has left; a killed one's log lacks the calls in flight.
        if row["twice"] and "stopped" not in self.name:
            wrong.append(f"{row['twice']} bodies were answered twice")
        server.stop()
        return wrong


REFUSED = {401, 402, 403, 404, 429}


def cases(context):
    """(name, processes, what to do) of every case."""
    for kind in ["dead", "stopped", "failing"]:
        yield kind, 1, lambda case, kind=kind: case.pass_by(kind)
    for processes in (1, 3):
        for kind in ENDLESS:
            yield f"{kind} for good", processes, lambda case, kind=kind: case.leave(kind, 75, False)
        for kind in REFUSALS:
            yield kind, processes, lambda case, kind=kind: case.leave(kind, 2, False)
            yield f"{kind} from the first", processes, lambda case, kind=kind: case.leave(kind, 2, True)
        yield "unknown", processes, lambda case: case.leave("unknown", 2, True)


def report(rows):
    print("| case | processes | exit code | left after the verdict, s | resume | failed outcomes | twice | load |")
    print("| --- |" + " ---: |" * 6 + " --- |")
    for row in rows:
        cells = [row["case"], row["processes"], row["code"], row.get("after_verdict_s", ""), row.get("resume", ""),
                 row["failed_outcomes"], row["twice"], row["load"]]
        print(f"| {' | '.join(map(str, cells))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("outages.jsonl"))
    parser.add_argument("--resume", action="store_true", help="leave out the cases of the results")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--outage", type=float, default=180)
    parser.add_argument("--bound", type=float, default=5, help="seconds from the verdict to the end")
    parser.add_argument("--only", default="", help="cases whose name has this")
    arguments = parser.parse_args()
    there = arguments.results.exists()
    if there and not arguments.resume:
        parser.error(f"{arguments.results} is there: --resume goes on with it")
    rows = [json.loads(line) for line in arguments.results.read_text().splitlines()] if there else []
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    context = argparse.Namespace(binary=arguments.binary.resolve(), folder=folder, cache=folder / "cache",
                                 questions=arguments.questions, outage=arguments.outage, bound=arguments.bound)
    context.journal = warm_journal(context.binary, folder / "warm", context.cache, questions=context.questions)
    reference = Case(context, "unbroken", 1)
    server = reference.serve()
    place = reference.place_at(server, 600)
    place.run()
    context.figures, context.rows, context.bodies = place.figures(), place.rows(4), server.summary()["answered_bodies"]
    server.stop()
    lock, threads = threading.Lock(), []
    with arguments.results.open("a") as out:
        def keep(name, processes, act):
            row = {"case": name, "processes": processes} | act(Case(context, name, processes))
            with lock:
                rows.append(row)
                print(json.dumps(row), file=out, flush=True)
                print(f"{name}, {processes}: {row['wrong'] or 'good'}", flush=True)

        for name, processes, act in cases(context):
            done = any((row["case"], row["processes"]) == (name, processes) for row in rows)
            if done or arguments.only not in name:
                continue
            if name in ("dead", "stopped", "failing"):
                # The long ones wait beside the others.
                threads.append(threading.Thread(target=keep, args=(name, processes, act)))
                threads[-1].start()
            else:
                keep(name, processes, act)
        for thread in threads:
            thread.join()
    report(rows)
    sys.exit(1 if any(row["wrong"] for row in rows) else 0)


if __name__ == "__main__":
    main()
