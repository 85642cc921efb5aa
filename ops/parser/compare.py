#!/usr/bin/env python3
"""Compares the reader of models' JSON (`engine/loosejson`) with json_repair over documents made from known values.

Usage: compare.py --read BINARY [--count 200000] [--seed 1] [--without-json-repair] [--show N]

BINARY is `cargo build --release -p hopeval-loosejson --example read`. json_repair comes from PyPI. It prints a table by
mutation, and exits with 1 if less than 99.5 % of the recoverable documents give the exact value, if a value is wrong
without a note, or if json_repair reads more of them.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter

from documents import MUTATIONS, documents, same


def read_all(binary, made):
    lines = "".join(f"{doc.choice}\t{json.dumps(doc.text)}\n" for doc in made)
    done = subprocess.run([binary], input=lines, capture_output=True, text=True, encoding="utf-8")
    if done.returncode != 0:
        sys.exit(done.stderr)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(made):
        sys.exit(f"{len(made)} documents, {len(answers)} answers")
    return answers


def json_repair_reads(doc):
    """Whether json_repair finds the value, also as the chosen one of a list."""
    import json_repair

    try:
        found = json_repair.loads(doc.text)
    except Exception:  # noqa: BLE001: whatever it raises, it did not read the document
        return False
    if same(found, doc.expected):
        return True
    if not isinstance(found, list) or not found:
        return False
    return any(same(item, doc.expected) for item in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read", required=True)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-json-repair", action="store_true")
    parser.add_argument("--show", type=int, default=0, help="short documents that it misread")
    args = parser.parse_args()
    made = list(documents(args.seed, args.count))
    ours, theirs, all_of, silent, shown = Counter(), Counter(), Counter(), 0, 0
    for doc, answer in zip(made, read_all(args.read, made)):
        right = "value" in answer and same(answer["value"], doc.expected)
        if not right and "value" in answer and not answer["repairs"]:
            silent += 1
            print("WRONG WITHOUT A NOTE", json.dumps(doc.text), json.dumps(answer))
        if not doc.recoverable:
            all_of["not recoverable"] += 1
            continue
        other = not args.without_json_repair and json_repair_reads(doc)
        if not right and len(doc.text) < 160 and shown < args.show:
            shown += 1
            print(doc.mutations, json.dumps(doc.text, ensure_ascii=False), "\n   want",
                  json.dumps(doc.expected, ensure_ascii=False), "\n   have", json.dumps(answer, ensure_ascii=False))
        for name in (*doc.mutations, "all"):
            all_of[name] += 1
            ours[name] += right
            theirs[name] += other
    print(f"{'mutation':18} {'documents':>9} {'loosejson':>10} {'json_repair':>11}")
    for name in [*MUTATIONS, "all"]:
        n = all_of[name] or 1
        print(f"{name:18} {all_of[name]:9} {100 * ours[name] / n:9.3f}% {100 * theirs[name] / n:10.3f}%")
    share = ours["all"] / all_of["all"]
    print(f"{args.count} documents, {all_of['not recoverable']} not recoverable; wrong without a note: {silent}")
    return 0 if share >= 0.995 and silent == 0 and ours["all"] >= theirs["all"] else 1


if __name__ == "__main__":
    sys.exit(main())
