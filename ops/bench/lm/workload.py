#!/usr/bin/env python3
"""The requests of the speed comparison, as JSON Lines of token ids that any engine can replay.

Why: speed at padded rectangles of one length says nothing of a job whose texts are short, uneven and share most of
their tokens.

What: writes one file a task. Passages have log-normal lengths (sigma 0.6, mean 110 tokens before clipping to 12..230), which
is what 9,003 passages of 2Wiki, MuSiQue and HotpotQA have; questions normal ones (20, 5, clipped to 8..40); ids follow
Zipf's law.

* `gpt2`, `t5`: PromptRank's one question. A prompt is 2 tokens, a passage, and an instruction of 10; the question is the
  target. `--paths` one-hop paths, then 15 % as many two-hop ones, which begin with a first passage that a one-hop path
  has, 3 to each. T5's prompts and targets end in `</s>`.
* `gpt2-instructions`: an ensemble of five instructions after each of `--documents` passages. Instruction by instruction, as
  PromptRank asks (`score_paths`: all paths of a batch under one template, then under the next, a mean at the end): what
  stands beside a passage in a padded batch is other passages, not the same one four times more. By default as many
  passages as such a batch has, of PromptRank's hundred.
* `label`: pairs of a query and a chunk for EfficientRAG's labeler, log-normal (sigma 0.45, mean 180, 40..384).
* `embed`: passages for a dense index.

Knobs: the folder, --paths, --documents, --pairs, --passages, --seed.
"""

import argparse
import json
import pathlib

import numpy as np

DOCUMENT, END = [200, 201], [1]
INSTRUCTIONS = 5
FIRST, LAST = 300, 30_000
SECOND_HOPS = 3
FEW = 6


def zipf(random, count):
    return (FIRST + np.minimum(random.zipf(1.25, count), LAST - FIRST - 1)).tolist()


def lengths(random, count, mean, sigma, shortest, longest):
    drawn = random.lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    return drawn.round().clip(shortest, longest).astype(int).tolist()


def passages(random, count):
    return [zipf(random, length) for length in lengths(random, count, 110, 0.6, 12, 230)]


def question(random):
    return zipf(random, int(np.clip(random.normal(20, 5), 8, 40)))


def instruction(number):
    """Ten tokens; no two instructions begin alike."""
    return list(range(210 + 10 * number, 220 + 10 * number))


def prompt(path, number=0):
    return [token for passage in path for token in DOCUMENT + passage] + instruction(number)


def promptrank(random, count):
    """`(name, path)`: one-hop paths, then two-hop ones."""
    first, two = passages(random, count), max(SECOND_HOPS, 15 * count // 100)
    second = passages(random, two)
    one_hop = [(f"one-{i}", [passage]) for i, passage in enumerate(first)]
    return one_hop + [(f"two-{j}", [first[j // SECOND_HOPS], second[j]]) for j in range(two)]


def tasks(options):
    random = np.random.default_rng(options.seed)
    asked, paths = question(random), promptrank(random, options.paths)
    yield "gpt2", [{"id": name, "prompt_ids": prompt(path), "target_ids": asked} for name, path in paths]
    yield "t5", [{"id": name, "prompt_ids": prompt(path) + END, "target_ids": asked + END} for name, path in paths]
    # More than the first few are of a generator of their own, so that other tasks keep the requests of earlier results.
    documents = passages(random, FEW) + passages(random.spawn(1)[0], max(0, options.documents - FEW))
    yield "gpt2-instructions", [
        {"id": f"one-{i}-{number}", "prompt_ids": prompt([passage], number), "target_ids": asked}
        for number in range(INSTRUCTIONS)
        for i, passage in enumerate(documents[: options.documents])
    ]
    for task, count, shape in (("label", options.pairs, (180, 0.45, 40, 384)), ("embed", options.passages, (110, 0.6, 12, 256))):
        sizes = lengths(random, count, *shape)
        yield task, [{"id": f"{task}-{i}", "ids": zipf(random, size)} for i, size in enumerate(sizes)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--paths", type=int, default=30, help="one-hop paths")
    parser.add_argument("--documents", type=int, default=16, help="passages with five instructions each")
    parser.add_argument("--pairs", type=int, default=16, help="of query and chunk")
    parser.add_argument("--passages", type=int, default=32, help="to embed")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for task, lines in tasks(options):
        (options.folder / f"{task}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
