#!/usr/bin/env python3
"""IRCoT with many demonstrations by hopeval's own decoder, beside a loop over transformers' `generate`.

    prefixes.py --hopeval BINARY --model CHECKPOINT --folder DIR [--questions 50] [--demonstrations 15]

Why: all prompts of a few-shot method begin with the same demonstrations, and the next prompt of a question repeats most
of the one before. The engine keeps what it computed of a prompt for later ones that begin alike. That must show in the
tokens that go through the model and in the time, and in no text.

What: one job, IRCoT over a generated world, is run twice in one process with one worker: with the checkpoint as
`kind = "lm"`, and with an endpoint. The endpoint is a server in this script. It answers by `generate`, one prompt after
the other, greedy, in f32, on one thread, with the stop strings of the request. Equal requests of a run are asked once,
on both sides. It must hold that

* `share`, the tokens through the model by the prompts' tokens of the computed requests, is at most 0.35;
* `ratio`, the questions of a CPU second by those of the loop, is at least 5. hopeval's seconds are those of its whole
  process, user and system, with the making of the world and its index. The loop's are those inside of the tokenizer and
  of `generate` alone;
* all queries, sentences, readings and answers are the same;
* no prompt was cut: all demonstrations stand in each.

CHECKPOINT is a folder by `llama.py --context 8192`: the default demonstrations alone take some 4,300 of its tokens.
A larger model has more bytes for each token: 65,536 tokens of SmolLM2-135M-Instruct, which are enough for the prompts
of some 30 questions, take 3 GB.
Needs torch, transformers, pyarrow and blake3. Run it on cores that nothing else uses, or CPU seconds are too many on
both sides. Prints one JSON document, and exits with 1 if one of them does not hold.
"""

import argparse
import json
import os
import resource
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "ops" / "endpoint"), str(ROOT / "ops" / "reference" / "readers")]

from babbler import Babbler  # noqa: E402
from simulated_runs import RunFolder, load  # noqa: E402

DEMONSTRATIONS = ROOT / "jobs" / "methods" / "prompts" / "demonstrations" / "multihop.jsonl"
LARGEST_SHARE, LEAST_RATIO = 0.35, 5.0

JOB = """
name = "prefixes"
[dataset.world]
questions = {questions}
passages = 2000
seed = 22
[service.bm25]
kind = "bm25"
[service.llm]
{service}
[method.ircot]
kind = "ircot"
retriever = "bm25"
generator = "llm"
demonstration_ids = {demonstrations}
max_tokens = {max_tokens}
context_tokens = {context}
[run]
allowed_failed = 1.0
"""

# Room for the prompts of all open questions: with less, they are computed again at each step.
CACHE_TOKENS = 262_144

NATIVE = """kind = "lm"
model = "{model}"
threads = 1
batch_tokens = {context}
cache_tokens = {cache}
"""

BEHIND = """kind = "endpoint"
model = "{name}"
{place}
api = "completions"
dialect = "{dialect}"
tokenizer = "{model}"
context_tokens = {context}
concurrency = {concurrency}
"""


def context_of(model):
    """The positions of a checkpoint."""
    return json.loads((model / "config.json").read_text())["max_position_embeddings"]


def engine_of(model, cache_tokens=CACHE_TOKENS):
    """The lines of a job for a checkpoint in hopeval's engine."""
    return NATIVE.format(model=model, context=context_of(model), cache=cache_tokens)


def demonstration_ids(count):
    """The ids of the first demonstrations that IRCoT has by default."""
    with open(DEMONSTRATIONS, encoding="utf-8") as lines:
        return [json.loads(line)["id"] for line in lines][:count]


