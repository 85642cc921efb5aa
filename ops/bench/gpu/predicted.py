#!/usr/bin/env python3
"""Predicts device milliseconds of a question from counts; measures nothing.

Why: a figure that is written down before a measurement is worth more than an explanation after it. Where the two part,
the counts miss something.

What: for T5-XL, GPT2-XL and EfficientRAG's two DeBERTa-v3-large, `forward_pass.py` lists the operations of a forward
pass. Each gets a time:

* a product: its operations at 650 TFLOP/s (--products);
* a kernel that works number by number: the larger of its bytes at 4.3 TB/s, and its instructions at one an issue slot
  of 32 lanes. Instructions of a number are the longest way that `sass.md` shows: the dearest activation;
* attention: the larger of its work and its latency, on each multiprocessor. Work is the largest of issue slots, tensor
  cores and shared memory; a pair of tiles runs the loop once, a block the rest of the code once. Latency is the time of
  one block alone over the blocks that reside: a warp alone issues an instruction every four cycles and waits for
  memory twice a pair of tiles and three times a block;
* 1 us between kernels; 2.5 ms around all batches, for bdcd5ee around each, with two readings of NVML.

The requests have the sizes of those that `run.py` asks, drawn by another generator (`drawn_requests.py`). So figures
are compared in multiples of the floor (`floors.py`), which do not depend on the tokens that were drawn.

Rates, clock and the time around a batch come from a review that was written before any device was seen, cycles from
public documents. The latency of attention was added, and its form chosen, after measurements had been seen; nothing
else was. Left out: the L2 cache, incomplete waves of blocks, the rates of single shapes, clocks that fall under load.

The first table is by question. With --against a second one holds time by kernel, where the records have the step
`profile`, against predictions of that step's requests.

Arguments:
  --sass FILE        a table of instructions; `sass.md` beside this file by default
  --kernels COMMIT   `head`, or `bdcd5ee`: its kernels (`kernel_counts.py`) in place of the table's
  --products TFLOPS  the rate of products: shows how much hangs on it
  --against FILE     records of `run.py` (.json): measured figures beside

Only the standard library is used.
"""

import argparse
import dataclasses
import json
import math
import pathlib

import floors
from drawn_requests import promptrank
from forward_pass import PRODUCTS, ForwardPass, deberta, gpt2, t5
from kernel_counts import BEFORE, counts

PEAK = 773.2e12
"""Operations a second of the floor: 8192^3 in bf16 by PyTorch on an H200, 2026-11-27."""
BATCH_TOKENS = 16384

T5_XL, GPT2_XL = floors.T5(24, 2048, 5120, 32128, 2048), floors.Gpt2(48, 1600, 50257)
DEBERTA = floors.Deberta(24, 1024, 4096)
ITERATIONS, MANY = 2.73, 120
"""EfficientRAG's iterations a question, and those that `run.py` asks at once."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Of a question, in seconds."""

    model: str
    variant: str
    floor: float
    kinds: dict
    records: tuple
    """What `run.py` calls the same measurements."""

    @property
    def whole(self):
        return sum(self.kinds.values())


def predict(known, before, rate):
    """All rows of the table."""

    def one(model, variant, parts, questions, records):
        kinds, needed = {}, 0
        for walk, size, lines, shared in parts:
            forward = ForwardPass(known, before, rate)
            batches = math.ceil(walk(lines, shared, forward, size) / BATCH_TOKENS)
            for kind, seconds in forward.done(batches).items():
                kinds[kind] = kinds.get(kind, 0.0) + seconds / questions
            needed += size.shared(lines) if shared else size.alone(lines)
        return Prediction(model, variant, needed / PEAK / questions, kinds, records)

    cold_t5, cold_gpt2 = promptrank(4, False, [1]), promptrank(4, False, [])
    reused_t5, reused_gpt2 = promptrank(10, True, [1]), promptrank(10, True, [])
    labelled = [{"ids": range(180)}] * (10 * MANY)
    filtered = [{"ids": range(60)}] * MANY
    labels = [f"deberta-v3-large-{kind} even hopeval" for kind in ("labeler", "filter")]
    yield one("T5-XL", "nothing reused", [(t5, T5_XL, cold_t5, True)], 4, ("t5-xl even hopeval",))
    yield one("T5-XL", "ten questions", [(t5, T5_XL, reused_t5, True)], 10, ("t5-xl reuse hopeval",))
    yield one(
        "GPT2-XL", "nothing shared", [(gpt2, GPT2_XL, cold_gpt2, False)], 4, ("gpt2-xl even hopeval, nothing shared",)
    )
    yield one("GPT2-XL", "paths share", [(gpt2, GPT2_XL, cold_gpt2, True)], 4, ("gpt2-xl even hopeval",))
    yield one("GPT2-XL", "ten questions", [(gpt2, GPT2_XL, reused_gpt2, True)], 10, ("gpt2-xl reuse hopeval",))
    both = [(deberta, DEBERTA, labelled, False), (deberta, DEBERTA, filtered, False)]
    yield one("DeBERTa-v3-large, two", "labeler and filter", both, MANY / ITERATIONS, tuple(labels))


