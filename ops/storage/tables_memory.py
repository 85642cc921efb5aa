"""Measures the memory that a run takes while it writes its final tables, over runs of growing numbers of outcomes.

Each run draws passages at random for the questions of a small generated world under `--configurations` configurations,
in one process with one worker. Its anonymous memory is read from `/proc` every tenth of a second. The phase is what the
store shows: `tables` begins with the first file of a final table, staged or whole.

    python3 ops/storage/tables_memory.py --binary target/release/hopeval [--questions 1400,5600,16800,67200]
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "chaos"))

from stored_runs import FolderStore, environment

JOB = """
name = "memory"
[dataset.world]
questions = {questions}
passages = 2000
[method.random]
kind = "random"
k = 10
[method.random.sweep]
seed = [{seeds}]
[measures]
recall_at = [2, 5, 10]
"""


def anonymous(process):
    """Bytes of anonymous memory of a process; None when it has ended."""
    try:
        # Not from `smaps`, which stops the process for as long as it walks its pages.
        lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:")), None)


def measure(options, questions, folder):
    """The highest memory of a run in its phases, and the seconds of each."""
    job = folder / "job.toml"
    seeds = ", ".join(str(seed) for seed in range(options.configurations))
    job.write_text(JOB.format(questions=questions, seeds=seeds))
    store = FolderStore(folder / "store")
    command = [options.binary, "run", job, "--workers", "1", "--store", store.uri, "--cache", folder / "cache"]
    peaks, seconds = {}, {}
    with open(folder / "err", "wb") as errors:
        process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=errors)
        last, phase = time.monotonic(), "run"
        while process.poll() is None:
            time.sleep(0.1)
            if phase == "run" and any("/tables/" in name for name in store.list("runs")):
                phase = "tables"
            held, now = anonymous(process.pid), time.monotonic()
            if held is not None:
                peaks[phase] = max(peaks.get(phase, 0), held)
            seconds[phase] = seconds.get(phase, 0) + now - last
            last = now
    if process.returncode != 0:
        sys.exit(f"{questions} questions: exit code {process.returncode}\n{(folder / 'err').read_text()}")
    return peaks, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument("--questions", default="1400,5600,16800,67200")
    parser.add_argument("--configurations", type=int, default=25)
    options = parser.parse_args()
    print("| outcomes | run | tables | seconds of tables |\n| ---: | ---: | ---: | ---: |")
    for questions in map(int, options.questions.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            peaks, seconds = measure(options, questions, pathlib.Path(folder))
        run, tables = (f"{peaks.get(phase, 0) / 1e6:.0f} MB" for phase in ("run", "tables"))
        print(f"| {questions * options.configurations:,} | {run} | {tables} | {seconds.get('tables', 0):.1f} |", flush=True)


if __name__ == "__main__":
    main()
