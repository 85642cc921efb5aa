#!/usr/bin/env python3
"""Exact dense top-k against numpy (OpenBLAS), on the same core, in the same run.

Why: a query over N vectors of d numbers needs 2 N d operations, and reads all of them. In a batch the bar is the rate at
which numpy multiplies matrices and selects (`argpartition`); for a single query it is what the memory gives.

What: random unit vectors (a seed) as corpus and queries, searched by hopeval's index (f32 and f16) and by numpy, which
holds the same numbers in memory as single precision. Both rank the best k. Batches of 64 and single queries, engines in
turn, CPU seconds of one thread; medians. Rates: operations (2 N d a query) and stored bytes read, each per CPU second. The
ranks and scores of both are compared with sums in double precision.

Knobs: --passages, --dimension, --k, --rounds, --core, --work (a folder for vectors, indexes and the virtual environment with
numpy; kept), --out (the table as a file).

Needs Python 3.10 or later with venv, cargo, and about 2 GB of memory and 1 GB of disk for 100,000 vectors of 768.
"""

import argparse
import datetime
import json
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))
import machine

QUERIES = 192
BATCHES = (64, 1)
# Of the queries, how many are asked one at a time: each reads everything.
SINGLES = 16


def files(folder, count, dimension):
    return folder / f"vectors-{count}-{dimension}.f32", folder / f"queries-{count}-{dimension}.f32"


def generate(folder, count, dimension):
    """Unit vectors; the same for the same sizes."""
    import numpy as np

    random = np.random.default_rng(11)
    for path, rows in zip(files(folder, count, dimension), (count, QUERIES)):
        if path.exists():
            continue
        with open(path.with_suffix(".part"), "wb") as out:
            for first in range(0, rows, 10_000):
                block = random.standard_normal((min(10_000, rows - first), dimension))
                block /= np.linalg.norm(block, axis=1, keepdims=True)
                out.write(block.astype("<f4").tobytes())
        path.with_suffix(".part").rename(path)
    singles = folder / f"singles-{count}-{dimension}.f32"
    singles.write_bytes(files(folder, count, dimension)[1].read_bytes()[: SINGLES * dimension * 4])


def load(folder, count, dimension):
    import numpy as np

    return [np.fromfile(path, "<f4").reshape(-1, dimension) for path in files(folder, count, dimension)]


def best(scores, k):
    """The k best of each row: by score, among equals the earlier."""
    import numpy as np

    k = min(k, scores.shape[1])
    chosen = np.argpartition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k :]
    values = np.take_along_axis(scores, chosen, axis=1)
    order = np.lexsort((chosen, -values), axis=1)
    return np.take_along_axis(chosen, order, axis=1), np.take_along_axis(values, order, axis=1)


def numpy_search(folder, count, dimension, k, rounds):
    """Runs in a process of its own: CPU seconds of each round for each size of batch, and of the products alone."""
    import time

    vectors, queries = load(folder, count, dimension)
    result = {}
    for batch in BATCHES:
        asked = queries if batch > 1 else queries[:SINGLES]
        both, products = [], []
        for _ in range(rounds + 1):
            start = time.thread_time()
            for first in range(0, len(asked), batch):
                scores = asked[first : first + batch] @ vectors.T
            products.append(time.thread_time() - start)
            start = time.thread_time()
            for first in range(0, len(asked), batch):
                best(asked[first : first + batch] @ vectors.T, k)
            both.append(time.thread_time() - start)
            del scores
        # The first is not counted: pages and caches are cold.
        result[batch] = {"queries": len(asked), "seconds_cpu": both[1:], "products_cpu": products[1:]}
    print(json.dumps(result))


def compare(folder, count, dimension, k):
    """Reads hopeval's hits; prints how far they are from sums in double precision, and whether the ranks are theirs."""
    import numpy as np

    vectors, queries = load(folder, count, dimension)
    for dtype in ("f32", "f16"):
        stored = vectors if dtype == "f32" else vectors.astype(np.float16)
        hits = json.loads((folder / f"hits-{dtype}.json").read_text())
        exact = np.concatenate(
            [queries.astype(np.float64) @ stored[first : first + 20_000].astype(np.float64).T for first in range(0, count, 20_000)],
            axis=1,
        )
        ids, _ = best(exact, k)
        same = np.mean([[hit[0] for hit in row] == wanted.tolist() for row, wanted in zip(hits, ids)])
        off = max(abs(score - exact[row, id]) for row, found in enumerate(hits) for id, score in found)
        print(json.dumps({"dtype": dtype, "same": float(same), "off": float(off)}))


