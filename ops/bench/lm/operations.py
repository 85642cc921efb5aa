"""The floor: operations that are needed when nothing is padded, the head meets targets only and shared work is done once.

A multiplication and an addition are two operations. Counted are the products with weights, queries with keys, weights of
attention with values; norms, activations and softmax are not. A causal token sees itself and what is before it. The last
token of a scored sequence is never an input.
"""

import os


def shared_prefixes(sequences):
    """Yields `(first new position, length)`: a position counts once for all sequences that begin alike."""
    before = []
    for sequence in sorted(sequences):
        common = len(os.path.commonprefix([before, sequence]))
        yield common, len(sequence)
        before = sequence


def gpt2(requests):
    layers, hidden, vocabulary = 12, 768, 50257
    token, pair = layers * 12 * hidden * hidden * 2, layers * 4 * hidden
    inputs = [line["prompt_ids"] + line["target_ids"][:-1] for line in requests]
    total = sum(len(line["target_ids"]) for line in requests) * 2 * hidden * vocabulary
    for first, length in shared_prefixes(inputs):
        total += (length - first) * token + pair * sum(range(first + 1, length + 1))
    return total


class T5:
    layers, hidden, inner, vocabulary = 12, 768, 2048, 32128
    pair = layers * 4 * hidden

    @classmethod
    def encoder(cls, requests):
        token = cls.layers * (4 * cls.hidden**2 + 3 * cls.hidden * cls.inner) * 2
        different = {tuple(line["prompt_ids"]) for line in requests}
        return sum(len(ids) * token + cls.pair * len(ids) ** 2 for ids in different)

    @classmethod
    def decoder(cls, requests):
        """The cross-attention's keys and values are part of it: twelve times the states' size, they are not kept."""
        token = cls.layers * (6 * cls.hidden**2 + 3 * cls.hidden * cls.inner) * 2 + 2 * cls.hidden * cls.vocabulary
        total = 0
        for line in requests:
            prompt, target = len(line["prompt_ids"]), len(line["target_ids"])
            total += prompt * cls.layers * 2 * cls.hidden**2 * 2 + target * token
            total += cls.pair * (target * prompt + target * (target + 1) // 2)
        return total


def bert(requests):
    layers, hidden, inner = 12, 768, 3072
    token = layers * (4 * hidden**2 + 2 * hidden * inner) * 2
    return sum(len(line["ids"]) * token + layers * 4 * hidden * len(line["ids"]) ** 2 for line in requests)


def deberta(requests):
    """The projections of relative positions are constant in the weights; only products with positions in reach count."""
    layers, hidden, reach = 12, 768, 512
    positions = sum(2 * 2 * layers * hidden * len(line["ids"]) * min(reach, 2 * len(line["ids"])) for line in requests)
    return bert(requests) + positions
