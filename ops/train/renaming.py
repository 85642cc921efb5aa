"""Exchanges the pieces of names, consistently within one example, so that a model learns to copy names and not to know them.

A world's training names are put together from a few hundred stems, and those of evaluation from others. A small model would
learn the stems by heart; with the pieces exchanged at random in every example there is nothing to learn but to copy.

Where words have meanings, some become a word of like meaning: the same one in all of an example, or, in a question, one
for itself. So a question is seldom asked in the words that training knows, and what is left to learn is likeness.
"""

import json
from pathlib import Path

import torch

NEAR = 8  # words of like meaning to draw from
LIKENESS = 0.6  # at least, as a cosine
REPLACED = (0.0, 0.0, 0.2, 0.4)  # shares of words that become one of like meaning


class Renaming:
    """Draws exchanges of the vocabulary's name pieces; now and then an ordinary word is exchanged too.

    `words` are shares of ordinary words, one of which is drawn for each example; `told` are those for examples whose
    text can be found by the words of their question. `meanings` [pieces, dimensions] has rows of length 1 for words
    that have one.
    """

    def __init__(self, layout, share=0.9, words=(0.02,), told=None, meanings=None):
        bounds = json.loads(Path(layout).read_text())
        self.size = max(end for _, end in bounds.values())
        self.regions = bounds
        self.pieces = [bounds["first_pieces"], bounds["later_pieces"]]
        self.words = [bounds[kind] for kind in ("words", "capitals") if kind in bounds]
        self.share, self.of_words, self.of_told = share, words, told or words
        self.near = None if meanings is None else self._near(meanings)

    def _near(self, meanings):
        """For each word in lower case up to `NEAR` of like meaning, the last one repeated; the word itself if none."""
        start, end = self.regions["words"]
        likeness = meanings[start:end] @ meanings[start:end].T
        values, places = likeness.topk(NEAR + 1)  # with itself
        near = torch.arange(self.size).repeat(NEAR, 1).T.contiguous()
        for n in range(NEAR):
            is_like = values[:, n + 1] >= LIKENESS
            near[start:end, n] = torch.where(is_like, start + places[:, n + 1], near[start:end, max(0, n - 1)])
        return near

    def like(self, generator):
        """A table of ids with some words become words of like meaning."""
        table = torch.arange(self.size)
        if self.near is None:
            return table
        share = REPLACED[int(torch.randint(len(REPLACED), (), generator=generator))]
        chosen = torch.nonzero(torch.rand(self.size, generator=generator) < share).ravel()
        table[chosen] = self.near[chosen, torch.randint(NEAR, (len(chosen),), generator=generator)]
        return table

    def may_exchange(self, piece):
        """Whether a piece becomes another one in some examples."""
        return any(start <= piece < end for start, end in self.pieces + self.words)

    def draw(self, generator, told=False):
        """A table of ids; an example's ids are looked up in it."""
        table = self.like(generator)
        if torch.rand((), generator=generator) >= self.share:
            return table
        for start, end in self.pieces:
            table[start:end] = start + torch.randperm(end - start, generator=generator)
        shares = self.of_told if told else self.of_words
        of_words = shares[0]
        if len(shares) > 1:
            of_words = shares[int(torch.randint(len(shares), (), generator=generator))]
        for start, end in self.words:
            chosen = start + torch.nonzero(torch.rand(end - start, generator=generator) < of_words).ravel()
            table[chosen] = table[chosen[torch.randperm(len(chosen), generator=generator)]]
        return table
