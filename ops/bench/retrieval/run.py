#!/usr/bin/env python3
"""BM25 top-100 against bm25s and tantivy, on the same core, in the same run.

Why: retrieval must cost nothing beside the models it feeds. The bar, for each size of corpus and kind of query, is twice
the queries per CPU-second of the better of bm25s (numba backend) and tantivy; an index must be built in at most
tantivy's CPU time and be at most as large.

What: makes synthetic corpora whose document frequencies and lengths are those of Wikipedia passages (Zipf-Mandelbrot
vocabulary, log-normal lengths, four rare "entity" terms a passage) and 1,000 queries of two kinds: `full`, 12 terms of
which 4 are among the 20 most common, as questions are, and `content`, the other 8. Each engine builds its index once;
then the engines answer all queries in turn, one process each on one thread and one core, several rounds. A row is the
median over rounds of queries / CPU second, tokenising the queries included. Hits are compared, too: hopeval computes
the formula of bm25s' `lucene` method with the same exact lengths, so the two must agree but for ties.

Knobs: --sizes, --rounds, --k, --core, --work (corpora, indexes and the virtual environment with the peers; kept),
--out (the table as a file).

Needs Python 3.10 or later with venv, cargo, and about 6 GB of memory and 2 GB of disk for a million passages.
"""

import argparse
import datetime
import json
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))
import machine

PEERS = ["numpy", "bm25s", "numba", "tantivy", "PyStemmer"]
KINDS = ("full", "content")
K1, B = 1.2, 0.75

VOCABULARY = 500_000
SYLLABLES = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]


def spell(rank):
    """A pronounceable word for a rank, shorter for frequent ones."""
    word, rest = "", rank + 1
    while rest:
        rest, digit = divmod(rest, len(SYLLABLES))
        word += SYLLABLES[digit]
    return word if len(word) > 3 else word + "x"


def generate(folder, count):
    """Writes corpus-N.txt and queries-N-KIND.txt; the same for the same N."""
    import numpy as np

    corpus = folder / f"corpus-{count}.txt"
    if corpus.exists():
        return
    random = np.random.default_rng(11)
    weights = (np.arange(1, VOCABULARY + 1) + 2.7) ** -1.05
    cumulated = np.cumsum(weights) / weights.sum()
    words = np.array([spell(rank) for rank in range(VOCABULARY)], dtype=object)
    asked = set(random.choice(count, min(1000, count), replace=False).tolist())
    queries = {kind: [] for kind in KINDS}
    sigma = 0.55
    with open(folder / "corpus.part", "w") as out:
        for first in range(0, count, 20_000):
            block = min(20_000, count - first)
            lengths = random.lognormal(np.log(72) - sigma**2 / 2, sigma, block).round().clip(10, 400).astype(int)
            tokens = np.searchsorted(cumulated, random.random(lengths.sum()))
            ends = np.cumsum(lengths)
            entities = random.integers(2000, VOCABULARY, (block, 4))
            repeats = random.integers(1, 4, (block, 4))
            for i in range(block):
                body = tokens[ends[i] - lengths[i] : ends[i]]
                passage = np.concatenate([body, np.repeat(entities[i], repeats[i])])
                random.shuffle(passage)
                out.write(" ".join(words[passage]) + "\n")
                if first + i in asked:
                    common = random.integers(0, 20, 4).tolist()
                    middle = [term for term in dict.fromkeys(passage.tolist()) if term > 50][:6]
                    content = entities[i][:2].tolist() + middle
                    queries["content"].append(" ".join(words[content]))
                    queries["full"].append(" ".join(words[common + content]))
    for kind in KINDS:
        (folder / f"queries-{count}-{kind}.txt").write_text("\n".join(queries[kind]) + "\n")
    (folder / "corpus.part").rename(corpus)


def lines(path):
    return path.read_text().split("\n")[:-1]


