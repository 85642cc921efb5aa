"""Measures the CPU seconds of a call: hopeval, aiohttp, openai and inspect_ai against one simulated server.

The server has one core, the client the other, one client at a time. Every prompt has about 8 KB: a few-shot text, four
passages of a generated world, a question. hopeval does what a run of `one_step_qa` with BM25 does: retrieval, the
method's machine, the key and the journal's look-up, the prompt, HTTP, reading the answer, the journal, outcomes and
tables; world, corpus and index are made before. The others have their prompts ready, send, read the JSON and write a
line to a file; inspect_ai does what an evaluation does. hopeval has one worker, for its one core (its default is two).
As many questions are open in hopeval as calls may be in flight (`in_flight`): what waits longer only fills memory.

* *CPU a call* is the growth between a short run and a long one: what a program needs to start is left out, and given
  beside it. It is the user and system time of the client's processes.
* *Path* is the part of it in the threads that a call goes through: workers, prompts, HTTP, the journal, the store. Not
  in it are the threads that write outcomes and commits, and the main thread, which makes the run and its final tables:
  aiohttp's and openai's clients have nothing of the kind.
* *Call* is the path without the workers' operators behind the outcome, which evaluate it, add it to live tallies and
  hand it to its writer. What is left are machines, keys, the journal's look-up, prompts, HTTP, the reading of answers
  and the journal. It is an estimate: a worker's CPU time is shared out among its operators by their times on the clock,
  and so is what the worker does between its operators. Another run of half the calls logs these times.
* *Wide* is hopeval alone with 10,000 calls in flight at a server that takes 5 s for each: calls a second between the
  20th and the 80th hundredth of its calls, and the most resident memory. *Shared* is the same with a hundred calls on
  each connection (HTTP/2).
* *Assembly* is the CPU time of a call whose prompt has a few-shot text of 6,000 tokens, under a budget and with a
  tokenizer, and of one without: the difference is what putting the prompt together may cost.

Rows go to `--results`; `--resume` leaves out those that are there. `--venv` has aiohttp, openai and inspect-ai. A
shared machine is faster and slower by a fifth from one minute to the next: with `--rounds N` hopeval, aiohttp, openai
and inspect_ai take turns N times, and a side's figures are the means of its rounds. The shares of single rounds stand
beside those of the means.

    python3 ops/endpoint/throughput.py --binary target/release/hopeval --venv VENV --folder DIR --results FILE
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import typing

from simulated_runs import KEY, PRICE, SimulatedServer, environment, load

SERVER_CORE, CLIENT_CORE, WORKERS = "0", "1", 1
# The main thread makes the run and its final tables. It waits while calls are made.
BEHIND_THE_PATH = ["main", "outcomes", "commits"]
# The operators of a worker behind the outcome: measures, tallies (`fold` to `CountTotal`), parts, commits.
BEHIND_THE_OUTCOME = ["FlatMap", "fold", "Arrange: CountTotal", "CountTotal", "outcomes", "correct", "commit"]
# They take turns, each once in a round.
SIDES = ["hopeval", "aiohttp", "openai", "inspect_ai"]
OPERATOR_LOG = {"RUST_LOG": "hopeval::process::operator_times=debug"}
LOOK_S = 0.05
PEERS = pathlib.Path(__file__).resolve().parent / "peers"
# A few-shot text without a question of a world in it.
SHOT = ("Worked example {number}: the passages name a bridge, the builder of the bridge and the town of his birth, so "
        "the reader goes from one to the next and writes down the last name alone. ")


SHOT_BYTES = 1600


def few_shot(size):
    text = ""
    while len(text) < size:
        text += SHOT.format(number=text.count("Worked"))
    return text[:size]


class Timed(typing.NamedTuple):
    """What a client's run took."""
    cpu_s: float
    wall_s: float
    # Of its largest process.
    memory_bytes: int
    # By thread, as last looked at.
    thread_cpu_s: dict
    # The share of a worker's time behind the outcome.
    behind_outcome: float = 0.0


