"""Votes of several draws in MIGRES (the authors' code; the paper has one draw).

An answer needs more than half of the draws, each with confidence and with little that is missing. Statements of all
draws are clustered by k-means over TF-IDF as scikit-learn has it, and the middle ones of the largest clusters are kept.
scikit-learn draws its ten starts; here every set of statements is a start, and the least inertia counts. Statements
without a common word are equally far from each other, so that ties are frequent: what differs by rounding alone is
equal, and the first one counts.
"""

import collections
import itertools
import math
import re

# scikit-learn's bound.
MOST_PASSES = 300


def verdict(replies, least):
    """The verdict, and whether it is an answer."""
    good = [reply for reply in replies if "unanswerable" not in reply.answer.lower() and reply.confidence >= least
            and len(reply.missing) < 10]
    against = len(replies) - len(good)
    if 2 * against < len(replies) and sum(reply.confidence for reply in replies) >= least * len(replies):
        return commonest(good), True
    others = [reply for reply in replies if reply not in good]
    rank = lambda reply: (reply.missing != "", "unanswerable" in reply.answer.lower())  # noqa: E731
    best = max(map(rank, others))
    # Nothing tells which of several says what is missing: the last one, as hopeval has it.
    return [reply for reply in others if rank(reply) == best][-1], False


def commonest(replies):
    """The answer of most; of equally many the most confident, then the first."""
    counts = collections.Counter(reply.answer.lower() for reply in replies)
    return min(replies, key=lambda reply: (-counts[reply.answer.lower()], -reply.confidence))


def distance(a, b):
    """Squared."""
    return sum((x - y) ** 2 for x, y in zip(a, b))


def nearest(to, rows):
    """The position of the nearest row, the first of equally near ones."""
    return min(range(len(rows)), key=lambda at: round(distance(to, rows[at]), 9))


def vectors(statements):
    counted = [collections.Counter(re.findall(r"\w\w+", statement.lower())) for statement in statements]
    terms = sorted(set().union(*counted))
    total = len(statements)
    idf = {term: math.log((1 + total) / (1 + sum(term in counts for counts in counted))) + 1 for term in terms}
    rows = [[counts[term] * idf[term] for term in terms] for counts in counted]
    lengths = [math.sqrt(sum(x * x for x in row)) for row in rows]
    return [[x / length if length else 0.0 for x in row] for row, length in zip(rows, lengths)]


def partition(rows, start):
    """Centers and members after k-means from these rows."""
    centers, members = [rows[at] for at in start], None
    for _ in range(MOST_PASSES):
        before, members = members, [nearest(row, centers) for row in rows]
        if members == before:
            break
        for center in range(len(centers)):
            own = [row for row, of in zip(rows, members) if of == center]
            if own:
                centers[center] = [sum(column) / len(own) for column in zip(*own)]
    return centers, members


def middle(statements, clusters, kept):
    """Positions of the middle statements of the largest clusters; all where there are no more than clusters."""
    if len(statements) <= clusters:
        return list(range(len(statements)))
    rows = vectors(statements)
    found = [partition(rows, start) for start in itertools.combinations(range(len(rows)), clusters)]
    inertia = lambda pair: round(sum(distance(row, pair[0][of]) for row, of in zip(rows, pair[1])), 9)  # noqa: E731
    centers, members = min(found, key=inertia)
    groups = [[at for at, of in enumerate(members) if of == center] for center in range(clusters)]
    order = sorted((group for group in groups if group), key=lambda group: (-len(group), group[0]))
    chosen = [group for rank, group in enumerate(order) if len(group) > 1 or rank == 0][:kept]
    return [group[nearest(centers[members[group[0]]], [rows[at] for at in group])] for group in chosen]
