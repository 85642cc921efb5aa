"""How many operations a workload needs at real sizes, each request alone and with shared work done once.

As `ops/bench/lm/operations.py` counts them, which has the sizes of the base models: products with weights, queries with keys,
weights of attention with values; a multiplication and an addition are two. The floor of a time is these over the measured rate
of a large product: everything here is bound by arithmetic (weights are read once a batch, which takes 2 ms at most).
"""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lm"))
from operations import shared_prefixes


@dataclasses.dataclass(frozen=True)
class Gpt2:
    layers: int
    hidden: int
    vocabulary: int

    def of(self, prefixes, targets):
        """Of `(first new position, length)`, and so many targets at the head."""
        token, pair = self.layers * 24 * self.hidden**2, self.layers * 4 * self.hidden
        new = sum((length - first) * token + pair * sum(range(first + 1, length + 1)) for first, length in prefixes)
        return new + targets * 2 * self.hidden * self.vocabulary

    @staticmethod
    def inputs(lines):
        return [line["prompt_ids"] + line["target_ids"][:-1] for line in lines]

    def alone(self, lines):
        return self.of([(0, len(ids)) for ids in self.inputs(lines)], targets(lines))

    def shared(self, lines):
        return self.of(shared_prefixes(self.inputs(lines)), targets(lines))


@dataclasses.dataclass(frozen=True)
class T5:
    layers: int
    hidden: int
    inner: int
    vocabulary: int
    attention: int
    """Heads times their width."""

    def encoder(self, length):
        """Of a prompt: the states, and the cross-attention's keys and values of them."""
        weights = 4 * self.hidden * self.attention + 3 * self.hidden * self.inner
        return length * self.layers * 2 * weights + self.layers * 4 * self.attention * length**2

    def cross(self, length):
        return length * self.layers * 4 * self.hidden * self.attention

    def decoder(self, line):
        """Of a target, but for the keys and values of its prompt."""
        prompt, target = len(line["prompt_ids"]), len(line["target_ids"])
        weights = self.layers * (6 * self.hidden * self.attention + 3 * self.hidden * self.inner) + self.hidden * self.vocabulary
        pairs = target * prompt + target * (target + 1) // 2
        return 2 * target * weights + self.layers * 4 * self.attention * pairs

    def alone(self, lines):
        return sum(self.encoder(len(p)) + self.cross(len(p)) + self.decoder(l) for l in lines for p in [l["prompt_ids"]])

    def shared(self, lines):
        prompts = {tuple(line["prompt_ids"]) for line in lines}
        return sum(self.encoder(len(p)) + self.cross(len(p)) for p in prompts) + sum(map(self.decoder, lines))

    def seen(self, lines):
        """Where the prompts' states are there; their keys and values are not."""
        prompts = {tuple(line["prompt_ids"]) for line in lines}
        return sum(self.cross(len(p)) for p in prompts) + sum(map(self.decoder, lines))


@dataclasses.dataclass(frozen=True)
class Deberta:
    layers: int
    hidden: int
    inner: int
    reach: int = 512
    """Relative positions; their projections are constant in the weights and not counted."""

    def alone(self, lines):
        total = 0
        for line in lines:
            n = len(line["ids"])
            weights = 4 * self.hidden**2 + 2 * self.hidden * self.inner
            positions = 4 * self.hidden * n * min(self.reach, 2 * n)
            total += self.layers * (2 * n * weights + 4 * self.hidden * n**2 + positions)
        return total

    shared = alone


def targets(lines):
    return sum(len(line["target_ids"]) for line in lines)


def tokens(lines):
    """That are read: of an encoder-decoder those of both sides."""
    return sum(len(line.get(name, ())) for line in lines for name in ("ids", "prompt_ids", "target_ids"))
