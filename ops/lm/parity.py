#!/usr/bin/env python3
"""hopeval's engine against transformers at real sizes, in float32.

Why: the tiny fixtures meet every branch of an architecture; only real sizes meet the depth, widths and lengths at which
rounding adds up.

What: makes GPT-2 small, T5 v1.1 base, DeBERTa v3 base and BERT base with random weights, asks both for the same token ids,
lengths from 1 to the models' usual ones, and prints one table: log-probabilities at temperatures 1.0 and 1.4, greedy
continuations, token logits, embeddings. A row holds the largest absolute difference, and the share of equal decisions (the
continuation's tokens, the arg max of each token's logits). hopeval runs by its command line, `hopeval lm`. The exit code is 1 if a difference is
above --tolerance or a decision differs. A continuation is compared up to the first step whose best two logits are within
1e-3: what follows such a step says nothing; the table says how many tokens were compared.

Knobs: --models, --tolerance, --threads, --tokens (of a continuation), --work (models, kept), --hopeval, --out.

Needs Python 3.11 with torch 2.11.0, transformers 5.17.0 and numpy; a release build of hopeval; 3 GB of disk and 4 GB of
memory.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import real_models

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[2]
TEMPERATURES = ("1.0", "1.4")
MARGIN = 1e-3
END = 1
"""T5's end of sequence."""


class Row:
    """One line of the table."""

    def __init__(self, model, what):
        self.model, self.what = model, what
        self.compared, self.largest, self.equal, self.decisions = 0, 0.0, 0, 0
        self.span = [float("inf"), float("-inf")]

    def numbers(self, theirs, ours):
        theirs, ours = list(theirs), list(ours)
        if len(theirs) != len(ours):
            raise SystemExit(f"{self.model}, {self.what}: {len(ours)} numbers where transformers has {len(theirs)}")
        for a, b in zip(theirs, ours):
            difference = abs(a - b)
            # A NaN must not pass.
            self.largest = difference if not difference <= self.largest else self.largest
            self.span = [min(self.span[0], a), max(self.span[1], a)]
        self.compared += len(theirs)

    def decided(self, theirs, ours):
        self.decisions += len(theirs)
        self.equal += sum(a == b for a, b in zip(theirs, ours))

    def good(self, tolerance):
        return self.largest <= tolerance and self.equal == self.decisions and self.compared + self.decisions > 0

    def cells(self):
        numbers = f"{self.compared:,}" if self.compared else "-"
        span = f"{self.span[0]:.2f} to {self.span[1]:.2f}" if self.compared else "-"
        largest = f"{self.largest:.1e}" if self.compared else "-"
        decisions = f"{self.equal:,} of {self.decisions:,}" if self.decisions else "-"
        return [self.model, self.what, numbers, span, largest, decisions]