def profiled(known, before, rate):
    """`(name of the model, seconds by kind)` of what the step `profile` asks: 115 requests, one pass."""
    asked = [
        ("t5-xl", t5, T5_XL, promptrank(1, False, [1])), ("gpt2-xl", gpt2, GPT2_XL, promptrank(1, False, [])),
        ("deberta-v3-large-labeler", deberta, DEBERTA, [{"ids": range(180)}] * 115),
    ]  # fmt: skip
    for name, walk, size, lines in asked:
        forward = ForwardPass(known, before, rate)
        walk(lines, True, forward, size)
        yield name, forward.seconds


KINDS = ["products", "head", "attention", "activations", "norms", "copies", "gaps"]


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def measured(records, prediction):
    """Seconds a question and operations that it needed, if `run.py` measured all parts."""
    found = [
        record for name in prediction.records for record in records
        if record.get("what") == name and record.get("step") == "score" and record.get("median_s")
    ]  # fmt: skip
    if len(found) < len(prediction.records):
        return None
    return [sum(record[name] / record["questions"] for record in found) for name in ("median_s", "needed_operations")]


def table(predictions, records):
    more = ["measured, ms", "times its floor", "predicted/measured, by floors"] if records else []
    header = ["model", "variant", "floor, ms", "predicted, ms", "times the floor", *KINDS, *more]
    yield row(*header)
    yield row(*["---"] * len(header))
    for one in predictions:
        cells = [one.model, one.variant, f"{1e3 * one.floor:.2f}", f"{1e3 * one.whole:.2f}"]
        cells += [f"{one.whole / one.floor:.2f}", *(f"{1e3 * one.kinds.get(kind, 0.0):.2f}" for kind in KINDS)]
        if records:
            seen = measured(records, one)
            times = seen and seen[0] / (seen[1] / PEAK)
            cells += ["-"] * 3 if seen is None else [
                f"{1e3 * seen[0]:.2f}", f"{times:.2f}", f"{one.whole / one.floor / times:.2f}"
            ]  # fmt: skip
        yield row(*cells)


KERNELS = {
    "log_probs": "head", "nvjet_sm90_tss": "head", "nvjet": "products", "attention": "attention",
    "gate": "activations", "finish": "activations", "norm": "norms",
    "embed": "copies", "gather": "copies", "scatter": "copies",
}  # fmt: skip
"""Kind by the beginning of a kernel's name, the first that fits; `tss` are products with results in f32."""


def kind_of(kernel):
    return next((kind for begin, kind in KERNELS.items() if kernel.startswith(begin)), "other")


def table_of_kernels(predictions, records):
    """Nothing if no pass was profiled."""
    lines = []
    for name, predicted in predictions:
        seen = {}
        for record in records:
            if record.get("what") == f"{name} by ncu, one pass":
                for kernel in record.get("kernels", ()):
                    kind = kind_of(kernel["kernel"])
                    seen[kind] = seen.get(kind, 0.0) + kernel["seconds"]
        for kind in [*KINDS, "other"] if seen else []:
            if kind in seen:
                own, theirs = predicted.get(kind, 0.0), seen[kind]
                lines.append(row(name, kind, f"{1e3 * own:.2f}", f"{1e3 * theirs:.2f}", f"{own / theirs:.2f}"))
        if seen:
            own, theirs = sum(predicted.values()), sum(seen.values())
            lines.append(row(name, "all", f"{1e3 * own:.2f}", f"{1e3 * theirs:.2f}", f"{own / theirs:.2f}"))
    header = ["model", "kernels of one pass", "predicted, ms", "measured, ms", "predicted/measured"]
    return ["", row(*header), row(*["---"] * len(header)), *lines] if lines else []


def read_records(path):
    try:
        records = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"--against {path}: {error}") from None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise SystemExit(f"--against {path}: expected a list of records, as run.py writes them")
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sass", type=pathlib.Path, default=pathlib.Path(__file__).with_name("sass.md"))
    parser.add_argument("--kernels", choices=["head", "bdcd5ee"], default="head")
    parser.add_argument("--products", type=float, default=PRODUCTS / 1e12)
    parser.add_argument("--against", type=pathlib.Path)
    options = parser.parse_args()
    if not options.sass.is_file():
        parser.error(f"--sass {options.sass}: there is no such file")
    if not options.products > 0:
        parser.error(f"--products {options.products}: expected a rate above 0, in TFLOP/s")
    before = options.kernels == "bdcd5ee"
    known = counts(options.sass) | (BEFORE if before else {})
    missing = {"embed_bf16", "gate_bf16", "finish_bf16", "norm_bf16", "log_probs_tile"} - known.keys()
    if not before:
        missing |= {"norm_short_bf16"} - known.keys()
    if missing:
        parser.error(f"--sass {options.sass}: no row for {', '.join(sorted(missing))}")
    records = read_records(options.against) if options.against else None
    rate = 1e12 * options.products
    lines = list(table(list(predict(known, before, rate)), records))
    if records:
        lines += table_of_kernels(profiled(known, before, rate), records)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
