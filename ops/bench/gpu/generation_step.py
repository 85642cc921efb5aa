"""The step that measures greedy continuations: tokens a second of one prompt, of some, and of many at once.

A T5's are of its decoder, over the states of its prompt; each pass computes those states anew or finds them kept.
"""

import json
import statistics

from bench import head, row
from models import chosen
from workloads import EVEN

AT_ONCE = (1, 16, 64)
"""Prompts that are continued together."""
NEW_TOKENS = 64
"""Of each prompt, unless it ends before."""


def generation(bench):
    lines = bench.title("greedy continuations") + head(
        "model", "prompts at once", "tokens of the prompts", "new tokens", "s", "new tokens/s", "ms a step"
    )
    for model in chosen(bench):
        if model.kind not in ("gpt2", "t5"):
            continue
        folder = bench.checkpoints[model.name].result()
        if folder is None:
            lines.append(row(model.name, "no checkpoint", *[None] * 5))
            continue
        asked = bench.requests[model.name].result()[EVEN].lines
        for count in (1, 4) if bench.tiny else AT_ONCE:
            lines.append(continued(bench, model, folder, asked[:count]))
    return lines


def continued(bench, model, folder, asked):
    """A row of the table: two passes, the first of which is left out."""
    prompts = [{"id": line["id"], "prompt_ids": line["prompt_ids"]} for line in asked]
    file = bench.session.work / "requests" / f"{model.name}-generate-{len(prompts)}.jsonl"
    file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    arguments = ["--task", "generate", "--input", file, "--max-tokens", NEW_TOKENS, "--cache-tokens", 32768]
    arguments += ["--model", folder, "--device", bench.device, "--repeat", 3]
    done = bench.hopeval("generation", "lm", "bench", *arguments, limit=45, timed=True)
    passes = [answer for answer in done.answers() if "pass" in answer]
    bench.session.record("generation", f"{model.name}, {len(prompts)} at once", done, passes=passes)
    if len(passes) < 2:
        return row(model.name, len(prompts), done.why or "no second pass", *[None] * 4)
    given = sum(len(prompt["prompt_ids"]) for prompt in prompts)
    new, wall = passes[1]["requested_tokens"] - given, statistics.median(p["wall_s"] for p in passes[1:])
    steps = 1e3 * wall * len(prompts) / new if new else None
    return row(
        model.name, len(prompts), given, new, f"{wall:.3f}", f"{new / wall:,.0f}", steps and f"{steps:.2f}"
    )