class Hopeval:
    """The commands on JSON Lines."""

    def __init__(self, program, threads):
        self.program, self.threads = program, threads

    def ask(self, command, folder, lines, *more):
        run = [self.program, "--threads", str(self.threads), "lm", command, "--model", folder, *more]
        text = "".join(json.dumps({"id": str(i)} | line) + "\n" for i, line in enumerate(lines))
        done = subprocess.run(list(map(str, run)), input=text, stdout=subprocess.PIPE, text=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or [answer["id"] for answer in answers] != [str(i) for i in range(len(lines))]:
            raise SystemExit(f"{' '.join(map(str, run))} ended with {done.returncode} and {done.stdout[:500]!r}")
        return answers


def flat(rows):
    return [value for row in rows for value in row]


def draw(random, length, vocabulary):
    """Ids as a text's are: common ones often, rare ones too."""
    ids = random.zipf(1.25, length) + 300
    return [int(i) if i < vocabulary else int(300 + i % (vocabulary - 300)) for i in ids]


def target_logits(model, prompt, target, encodes):
    import torch

    if encodes:
        inputs = torch.tensor([[0] + target[:-1]])
        return model(input_ids=torch.tensor([prompt]), decoder_input_ids=inputs, use_cache=False).logits[0]
    return model(input_ids=torch.tensor([prompt + target]), use_cache=False).logits[0, len(prompt) - 1 : -1]


def scores(model, name, folder, hopeval, random, encodes):
    import torch

    row, lines, theirs = Row(name, "log-probabilities of targets"), [], []
    for prompt, target in ((1, 3), (24, 1), (122, 20), (235, 20), (400, 30), (7, 60)):
        prompt, target = draw(random, prompt, 30_000), draw(random, target, 30_000)
        if encodes:
            prompt, target = prompt + [END], target + [END]
        lines.append({"prompt_ids": prompt, "target_ids": target})
        logits, at = target_logits(model, prompt, target, encodes), torch.arange(len(target))
        theirs.append({t: (logits / float(t)).log_softmax(-1)[at, torch.tensor(target)].tolist() for t in TEMPERATURES})
    ours = hopeval.ask("score", folder, lines, "--temperatures", ",".join(TEMPERATURES))
    for a, b in zip(theirs, ours):
        for temperature in TEMPERATURES:
            row.numbers(a[temperature], b["logprobs"][temperature])
    return row


def continuations(model, name, folder, hopeval, random, encodes, tokens):
    import torch
    import transformers

    row, lines, theirs = Row(name, "greedy continuations"), [], []
    for length in (5, 60, 130):
        prompt = draw(random, length, 30_000) + ([END] if encodes else [])
        ids = torch.tensor([prompt])
        config = transformers.GenerationConfig(
            max_new_tokens=tokens, do_sample=False, eos_token_id=None, pad_token_id=0, output_logits=True,
            decoder_start_token_id=0 if encodes else None, return_dict_in_generate=True,
        )  # fmt: skip
        result = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
        best = [step[0].topk(2).values for step in result.logits]
        clear = next((i for i, (a, b) in enumerate(best) if a - b < MARGIN), tokens)
        lines.append({"prompt_ids": prompt})
        theirs.append((result.sequences[0, -tokens:].tolist(), clear))
    ours = hopeval.ask("generate", folder, lines, "--max-tokens", tokens, "--ignore-eos")
    for (ids, clear), answer in zip(theirs, ours):
        if len(answer["ids"]) != tokens:
            raise SystemExit(f"{name}: {len(answer['ids'])} tokens where {tokens} were asked for")
        row.decided(ids[:clear], answer["ids"][:clear])
    return row


def labels(model, name, folder, hopeval, random):
    import torch

    row = Row(name, "token logits")
    lines = [{"ids": [1] + draw(random, length - 1, 128_000)} for length in (1, 2, 40, 183, 299, 384)]
    theirs = [model(input_ids=torch.tensor([line["ids"]])).logits[0] for line in lines]
    for a, b in zip(theirs, hopeval.ask("label", folder, lines)):
        row.numbers(flat(a.tolist()), flat(b["token_logits"]))
        row.decided(a.argmax(-1).tolist(), [max(range(len(r)), key=r.__getitem__) for r in b["token_logits"]])
    return row


def embeddings(model, name, folder, hopeval, random, pooling):
    import torch

    row = Row(name, f"embeddings, {pooling}")
    lines = [{"ids": [101] + draw(random, length - 1, 30_000)} for length in (1, 2, 25, 110, 256, 400)]
    lines[3]["token_type_ids"] = [0] * 30 + [1] * 80
    for line, answer in zip(lines, hopeval.ask("embed", folder, lines, "--pooling", pooling)):
        types = line.get("token_type_ids", [0] * len(line["ids"]))
        hidden = model(input_ids=torch.tensor([line["ids"]]), token_type_ids=torch.tensor([types])).last_hidden_state[0]
        row.numbers((hidden.mean(0) if pooling == "mean" else hidden[0]).tolist(), answer["embedding"])
    return row


def compare(name, folder, hopeval, tokens):
    """The rows of one model."""
    import numpy as np
    import torch
    import transformers as t

    random = np.random.default_rng(17)
    classes = {
        "gpt2": t.GPT2LMHeadModel, "t5-v1.1-base": t.T5ForConditionalGeneration, "bert-base": t.BertModel,
        "deberta-v3-base": t.DebertaV2ForTokenClassification,
    }  # fmt: skip
    more = {"add_pooling_layer": False} if name == "bert-base" else {}
    model = classes[name].from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **more).eval()
    both = (model, name, folder, hopeval, random)
    if name == "deberta-v3-base":
        return [labels(*both)]
    if name == "bert-base":
        return [embeddings(*both, "mean"), embeddings(*both, "cls")]
    encodes = name.startswith("t5")
    if encodes and torch.equal(model.lm_head.weight, model.shared.weight):
        raise SystemExit("transformers tied T5's head")
    return [scores(*both, encodes), continuations(*both, encodes, tokens)]


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(real_models.NAMES), help="comma-separated")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64, help="of a continuation")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target" / "lm-models")
    parser.add_argument("--hopeval", type=pathlib.Path, default=target / "release" / "hopeval")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if not options.hopeval.exists():
        parser.error(f"no program {options.hopeval}: build it (cargo build --release) or give --hopeval")
    names = options.models.split(",")
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    subprocess.run([sys.executable, HERE.parent / "real_models.py", options.work, *names], check=True)

    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("highest")
    hopeval, rows = Hopeval(options.hopeval, options.threads), []
    for name in names:
        rows += compare(name, options.work / name, hopeval, options.tokens)
        print(f"{name} compared", file=sys.stderr, flush=True)
    lines = [
        f"hopeval and transformers {transformers.__version__} (torch {torch.__version__}), float32, "
        f"{options.threads} thread(s), random weights; `ops/lm/parity.py`.",
        "",
        "| model | what | numbers | from, to | largest difference | equal decisions |",
        "| --- | --- | --- | --- | --- | --- |",
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
        "",
    ]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines))
    failed = [row for row in rows if not row.good(options.tolerance)]
    for row in failed:
        print(f"{row.model}, {row.what}: not equal within {options.tolerance}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
