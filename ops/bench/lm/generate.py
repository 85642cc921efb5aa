#!/usr/bin/env python3
"""Generation beside transformers and beside the floor, in one run.

Why: an endpoint's answer costs money and a native one costs the machine. So the native engine must be near what the
machine can do, not only right.

What: prompts of log-uniform lengths, half of them behind one of two shared beginnings as few-shot prompts have; answers
of log-uniform lengths, greedy, ended by their length alone. Variants run in turn, round by round, on as many threads:
the engine (`cargo build --release -p hopeval-lm --example generate`), transformers with left-padded batches sorted by
length, as people run it, and with --vllm for decoders vLLM on the CPU: its own batches, its cache of prefixes emptied
before each round, without compilation (`enforce_eager`). Ids are compared; a difference from transformers is listed
with the gap of the two best logits at its first token, one from vLLM with the token's place.

The floor is what must be done at the rates measured in the same run: a step multiplies with all weights once (operations of
its rows at NumPy's rate of products; bytes of the weights at its rate of reading) and reads the keys and values of each open
sequence (bytes). Prompts are counted without what an earlier prompt of the run began with. A step costs the larger of the two.

Prompts of more than 824 tokens need a GPT-2 with more positions (`real_models.py --positions 2048`).

Knobs: MODELS (folder of `ops/lm/real_models.py`), --program, --models, --requests, --open, --longest-prompt,
--longest-answer, --rounds, --threads, --seed, --vllm.

Needs Python 3.11 with torch, transformers and numpy; with --vllm the environment of `ops/endpoint/servers.py`.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

SIZES = {
    # Weights in products for a token's pass through the decoder, those of the head, numbers of a key and value of a token.
    "gpt2": {"body": 12 * 12 * 768**2, "head": 768 * 50257, "row": 2 * 12 * 768},
    "t5-v1.1-base": {
        "body": 12 * (6 * 768**2 + 3 * 768 * 2048), "head": 768 * 32128, "row": 2 * 12 * 768,
        "encoder": 12 * (4 * 768**2 + 3 * 768 * 2048), "cross": 12 * 2 * 768**2,
    },
}  # fmt: skip
SHARED = 200


def workload(options, random):
    """`(prompt ids, tokens of the answer)`."""
    def between(low, high):
        return int(np.exp(random.uniform(np.log(low), np.log(high))))

    begins = [random.integers(300, 30_000, SHARED).tolist() for _ in range(2)]
    for nth in range(options.requests):
        length = between(50, options.longest_prompt)
        ids = random.integers(300, 30_000, length).tolist()
        if nth % 2 and length > SHARED:
            ids[:SHARED] = begins[nth % 4 // 2]
        yield ids, between(5, options.longest_answer)


def rates(threads):
    """Operations and bytes in a second, the best of a few."""
    a, b = (np.random.default_rng(i).random((1536, 1536), dtype="f4") for i in (0, 1))
    big = np.ones(1 << 26, dtype="f4")
    a @ b
    products, reading = [], []
    for _ in range(5):
        begun = time.perf_counter()
        a @ b
        products.append(2 * 1536**3 / (time.perf_counter() - begun))
        begun = time.perf_counter()
        big.sum()
        reading.append(big.nbytes / (time.perf_counter() - begun))
    return max(products), max(reading)


def floor(name, requests, most_open, products, reading):
    """Seconds, and the part of them that bytes decide."""
    size = SIZES[name]
    seconds = by_bytes = 0.0

    def spend(operations, read):
        nonlocal seconds, by_bytes
        one = max(operations / products, read / reading)
        seconds += one
        by_bytes += one if read / reading >= operations / products else 0

    weights = 4 * (size["body"] + size["head"])
    pair = 4 * 12 * 768
    seen = []
    waiting, active = list(requests), []
    while waiting or active:
        while waiting and len(active) < most_open:
            ids, tokens = waiting.pop(0)
            if name == "gpt2":
                known = max((len(os.path.commonprefix([ids, other])) for other in seen), default=0)
                new = range(known, len(ids))
                spend(2 * size["body"] * len(new) + pair * sum(n + 1 for n in new) + 2 * size["head"], 0)
                seen.append(ids)
                active.append([len(ids), tokens - 1])
            else:
                per_token = 2 * (size["encoder"] + size["cross"])
                spend(per_token * len(ids) + pair * len(ids) ** 2, 0)
                active.append([len(ids), tokens])
        active = [one for one in active if one[1] > 0]
        if not active:
            continue
        rows = len(active)
        keys = sum(length for length, _ in active)
        spend(2 * rows * (size["body"] + size["head"]) + pair * keys, weights + 4 * size["row"] * keys)
        active = [[length + 1, left - 1] for length, left in active]
    return seconds, by_bytes


class Transformers:
    def __init__(self, folder, name, threads):
        import torch
        import transformers

        transformers.utils.logging.set_verbosity_error()
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        kind = transformers.AutoModelForSeq2SeqLM if name.startswith("t5") else transformers.AutoModelForCausalLM
        self.torch, self.model, self.seq2seq = torch, kind.from_pretrained(folder).eval(), name.startswith("t5")

    def run(self, requests, most_open):
        """Batches of neighbours in length; each goes on until its longest answer is there."""
        torch, answers = self.torch, [None] * len(requests)
        order = sorted(range(len(requests)), key=lambda n: len(requests[n][0]))
        for first in range(0, len(order), most_open):
            batch = order[first : first + most_open]
            longest = max(len(requests[n][0]) for n in batch)
            ids, mask = torch.zeros(len(batch), longest, dtype=torch.long), torch.zeros(len(batch), longest, dtype=torch.long)
            for row, n in enumerate(batch):
                prompt = torch.tensor(requests[n][0])
                where = slice(0, len(prompt)) if self.seq2seq else slice(longest - len(prompt), longest)
                ids[row, where], mask[row, where] = prompt, 1
            new = max(requests[n][1] for n in batch)
            out = self.model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, do_sample=False,
                pad_token_id=0, eos_token_id=None,
            )  # fmt: skip
            for row, n in enumerate(batch):
                begins = 1 if self.seq2seq else longest
                answers[n] = out[row, begins : begins + requests[n][1]].tolist()
        return answers

    def gap(self, request, made, at):
        """How far apart the two best logits are where the answers part."""
        torch = self.torch
        if self.seq2seq:
            logits = self.model(
                input_ids=torch.tensor([request[0]]), decoder_input_ids=torch.tensor([[0, *made[:at]]])
            ).logits  # fmt: skip
        else:
            logits = self.model(input_ids=torch.tensor([[*request[0], *made[:at]]])).logits
        best = logits[0, -1].topk(2).values
        return float(best[0] - best[1])


class Vllm:
    """vLLM in processes of its own: its batches, its cache of prefixes, at most `most_open` sequences."""

    def __init__(self, folder, threads, most_open):
        os.environ |= {
            "VLLM_CPU_KVCACHE_SPACE": "6", "VLLM_LOGGING_LEVEL": "ERROR",
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",
        }  # fmt: skip
        import psutil
        import vllm

        self.vllm, self.processes = vllm, psutil.Process()
        self.model = vllm.LLM(
            str(folder), dtype="float32", enforce_eager=True, skip_tokenizer_init=True, max_num_seqs=most_open,
            disable_log_stats=True,
        )  # fmt: skip

    def run(self, requests):
        """Every request with its own number of tokens."""
        if not self.model.reset_prefix_cache():
            raise RuntimeError("the cache of prefixes is not empty")
        prompts = [{"prompt_token_ids": ids} for ids, _ in requests]
        wanted = [
            self.vllm.SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False)
            for _, tokens in requests
        ]
        done = self.model.generate(prompts, wanted, use_tqdm=False)
        return [list(one.outputs[0].token_ids) for one in done]

    def cpu_seconds(self):
        """Of this process and of vLLM's."""
        times = [one.cpu_times() for one in [self.processes, *self.processes.children(recursive=True)]]
        return sum(one.user + one.system for one in times)


