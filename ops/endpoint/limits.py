"""Measures how much of a server's limits runs use, and how a run shares its calls among replicas that differ.

| case      | what runs                                          | wanted                                             |
| --------- | -------------------------------------------------- | -------------------------------------------------- |
| requests  | one run of three processes, short prompts          | >= 95 % of the limit that binds, <= 1 % of 429s    |
| tokens    | the same with longer prompts, so that tokens bind  | the same                                           |
| strangers | two runs that do not know of each other            | >= 85 %, <= 5 %, neither below 40 % of the sum     |
| replicas  | one run at four servers of `--slots` calls at once | >= 0.9 of what the other three give by their rates |

Limits are 600 requests and 200,000 tokens a minute, enforced by the simulated server as buckets of `--burst` seconds.
Figures are of five minutes, after a first one that is left out. Of the replicas one hangs from the first call on (it
takes calls and answers none) and one is five times slower; what a server gives by its own rate is its slots over the
time of an answer. Cases run beside each other: they wait most of the time. A case is a line of `--results`; `--resume`
leaves out those that are there. A case whose run ends by itself with an error has no line.

Exits with 1 if a case has no line, or is not as wanted.

    python3 ops/endpoint/limits.py --binary target/debug/hopeval --folder DIR --results FILE [--resume]
"""

import argparse
import json
import pathlib
import sys
import threading
import time

from simulated_runs import RunFolder, SimulatedServer, end_session, job_text, load, warm_journal

REQUESTS, TOKENS = 600, 200_000
LATENCY_MS = 500
QUESTIONS = 300
LIMITED = f"""concurrency = 64
requests_per_minute = {REQUESTS}
tokens_per_minute = {TOKENS}
"""


def replaced(text, old, new):
    """The text with something else in it. A replacement that finds nothing would make another case."""
    if old not in text:
        raise ValueError(f"`{old}` is not in the job:\n{text}")
    return text.replace(old, new)