def measure(arguments, python, bench, folder):
    count, dimension, k, core = arguments.passages, arguments.dimension, arguments.k, arguments.core
    peer = [python, HERE, "--passages", count, "--dimension", dimension, "--k", k, "--work", folder]
    subprocess.run([*map(str, peer), "--peer", "generate"], check=True)
    vectors, queries = files(folder, count, dimension)
    built = {}
    for dtype in ("f32", "f16"):
        built[dtype] = machine.answers([bench, "build", vectors, dimension, folder / f"index-{dtype}", dtype], core)[0]
        hits = machine.answers([bench, "hits", folder / f"index-{dtype}", dtype, queries, k], core)
        (folder / f"hits-{dtype}.json").write_text(json.dumps(hits))
    singles = folder / f"singles-{count}-{dimension}.f32"
    seconds = {(engine, batch): [] for engine in ("numpy", "numpy, products alone", "f32", "f16") for batch in BATCHES}
    asked = {64: QUERIES, 1: SINGLES}
    for _ in range(arguments.rounds):
        answer = machine.answers([*peer, "--peer", "search", "--rounds", 1], core)[0]
        for batch in BATCHES:
            seconds["numpy", batch] += answer[str(batch)]["seconds_cpu"]
            seconds["numpy, products alone", batch] += answer[str(batch)]["products_cpu"]
        for dtype in ("f32", "f16"):
            for batch in BATCHES:
                file = queries if batch > 1 else singles
                answer = machine.answers([bench, "search", folder / f"index-{dtype}", dtype, file, k, batch, 2], core)[0]
                seconds[dtype, batch].append(answer["seconds_cpu"][1])
    each = {key: statistics.median(values) / asked[key[1]] for key, values in seconds.items()}
    rows = []
    for batch in BATCHES:
        for engine in ("numpy", "numpy, products alone", "f32", "f16"):
            time = each[engine, batch]
            cells = [f"{time * 1e3:.2f}", f"{2e-9 * count * dimension / time:.1f}"]
            size = 2 if engine == "f16" else 4
            cells.append(f"{1e-9 * size * count * dimension / (time * batch):.1f}")
            cells.append(f"{each['numpy', batch] / time:.2f}")
            name = engine if engine.startswith("numpy") else f"**hopeval, {engine}**"
            rows.append(f"| {batch} | {name} | " + " | ".join(cells) + " |")
    notes = [
        f"{built[dtype]['disk_mb']:.0f} MB in {dtype}, written in {built[dtype]['build_s_cpu']:.1f} CPU s with {built[dtype]['rss_mb']} MB of memory"
        for dtype in built
    ]
    for found in machine.answers([*peer, "--peer", "compare"], core):
        notes.append(
            f"{found['dtype']}: {found['same']:.1%} of the queries have the ranks of sums in double precision over the stored numbers; "
            f"the largest difference of a score is {found['off']:.1e}"
        )
    return rows, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=0, help="the core that everything measured runs on")
    parser.add_argument("--work", type=pathlib.Path, default=machine.ROOT / "target" / "bench-dense")
    parser.add_argument("--bench", type=pathlib.Path, help="the built example; by default it is built")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--peer", choices=["generate", "search", "compare"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder, sizes = arguments.work, (arguments.passages, arguments.dimension)
    if arguments.peer == "generate":
        return generate(folder, *sizes)
    if arguments.peer == "search":
        return numpy_search(folder, *sizes, arguments.k, arguments.rounds)
    if arguments.peer == "compare":
        return compare(folder, *sizes, arguments.k)
    folder.mkdir(parents=True, exist_ok=True)
    python = machine.interpreter(folder, ["numpy"])
    bench = arguments.bench or machine.program("hopeval-index", example="dense_bench")
    rows, notes = measure(arguments, python, bench, folder)
    shown = "import numpy, json; print(numpy.__version__, numpy.show_config('dicts')['Build Dependencies']['blas']['name'])"
    versions = subprocess.run([python, "-c", shown], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    table = [
        f"# Exact dense top-{arguments.k}, {datetime.date.today()}",
        "",
        f"{arguments.passages:,} vectors of {arguments.dimension} numbers. {machine.processor()}; one thread on one core; load average at the end {machine.load()};",
        f"numpy {versions}; Python {platform.python_version()}. Medians of {arguments.rounds} rounds, engines in turn; `ops/bench/dense/run.py`.",
        "The factor is to numpy's product and `argpartition` with the same batch; bytes are those of the stored vectors, read",
        "once for each batch.",
        "",
        "| batch | engine | ms a query (CPU) | GFLOP/s | GB/s | times numpy |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
        *(f"* {note}." for note in notes),
        "",
    ]
    machine.tell(table, arguments.out)


if __name__ == "__main__":
    main()
