"""Times `hopeval ls` over a store with many runs.

One small run is made by hopeval, then copied under other names until the store has `--runs` of them: its record and
its log, which are all that `ls` may read. The seal of each copied record is made anew, so that the copies are as sound
as the run itself. Printed: the fastest and the median of `--times` calls, in seconds, and the processor time of the
fastest.

    python3 ops/storage/many_runs.py --binary target/release/hopeval [--runs 10000] [--times 7]

Needs: the package `blake3`.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import blake3

JOB = """
name = "small"
[dataset.world]
questions = 20
passages = 400
seed = 3
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
"""
SEAL = b',\n  "blake3": "'


def sealed_copy(record: bytes, old: bytes, new: bytes) -> bytes:
    """A record of run `old` as a record of run `new`, with the seal that its bytes then have."""
    start = record.rindex(SEAL)
    end = b"\n}" if record.endswith(b"\n}") else b"}"
    unsealed = (record[:start] + end).replace(old, new)
    digest = blake3.blake3(unsealed).hexdigest().encode()
    return unsealed[:-1].rstrip() + SEAL + digest + b'"' + end


def multiply_run(store: pathlib.Path, count: int) -> None:
    """Copies the one run of `store` until there are `count`."""
    (source,) = (store / "runs").iterdir()
    files = {"run.json": (source / "run.json").read_bytes()}
    files |= {f"log/{file.name}": file.read_bytes() for file in sorted((source / "log").iterdir())}
    old = source.name.encode()
    for number in range(1, count):
        name = f"{source.name[:9]}{number:09d}{source.name[18:]}"
        if name == source.name:
            continue
        folder = store / "runs" / name
        (folder / "log").mkdir(parents=True)
        for file, content in files.items():
            (folder / file).write_bytes(sealed_copy(content, old, name.encode()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=7)
    arguments = parser.parse_args()
    binary = arguments.binary.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        store, job = folder / "store", folder / "job.toml"
        job.write_text(JOB)
        subprocess.run([binary, "run", job, "--store", store, "--cache", folder / "cache"], check=True,
                       capture_output=True)
        multiply_run(store, arguments.runs)
        walls, processor = [], []
        for _ in range(arguments.times):
            before, begin = os.times(), time.monotonic()
            listed = subprocess.run([binary, "ls", "--store", store], check=True, capture_output=True, text=True)
            walls.append(time.monotonic() - begin)
            after = os.times()
            processor.append(after.children_user + after.children_system - before.children_user
                             - before.children_system)
        lines = sum("small" in line for line in listed.stdout.splitlines())
    wall = f"fastest {min(walls):.2f} s, median {statistics.median(walls):.2f} s"
    spent = processor[walls.index(min(walls))]
    print(f"{arguments.runs} runs, {lines} listed: {wall}, processor time of the fastest {spent:.2f} s")
    if lines != arguments.runs:
        sys.exit(f"error: {lines} of {arguments.runs} runs were listed\n{listed.stdout[:2000]}")


if __name__ == "__main__":
    main()