class Case:
    """A case of the table, and its commands with their folders."""

    def __init__(self, context, name):
        self.context, self.name, self.commands = context, name, []

    def server(self, number=0, **settings):
        name = f"{self.name}-{number}-{time.time_ns():x}"
        return SimulatedServer(self.context.binary, self.context.folder, settings, name)

    def limited_server(self):
        limits = {"requests_per_minute": REQUESTS, "tokens_per_minute": TOKENS, "burst_s": self.context.burst}
        return self.server(latency={"first_ms": LATENCY_MS, "sigma": 0.3}, limits=limits)

    def place(self, url, configurations, endpoint, name="run", passages_read=None, more_words=0):
        job = job_text(url, QUESTIONS, configurations, endpoint)
        if passages_read:
            job = replaced(job, "max_iterations = 2", f"max_iterations = 2\nread_passages = {passages_read}")
        if more_words:
            words = "Read with care. " * more_words
            job = replaced(job, "Read the passages and", f"{words}Read the passages and")
        return RunFolder(self.context.binary, self.context.folder / f"{self.name}-{name}", job, self.context.cache,
                         store=f"store-{time.time_ns():x}", journal=self.context.journal)

    def measure(self, entries):
        """Answers, limits and tokens of the time that counts, by the server's log."""
        if not entries:
            raise RuntimeError(f"{self.name}: no call has ended")
        begun = min(entry["begun"] for entry in entries)
        first, last = begun + self.context.skip, begun + self.context.skip + self.context.window
        counted = [entry for entry in entries if first <= entry["begun"] < last]
        answered = [entry for entry in counted if entry["outcome"] == "answered"]
        tokens = sum(entry["tokens"]["prompt"] + entry["tokens"]["completion"] for entry in answered)
        minutes = self.context.window / 60
        requests_share, tokens_share = len(answered) / REQUESTS / minutes, tokens / TOKENS / minutes
        limited = sum(entry["outcome"] == "limited" for entry in counted)
        return {"answered": len(answered), "tokens": tokens, "requests_share": round(requests_share, 4),
                "tokens_share": round(tokens_share, 4), "used": round(max(requests_share, tokens_share), 4),
                "limited": limited, "limited_share": round(limited / max(1, len(counted)), 4),
                "whole": max(entry["begun"] for entry in entries) >= last}

    def wait(self, server):
        """Waits until the time that counts is over, and ends the runs."""
        until = time.monotonic() + self.context.skip + self.context.window + 10
        while time.monotonic() < until + 60 and not self.any_ended():
            entries = server.entries()
            if entries and time.time() > entries[0]["begun"] + self.context.skip + self.context.window + 5:
                break
            time.sleep(1)
        self.end()

    def start(self, place, **layout):
        self.commands.append((place, place.start(**layout)))

    def any_ended(self):
        return any(child.poll() is not None for _, child in self.commands)

    def end(self):
        """Ends the runs. One that has left by itself with an error is no measurement."""
        for place, child in self.commands:
            if child.poll() not in (None, 0):
                raise RuntimeError(f"{place.folder}: ended with {child.returncode}\n{place.said()[-4000:]}")
            end_session(child)

    def one_run(self, binds, passages_read, more_words):
        server = self.limited_server()
        place = self.place(server.url, 20, LIMITED, passages_read=passages_read, more_words=more_words)
        self.start(place, processes=3)
        self.wait(server)
        row = self.measure(server.entries())
        server.stop()
        row["wrong"] = [] if row["whole"] else ["the run ended too early"]
        if row[f"{binds}_share"] < row["used"]:
            row["wrong"].append(f"{binds} do not bind")
        if row["used"] < 0.95:
            row["wrong"].append(f"only {row['used']:.1%} used")
        if row["limited_share"] > 0.01:
            row["wrong"].append(f"{row['limited_share']:.1%} of the calls got 429")
        return row

    def strangers(self):
        """Two runs; whose body a body is, is told by a run without limits of the first one's job."""
        server, free = self.limited_server(), self.server(1)
        self.place(free.url, 20, "concurrency = 64\n", "known").run()
        known = {entry["body"] for entry in free.entries()}
        free.stop()
        places = [self.place(server.url, 20, LIMITED, "first"), self.place(server.url, 20, LIMITED, "second")]
        other = places[1].folder / "job.toml"
        other.write_text(replaced(other.read_text(), "You are reader", "You are the other reader"))
        for place in places:
            self.start(place)
        self.wait(server)
        entries = server.entries()
        row = self.measure(entries)
        parts = [[entry for entry in entries if (entry["body"] in known) == mine] for mine in (True, False)]
        answered = [self.measure(part)["answered"] for part in parts]
        least = min(answered) / max(1, sum(answered))
        server.stop()
        row |= {"least_share": round(least, 4), "wrong": [] if row["whole"] else ["a run ended too early"]}
        for holds, words in [(row["used"] >= 0.85, f"only {row['used']:.1%} used"),
                             (row["limited_share"] <= 0.05, f"{row['limited_share']:.1%} of the calls got 429"),
                             (least >= 0.4, f"one has {least:.1%} of the sum")]:
            if not holds:
                row["wrong"].append(words)
        return row

    def replicas(self):
        context = self.context
        times = [200, 200, 1000, 200]
        servers = [self.server(number, latency={"first_ms": ms}, limits={"slots": context.slots})
                   for number, ms in enumerate(times)]
        servers[3].change(faults={"rate": 1.0, "kinds": ["stall_before_headers"], "stall_ms": 3_600_000})
        place = self.place([server.url for server in servers], 20, "concurrency = 64\nstall_s = 60.0\n")
        self.start(place)
        wanted = 0.9 * QUESTIONS * 20
        while (answered := sum(server.summary()["answered"] for server in servers)) <= wanted:
            if self.any_ended():
                break
            time.sleep(0.1)
        self.end()
        entries = [sorted((entry for entry in server.entries() if entry["outcome"] == "answered"),
                          key=lambda entry: entry["begun"]) for server in servers]
        for server in servers:
            server.kill()
        begun = min(found[0]["begun"] for found in entries if found) + 5
        end = max(found[-1]["begun"] for found in entries if found) - 2
        ends = [[entry["begun"] + entry["ms"] / 1e3 for entry in found] for found in entries]
        rates = [sum(begun <= moment < end for moment in found) / (end - begun) for found in ends]
        own = sum(context.slots / (ms / 1000) for ms in times[:3])
        share = sum(rates) / own
        wrong = [] if answered > wanted else [f"the run ended after {answered} answers"]
        wrong += [] if share >= 0.9 else [f"{share:.1%} of what the others give"]
        return {"rates": [round(rate, 1) for rate in rates], "own_rates": round(own, 1), "used": round(share, 4),
                "seconds": round(end - begun, 1), "wrong": wrong}


