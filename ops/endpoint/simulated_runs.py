"""Jobs of hopeval against its simulated server of language models. The scripts of this folder share it.

A job is EfficientRAG over a generated world, under several configurations that differ in their prompts alone: each
question of each configuration is one call with a body of its own. The server (`hopeval simulate-llm`) is a simulation,
and so is everything that is found by it about money, limits and outages.
"""

import atexit
import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ops" / "chaos"))

from stored_runs import FolderStore, RunState, environment, figures  # noqa: E402, F401
import stored_runs  # noqa: E402

KEY = "sk-simulated-0123456789abcdef"
PRICE = {"input": 1.0, "output": 2.0, "request": 0.0001}
# The fields of a prompt stand where the method wants them; only the first words differ.
PROMPT = ("You are reader number {number}. Read the passages and answer the question by JSON with the key `answer`.\\n"
          "{{knowledge}}\\nQuestion: {{question}}")


def warm_journal(binary, folder, cache, **job):
    """A journal with the answers of the job's own small models, so that all calls of the endpoint come at once."""
    text = job_text("http://127.0.0.1:9/v1", configurations=1, **job)
    kept = [line for line in text.splitlines() if not line.startswith(("generator", "prompt"))]
    place = RunFolder(binary, folder, "\n".join(kept), cache, store=f"store-{time.time_ns():x}")
    place.run()
    return place.store.root / "journal"


def job_text(url, questions=1000, configurations=20, endpoint="", run="", passages=4000, seed=21):
    """A job of `questions` times `configurations` calls of the server at `url`."""
    urls = json.dumps(url)
    price = "\n".join(f"{key} = {value}" for key, value in PRICE.items())
    methods = "\n".join(f"""
[method.reader{number:02}]
kind = "efficientrag"
retriever = "bm25"
labeler = "labeler"
filter = "filter"
generator = "llm"
k = 4
max_iterations = 2
prompt = "{PROMPT.format(number=number)}"
""" for number in range(configurations))
    return f"""
name = "behind-a-simulated-endpoint"
[dataset.world]
questions = {questions}
passages = {passages}
seed = {seed}
[service.bm25]
kind = "bm25"
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
threads = 1
[service.filter]
kind = "lm"
model = "hopeval:filter"
threads = 1
[service.llm]
kind = "endpoint"
model = "simulated-llm"
base_url = {urls}
key_env = "SIMULATED_KEY"
identity = "the simulated model"
{endpoint}
[service.llm.price]
{price}
{methods}
[run]
allowed_failed = 1.0
{run}
"""


