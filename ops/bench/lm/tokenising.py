#!/usr/bin/env python3
"""Tokens per second and core: hopeval beside `tokenizers` and SentencePiece, on the same passages and vocabularies.

Why: every text goes through a tokenizer before it goes through a model. hopeval's is the Rust library that `tokenizers` wraps, so
the question is what it loses or gains around it; SentencePiece is the peer where the vocabulary is one of its models.

What: for each class of tokenizer, in turn and round by round, a fresh process on one core encodes every passage, each
with the special tokens that the model's texts have around them. Counted are CPU seconds (a loaded machine stretches wall seconds)
of:

* `hopeval`: from the text to ids that are kept, in process (`hopeval lm bench --task tokenize`); it remembers texts, and
  filling that memory is counted. Starting, opening the tokenizer and reading the passages are not.
* `hopeval lm tokenize`: the whole process, from its start over JSON in and JSON out (ids and tokens) to its end.
* `tokenizers`, one by one (`encode`), in one batch (`encode_batch`), and in one batch without offsets (`encode_batch_fast`):
  from the text to a list of ids. Starting, opening and reading are not counted.
* `sentencepiece`: one call for all texts (`encode`, one thread), likewise; its ids have no special tokens, which are put around
  them to compare.

All ids must be equal, or the exit code is 1. SentencePiece may cut a text otherwise where both ways have the same score
(it adds 32-bit numbers, `tokenizers` 64-bit ones): such ties are counted and told.

Knobs: --corpus (JSON Lines of title and text, or .gz; repeatable; by default a generated world), --passages, --rounds, --classes,
--vocabularies (as `ops/lm/compare-tokenizers.py --work` leaves them: old formats, and what hopeval imports of them),
--hopeval, --work, --out.

Needs Python 3.11 with tokenizers and sentencepiece; a release build of hopeval.
"""

import argparse
import datetime
import gzip
import importlib.metadata
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))
import machine

BASE = "tokenizers, one by one"


class Class:
    """A class of tokenizer: its folder, and how SentencePiece's ids become the model's."""

    def __init__(self, title, file=None, before=(), after=()):
        self.title, self.file, self.before, self.after = title, file, list(before), list(after)


CLASSES = {
    "gpt2": Class("byte-level BPE (GPT-2)"),
    "bert-uncased": Class("WordPiece (BERT)"),
    "t5": Class("Unigram (T5)", "spiece.model", after=[1]),
    "llama": Class("BPE with bytes for the unknown (Llama)", "tokenizer.model", before=[1]),
}


def one_by_one(tokenizer, texts):
    return [tokenizer.encode(text).ids for text in texts]


def in_a_batch(tokenizer, texts):
    return [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def in_a_fast_batch(tokenizer, texts):
    return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]


TOKENIZERS = {BASE: one_by_one, "tokenizers, encode_batch": in_a_batch, "tokenizers, encode_batch_fast": in_a_fast_batch}


def peer(side, folder, file, texts):
    """What a process of this script does: one side, once. Prints its seconds and its ids."""
    with open(texts) as lines:
        texts = [json.loads(line)["text"] for line in lines]
    if side in TOKENIZERS:
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(str(imported(folder) / "tokenizer.json"))
        encode = lambda: TOKENIZERS[side](tokenizer, texts)
    else:
        import sentencepiece

        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / file))
        encode = lambda: pieces.encode(texts, num_threads=1)
    wall, cpu = time.perf_counter(), time.process_time()
    ids = encode()
    seconds = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    print(json.dumps(seconds | {"ids": ids}))


def imported(folder):
    """Where a folder's tokenizer.json is."""
    return folder if (folder / "tokenizer.json").exists() else folder / "imported"


class Bench:
    def __init__(self, options):
        self.options = options
        self.environment = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
        self.texts = options.work / "texts.jsonl"

    def run(self, *command):
        done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, env=self.environment)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def peer(self, side, name):
        (answer,) = self.run(sys.executable, HERE, "--peer", side, self.folder(name), CLASSES[name].file or "-", self.texts)
        return answer

    def hopeval(self, name):
        (answer,) = self.run(self.options.hopeval, "lm", "bench", "--task", "tokenize", *self.model(name))
        return answer

    def process(self, name):
        """The whole of `lm tokenize`; its seconds are those of the child."""
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [self.options.hopeval, "lm", "tokenize", *self.model(name)]
        out = self.options.work / "ids.jsonl"
        with open(out, "wb") as file:
            subprocess.run(list(map(str, command)), check=True, stdout=file, env=self.environment)
        wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(out) as lines:
            ids = [json.loads(line)["ids"] for line in lines]
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"wall_s": wall, "cpu_s": cpu, "ids": ids}

    def model(self, name):
        return "--model", imported(self.folder(name)), "--input", self.texts

    def folder(self, name):
        return self.options.vocabularies / name

    def sides(self, name):
        sides = {
            "hopeval": lambda: self.hopeval(name),
            "hopeval lm tokenize, whole process": lambda: self.process(name),
        }
        others = [*TOKENIZERS, *(["sentencepiece"] if CLASSES[name].file else [])]
        return sides | {side: lambda side=side: self.peer(side, name) for side in others}


