#!/usr/bin/env python3
"""Cohen's kappa of two raters with the interval of the likelihood ratio, for the test of `results/measures`.

Why: the interval has no closed form, so its test needs values that another program found another way.

What: for each table of counts (both yes, only the first, only the second, both no) the kappa, and the least and the
largest kappa that the likelihood-ratio test does not refuse at 5 %. A table is described by its share of disagreement,
the share of yes among agreements and the share of `only the first` among disagreements. For a given kappa the first
follows by bisection, and the other two are searched by golden sections, one inside the other. (hopeval searches a grid
over both raters' shares of yes.)

Only the standard library is used. It takes seconds.
"""

import math

CHI_SQUARED_95 = 3.841458820694124
GOLDEN = (math.sqrt(5) - 1) / 2
TABLES = [(20, 5, 10, 15), (45, 15, 25, 15), (3, 1, 0, 2), (10, 0, 0, 10), (1, 0, 0, 99)]


def kappa(shares):
    """Cohen's kappa of a table of shares; 1 where it is undefined."""
    first, second = shares[0] + shares[1], shares[0] + shares[2]
    by_chance = first * second + (1 - first) * (1 - second)
    return (shares[0] + shares[3] - by_chance) / (1 - by_chance) if by_chance < 1 else 1.0


def log_likelihood(counts, shares):
    """Of the counts under shares of the cells, without the constant."""
    total = 0.0
    for count, share in zip(counts, shares):
        if count:
            if share <= 0:
                return -1e300
            total += count * math.log(share)
    return total


def with_kappa(wanted, agreed_yes, differing_first):
    """The table with this kappa, share of yes among agreements, share of `only the first` among disagreements."""

    def table(differing):
        agreed = 1 - differing
        return (
            agreed * agreed_yes,
            differing * differing_first,
            differing * (1 - differing_first),
            agreed * (1 - agreed_yes),
        )

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if kappa(table(middle)) > wanted else (low, middle)
    return table((low + high) / 2)


def largest(function, steps):
    """The largest value of a function with one peak between 0 and 1."""
    low, high = 0.0, 1.0
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(steps):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = function(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = function(left)
    return max(at_left, at_right)


def profile(counts, wanted):
    """The largest log-likelihood of the counts among tables with this kappa."""
    of_yes = lambda yes: largest(lambda first: log_likelihood(counts, with_kappa(wanted, yes, first)), 26)
    return largest(of_yes, 32)


def interval(counts):
    """Kappa and both ends of its interval."""
    shares = [count / sum(counts) for count in counts]
    found, most = kappa(shares), log_likelihood(counts, shares)
    refused = lambda wanted: 2 * (most - profile(counts, wanted)) > CHI_SQUARED_95
    ends = []
    for bound in (-1 + 1e-9, 1 - 1e-9):
        inside, outside = found, bound
        if not refused(bound):
            inside = outside = bound
        for _ in range(18):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if refused(middle) else (middle, outside)
        ends.append((inside + outside) / 2)
    return found, ends


if __name__ == "__main__":
    for counts in TABLES:
        found, (low, high) = interval(counts)
        print(counts, f"kappa {found:.8f} from {low:.4f} to {high:.4f}")