class SimulatedServer:
    """`hopeval simulate-llm` on a loopback port, with a log in a file."""

    def __init__(self, binary, folder, settings, name="server", cores=None):
        self.binary, self.folder, self.name, self.cores = binary, pathlib.Path(folder), name, cores
        self.settings, self.port = {"api_key": KEY, "price": PRICE} | settings, 0
        self.log = self.folder / f"{name}.jsonl"
        self.start()

    def start(self):
        """Starts it; a later start takes the first one's port."""
        command = [self.binary, "simulate-llm", "--port", str(self.port), "--log", self.log]
        command += [part for key, value in flat_settings(self.settings) for part in ("--set", f"{key}={value}")]
        if self.cores is not None:
            command = ["taskset", "-c", self.cores, *command]
        # A session of its own: when a shell's process group loses its shell, the kernel wakes its stopped processes.
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), text=True,
                                      start_new_session=True)
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError("the simulated server does not start")
        self.url = line.split()[-1]
        self.port = int(re.search(r":(\d+)/", self.url)[1])
        # A script that fails leaves no server behind.
        atexit.register(self.child.kill)

    def ask(self, path, change=None):
        data = None if change is None else json.dumps(change).encode()
        request = urllib.request.Request(self.url.removesuffix("/v1") + path, data=data,
                                         headers={"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def summary(self):
        return self.ask("/simulation/summary")

    def change(self, **settings):
        return self.ask("/simulation/settings", settings)

    def entries(self):
        """The log of the file: calls that have ended. A last line that is not whole yet is left out."""
        try:
            text = self.log.read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait()


def flat_settings(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat_settings(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", toml_value(value)


def toml_value(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value)


class RunFolder:
    """A folder with a job, its store and what hopeval said. The cache may be shared: nothing in it is a result."""

    def __init__(self, binary, folder, job, cache, store="store", journal=None, log="warn,hopeval_jobs=info"):
        self.binary, self.folder = binary, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "job.toml").write_text(job)
        self.store, self.cache = FolderStore(self.folder / store), cache
        if journal is not None:
            shutil.copytree(journal, self.folder / store / "journal", copy_function=os.link)
        self.environment = environment(SIMULATED_KEY=KEY, RUST_LOG=log)
        self.begun = 0

    def start(self, what=("run", "job.toml"), processes=1, workers=1, cores=None, **variables):
        """Starts a command of the run in a session of its own. What it says is in `errors-N`."""
        command = [self.binary, *what, "--store", self.store.uri, "--cache", self.cache, "--processes", str(processes),
                   "--workers", str(workers), "--json"]
        if cores is not None:
            command = ["taskset", "-c", cores, *command]
        self.errors = self.folder / f"errors-{self.begun}"
        self.begun += 1
        with self.errors.open("w") as errors:
            return subprocess.Popen(command, cwd=self.folder, env=self.environment | variables, stderr=errors,
                                    stdout=subprocess.DEVNULL, start_new_session=True)

    def run(self, what=("run", "job.toml"), allowed=(0,), **more):
        """Runs a command to its end; returns its exit code and its seconds."""
        begun = time.monotonic()
        code = self.start(what, **more).wait()
        if code not in allowed:
            raise RuntimeError(f"{self.folder}: {what} ended with {code}\n{self.said()[-4000:]}")
        return code, time.monotonic() - begun

    def said(self):
        return self.errors.read_text()

    def id(self):
        found = stored_runs.runs(self.store)
        return found[-1] if found else None

    def figures(self):
        return figures(self.store, self.id())

    def state(self):
        return RunState(self.store, self.id())

    def tell(self, *what):
        done = subprocess.run([self.binary, *what, "--store", self.store.uri, "--cache", self.cache],
                              cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{self.folder}: {what} ended with {done.returncode}\n{done.stderr[-4000:]}")
        return done.stdout

    def verify(self):
        self.tell("store", "verify")

    def rows(self, configurations):
        """Outcomes with their scores, by configuration and question, as the CSV export has them."""
        found = {}
        for number in range(configurations):
            name = f"reader{number:02}"
            text = self.tell("export", self.id(), "--format", "csv", "--configuration", name)
            for row in csv.DictReader(io.StringIO(text)):
                found[name, row["question"]] = row
        return found

    def question_texts(self):
        """The questions' texts by their ids, from the job's world."""
        world = tomllib.loads((self.folder / "job.toml").read_text())["dataset"]["world"]
        subprocess.run([self.binary, "world", "--questions", str(world["questions"]), "--passages",
                        str(world["passages"]), "--seed", str(world["seed"]), "--out", "world"],
                       cwd=self.folder, env=self.environment, check=True, capture_output=True)
        lines = (self.folder / "world" / "questions.jsonl").read_text().splitlines()
        return {question["id"]: question["text"] for question in map(json.loads, lines)}

    def counted_money(self):
        """Money that all configurations' calls of the endpoint cost, by the run's own table."""
        document = json.loads(self.tell("show", self.id(), "--json"))
        return sum(row["money"] for row in document["cost"] if row["configuration"] and row["service"] == "llm")


def end_session(child):
    """Kills a command with all of its processes."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def load():
    """The machine's load of the last minute and its cores: what else ran changes times."""
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def told_usage(text):
    """The endpoint's own account, from the line that it logs at its end: (calls, ends by name, attempts, causes)."""
    lines = re.findall(r"the endpoint's account: (\d+) calls(?: \((.*?)\))?, (\d+) attempts(?: \((.*?)\))?", text)
    if not lines:
        return None
    calls, ends, attempts, causes = lines[-1]
    named = [dict((name, int(count)) for count, name in (part.split(" ") for part in text.split(", ") if part))
             for text in (ends, causes)]
    return {"calls": int(calls), "ends": named[0], "attempts": int(attempts), "causes": named[1]}
