"""Measures how true the time left is that hopeval shows.

What: the first command's job and the full table (`jobs/examples/world-full.toml`), each from an empty store and cache,
or other jobs. The lines of `--progress-log` are compared with the end of the command. Printed for each job: the seconds
of the command, and the share of the seconds after the first fifth of them in which the estimate of what is left was
within a factor of 1.5 of what was left. A second without an estimate counts as wrong.

Run: python3 ops/progress/accuracy.py BINARY [JOB ...] [--keep FOLDER] [--seconds]

Needs: a hopeval binary of a release build, Python 3.10, and a machine with nothing else to do.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "jobs/examples"
JOBS = [EXAMPLES / "world-comparison.toml", EXAMPLES / "world-full.toml"]
FACTOR = 1.5


def run(binary: pathlib.Path, job: pathlib.Path, folder: pathlib.Path) -> tuple[float, float, list[dict]]:
    """The times of begin and end in Unix seconds, and the lines of the progress log."""
    log = folder / f"{job.stem}.jsonl"
    places = ["--store", str(folder / "store"), "--cache", str(folder / "cache")]
    begin = time.time()
    subprocess.run([binary, "run", job, *places, "--progress-log", log], check=True, capture_output=True)
    end = time.time()
    return begin, end, [json.loads(line) for line in log.read_text().splitlines()]


def seconds(begin: float, end: float, lines: list[dict]) -> list[tuple[float, str, float, float | None]]:
    """For each full second, at its last look: the time, the phase, the seconds left in truth, and as estimated."""
    last = {}
    for line in lines:
        last[int(line["unix_s"] - begin)] = line
    rows = []
    for second in range(int(end - begin)):
        line = last.get(second)
        if line is None:
            # No look in this second: nothing new was shown.
            rows.append((float(second), "", end - begin - second, rows[-1][3] if rows else None))
        else:
            rows.append((line["unix_s"] - begin, line["phase"], end - line["unix_s"], line["left_s"]))
    return rows


def is_near(true: float, estimate: float | None) -> bool:
    return estimate is not None and true / FACTOR <= estimate <= true * FACTOR


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("jobs", type=pathlib.Path, nargs="*", metavar="JOB")
    parser.add_argument("--keep", type=pathlib.Path, help="keeps stores, caches and logs in this folder")
    parser.add_argument("--seconds", action="store_true", help="prints every second, too")
    arguments = parser.parse_args()
    for job in arguments.jobs or JOBS:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            if arguments.keep:
                folder = arguments.keep / job.stem
                folder.mkdir(parents=True)
            begin, end, lines = run(arguments.binary.resolve(), job.resolve(), folder)
        rows = seconds(begin, end, lines)
        if arguments.seconds:
            for at, phase, true, estimate in rows:
                shown = "none" if estimate is None else f"{estimate:.1f}"
                mark = "" if is_near(true, estimate) else "  *"
                print(f"{at:7.1f} s  {phase:14} left {true:7.1f}  estimated {shown:>7}{mark}")
        late = [row for row in rows if row[0] > (end - begin) / 5]
        if not late:
            raise SystemExit(f"{job}: {end - begin:.1f} s are too short: no second is after the first fifth")
        near = sum(is_near(true, estimate) for _, _, true, estimate in late)
        share = near / len(late)
        print(f"{job.stem}: {end - begin:.0f} s; {near} of {len(late)} seconds after the first fifth: {share:.3f}")


if __name__ == "__main__":
    main()
