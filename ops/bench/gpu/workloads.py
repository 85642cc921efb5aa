"""The requests of PromptRank and EfficientRAG that the measurements on a GPU ask, from a seed.

`even` ones have the lengths that the floor is told for: PromptRank scores 100 paths of one passage (122 tokens) and 15 of two
(234) a question, a question has 20 tokens; EfficientRAG labels 10 chunks of 180 tokens and filters 60 tokens an iteration,
2.73 iterations a question. Padding costs nothing there. `real` ones have the spread of real passages
(`ops/bench/lm/workload.py`), which is what a padded batch pays for; their means are a little lower, since the longest are cut. In
`reuse` ten questions consider the same hundred passages, as questions over a closed corpus do.
"""

import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lm"))
import workload

ITERATIONS = 2.73
"""A question (EfficientRAG, table 4, MuSiQue)."""
CHUNKS = 10
"""Labelled an iteration."""
REUSED = 10
"""Questions that consider the same passages."""
PASSAGE, QUESTION = 110, 20
EVEN, REAL, REUSE = "even", "real", "reuse"


def passages(random, count, even):
    return [workload.zipf(random, PASSAGE) for _ in range(count)] if even else workload.passages(random, count)


def question(random, even):
    return workload.zipf(random, QUESTION) if even else workload.question(random)


def paths(random, first, even):
    """One-hop paths, then two-hop ones, three of which begin with the same passage."""
    two = max(workload.SECOND_HOPS, 15 * len(first) // 100)
    second = passages(random, two, even)
    one_hop = [("one", [passage]) for passage in first]
    return one_hop + [("two", [first[j // workload.SECOND_HOPS], second[j]]) for j in range(two)]


def promptrank(kind, queries, count, end, seed=7):
    """`count` one-hop paths a question. An id is the question's number, the hop and the path's number."""
    random, even = np.random.default_rng(seed), kind == EVEN
    lines, kept = [], passages(random, count, even)
    for number in range(queries):
        first = kept if kind == REUSE else passages(random, count, even)
        asked = question(random, even) + end
        for i, (hop, path) in enumerate(paths(random, first, even)):
            prompt = workload.prompt(path) + end
            lines.append({"id": f"{number}-{hop}-{i}", "prompt_ids": prompt, "target_ids": asked})
    return lines


def chunks(kind, iterations, seed=7):
    """What the labeler reads: a query and a chunk."""
    return encoded(kind, iterations * CHUNKS, "label", (180, 0.45, 40, 384), seed)


def filtered(kind, iterations, seed=8):
    """What the filter reads: a query and what was kept."""
    return encoded(kind, iterations, "filter", (60, 0.45, 20, 128), seed)


def encoded(kind, count, name, shape, seed):
    random = np.random.default_rng(seed)
    sizes = [shape[0]] * count if kind == EVEN else workload.lengths(random, count, *shape)
    return [{"id": f"{name}-{i}", "ids": workload.zipf(random, size)} for i, size in enumerate(sizes)]


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
