"""Requests of the sizes of `workloads.py`, drawn by the same rules from another generator, without numpy."""

import math
import os
import random


def zipf(random_, count, exponent=1.25):
    """As `ops/bench/lm/workload.py` draws token ids: what begins alike by chance is shared there too. By rejection
    (Devroye 1986, chapter X.6)."""
    ids, power = [], exponent - 1
    bound = 2**power
    while len(ids) < count:
        u, v = 1 - random_.random(), random_.random()
        drawn = math.floor(min(u ** (-1 / power), 1e15))
        t = (1 + 1 / drawn) ** power
        if v * drawn * (t - 1) / (bound - 1) <= t / bound:
            ids.append(300 + min(drawn, 29_699))
    return ids


def promptrank(questions, reuse, end):
    """100 paths of one passage and 15 of two a question, as `workloads.promptrank` draws them: even lengths, or with
    `reuse` real ones and the same hundred first passages."""
    source = random.Random(7)

    def passages(count):
        lengths = [110] * count
        if reuse:
            drawn = (source.lognormvariate(math.log(110) - 0.18, 0.6) for _ in lengths)
            lengths = [min(max(round(length), 12), 230) for length in drawn]
        return [zipf(source, length) for length in lengths]

    def prompt(path):
        return [token for passage in path for token in [200, 201, *passage]] + list(range(210, 220)) + end

    lines, kept = [], passages(100)
    for _ in range(questions):
        first = kept if reuse else passages(100)
        length = min(max(int(source.gauss(20, 5)), 8), 40) if reuse else 20
        asked = zipf(source, length) + end
        second = passages(15)
        paths = [[passage] for passage in first] + [[first[j // 3], second[j]] for j in range(15)]
        lines += [{"prompt_ids": prompt(path), "target_ids": asked} for path in paths]
    return lines


def forest(sequences):
    """`(position of the first row, rows)` of each node of shared prefixes: the layout of `engine/lm/src/prefix.rs`."""
    ordered = sorted(sequences)
    common = [len(os.path.commonprefix(pair)) for pair in zip(ordered, ordered[1:])] + [0]
    nodes, path = [], []
    for number, sequence in enumerate(ordered):
        inherited = common[number - 1] if number else 0
        while path and path[-1] > inherited:
            path.pop()
        cuts, least = {len(sequence)}, len(sequence)
        for after in common[number:]:
            least = min(least, after)
            if least <= inherited:
                break
            cuts.add(least)
        for end in sorted(cuts):
            start = path[-1] if path else 0
            if end > start:
                nodes.append((start, end - start))
                path.append(end)
    return nodes
