#!/usr/bin/env python3
"""Sentences of hopeval's splitter, pysbd and syntok beside those that HotpotQA and 2WikiMultihopQA give.

Why: chains of thought are cut into sentences, and so are passages of corpora that have none (ReAct, FSM, MIGRES, ALCE).
The splitter is a handful of rules (`engine/pytext/src/sentences.rs`); it must be no worse than packages that do nothing
else.

What: each splitter cuts the paragraphs of the questions, whose sentences the data sets give, and the cases of
`engine/pytext/tests/sentences.txt`. A boundary is the place of a sentence's first letter, but for the first sentence;
it is right if the data set has it, too. Sentences without a letter are none. The file gets Markdown tables.

    cargo build --release -p hopeval-pytext --example sentences
    sentences.py --sentences target/release/examples/sentences --data DIR [--passages N] [--out FILE]

DIR has `hotpotqa/dev_1267.json.gz` and `2wikimultihopqa/train_500.json.gz`. Exits with 1 if the F1 of another
splitter is higher, or if hopeval's has other cases wrong than those that are marked. Needed: pysbd, syntok.
"""

import argparse
import gzip
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import time
import warnings

warnings.simplefilter("ignore")

import pysbd  # noqa: E402
import syntok.segmenter  # noqa: E402

CASES = pathlib.Path(__file__).resolve().parents[2] / "engine/pytext/tests/sentences.txt"


def boundaries(text, sentences):
    """The places of the first characters of all sentences but the first one, in characters without white space: so
    splitters that change white space are comparable."""
    places, at = [], 0
    for sentence in sentences:
        letters = sum(not letter.isspace() for letter in sentence)
        if letters:
            places.append(at)
        at += letters
    total = sum(not letter.isspace() for letter in text)
    if at != total:
        raise ValueError(f"sentences of {at} letters in a text of {total}: {text[:200]!r}")
    return set(places[1:])


def by_places(text, begins):
    """The pieces of a text between places."""
    begins = sorted(set(begins) | {0})
    return [text[begin:end] for begin, end in zip(begins, [*begins[1:], len(text)])]


def of_hopeval(program, texts):
    lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
    found = subprocess.run([program], input=lines, stdout=subprocess.PIPE, check=True, text=True, encoding="utf-8")
    return [json.loads(line) for line in found.stdout.splitlines()]


def of_pysbd(texts):
    segmenter = pysbd.Segmenter(language="en", clean=False, char_span=True)
    # Its spans may overlap or miss a text's end; their begins are what it says.
    return [by_places(text, [span.start for span in segmenter.segment(text)]) for text in texts]


def of_syntok(texts):
    begins = lambda text: [sentence[0].offset for paragraph in syntok.segmenter.process(text) for sentence in paragraph]
    return [by_places(text, begins(text)) for text in texts]


def paragraphs(file, between, most):
    """Text and given sentences of each distinct paragraph; `between` stands between sentences."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        questions = json.load(lines)
    found = {}
    for question in questions:
        for title, sentences in question["context"]:
            found.setdefault((title, between.join(sentences)), sentences)
    rows = [(text, sentences) for (_, text), sentences in found.items()]
    return rows[:most]


def cases():
    """Texts and sentences of the listed cases: a line with ` | ` between sentences."""
    lines = CASES.read_text(encoding="utf-8").splitlines()
    kept = [line.removeprefix("~ ") for line in lines if line.strip() and not line.startswith("#")]
    return [(" ".join(line.split(" | ")), line.split(" | ")) for line in kept]


def known_mistakes():
    """The number of cases that hopeval is known to cut wrong."""
    return sum(line.startswith("~ ") for line in CASES.read_text(encoding="utf-8").splitlines())


def row(name, rows, found, seconds):
    """A line of the table, and F1."""
    right = wanted = given = alike = 0
    for (text, expected), pieces in zip(rows, found, strict=True):
        theirs, ours = boundaries(text, expected), boundaries(text, pieces)
        right, wanted, given = right + len(theirs & ours), wanted + len(theirs), given + len(ours)
        alike += theirs == ours
    precision, recall = right / max(1, given), right / max(1, wanted)
    f1 = 2 * right / max(1, given + wanted)
    line = (f"| {name} | {wanted:,} | {given:,} | {right:,} | {precision:.4f} | {recall:.4f} | {f1:.4f} | "
            f"{alike:,} of {len(rows):,} | {seconds:.1f} |")  # fmt: skip
    return line, f1, alike


HEAD = ["| splitter | boundaries | found | right | precision | recall | F1 | texts cut alike | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", required=True, help="hopeval's example")
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--passages", type=int, help="the first ones alone")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    splitters = {
        "hopeval": lambda texts: of_hopeval(arguments.sentences, texts),
        f"pysbd {importlib.metadata.version('pysbd')}": of_pysbd,
        f"syntok {importlib.metadata.version('syntok')}": of_syntok,
    }
    lines, wrong = [], []
    texts = {
        "HotpotQA": paragraphs(arguments.data / "hotpotqa/dev_1267.json.gz", "", arguments.passages),
        "2WikiMultihopQA": paragraphs(arguments.data / "2wikimultihopqa/train_500.json.gz", " ", arguments.passages),
        "Listed cases": cases(),
    }
    for title, rows in texts.items():
        lines += [f"## {title}", "", *HEAD]
        best = {}
        for name, split in splitters.items():
            begun = time.monotonic()
            found = split([text for text, _ in rows])
            line, best[name], alike = row(name, rows, found, time.monotonic() - begun)
            lines.append(line)
            if name == "hopeval" and title == "Listed cases" and len(rows) - alike != known_mistakes():
                wrong.append(f"{len(rows) - alike} cases, of which {known_mistakes()} are marked")
            print(line, flush=True)
        wrong += [f"{title}: {name} is better" for name, f1 in best.items() if f1 > best["hopeval"]]
        lines.append("")
    text = "\n".join(lines)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    for what in wrong:
        print(f"differs: {what}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