def size_mb(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 2**20


class Bm25s:
    """bm25s with its numba backend, which is its fastest."""

    def __init__(self, folder, count):
        self.place = folder / f"bm25s-{count}"

    @staticmethod
    def tokens(texts):
        import bm25s

        return bm25s.tokenize(texts, stopwords=None, show_progress=False)

    def build(self, corpus):
        import bm25s

        model = bm25s.BM25(method="lucene", k1=K1, b=B, backend="numba")
        model.index(self.tokens(lines(corpus)), show_progress=False)
        return lambda: model.save(str(self.place), show_progress=False)

    def open(self):
        import bm25s

        self.model = bm25s.BM25.load(str(self.place))
        self.model.backend = "numba"
        self.model.activate_numba_scorer()

    def answer(self, queries, k):
        ids, scores = self.model.retrieve(self.tokens(queries), k=k, show_progress=False, n_threads=0)
        return [list(zip(i, s)) for i, s in zip(ids.tolist(), scores.tolist())]


class Tantivy:
    """tantivy's Python binding, terms given to it ready-made, hits not counted."""

    def __init__(self, folder, count):
        self.place = folder / f"tantivy-{count}"

    def schema(self):
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("id", stored=True, fast=True)
        builder.add_text_field("text", stored=False, tokenizer_name="whitespace", index_option="freq")
        return builder.build()

    def build(self, corpus):
        import tantivy

        # An index that is there already would be added to.
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        writer = tantivy.Index(self.schema(), path=str(self.place)).writer(heap_size=1_000_000_000, num_threads=1)
        for number, text in enumerate(lines(corpus)):
            writer.add_document(tantivy.Document(id=number, text=text))
        writer.commit()
        writer.wait_merging_threads()
        return lambda: None

    def open(self):
        import tantivy

        self.index = tantivy.Index.open(str(self.place))
        self.searcher = self.index.searcher()

    def answer(self, queries, k):
        import tantivy

        schema, should = self.index.schema, tantivy.Occur.Should
        found = []
        for text in queries:
            terms = [(should, tantivy.Query.term_query(schema, "text", term, "freq")) for term in text.split()]
            found.append(self.searcher.search(tantivy.Query.boolean_query(terms), k, count=False).hits)
        return found


ENGINES = {"bm25s (numba)": Bm25s, "tantivy": Tantivy}


def peer(action, name, folder, count, k):
    """Runs in a process of its own: builds an index or answers the queries; prints one JSON line."""
    import time

    folder = pathlib.Path(folder)
    engine = ENGINES[name](folder, count)
    if action == "build":
        start = time.process_time()
        save = engine.build(folder / f"corpus-{count}.txt")
        seconds = time.process_time() - start
        save()
        print(json.dumps({"build_s_cpu": seconds, "disk_mb": size_mb(engine.place)}))
        return
    engine.open()
    result = {}
    for kind in KINDS:
        queries = lines(folder / f"queries-{count}-{kind}.txt")
        engine.answer(queries[:2], k)
        times = []
        for _ in range(3):
            start = time.process_time()
            hits = engine.answer(queries, k)
            times.append(time.process_time() - start)
        result[kind] = len(queries) / statistics.median(times)
        if name.startswith("bm25s"):
            (folder / f"hits-{count}-{kind}.json").write_text(json.dumps(hits))
    print(json.dumps(result))


def agreement(bench, folder, count, k, core):
    """Share of queries whose scores are those of bm25s, and the largest relative difference of a score."""
    same, worst, total = 0, 0.0, 0
    for kind in KINDS:
        theirs = json.loads((folder / f"hits-{count}-{kind}.json").read_text())
        ours = machine.answers([bench, "hits", folder / f"hopeval-{count}", k, folder / f"queries-{count}-{kind}.txt"], core)
        for mine, other in zip(ours, theirs):
            # bm25s fills up with passages of score 0.
            other = [hit for hit in other if hit[1] > 0]
            near = len(mine) == len(other)
            for (_, a), (_, b) in zip(mine, other):
                worst = max(worst, abs(a - b) / a)
                near = near and abs(a - b) <= 1e-4 * a
            same += near
            total += 1
    return same / total, worst


def measure(arguments, python, bench, folder, count):
    subprocess.run([python, HERE, "--peer", "generate", "-", folder, str(count), "0"], check=True)
    core, k, index = arguments.core, arguments.k, folder / f"hopeval-{count}"
    corpus = folder / f"corpus-{count}.txt"
    built = {"hopeval": machine.answers([bench, "build", corpus, index, 1], core)[0]}
    for name in ENGINES:
        built[name] = machine.answers([python, HERE, "--peer", "build", name, folder, count, k], core)[0]
    rates = {name: {kind: [] for kind in KINDS} for name in built}
    for _ in range(arguments.rounds):
        for name in ENGINES:
            answer = machine.answers([python, HERE, "--peer", "search", name, folder, count, k], core)[0]
            for kind in KINDS:
                rates[name][kind].append(answer[kind])
        files = [folder / f"queries-{count}-{kind}.txt" for kind in KINDS]
        for kind, answer in zip(KINDS, machine.answers([bench, "search", index, k, 3, *files], core)):
            rates["hopeval"][kind].append(answer["qps_cpu"])
    same, worst = agreement(bench, folder, count, k, core)
    rows = []
    median = {name: {kind: statistics.median(values[kind]) for kind in KINDS} for name, values in rates.items()}
    for name in [*ENGINES, "hopeval"]:
        cells = [f"{built[name]['build_s_cpu']:.1f}", f"{built[name]['disk_mb']:.0f}"]
        for kind in KINDS:
            text = f"{median[name][kind]:,.0f}"
            if name == "hopeval":
                text = f"**{text}** ({median[name][kind] / max(median[peer][kind] for peer in ENGINES):.2f}x)"
            cells.append(text)
        rows.append(f"| {count:,} | {name} | " + " | ".join(cells) + " |")
    note = f"{count:,} passages: {same:.1%} of the queries have bm25s' scores within 1e-4 (largest relative difference {worst:.1e})"
    return rows, note


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="10000,100000,1000000", help="passages, comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--core", type=int, default=0, help="the core that everything measured runs on")
    parser.add_argument("--work", type=pathlib.Path, default=machine.ROOT / "target" / "bench-retrieval")
    parser.add_argument("--bench", type=pathlib.Path, help="the built example; by default it is built")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--peer", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        action, name, folder, count, k = arguments.peer
        if action == "generate":
            generate(pathlib.Path(folder), int(count))
        else:
            peer(action, name, folder, int(count), int(k))
        return
    folder = arguments.work
    folder.mkdir(parents=True, exist_ok=True)
    python = machine.interpreter(folder, PEERS)
    bench = arguments.bench or machine.program("hopeval-index", example="retrieval_bench")
    rows, notes = [], []
    for count in map(int, arguments.sizes.split(",")):
        more, note = measure(arguments, python, bench, folder, count)
        rows += more
        notes.append(note)
        print("\n".join(more), flush=True)
    versions = machine.versions(python, ("bm25s", "numba", "tantivy", "numpy"))
    table = [
        f"# BM25 top-{arguments.k}, {datetime.date.today()}",
        "",
        f"{machine.processor()}; one thread on one core; load average at the end {machine.load()}; {versions}; Python {platform.python_version()}.",
        f"k1 = {K1}, b = {B}; medians of {arguments.rounds} rounds, engines in turn; `ops/bench/retrieval/run.py`.",
        "The factor is to the better of the two peers in the same column.",
        "",
        "| passages | engine | build, CPU s | disk, MB | *full*, queries/CPU s | *content*, queries/CPU s |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
        "Agreement:",
        "",
        *(f"* {note}." for note in notes),
        "",
    ]
    machine.tell(table, arguments.out)


if __name__ == "__main__":
    main()