def differences(name, folder, side, theirs, ours):
    """How many texts differ, and how many of those are ties."""
    kind = CLASSES[name]
    if side == "sentencepiece":
        theirs = [kind.before + ids + kind.after for ids in theirs]
    wrong = [n for n, (one, other) in enumerate(zip(theirs, ours, strict=True)) if one != other]
    if side != "sentencepiece" or not wrong:
        return len(wrong), 0
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / kind.file))
    inner = lambda ids: ids[len(kind.before) : len(ids) - len(kind.after)]
    score = lambda ids: sum(pieces.get_score(i) for i in ids)

    def tied(n):
        one, other = inner(theirs[n]), inner(ours[n])
        return pieces.decode(one) == pieces.decode(other) and abs(score(one) - score(other)) < 1e-3

    ties = sum(map(tied, wrong))
    return len(wrong) - ties, ties


def measure(bench, name):
    """Rows of a class's table, and whether all ids are equal."""
    seconds, ours, told, good, tokens = {}, None, {}, True, 0
    sides = bench.sides(name)
    # First what the others are compared with.
    order = ["hopeval lm tokenize, whole process", *(side for side in sides if not side.startswith("hopeval lm"))]
    for number in range(bench.options.rounds):
        for side in order:
            answer = sides[side]()
            seconds.setdefault(side, []).append((answer["cpu_s"], answer["wall_s"]))
            if side.startswith("hopeval lm"):
                ours, tokens = answer["ids"], sum(map(len, answer["ids"]))
            elif side == "hopeval":
                if answer["tokens"] != tokens:
                    sys.exit(f"{name}: {answer['tokens']} tokens in process, {tokens} by `lm tokenize`")
            else:
                wrong, told[side] = differences(name, bench.folder(name), side, answer["ids"], ours)
                if wrong:
                    print(f"{name}: {wrong} texts have other ids by {side}", file=sys.stderr)
                    good = False
            print(f"{name}, round {number + 1}: {side} {answer['cpu_s']:.2f} CPU s", file=sys.stderr, flush=True)
    median = {side: [statistics.median(column) for column in zip(*rounds)] for side, rounds in seconds.items()}
    rows = []
    for side in sides:
        cpu, wall = median[side]
        ties = f"{told[side]} ties" if told.get(side) else "equal"
        cells = [side, f"{cpu:.2f}", f"{wall:.2f}", f"{tokens / cpu / 1e6:.2f}", f"{median[BASE][0] / cpu:.2f}"]
        cells.append("-" if side.startswith("hopeval") else ties)
        rows.append("| " + " | ".join(f"**{c}**" if side.startswith("hopeval") and i else c for i, c in enumerate(cells)) + " |")
    title = [f"## {CLASSES[name].title}", "", f"{tokens:,} tokens.", ""]
    header = ["side", "CPU s", "wall s", "million tokens / CPU s", f"times {BASE}", "ids"]
    return [*title, "| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |", *rows, ""], good


def passages(options):
    """Texts, evenly spread over the corpora; a generated world's where there are none."""
    corpora = options.corpus
    if not corpora:
        world = options.work / "world"
        command = [options.hopeval, "world", "--questions", 100, "--passages", options.passages, "--out", world]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
        corpora = [world / "corpus.jsonl"]
    texts = []
    for path in corpora:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            texts += [json.loads(line)["text"] for line in lines]
    count = min(options.passages, len(texts))
    return [texts[n * len(texts) // count] for n in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=pathlib.Path, action="append", help="JSON Lines of title and text; a generated world by default")
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--classes", type=lambda text: text.split(","), default=list(CLASSES), help="comma-separated")
    parser.add_argument("--vocabularies", type=pathlib.Path, default=machine.ROOT / "target" / "tokenizers", help="compare-tokenizers.py --work")
    parser.add_argument("--hopeval", type=pathlib.Path, default=machine.ROOT / "target" / "release" / "hopeval")
    parser.add_argument("--work", type=pathlib.Path, default=machine.ROOT / "target" / "bench-tokenising")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if unknown := [name for name in options.classes if name not in CLASSES]:
        parser.error(f"no class {', '.join(unknown)}; there are {', '.join(CLASSES)}")
    for name in options.classes:
        if not (imported(options.vocabularies / name) / "tokenizer.json").exists():
            parser.error(f"no tokenizer.json for {name} in {options.vocabularies}: ops/lm/compare-tokenizers.py --work makes it")
    # One core for all, children included.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    options.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(options)
    texts = passages(options)
    bench.texts.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), encoding="utf-8")
    tables, good = [], True
    for name in options.classes:
        table, equal = measure(bench, name)
        print("\n".join(table), flush=True)
        tables, good = tables + table, good and equal
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in ("tokenizers", "sentencepiece"))
    source = "real passages" if options.corpus else "passages of a generated world"
    head = [
        f"# Tokenising, {datetime.date.today()}",
        "",
        f"{machine.processor()}, one of them used; load average at the end {machine.load()}; {versions}.",
        f"{len(texts):,} {source}, {sum(len(text.encode()) for text in texts) / 1e6:.1f} MB. Medians of {options.rounds} rounds, sides in turn;",
        "`ops/bench/lm/tokenising.py`, which says what the rows are.",
        "",
    ]
    if options.out:
        options.out.write_text("\n".join(head + tables))
    print("\n".join(head))
    if not good:
        sys.exit("ids differ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        side, folder, file, texts = sys.argv[2:6]
        peer(side, pathlib.Path(folder), file, texts)
    else:
        main()
