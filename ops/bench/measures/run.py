#!/usr/bin/env python3
"""Times hopeval's measures beside their Python peers, on the same files, in the same run.

Why:   claims of speed are ratios on one machine, and the figures must agree or the ratio means nothing.
What:  EM and F1 of a million answers (ASCII, and with other scripts and marks) against the official scripts' algorithm
       in plain Python; recall, MRR, nDCG, MAP and precision of a million ranked rows (10,000 queries x 100) against
       pytrec_eval. CPU seconds of one thread, the best of the repetitions, without reading or building inputs:
       pytrec_eval gets its dictionaries ready-made, hopeval its columns.
Knobs: --answers N, --queries N, --repeat N, --venv DIR (made with pip if absent), --out FILE.

Usage: ops/bench/measures/run.py [--out ops/bench/measures/results-$(date +%F).md]
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import random
import re
import string
import subprocess
import sys
import tempfile
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DEPTH = 100

ASCII = (
    "alpha beta Gamma the a New York City 1984 River Jean-Luc O'Neil University of London Queen Victoria film director "
    "album Prize 1,000 U.S. state-of-the-art County born American"
).split()
OTHERS = (
    "Beyoncé Škoda Gabriel\u2019s \u201cThe\u201d 北京 Санкт-Петербург Ελλάδα naïve the a of Jose\u0301 Łódź São Paulo Dvořák 1914–1918 "
    "New York قطر a² film director Zürich"
).split()


def write_answers(path, count, words, seed):
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            gold = [rng.choice(words) for _ in range(rng.choice([1, 1, 2, 2, 3, 3, 4, 6]))]
            if rng.random() < 0.3:
                gold.insert(0, rng.choice(["the", "a", "an"]))
            predicted = list(gold)
            if rng.random() < 0.5:
                if rng.random() < 0.5:
                    predicted = [rng.choice(words) for _ in range(rng.choice([1, 2, 3, 5]))]
                else:
                    predicted[-1] = rng.choice(words)
            file.write(" ".join(predicted) + rng.choice(["", ".", "!"]) + "\t" + " ".join(gold) + "\n")


GONE = frozenset(string.punctuation)


def normalised(text):
    text = "".join(c for c in text.lower() if c not in GONE)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def em_f1(prediction, gold):
    """HotpotQA's rules, each side normalised for EM and again for F1, as the script does."""
    em = normalised(prediction) == normalised(gold)
    p, g = normalised(prediction), normalised(gold)
    if p != g and (p in ("yes", "no", "noanswer") or g in ("yes", "no", "noanswer")):
        return em, 0.0
    p, g = p.split(), g.split()
    common = sum((collections.Counter(p) & collections.Counter(g)).values())
    if not common:
        return em, 0.0
    precision, recall = common / len(p), common / len(g)
    return em, 2 * precision * recall / (precision + recall)


def python_answers(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    start = time.process_time()
    em = f1 = 0.0
    for prediction, gold in rows:
        e, f = em_f1(prediction, gold)
        em += e
        f1 += f
    return time.process_time() - start, {"em": em / len(rows), "f1": f1 / len(rows)}


def write_ranked(folder, queries, seed):
    import numpy as np

    rng = np.random.default_rng(seed)
    ids = np.empty((queries, DEPTH), dtype="<u4")
    golds = []
    for q in range(queries):
        ids[q] = rng.choice(200_000, DEPTH, replace=False)
        gold = set(rng.integers(0, 200_000, 2).tolist())
        gold |= set(ids[q][rng.integers(0, DEPTH, rng.integers(0, 3))].tolist())
        golds.append(sorted(gold))
    ids.tofile(folder / "ids.u32")
    np.cumsum([0] + [len(g) for g in golds]).astype("<u4").tofile(folder / "gold_offsets.u32")
    np.concatenate(golds).astype("<u4").tofile(folder / "gold_ids.u32")
    return ids, golds


NAMES = {
    "recall_frac@10": "recall_10",
    "recall_frac@100": "recall_100",
    "mrr": "recip_rank",
    "ndcg@10": "ndcg_cut_10",
    "map": "map",
    "precision@10": "P_10",
}


def trec_ranked(ids, golds, repeat):
    import pytrec_eval

    qrels = {str(q): {str(d): 1 for d in gold} for q, gold in enumerate(golds)}
    run = {str(q): {str(d): float(DEPTH - r) for r, d in enumerate(row.tolist())} for q, row in enumerate(ids)}
    wanted = {"recall.10,100", "recip_rank", "ndcg_cut.10", "map", "P.10"}
    best = None
    for _ in range(repeat):
        start = time.process_time()
        values = pytrec_eval.RelevanceEvaluator(qrels, wanted).evaluate(run)
        means = {n: sum(v[t] for v in values.values()) / len(values) for n, t in NAMES.items()}
        spent = time.process_time() - start
        best = spent if best is None else min(best, spent)
    return best, means


def rust(binary, what, path, repeat):
    done = subprocess.run([binary, what, str(path), "--repeat", str(repeat)], check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    return report["cpu_s"], report["means"]


def agree(ours, theirs, tolerance):
    assert ours.keys() == theirs.keys(), (ours, theirs)
    for name, value in theirs.items():
        assert abs(ours[name] - value) <= tolerance, f"{name}: {ours[name]} is not {value}"


def processor():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def in_venv(folder):
    """Runs this script again in a virtual environment that has the peers."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
    os.execv(python, [str(python), *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--venv", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "hopeval-bench-measures")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if pathlib.Path(sys.prefix).resolve() != options.venv.resolve():
        in_venv(options.venv)
    build = ["cargo", "build", "--release", "-q", "-p", "hopeval-measures", "--example", "measure_bench"]
    subprocess.run(build, check=True, cwd=ROOT)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = target / "release" / "examples" / "measure_bench"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for title, words in [("ASCII", ASCII), ("other scripts and marks", OTHERS)]:
            path = folder / "answers.tsv"
            write_answers(path, options.answers, words, seed=5)
            ours, means = rust(binary, "answers", path, options.repeat)
            theirs, peer_means = python_answers(path)
            agree(means, peer_means, 1e-9)
            rows.append((f"EM and F1, {options.answers:,} answers, {title}", "plain Python", ours, theirs))
        ids, golds = write_ranked(folder, options.queries, seed=6)
        ours, means = rust(binary, "ranked", folder, options.repeat)
        theirs, peer_means = trec_ranked(ids, golds, options.repeat)
        agree(means, peer_means, 1e-9)
        what = f"recall, MRR, nDCG, MAP, precision, {options.queries * DEPTH:,} ranked rows"
        rows.append((what, "pytrec_eval-terrier 0.5.11", ours, theirs))
    lines = [
        f"{datetime.date.today()}, {processor()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}. CPU seconds of one thread; the means of both sides agree to 1e-9.",
        "",
        "| what | hopeval | peer | peer's | ratio |",
        "| --- | ---: | --- | ---: | ---: |",
    ]
    lines += [f"| {what} | {ours:.4f} | {peer} | {theirs:.3f} | {theirs / ours:.0f}x |" for what, peer, ours, theirs in rows]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.out:
        options.out.write_text("# Measures beside their peers\n\nWritten by `ops/bench/measures/run.py`.\n\n" + text)


if __name__ == "__main__":
    main()
