"""Exchanges the pieces of names, consistently within one example, so that a model learns to copy names and not to know them.

A world's training names are put together from a few hundred stems, and those of evaluation from others. A small model would
learn the stems by heart; with the pieces exchanged at random in every example there is nothing to learn but to copy.
"""

import json
from pathlib import Path

import torch


class Renaming:
    """Draws exchanges of the vocabulary's name pieces; now and then an ordinary word is exchanged too.

    `words` are shares of ordinary words, one of which is drawn for each example.
    """

    def __init__(self, layout, share=0.9, words=(0.02,)):
        bounds = json.loads(Path(layout).read_text())
        self.size = max(end for _, end in bounds.values())
        self.regions = bounds
        self.pieces = [bounds["first_pieces"], bounds["later_pieces"]]
        self.words = [bounds[kind] for kind in ("words", "capitals") if kind in bounds]
        self.share, self.of_words = share, words

    def exchanges(self, piece):
        """Whether a piece is one of names, and so becomes another one in most examples."""
        return any(start <= piece < end for start, end in self.pieces)

    def may_exchange(self, piece):
        """Whether a piece becomes another one in some examples."""
        return any(start <= piece < end for start, end in self.pieces + self.words)

    def draw(self, generator):
        """A table of ids; an example's ids are looked up in it."""
        table = torch.arange(self.size)
        if torch.rand((), generator=generator) >= self.share:
            return table
        for start, end in self.pieces:
            table[start:end] = start + torch.randperm(end - start, generator=generator)
        of_words = self.of_words[0]
        if len(self.of_words) > 1:
            of_words = self.of_words[int(torch.randint(len(self.of_words), (), generator=generator))]
        for start, end in self.words:
            chosen = start + torch.nonzero(torch.rand(end - start, generator=generator) < of_words).ravel()
            table[chosen] = chosen[torch.randperm(len(chosen), generator=generator)]
        return table
