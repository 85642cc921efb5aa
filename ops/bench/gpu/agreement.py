"""How far two computations of the same scores are apart, and whether they rank alike."""

import statistics


def ranks(values):
    """Places in ascending order; equal values share the mean of theirs."""
    order, places, at = sorted(range(len(values)), key=values.__getitem__), [0.0] * len(values), 0
    while at < len(order):
        last = at
        while last + 1 < len(order) and values[order[last + 1]] == values[order[at]]:
            last += 1
        for i in order[at : last + 1]:
            places[i] = (at + last) / 2
        at = last + 1
    return places


def spearman(a, b):
    if len(a) < 2 or len(set(a)) == 1 or len(set(b)) == 1:
        return None
    return statistics.correlation(ranks(a), ranks(b))


def flips(a, b):
    """Pairs whose order is another one, and pairs."""
    pairs = [(i, j) for i in range(len(a)) for j in range(i)]
    order = lambda values, i, j: (values[i] > values[j]) - (values[i] < values[j])
    return sum(order(a, i, j) != order(b, i, j) for i, j in pairs), len(pairs)


def numbers(ours, theirs):
    """Largest and mean difference of lists of lists; what is missing or no number counts as infinitely far."""
    if [len(row) for row in ours] != [len(row) for row in theirs]:
        return {"compared": 0, "largest": float("inf"), "mean": float("inf")}
    pairs = [(a, b) for x, y in zip(ours, theirs) for a, b in zip(x, y)]
    off = [abs(a - b) if None not in (a, b) and abs(a - b) < float("inf") else float("inf") for a, b in pairs]
    return {"compared": len(off), "largest": max(off, default=0.0), "mean": statistics.fmean(off) if off else 0.0}


def of_paths(ours, theirs):
    """Of log-probabilities of targets, one list a path: a path's score is their mean."""
    found = numbers(ours, theirs)
    if found["largest"] == float("inf"):
        return found
    a, b = ([statistics.fmean(row) for row in rows] for rows in (ours, theirs))
    flipped, pairs = flips(a, b)
    best = lambda values: sorted(range(len(values)), key=lambda i: (-values[i], i))[:5]
    return found | {
        "largest_of_a_path": max(abs(x - y) for x, y in zip(a, b)), "spread_of_paths": statistics.pstdev(b), "spearman": spearman(a, b),
        "rank_flips": flipped, "pairs": pairs, "first_five_alike": best(a) == best(b),
    }  # fmt: skip


def of_labels(ours, theirs):
    """Of logits of two labels, `[token, label]` flattened: which label is the higher one."""
    found = numbers(ours, theirs)
    if found["largest"] == float("inf"):
        return found
    margins = lambda rows: [row[i + 1] - row[i] for row in rows for i in range(0, len(row), 2)]
    a, b = margins(ours), margins(theirs)
    other = sum((x > 0) != (y > 0) for x, y in zip(a, b))
    return found | {
        "spread_of_margins": statistics.pstdev(b),
        "spearman": spearman(a, b),
        "other_labels": other,
        "tokens": len(b),
    }