class TransformersLoop(Babbler):
    """The server of `Babbler` with a model in place of its texts."""

    def __init__(self, folder):
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(1)
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder))
        self.model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
        self.turn, self.cpu_s, self.calls = threading.Lock(), 0.0, 0
        # What a first call prepares is no part of the measurement.
        self.write("Q: Who?\nA:", 2, ["\n"])
        super().__init__([], [])

    def answer(self, body, number, path):
        fields = json.loads(body)
        with self.turn:
            begun = time.thread_time()
            prompt, written, text = self.write(fields["prompt"], fields["max_tokens"], fields["stop"])
            self.cpu_s += time.thread_time() - begun
            self.calls += 1
        ended = "length" if written == fields["max_tokens"] else "stop"
        return {
            "id": "loop", "object": "text_completion", "created": 0, "model": fields["model"],
            "choices": [{"index": 0, "text": text, "finish_reason": ended, "logprobs": None}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
        }  # fmt: skip

    def write(self, prompt, most, stops):
        """(tokens of the prompt, tokens written, text before the first stop string)."""
        import torch

        ids = prompt if isinstance(prompt, list) else self.tokenizer(prompt)["input_ids"]
        shown = torch.tensor([ids])
        with torch.inference_mode():
            whole = self.model.generate(
                shown, attention_mask=torch.ones_like(shown), max_new_tokens=most, do_sample=False,
                stop_strings=stops, tokenizer=self.tokenizer,
            )  # fmt: skip
        new = whole[0, len(ids) :]
        text = self.tokenizer.decode(new, skip_special_tokens=True)
        for stop in stops:
            text = text.split(stop)[0]
        return len(ids), len(new), text


def run_job(options, name, service):
    """Runs the job with a service: its tables, and the CPU and wall seconds of the command."""
    import pyarrow.parquet

    job = JOB.format(
        questions=options.questions, service=service, context=context_of(options.model), max_tokens=options.max_tokens,
        demonstrations=json.dumps(demonstration_ids(options.demonstrations)),
    )  # fmt: skip
    unique = f"{time.time_ns():x}"
    # A cache of its own: each run makes its world and its index.
    folder = options.folder / name
    place = RunFolder(options.hopeval, folder, job, folder / f"cache-{unique}", store=f"store-{unique}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, wall_s = place.run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    final = place.store.root / "runs" / place.id() / "final"
    tables = [pyarrow.parquet.read_table(final / f"{table}.parquet").to_pylist()
              for table in ("outcomes", "traces", "costs")]  # fmt: skip
    return tables, cpu_s, wall_s


def incurred(costs):
    """What the run's requests of the language model cost, each once."""
    return next(row for row in costs if row["configuration"] is None and row["service"] == "llm")


def texts_of(outcomes, traces):
    """All that was written, and the queries that came of it, by question."""
    notes = {row["question"]: [[note["name"], note["text"]] for note in row["notes"]] for row in traces}
    return {row["question"]: [*notes[row["question"]], ["answer", row["answer"]]] for row in outcomes}


def distinct_texts(texts):
    """How many different texts a model wrote: few of them would show little by being the same."""
    return len({text for notes in texts.values() for name, text in notes if name in ("sentence", "reading")})


def first_difference(native, loop):
    pairs = [(ours, theirs) for ours, theirs in zip(native, loop) if ours != theirs]
    return pairs[0] if pairs else (native[-1], loop[-1])


def compare(options):
    shown = {"model": options.model, "context": context_of(options.model)}
    engine = engine_of(options.model, options.cache_tokens)
    (outcomes, traces, costs), cpu_s, wall_s = run_job(options, "native", engine)
    spent = incurred(costs)
    loop = TransformersLoop(options.model)
    behind = BEHIND.format(place=f'base_url = "{loop.url}"', name="loop", dialect="openai", concurrency=1, **shown)
    (their_outcomes, their_traces, _), _, their_wall_s = run_job(options, "loop", behind)
    loop.stop()

    native, other = texts_of(outcomes, traces), texts_of(their_outcomes, their_traces)
    different = [
        dict(zip(("question", "native", "loop"), (name, *first_difference(texts, other[name]))))
        for name, texts in native.items()
        if texts != other[name]
    ]
    questions = len(outcomes)
    failed = sum(row["status"] != "ok" for row in outcomes + their_outcomes)
    share = spent["computed_tokens"] / spent["prompt_tokens"]
    ratio = loop.cpu_s / cpu_s
    return {
        "questions": questions, "demonstrations": options.demonstrations, "max_tokens": options.max_tokens,
        "requests": spent["computed"], "prompt_tokens": spent["prompt_tokens"],
        "completion_tokens": spent["completion_tokens"], "tokens_through_the_model": spent["computed_tokens"],
        "share": round(share, 4), "cut": spent["cut"],
        "native": {"cpu_s": round(cpu_s, 2), "wall_s": round(wall_s, 2), "a_cpu_second": round(questions / cpu_s, 3)},
        "loop": {"cpu_s": round(loop.cpu_s, 2), "wall_s": round(their_wall_s, 2), "calls": loop.calls,
                 "a_cpu_second": round(questions / loop.cpu_s, 3)},
        "ratio": round(ratio, 2), "failed": failed, "distinct_texts": distinct_texts(native),
        "different": different, "load": load(),
        "passed": share <= LARGEST_SHARE and ratio >= LEAST_RATIO and not different and failed == spent["cut"] == 0,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--hopeval", "--model", "--folder"):
        parser.add_argument(name, required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--demonstrations", type=int, default=15, help="at most 15")
    parser.add_argument("--max-tokens", type=int, default=300, help="of each text")
    parser.add_argument("--cache-tokens", type=int, default=CACHE_TOKENS, help="of the engine; its keys and values")
    options = parser.parse_args()
    # Before torch is loaded, so that no thread of it takes part.
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    found = compare(options)
    print(json.dumps(found, indent=1))
    sys.exit(0 if found["passed"] else 1)


if __name__ == "__main__":
    main()
