"""Runs with a cap in money against simulated servers: the cap is never exceeded by a server's own log.

Each run has a store of its own and a simulated server of its own, whose log counts the money of every call that it
answered, whoever took the answer. The job is EfficientRAG over a generated world, whose final answers come from the
endpoint: one call for each question and value of `max_tokens`, with 200 in flight. A warm store has the answers of the
small models of the binary, so that a run is calls and little else.

| group   | runs | what is done                                                                                       |
| ------- | ---- | -------------------------------------------------------------------------------------------------- |
| plain   | 30   | one process                                                                                        |
| killed  | 10   | SIGKILL to all processes at a random moment with calls in flight, then `hopeval resume`            |
| two     | 10   | two processes                                                                                      |

Each run must end with 2 at the cap and name the command that goes on. Then: the log's money is at most the cap and at
least 95 % of it; `hopeval show` counts no more than the log, and the log no more than counted and unanswered together.
Every tenth run goes on with the command, and must end well with the tables of a run without a cap. A run that ends
before its kill comes is a fault.

Caps are shares of the money of all questions. A killed run loses the bounds of the calls in flight, less what they
really cost, since nobody knows what became of them: without `tokenizer` a bound takes each byte of a prompt for a
token. So its cap is larger (`--killed-share`).

    python3 ops/endpoint/cap.py --binary target/debug/hopeval --folder DIR --results FILE [--runs 50] [--seed N]

Only the standard library is used. Everything is simulated: no model runs, and no money is spent.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

JOB = """
name = "capped"
[dataset.world]
questions = {questions}
passages = 3000
seed = 11
[service.bm25]
kind = "bm25"
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
threads = 2
[service.filter]
kind = "lm"
model = "hopeval:filter"
threads = 2
[service.llm]
kind = "endpoint"
model = "simulated-llm"
base_url = "{url}"
identity = "the simulated model"
revision = "{revision}"
concurrency = 200
[service.llm.price]
input = 1.0
output = 2.0
request = 0.001
[method.efficientrag]
kind = "efficientrag"
retriever = "bm25"
labeler = "labeler"
filter = "filter"
generator = "llm"
k = 3
[method.efficientrag.sweep]
max_tokens = {tokens}
[run]
in_flight = 400
{cap}
"""
PRICES = ["price.input=1.0", "price.cached_input=1.0", "price.output=2.0", "price.request=0.001"]


class Server:
    """A simulated server of its own port, with its log."""

    def __init__(self, binary, log, *sets):
        command = [binary, "simulate-llm", "--port", "0", "--log", str(log)]
        for value in [*PRICES, *sets]:
            command += ["--set", value]
        self.log = log
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+", self.process.stdout.readline()).group(0)

    def summary(self):
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/simulation/summary", timeout=60) as answer:
            return json.load(answer)

    def settle(self):
        """The summary when no call is open: those of killed processes are billed when they end."""
        while (summary := self.summary())["in_flight"]:
            time.sleep(0.05)
        return summary

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOPEVAL_", "RUST_LOG"))}
    return kept | {"NO_COLOR": "1"}


class Runner:
    """Runs of the job in one folder."""

    def __init__(self, arguments):
        self.binary = str(pathlib.Path(arguments.binary).resolve())
        self.folder = pathlib.Path(arguments.folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)

    def job(self, url, revision, cap, arguments):
        path = self.folder / f"job-{revision}.toml"
        limit = f"cap = {{ money = {cap} }}" if cap else ""
        path.write_text(JOB.format(url=url, revision=revision, cap=limit,
                                   questions=arguments.questions,
                                   tokens=list(range(100, 100 + arguments.points))))
        return path

    def command(self, *arguments, store):
        return [self.binary, *arguments, "--store", str(store), "--cache", str(self.folder / "cache")]

    def run(self, command):
        return subprocess.run(command, env=environment(), capture_output=True, text=True)

    def start(self, command):
        """In a process group of its own, so that a kill reaches all processes."""
        return subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                start_new_session=True)


def log_money(log):
    """The money of a log, call by call."""
    with open(log) as lines:
        entries = [json.loads(line) for line in lines]
    return sum(entry["money"] for entry in entries), len(entries)


def endpoint_row(document):
    return next(row for row in document["cost"] if row["configuration"] is None and row["service"] == "llm")


def only_run(store):
    folder = store / "runs"
    return next(folder.iterdir()).name if folder.is_dir() and any(folder.iterdir()) else None


def tables(store, run):
    folder = store / "runs" / run / "final"
    return [(folder / f"{name}.parquet").read_bytes() for name in ("outcomes", "scores", "measures")]


def kill_with_calls_in_flight(runner, command, server, answers, least):
    """Starts a command and kills it with all of its processes after `answers` further answers. The calls that were in
    flight; `None` if the command had ended by itself."""
    before = server.summary()["answered"]
    child = runner.start(command)
    while True:
        summary = server.summary()
        if child.poll() is not None:
            return None
        if summary["answered"] >= before + answers and summary["in_flight"] >= least:
            break
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    return summary["in_flight"] if child.wait() == -signal.SIGKILL else None


def one_run(runner, arguments, number, group, cap, warm, draws, expected):
    store = runner.folder / f"store-{number}"
    shutil.copytree(warm, store)
    shutil.rmtree(store / "runs", ignore_errors=True)
    log = runner.folder / f"calls-{number}.jsonl"
    server = Server(runner.binary, log, "latency.first_ms=150", "latency.sigma=0.5", f"seed={number}")
    job = runner.job(server.url, f"run{number}", cap, arguments)
    processes = "2" if group == "two" else "1"
    command = runner.command("run", str(job), "--processes", processes, store=store)
    killed, faults = [], []
    if group == "killed":
        answers = draws.randrange(100, arguments.questions * arguments.points // 2)
        killed.append(kill_with_calls_in_flight(runner, command, server, answers, 60))
        if killed[-1] is None:
            faults.append("the run ended before it could be killed")
        command = runner.command("resume", only_run(store), store=store)
    ended = runner.run(command)
    summary = server.settle()
    run = only_run(store)
    money, calls = log_money(log)
    shown = json.loads(runner.run(runner.command("show", run, "--json", store=store)).stdout)
    row = endpoint_row(shown)
    hint = re.search(r"`hopeval (resume \S+ --set \S+)`", ended.stderr)
    result = {
        "run": number, "group": group, "cap": cap, "money": money, "used": money / cap, "calls": calls,
        "peak_in_flight": summary["peak_in_flight"], "killed_in_flight": killed, "code": ended.returncode,
        "counted": row["money"], "unanswered": row["unanswered_money"], "goes_on": bool(hint),
        "repeated_answers": summary["repeated_answers"],
    }
    if ended.returncode != 2 or not hint:
        faults.append(f"ended with {ended.returncode}: {ended.stderr[-600:]}")
    if money > cap:
        faults.append("the log's money exceeds the cap")
    if money < 0.95 * cap:
        faults.append("less than 95 % are used")
    if not row["money"] - 1e-6 <= money <= row["money"] + row["unanswered_money"] + 1e-6:
        faults.append("the log is not between counted, and counted and unanswered")
    if hint and number % 10 == 0:
        set_to = hint.group(1).split("--set ")[1]
        key, value = set_to.split("=")
        onward = runner.run(runner.command("resume", run, "--set", f"{key}={float(value) * 20}", store=store))
        result["went_on"] = onward.returncode
        if onward.returncode != 0:
            faults.append(f"the higher cap ended with {onward.returncode}: {onward.stderr[-600:]}")
        elif tables(store, run) != expected:
            faults.append("the tables differ from those of a run without a cap")
    server.stop()
    result["faults"] = faults
    shutil.rmtree(store)
    log.unlink()
    return result


def warm_store(runner, arguments):
    """A store with the answers of the small models, and the tables of a run without a cap."""
    store = runner.folder / "warm"
    server = Server(runner.binary, runner.folder / "warm.jsonl")
    job = runner.job(server.url, "warm", None, arguments)
    began = time.monotonic()
    ended = runner.run(runner.command("run", str(job), "--json", store=store))
    if ended.returncode != 0:
        sys.exit(ended.stderr)
    summary = server.settle()
    server.stop()
    run = json.loads(ended.stdout)["run"]
    expected = tables(store, run)
    print(f"without a cap: {summary['answered']} calls, {summary['money']:.6f}, "
          f"{time.monotonic() - began:.0f} s", flush=True)
    return store, expected, summary["money"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--runs", type=int, default=50, help="a fifth is killed, a fifth has two processes")
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--points", type=int, default=20, help="calls for each question")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--killed-share", type=float, default=0.92)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    runner, draws = Runner(arguments), random.Random(arguments.seed)
    warm, expected, whole = warm_store(runner, arguments)
    fifth = arguments.runs // 5
    groups = ["killed"] * fifth + ["two"] * fifth
    groups += ["plain"] * (arguments.runs - len(groups))
    draws.shuffle(groups)
    results = []
    with open(arguments.results, "w") as out:
        header = {"simulated": True, "machine": platform.platform(), "cores": os.cpu_count(), **vars(arguments)}
        header = {name: value for name, value in header.items() if name not in ("binary", "folder", "results")}
        out.write(json.dumps(header) + "\n")
        for number, group in enumerate(groups, 1):
            began = time.monotonic()
            cap = round(whole * (arguments.killed_share if group == "killed" else arguments.share), 6)
            result = one_run(runner, arguments, number, group, cap, warm, draws, expected)
            result["seconds"] = round(time.monotonic() - began, 1)
            results.append(result)
            out.write(json.dumps(result) + "\n")
            out.flush()
            print(f"{number:3} {group:6} {result['money']:.6f} of {result['cap']} ({100 * result['used']:.2f} %), "
                  f"{result['calls']} calls, {result['seconds']} s {'; '.join(result['faults'])}", flush=True)
    used = [result["used"] for result in results]
    bad = [result["run"] for result in results if result["faults"]]
    print(f"{len(results)} runs: {100 * min(used):.2f} to {100 * max(used):.4f} % of the cap used; with faults: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