def timed(command, folder, cores=CLIENT_CORE, **variables):
    """Runs a client to its end."""
    begun, threads = time.monotonic(), {}
    with open(folder / "client-errors", "w") as errors:
        child = subprocess.Popen(["taskset", "-c", cores, *map(str, command)], cwd=folder, stdout=subprocess.DEVNULL,
                                 stderr=errors, env=environment() | variables)
        ended = 0
        while not ended:
            time.sleep(LOOK_S)
            look_at_threads(child.pid, threads)
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{command[:3]}: {child.returncode}: {(folder / 'client-errors').read_text()[-3000:]}")
    return Timed(usage.ru_utime + usage.ru_stime, time.monotonic() - begun, usage.ru_maxrss * 1024, threads)


def look_at_threads(pid, threads):
    """Notes the CPU seconds of a process's threads by number and name."""
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            name = "main" if task.name == str(pid) else (task / "comm").read_text().strip()
            threads[task.name, name] = int((task / "schedstat").read_text().split()[0]) / 1e9
        except (OSError, IndexError):
            # It has ended meanwhile.
            continue


def path_seconds(run):
    """CPU seconds of the threads on a call's path: without those that write outcomes, commits and final tables.

    What those did after the last look (`LOOK_S`) counts for the path, too.
    """
    return run.cpu_s - sum(seconds for (_, name), seconds in run.thread_cpu_s.items() if name in BEHIND_THE_PATH)


def share_behind_the_outcome(text):
    """The share of a worker's operators behind the outcome in the time of all of them, by its log."""
    (line,) = re.findall("operators of worker 0, in seconds: (.*)", text)
    seconds = {name: float(spent) for name, spent in (part.rsplit(" ", 1) for part in line.split(", "))}
    missing = set(BEHIND_THE_OUTCOME) - set(seconds)
    if missing:
        raise RuntimeError(f"no operators {missing} among {list(seconds)}")
    return sum(seconds[name] for name in BEHIND_THE_OUTCOME) / sum(seconds.values())


def worker_seconds(run):
    """CPU seconds of the workers."""
    return sum(seconds for (_, name), seconds in run.thread_cpu_s.items() if name.startswith("timely:work"))


def solved_question(number, text):
    """A solved question of a job, with `text` as its passage."""
    return (f'{{ question = "Who built bridge {number}?", answer = "Ada", '
            f'passages = [{{ title = "Bridge {number}", text = {json.dumps(text)} }}] }}')


