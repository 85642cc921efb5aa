"""Runs jobs over storage that fails, and compares exit codes and final tables with a run over sound storage.

Every fault of `ops/ci/faulty-s3.py` is tried at several places and lengths, with one and two processes, and outages
(the server answers 503, hangs, or resets) of 1, 10 and 60 seconds. Each case has the exit code that it must have; a run
that ends with 75 is resumed over sound storage and must end with the same tables. Cases that are done are in the file
`--results`, and are not tried again. Takes about 20 minutes; `--quick` leaves out the outages of 60 seconds.

    python3 ops/storage/matrix.py --binary target/release/hopeval [--results FILE] [--quick]
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = """
name = "matrix"
[dataset.world]
questions = 120
passages = 800
seed = 7
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.bm25.sweep]
k = [5, 20]
[method.hops]
kind = "iterative_title"
retriever = "bm25"
[run]
chunk = 8
in_flight = 2
"""
PATHS = ["", "questions.parquet", "run.json", "/log/", "outcomes", "journal", "tables", "final"]
PASSING = ["500&count=9", "503&count=9", "reset&count=9", "lost&count=5", "slow&count=9", "hang&count=1",
           "truncated&count=5"]
OUTAGES = ["503", "reset", "hang"]


class Server:
    """The server of one case, with its environment for `hopeval`."""

    def __init__(self):
        command = [sys.executable, ROOT / "ops/ci/faulty-s3.py"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self.environment = kept | {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": "test",
                                   "AWS_SECRET_ACCESS_KEY": "test", "AWS_TIMEOUT": "3s"}

    def order(self, fault):
        request = urllib.request.Request(f"{self.url}/_fault?mode={fault}", method="POST", data=b"")
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["requests"]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def cases(quick):
    """Name, fault, seconds until it ends (None: never), patience, processes, allowed exit codes."""
    for processes in (1, 2):
        for path in PATHS:
            for fault in PASSING:
                yield f"{fault} {path} P{processes}", f"{fault}&path={path}", None, 120, processes, [0]
            yield f"403 {path} P{processes}", f"403&method=PUT&path={path}", None, 120, processes, [0, 2]
            for fault in ("500", "hang"):
                yield f"{fault} for good {path} P{processes}", f"{fault}&path={path}", None, 1, processes, [0, 75]
        for fault in OUTAGES:
            for seconds in (1, 10) if quick else (1, 10, 60):
                yield f"{fault} for {seconds} s P{processes}", fault, seconds, 120, processes, [0]
        yield f"unconditional P{processes}", "unconditional", None, 120, processes, [2]


def tables(server, folder, run):
    """Digests of a run's final tables whose bytes are its outcomes' alone."""
    found = {}
    for table in ("outcomes", "scores", "measures"):
        url = f"{server.url}/bucket/runs/runs/{run}/final/{table}.parquet"
        with urllib.request.urlopen(url) as answer:
            found[table] = hashlib.sha256(answer.read()).hexdigest()
    return found


def attempt(binary, folder, case, reference):
    name, fault, seconds, patience, processes, allowed = case
    server = Server()
    try:
        def hopeval(*arguments):
            command = [binary, *arguments, "--store", "s3://bucket/runs", "--cache", folder / "cache",
                       "--storage-patience", str(patience)]
            begun = time.monotonic()
            done = subprocess.run(command, cwd=folder, env=server.environment, capture_output=True, text=True,
                                  timeout=600)
            return done, time.monotonic() - begun

        server.order(fault)
        if seconds is not None:
            threading.Timer(seconds, server.order, ["none"]).start()
        done, took = hopeval("run", "job.toml", "--json", "--workers", "1", "--processes", str(processes))
        met = server.order("none")
        code, wrong = done.returncode, []
        if code not in allowed or (code == 0 and fault.startswith("403") and met):
            wrong.append(f"exit {code}, allowed {allowed}: {done.stderr[-300:]}")
        if code == 75:
            resumed, _ = hopeval("resume", "latest", "--json")
            # Without a run the command itself is to be given again.
            done = resumed if "there is no run" not in resumed.stderr else hopeval("run", "job.toml", "--json")[0]
            if done.returncode != 0:
                wrong.append(f"resumed: exit {done.returncode}: {done.stderr[-300:]}")
        same = None
        if done.returncode == 0:
            found = tables(server, folder, json.loads(done.stdout)["run"])
            same = reference is None or found == reference
            if not same:
                wrong.append("other tables")
            reference = reference or found
        row = {"case": name, "code": code, "seconds": round(took, 1), "met": met, "same": same, "wrong": wrong}
        return row, reference
    finally:
        server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("storage-matrix.jsonl"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    arguments = parser.parse_args()
    binary = arguments.binary.resolve()
    old = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    results = {row["case"]: row for row in map(json.loads, old)}
    with tempfile.TemporaryDirectory() as folder, arguments.results.open("a") as out:
        folder = pathlib.Path(folder)
        (folder / "job.toml").write_text(JOB)
        _, reference = attempt(binary, folder, ("sound", "none", None, 120, 1, [0]), None)
        for case in cases(arguments.quick):
            if case[0] in results or arguments.only not in case[0]:
                continue
            row, _ = attempt(binary, folder, case, reference)
            results[row["case"]] = row
            print(json.dumps(row), file=out, flush=True)
            figures = f"{row['code']:3} {row['seconds']:6} s {row['met']:4}"
            print(f"{row['case']:40} {figures} {'; '.join(row['wrong'])}", flush=True)
    wrong = [row for row in results.values() if row["wrong"]]
    print(f"{len(results)} cases, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
