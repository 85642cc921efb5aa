"""Measures the labeler on real labels, of which it trains on one part and is measured on another.

    real_labels.py --labels FILE --base FOLDER --tokenizer DIR --work DIR [--folds 5] [--steps N] [--out FILE]

`--labels`: JSON Lines (.gz too) with question, chunk, chunk_tokens, labels and tag, as EfficientRAG's authors made them for
MuSiQue. Rows that share a question or a passage's title are in one part, so that a part's questions and passages are unseen.
Each part is held out in turn: `--base` (trained on worlds) is measured on it as it is, and after `labeler.py` has trained it on
the other parts. Beside them stand labels that need no model: the commonest label of words and of rows in the other parts, every
word kept, and the words kept that the query has, too.

Words count in rows whose tag is not TERMINATE; a word is kept if its first piece is.
"""

import argparse
import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import torch
from check import Parts
from folder import Pieces
from labeler import PRESETS, TAGS, sequence
from rows import as_published, write
from transformers import logging
from worlds import words

TERMINATE = 1
PIECES = 384


def load(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def parts(rows, count):
    """`count` lists of rows of about the same length, apart in questions and in passages."""
    group = list(range(len(rows)))
    first = {}
    for n, row in enumerate(rows):
        for key in (("question", row["question"]), ("title", row["chunk"].split(":")[0])):
            one, other = group[first.setdefault(key, n)], group[n]
            if one != other:
                group = [one if g == other else g for g in group]
    members = {}
    for n, row in enumerate(rows):
        members.setdefault(group[n], []).append(row | {"question_id": str(group[n])})
    made = [[] for _ in range(count)]
    for of in sorted(members.values(), key=len, reverse=True):
        min(made, key=len).extend(of)
    return made


def tag(row):
    return TAGS[2][row["tag"].strip("<>").upper()]


class Measured:
    """Counts of words and of tags."""

    def __init__(self):
        self.kept, self.right, self.useful, self.rows = Counter(), 0, Counter(), 0

    def add(self, row, kept, given):
        self.rows += 1
        self.right += given == tag(row)
        self.useful[tag(row) != TERMINATE, given != TERMINATE] += 1
        if tag(row) != TERMINATE:
            self.kept.update(zip(map(bool, row["labels"]), kept))

    def row(self, name):
        """Precision, recall and F1 of kept words and of useful rows, as a line of a table."""
        cells = [name]
        for counts in (self.kept, self.useful):
            hit, claimed, wanted = counts[True, True], counts[True, True] + counts[False, True], counts[True, True] + counts[True, False]
            cells += [f"{hit / max(1, claimed):.3f}", f"{hit / max(1, wanted):.3f}", f"**{2 * hit / max(1, claimed + wanted):.3f}**"]
        return "| " + " | ".join([*cells, f"{self.right / max(1, self.rows):.3f}"]) + " |"


class Labeler:
    def __init__(self, folder):
        self.parts, self.pieces = Parts(folder), Pieces(folder)

    def label(self, row):
        """Which words are kept, and the tag."""
        ids, of = sequence(self.pieces, words(row["question"]), row["chunk_tokens"], PIECES)
        states = self.parts.backbone(input_ids=torch.tensor([ids])).last_hidden_state
        given = self.parts.tags(states, torch.ones(1, len(ids)))[0]
        labels = self.parts.linear("token_classifier", states[0]).argmax(-1).tolist()
        kept, seen = [False] * len(row["chunk_tokens"]), set()
        for word, label in zip(of, labels):
            if word >= 0 and word not in seen:
                kept[word] = label == 1
                seen.add(word)
        return kept, int(given.argmax())


def guesses(others):
    """Labels that need no model, by name."""
    word = Counter(label for row in others if tag(row) != TERMINATE for label in row["labels"]).most_common(1)[0][0]
    commonest = Counter(map(tag, others)).most_common(1)[0][0]
    asked = lambda row: {w.lower() for w in words(row["question"]) if w.isalnum()}
    return {
        "the commonest label": lambda row: ([bool(word)] * len(row["labels"]), commonest),
        "every word kept": lambda row: ([True] * len(row["labels"]), 0),
        "words of the query kept": lambda row: ([w.lower() in asked(row) for w in row["chunk_tokens"]], 0),
    }


def train(options, number, others):
    """The folder of a labeler trained on rows from `--base` on."""
    folder = options.work / f"part-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    columns = lambda n, row: as_published(
        row["question"], row["chunk"], row["chunk_tokens"], [bool(label) for label in row["labels"]],
        row["tag"].strip("<>").upper(), row["question_id"], str(n), 0,
    )  # fmt: skip
    write([columns(n, row) for n, row in enumerate(others)], "labeler", folder)
    command = [sys.executable, Path(__file__).with_name("labeler.py"), "--preset", "small", "--rows", folder, "--out", folder / "model"]
    command += ["--tokenizer", options.tokenizer, "--base", options.base, "--steps", options.steps, "--learning-rate", options.learning_rate]
    command += ["--held-out", 0, "--seed", options.seed]
    with open(folder / "log.txt", "w") as log:
        subprocess.run(list(map(str, command)), check=True, stdout=log)
    return folder / "model"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", required=True, type=Path)
    parser.add_argument("--base", required=True, type=Path, help="a labeler's folder")
    parser.add_argument("--tokenizer", required=True, type=Path, help="folder of tokenizer.py")
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--learning-rate", type=float, default=PRESETS["small"].learning_rate / 2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    rows = load(options.labels)
    folds, measured = parts(rows, options.folds), {}
    for number, held in enumerate(folds):
        others = [row for n, fold in enumerate(folds) if n != number for row in fold]
        labelers = guesses(others)
        labelers["trained on worlds"] = Labeler(options.base).label
        labelers["and on the other parts"] = Labeler(train(options, number, others)).label
        for name, label in labelers.items():
            for row in held:
                measured.setdefault(name, Measured()).add(row, *label(row))
    text = "\n".join(
        [
            f"{len(rows)} rows in {options.folds} parts of {min(map(len, folds))} to {max(map(len, folds))}, apart in questions and passages;",
            f"each held out once. {options.steps} steps at {options.learning_rate:g} from the labeler of worlds; `ops/train/real_labels.py`.",
            "",
            "| labels | words: precision | recall | F1 | rows of use: precision | recall | F1 | tag accuracy |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *(of.row(name) for name, of in measured.items()),
            "",
        ]
    )
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
