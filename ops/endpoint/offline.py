#!/usr/bin/env python3
"""Compares a run over HTTP with the same run by batch files: final outcomes, scores and measures, byte by byte.

    offline.py --hopeval BINARY --folder DIR [--questions 500] [--vllm PYTHON --model CHECKPOINT]

Why: batch files are another way to the same answers. If a table differs in one byte, one of the two ways reads, keys or
journals an answer otherwise.

What: EfficientRAG with a generator; Iter-RetGen, which writes in each of three rounds; `efficientrag_data`, which draws
again what does not parse. First the run over HTTP. Then the run with `batch = ...`: it leaves with 75 and files of requests, a
runner answers them, `resume` goes on, until it ends with 0. The server is one of two:

* without `--vllm`: `hopeval simulate-llm`, a *simulated* server. This script is the runner. In the first round it also
  makes trouble: results in another order, every fifth failed, every seventh twice, some of another run, half a line.
* with `--vllm`: vLLM. PYTHON is the interpreter of its environment, CHECKPOINT a model folder (`llama.py` trains one).
  The runner is vLLM's own `run-batch`; the server is shut down before, unless `--running`. Draws have seeds, so both
  sample alike.

Prints one JSON document, and exits with 1 if anything differs. Only the standard library is used here.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from servers import WHOLE_PROMPTS  # noqa: E402

TABLES = ["outcomes", "scores", "measures"]

JOB = """
name = "offline"
[dataset.world]
questions = {questions}
passages = 4000
seed = 21
[service.bm25]
kind = "bm25"
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
[service.filter]
kind = "lm"
model = "hopeval:filter"
[service.llm]
kind = "endpoint"
model = "{model}"
base_url = "{url}"
identity = "the model of this comparison"
dialect = "vllm"
seed = 7
concurrency = 32
{more}
[service.llm.price]
input = 1.0
output = 4.0
[method.efficientrag]
kind = "efficientrag"
retriever = "bm25"
labeler = "labeler"
filter = "filter"
generator = "llm"
k = 5
[method.iter_retgen]
kind = "iter_retgen"
retriever = "bm25"
generator = "llm"
iterations = 3
max_tokens = 48
[method.annotate]
kind = "efficientrag_data"
retriever = "bm25"
generator = "llm"
temperature = 0.5
attempts = 3
max_tokens = 48
[run]
allowed_failed = 1.0
"""


class Comparison:
    def __init__(self, options):
        self.options, self.folder = options, options.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.found = {"questions": options.questions, "server": "vllm" if options.vllm else "simulated"}

    def write_job(self, name, url, more):
        model = self.options.model.name if self.options.vllm else "simulated-llm"
        text = JOB.format(questions=self.options.questions, model=model, url=url, more=more)
        (self.folder / name).write_text(text)

    def hopeval(self, *arguments, store):
        """One command; (exit code, standard output, standard error)."""
        command = [str(self.options.hopeval), *arguments, "--store", store, "--cache", "cache", "--json"]
        ended = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        (self.folder / "commands.log").open("a").write(f"{command}\n{ended.stdout}{ended.stderr}\n")
        return ended.returncode, ended.stdout, ended.stderr

    def only_run(self, store):
        runs = [entry.name for entry in (self.folder / store / "runs").iterdir()]
        assert len(runs) == 1, runs
        return runs[0]

    def tables(self, store):
        final = self.folder / store / "runs" / self.only_run(store) / "final"
        return [(final / f"{name}.parquet").read_bytes() for name in TABLES]

    def online(self, url):
        self.write_job("online.toml", url, "")
        begun = time.monotonic()
        code, _, said = self.hopeval("run", "online.toml", store="online")
        assert code == 0, said
        self.found["online_s"] = round(time.monotonic() - begun, 1)

    def offline(self, answer):
        """The run by batch files; `answer(requests, results, round)` is the runner of one file."""
        self.write_job("offline.toml", "http://127.0.0.1:9/v1", 'batch = "batches"')
        batches = self.folder / "batches" / "llm"
        rounds, lines, answered = 0, 0, set()
        begun = time.monotonic()
        code, _, said = self.hopeval("run", "offline.toml", store="offline")
        while code == 75:
            rounds += 1
            fresh = sorted(set((batches / "requests").glob("*.jsonl")) - answered)
            assert fresh, f"it waits, and there is no new file: {said}"
            for path in fresh:
                lines += sum(1 for _ in path.open())
                answer(path, batches / "results" / path.name, rounds)
                answered.add(path)
            code, _, said = self.hopeval("resume", self.only_run("offline"), store="offline")
        assert code == 0, said
        self.found.update(rounds=rounds, request_lines=lines, offline_s=round(time.monotonic() - begun, 1))

    def compare(self):
        equal = {}
        for name, left, right in zip(TABLES, self.tables("online"), self.tables("offline")):
            equal[name] = {"bytes": len(left), "equal": left == right}
        self.found["tables"] = equal
        for store in ("online", "offline"):
            code, out, said = self.hopeval("costs", self.only_run(store), store=store)
            assert code == 0, said
            (self.folder / f"costs-{store}.json").write_text(out)
        return all(table["equal"] for table in equal.values())


def post(address, path, body):
    """(status, answer) of one call."""
    head = {"content-type": "application/json"}
    request = urllib.request.Request(address + path, json.dumps(body).encode(), head)
    try:
        with urllib.request.urlopen(request, timeout=600) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def simulated_runner(address):
    """A runner over the simulated server, with trouble in its first round."""

    def line_of(request):
        status, body = post(address, request["url"], request["body"])
        response = {"status_code": status, "request_id": "r", "body": body}
        return {"id": request["custom_id"][:8], "custom_id": request["custom_id"], "response": response, "error": None}

    def answer(requests, results, number):
        with ThreadPoolExecutor(16) as threads:
            lines = list(threads.map(line_of, map(json.loads, requests.open())))
        written = []
        for place, line in enumerate(lines):
            if number == 1 and place % 5 == 0:
                error = {"code": "batch_expired", "message": "this request was not answered in time"}
                line = line | {"response": None, "error": error}
            written += [line] * (2 if number == 1 and place % 7 == 0 else 1)
        texts = [json.dumps(line) for line in reversed(written)]
        if number == 1:
            foreign = {"custom_id": "ab" * 32, "response": {"status_code": 200, "body": {}}}
            texts = [json.dumps(foreign), *texts, texts[0][: len(texts[0]) // 2]]
        results.write_text("\n".join(texts) + "\n")

    return answer


def with_simulated(comparison):
    options = comparison.options
    address = f"127.0.0.1:{options.port}"
    with (comparison.folder / "server.log").open("w") as log:
        command = [str(options.hopeval), "simulate-llm", "--port", str(options.port)]
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(f"http://{address}/v1/models", server)
            comparison.online(f"http://{address}/v1")
            comparison.offline(simulated_runner(f"http://{address}"))
        finally:
            server.terminate()
            server.wait()


def with_vllm(comparison):
    options = comparison.options
    environment = os.environ | {
        "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }  # fmt: skip
    model = ["--model", str(options.model), "--served-model-name", options.model.name]
    model += ["--dtype", "float32", "--enforce-eager", "--max-num-seqs", "32", *WHOLE_PROMPTS]
    with (comparison.folder / "server.log").open("w") as log:
        command = [str(options.vllm), "-m", "vllm.entrypoints.openai.api_server", "--port", str(options.port), *model]
        url = f"http://127.0.0.1:{options.port}/v1"
        if options.running:
            comparison.online(url)
        else:
            server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            try:
                wait_for(url + "/models", server)
                comparison.online(url)
            finally:
                server.terminate()
                server.wait()

        def answer(requests, results, _number):
            command = [str(options.vllm), "-m", "vllm.entrypoints.openai.run_batch", "-i", str(requests)]
            subprocess.run([*command, "-o", str(results), *model], stdout=log, stderr=log, env=environment, check=True)

        comparison.offline(answer)


def wait_for(url, server):
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit("the server has ended: see server.log")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
    raise SystemExit(f"no answer of {url}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--folder", required=True, type=lambda text: Path(text).resolve(), help="new: for all files")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--vllm", type=lambda text: Path(text).absolute(), help="the interpreter of vLLM's environment")
    parser.add_argument("--model", type=lambda text: Path(text).resolve(), help="the checkpoint, with --vllm")
    parser.add_argument("--port", type=int, default=18080)
    parser.add_argument("--running", action="store_true", help="vLLM runs at the port already; it is left running")
    options = parser.parse_args()
    if bool(options.vllm) != bool(options.model):
        parser.error("--vllm and --model belong together")
    comparison = Comparison(options)
    with_vllm(comparison) if options.vllm else with_simulated(comparison)
    equal = comparison.compare()
    print(json.dumps(comparison.found, indent=1))
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