def reader_job(url, questions, configurations, endpoint, words, open_calls):
    """A job whose `questions` times `configurations` prompts differ, each with `words` in its solved questions."""
    shots = ", ".join(solved_question(at // SHOT_BYTES, words[at : at + SHOT_BYTES])
                      for at in range(0, len(words), SHOT_BYTES))
    methods = "\n".join(f"""
[method.reader{number:02}]
kind = "one_step_qa"
retriever = "bm25"
generator = "llm"
k = 4
style = "direct"
demonstrations = [{shots}]
distractors = 0
instruction = "You are reader number {number}. Read the passages and answer. "
""" for number in range(configurations))
    price = "\n".join(f"{key} = {value}" for key, value in PRICE.items())
    return f"""
name = "throughput"
[dataset.world]
questions = {questions}
passages = 4000
seed = 21
[service.bm25]
kind = "bm25"
[service.llm]
kind = "endpoint"
model = "simulated-llm"
base_url = {json.dumps(url)}
key_env = "SIMULATED_KEY"
identity = "the simulated model"
{endpoint}
[service.llm.price]
{price}
{methods}
[run]
in_flight = {max(1, open_calls // (configurations * WORKERS))}
"""


class Bench:
    """The folder, the binary and the world of all rows."""

    def __init__(self, arguments):
        self.binary, self.folder = arguments.binary.resolve(), arguments.folder.resolve()
        self.python, self.cache = arguments.venv / "bin" / "python", self.folder / "cache"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.in_flight, self.calls = arguments.in_flight, arguments.calls

    def server(self, name, first_ms):
        return SimulatedServer(self.binary, self.folder, {"latency": {"first_ms": first_ms}},
                               f"{name}-{time.time_ns():x}", cores=SERVER_CORE)

    def hopeval(self, url, questions, configurations, endpoint, words, open_calls, logs_operators=False):
        """A run with an empty journal. `plan` makes the world, the corpus and the index before it."""
        folder = self.folder / "run"
        folder.mkdir(exist_ok=True)
        (folder / "job.toml").write_text(reader_job(url, questions, configurations, endpoint, words, open_calls))
        store = folder / f"store-{time.time_ns():x}"
        places = ["job.toml", "--store", store, "--cache", self.cache]
        timed([self.binary, "plan", *places], folder, SIMULATED_KEY=KEY)
        command = [self.binary, "run", *places, "--workers", str(WORKERS), "--json"]
        run = timed(command, folder, SIMULATED_KEY=KEY, **(OPERATOR_LOG if logs_operators else {}))
        if logs_operators:
            run = run._replace(behind_outcome=share_behind_the_outcome((folder / "client-errors").read_text()))
        return run

    def peer(self, script, url, calls, words):
        world = self.folder / "world"
        if not world.exists():
            subprocess.run([self.binary, "world", "--questions", "1000", "--passages", "4000", "--seed", "21", "--out",
                            world], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        command = [self.python, PEERS / script, url, KEY, str(calls), str(self.in_flight), world, words,
                   self.folder / f"{script}-{time.time_ns():x}"]
        return timed(command, self.folder, PYTHONPATH=str(PEERS))

    def row(self, name, few, many, act, has_path=False):
        """Growth between `few` and `many` calls. With `has_path` of the path, too."""
        server = self.server(name, 100)
        small = act(server.url, few)
        before = server.summary()
        large = act(server.url, many)
        summary = server.summary()
        behind = act(server.url, many // 2, logs_operators=True).behind_outcome if has_path else None
        server.stop()
        answered = summary["answered"] - before["answered"]
        tokens = summary["tokens"]["prompt"] - before["tokens"]["prompt"]
        # Some questions of a world repeat others: their calls are the same, and asked once.
        if answered < 0.9 * many or summary["answered"] != summary["calls"]:
            raise RuntimeError(f"{name}: {summary}")
        few = before["answered"]
        cpu = (large.cpu_s - small.cpu_s) / (answered - few)
        row = {"row": name, "calls": answered, "cpu_ms": round(cpu * 1000, 4),
               "start_s": round(small.cpu_s - few * cpu, 2), "whole_cpu_s": round(large.cpu_s, 2),
               "wall_s": round(large.wall_s, 2), "memory_mb": round(large.memory_bytes / 1e6),
               "a_second": round(answered / large.wall_s), "prompt_tokens": round(tokens / answered), "load": load()}
        if has_path:
            row["workers"] = WORKERS
            path, workers = (of(large) - of(small) for of in (path_seconds, worker_seconds))
            growth = {"path_ms": path, "call_ms": path - behind * workers}
            row |= {name: round(seconds / (answered - few) * 1000, 4) for name, seconds in growth.items()}
        return row

    def wide(self, calls, name="wide", endpoint=""):
        server = self.server(name, 5000)
        endpoint += "concurrency = 10000\n"
        questions = calls // 20
        run = self.hopeval(server.url, questions, 20, endpoint, few_shot(6800), 10_000)
        ends = sorted(entry["begun"] + entry["ms"] / 1e3 for entry in server.entries()
                      if entry["outcome"] == "answered")
        summary = server.summary()
        server.stop()
        first, last = len(ends) // 5, 4 * len(ends) // 5
        return {"row": name, "calls": len(ends), "peak_in_flight": summary["peak_in_flight"],
                "connections": summary["connections"], "memory_mb": round(run.memory_bytes / 1e6),
                "a_second": round((last - first) / (ends[last] - ends[first])), "wall_s": round(run.wall_s, 1),
                "cpu_ms": round(run.cpu_s / len(ends) * 1000, 4), "load": load()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--venv", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--tokenizer", type=pathlib.Path, help="a folder with a tokenizer.json, for the row `assembly`")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("throughput.jsonl"))
    parser.add_argument("--resume", action="store_true", help="leave out the rows of the results")
    parser.add_argument("--in-flight", type=int, default=500)
    parser.add_argument("--calls", type=int, default=20_000, help="of hopeval and aiohttp; the slower ones have fewer")
    parser.add_argument("--rounds", type=int, default=1, help="turns of each side (default: 1)")
    parser.add_argument("--rows", default="hopeval,aiohttp,openai,inspect_ai,wide,shared,plain,assembly")
    arguments = parser.parse_args()
    there = arguments.results.exists()
    if there and not arguments.resume:
        parser.error(f"{arguments.results} is there: --resume goes on with it")
    rows = [json.loads(line) for line in arguments.results.read_text().splitlines()] if there else []
    bench, calls, words = Bench(arguments), arguments.calls, few_shot(6800)
    endpoint = f"concurrency = {arguments.in_flight}\n"
    long_words = few_shot(24_000)
    budget = endpoint + f'tokenizer = "{arguments.tokenizer}"\ncontext_tokens = 8000\n'

    def run(words, endpoint, configurations=20):
        return lambda url, number, **log: bench.hopeval(url, number // configurations, configurations, endpoint,
                                                        words, arguments.in_flight, **log)

    acts = {
        "hopeval": lambda: bench.row("hopeval", calls // 10, calls, run(words, endpoint), has_path=True),
        "aiohttp": lambda: bench.row("aiohttp", calls // 10, calls,
                                     lambda url, number: bench.peer("aiohttp_client.py", url, number, words)),
        "openai": lambda: bench.row("openai", calls // 40, calls // 4,
                                    lambda url, number: bench.peer("openai_client.py", url, number, words)),
        "inspect_ai": lambda: bench.row("inspect_ai", calls // 80, calls // 16,
                                        lambda url, number: bench.peer("inspect_client.py", url, number, words)),
        "wide": lambda: bench.wide(3 * calls),
        "shared": lambda: bench.wide(3 * calls, "shared", "streams_per_connection = 100\n"),
        "plain": lambda: bench.row("plain", calls // 40, calls // 4, run(long_words, endpoint), has_path=True),
        "assembly": lambda: bench.row("assembly", calls // 40, calls // 4, run(long_words, budget), has_path=True),
    }
    names, done = arguments.rows.split(","), {(row["row"], row["round"]) for row in rows}
    turns = [(name, turn) for turn in range(1, arguments.rounds + 1) for name in names if turn == 1 or name in SIDES]
    with arguments.results.open("a") as out:
        for name, turn in turns:
            if (name, turn) in done or (name == "assembly" and not arguments.tokenizer):
                continue
            row = acts[name]() | {"round": turn}
            rows.append(row)
            print(json.dumps(row), file=out, flush=True)
            print(json.dumps(row), flush=True)
    report(rows)


def report(rows):
    """Figures of all rows, and hopeval's CPU time of a call as a share of the others'."""
    print("| side | rounds | calls | CPU ms a call | of the path | of the call | calls a second | start, CPU s "
          "| memory MB | load |")
    print("| --- |" + " ---: |" * 8 + " --- |")
    by_name = {}
    for row in rows:
        by_name.setdefault(row["row"], []).append(row)
    for name, turns in by_name.items():
        parts = [mean(turns, figure) if figure in turns[0] else "" for figure in ("cpu_ms", "path_ms", "call_ms")]
        cells = [name, len(turns), turns[0]["calls"], *parts, round(mean(turns, "a_second")),
                 turns[0].get("start_s", ""), max(turn["memory_mb"] for turn in turns), turns[-1]["load"]]
        print(f"| {' | '.join(map(str, cells))} |")
    if "hopeval" in by_name:
        report_shares(by_name)


def report_shares(by_name):
    """hopeval's shares of its peers' CPU time: of the means, and in each round."""
    # inspect_ai writes its outcomes, too: it is no peer of the path.
    figures = {"aiohttp": ["cpu_ms", "path_ms", "call_ms"], "openai": ["cpu_ms", "path_ms", "call_ms"],
               "inspect_ai": ["cpu_ms"]}
    print("\n| hopeval's share of | of the means | round by round |\n| --- | ---: | --- |")
    for peer in filter(by_name.get, figures):
        for figure in figures[peer]:
            of_means = mean(by_name["hopeval"], figure) / mean(by_name[peer], "cpu_ms")
            of_rounds = [mine[figure] / other["cpu_ms"] for mine, other in zip(by_name["hopeval"], by_name[peer])]
            print(f"| {peer}, {figure} | {share(of_means)} | {', '.join(map(share, of_rounds))} |")


def share(value):
    return f"{value:.2f}" if value > 0.2 else f"1/{1 / value:.1f}"


def mean(turns, figure):
    return round(sum(turn[figure] for turn in turns) / len(turns), 4)


if __name__ == "__main__":
    sys.exit(main())