CASES = {"requests": lambda case: case.one_run("requests", 1, 0),
         "tokens": lambda case: case.one_run("tokens", None, 60),
         "strangers": lambda case: case.strangers(), "replicas": lambda case: case.replicas()}


def report(rows):
    print("| case | used | requests of their limit | tokens of theirs | 429 | least part of the sum | calls a second | "
          "load |")
    print("| --- |" + " ---: |" * 6 + " --- |")
    share = lambda row, name: f"{row[name]:.1%}" if name in row else ""  # noqa: E731
    for row in rows:
        cells = [row["case"], share(row, "used"), share(row, "requests_share"), share(row, "tokens_share"),
                 share(row, "limited_share"), share(row, "least_share"), row.get("rates", ""), row["load"]]
        print(f"| {' | '.join(map(str, cells))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("limits.jsonl"))
    parser.add_argument("--resume", action="store_true", help="leave out the cases of the results")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--skip", type=float, default=60, help="seconds left out")
    parser.add_argument("--window", type=float, default=300, help="seconds that count")
    parser.add_argument("--burst", type=float, default=1, help="the server's buckets, in seconds of the limits")
    parser.add_argument("--slots", type=int, default=4, help="calls that a replica computes at once")
    arguments = parser.parse_args()
    there = arguments.results.exists()
    if there and not arguments.resume:
        parser.error(f"{arguments.results} is there: --resume goes on with it")
    wanted = arguments.cases.split(",")
    if unknown := set(wanted) - set(CASES):
        parser.error(f"--cases: {', '.join(sorted(unknown))} are not among {', '.join(CASES)}")
    rows = [json.loads(line) for line in arguments.results.read_text().splitlines()] if there else []
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    context = argparse.Namespace(binary=arguments.binary.resolve(), folder=folder, cache=folder / "cache",
                                 skip=arguments.skip, window=arguments.window, burst=arguments.burst,
                                 slots=arguments.slots)
    context.journal = warm_journal(context.binary, folder / "warm", context.cache, questions=QUESTIONS)
    lock, threads = threading.Lock(), []
    with arguments.results.open("a") as out:
        def keep(name):
            case = Case(context, name)
            try:
                row = {"case": name} | CASES[name](case) | {"load": load()}
            finally:
                for _, child in case.commands:
                    end_session(child)
            with lock:
                rows.append(row)
                print(json.dumps(row), file=out, flush=True)
                print(f"{name}: {row['wrong'] or 'good'}", flush=True)

        for name in wanted:
            if not any(row["case"] == name for row in rows):
                threads.append(threading.Thread(target=keep, args=(name,)))
                threads[-1].start()
        for thread in threads:
            thread.join()
    report(rows)
    # A case that raised has told why, and has no row.
    missing = [name for name in wanted if not any(row["case"] == name for row in rows)]
    for name in missing:
        print(f"{name}: not measured")
    sys.exit(1 if missing or any(row["wrong"] for row in rows) else 0)


if __name__ == "__main__":
    main()