def first_difference(a, b):
    """The place of the first token that differs."""
    return next((place for place, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def same_texts(name, side, made, expected):
    """Prints how many texts another side wrote alike, and the first tokens that differ."""
    parts = [first_difference(a, b) for a, b in zip(made, expected) if a != b]
    print(f"{name}: {len(made) - len(parts)} of {len(made)} texts equal those of {side}; others part at tokens {parts}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", default="target/release/examples/generate")
    parser.add_argument("--models", nargs="*", default=list(SIZES))
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--open", type=int, default=64)
    parser.add_argument("--longest-prompt", type=int, default=800)
    parser.add_argument("--longest-answer", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--vllm", action="store_true", help="also vLLM, for decoders")
    options = parser.parse_args()
    for name in options.models:
        requests = list(workload(options, np.random.default_rng(options.seed)))
        room = options.open * (options.longest_prompt + options.longest_answer)
        peer = Transformers(options.folder / name, name, options.threads)
        # Made when its turn comes first: it takes memory, and waits beside the others in later rounds.
        vllm = None
        ours, theirs, shares, others = [], [], [], []
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for ids, tokens in requests:
                file.write(json.dumps({"prompt_ids": ids, "max_tokens": tokens}) + "\n")
            file.flush()
            command = [options.program, options.folder / name, file.name, options.threads, room]
            for _ in range(options.rounds):
                least, by_bytes = floor(name, requests, options.open, *rates(options.threads))
                made = json.loads(subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout)
                print(f"{name}: engine {made['wall_s']:.1f} s wall, {made['cpu_s']:.1f} s CPU,"
                      f" {made['computed_tokens']} tokens; floor {least:.1f}, {by_bytes:.1f} of it by bytes",
                      flush=True)  # fmt: skip
                begun, cpu = time.perf_counter(), time.process_time()
                expected = peer.run(requests, options.open)
                theirs.append((time.perf_counter() - begun, time.process_time() - cpu))
                ours.append((made["wall_s"], made["cpu_s"]))
                shares.append(least / made["wall_s"])
                print(f"{name}: transformers {theirs[-1][0]:.1f} s wall, {theirs[-1][1]:.1f} s CPU", flush=True)
                if options.vllm and not peer.seq2seq:
                    vllm = vllm or Vllm(options.folder / name, options.threads, options.open)
                    begun, cpu = time.perf_counter(), vllm.cpu_seconds()
                    written = vllm.run(requests)
                    others.append((time.perf_counter() - begun, vllm.cpu_seconds() - cpu))
                    print(f"{name}: vLLM {others[-1][0]:.1f} s wall, {others[-1][1]:.1f} s CPU", flush=True)
        same = sum(a == b for a, b in zip(made["ids"], expected))
        for n, (a, b) in enumerate(zip(made["ids"], expected)):
            if a != b:
                at = first_difference(a, b)
                print(f"{name}: answer {n} parts at token {at}, logits {peer.gap(requests[n], a, at):.2e} apart")
        times = [statistics.median(their[i] / our[i] for our, their in zip(ours, theirs)) for i in (0, 1)]
        print(f"{name}: {same} of {len(requests)} texts equal; {times[0]:.2f} times transformers by wall, {times[1]:.2f} by CPU;"
              f" {statistics.median(shares):.2f} of the floor")  # fmt: skip
        if vllm:
            times = [statistics.median(their[i] / our[i] for our, their in zip(ours, others)) for i in (0, 1)]
            print(f"{name}: {times[0]:.2f} times vLLM by wall, {times[1]:.2f} by CPU")
            same_texts(name, "vLLM", made["ids"], written)


if __name__ == "__main__":
    sys.exit(main())
