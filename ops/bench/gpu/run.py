#!/usr/bin/env python3
"""Proves and measures hopeval on one GPU, from a program that was built elsewhere: it builds nothing and fetches nothing.

Why: a machine with a GPU is at hand for minutes, without Rust and without a network. So everything that is to be shown there is one
script, in steps that each bound their time and whose failure ends no other step.

Steps that follow a conformance that failed are not run, unless with --go-on: their figures would be of something wrong.

What, by step:

* `doctor`: what `hopeval doctor` finds, versions, clocks and power limits.
* `conformance`: `hopeval lm conformance` of the device and of the same device in float32.
* `sanitizer`: conformance under compute-sanitizer's four tools.
* `peak`: products of large matrices by PyTorch, which are the denominator of every share of a peak, and a copy.
* `models`: T5-XL, GPT-2-XL and DeBERTa-v3-large (EfficientRAG's labeler and filter) with random weights in bf16. Other
  steps make what they lack.
* `score`: PromptRank's and EfficientRAG's requests through `hopeval lm bench` and through transformers in bf16 on the same
  device; a sample's numbers of both beside each other and beside float32.
* `self-check`: the same requests in other batches, bit by bit.
* `profile`: time by kernel, and what launches of attention do with the device.
* `job`: a job on the device beside the same on the CPU: measures, rankings, joules.

Every record has date, device, driver, commit and command. --out gets three files a call, named for its steps: `.md` (the
tables, which are also printed last), `.json` (records), `.txt` (raw output).

Knobs: --hopeval, --device, --out, --commit, --only, --models, --tools, --size, --queries, --batch-tokens, --peer-seconds,
--work, --minutes, --go-on, --dry-run-on-cpu (tiny models on the CPU: shows that the script runs, measures nothing).

Needs Python 3.11 with torch, transformers, safetensors, numpy, and pyarrow for `job`; CUDA 13's NVRTC and cuBLASLt; for
`sanitizer` and `profile` the toolkit's tools. With models of real sizes 12 GB of disk. README.md has the calls for half an
hour.
"""

import argparse
import hashlib
import pathlib
import sys
import tempfile
import traceback

import device_steps
import job_step
import model_steps
from bench import DRY, ROOT, Bench
from process import Session, Watch, ask, now

STEPS = {
    "doctor": device_steps.doctor, "conformance": device_steps.conformance, "sanitizer": device_steps.sanitizer,
    "peak": device_steps.peak, "models": model_steps.models, "score": model_steps.score, "self-check": model_steps.self_check,
    "profile": model_steps.profile, "job": job_step.job,
}  # fmt: skip
LEAST_S = 15
"""Seconds that must be left for a step to begin."""


def ordinal(device):
    return device.partition(":")[2] or "0"


def about(options):
    """What every record says."""
    program = options.hopeval.read_bytes() if options.hopeval.exists() else b""
    found = {"commit": options.commit or ask("git", "-C", ROOT, "rev-parse", "HEAD") or "unknown"}
    found["hopeval_sha256"] = hashlib.sha256(program).hexdigest()[:16]
    if options.dry_run_on_cpu:
        return found | {"device": "CPU", "driver": "none", "dry_run": DRY}
    known = ask("nvidia-smi", "-i", ordinal(options.device), "--query-gpu=name,driver_version", "--format=csv,noheader").split(
        ", "
    )
    device, driver = known if len(known) == 2 else ("unknown", "unknown")
    return found | {"device": device, "driver": driver}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])

    def names(known):
        def chosen(text):
            unknown = [name for name in text.split(",") if name not in known]
            if unknown:
                raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(known)}")
            return text.split(",")

        return chosen

    parser.add_argument("--hopeval", type=pathlib.Path, required=True, help="the program")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder for the results")
    parser.add_argument("--commit", help="of the program; by default that of this checkout")
    parser.add_argument("--only", type=names(STEPS), default=list(STEPS), help="steps, comma-separated")
    parser.add_argument("--models", type=names(model_steps.MODELS), default=list(model_steps.MODELS), help="comma-separated")
    parser.add_argument(
        "--tools", type=names(device_steps.SANITIZERS), default=list(device_steps.SANITIZERS), help="of compute-sanitizer"
    )
    parser.add_argument("--size", choices=["tiny", "real"], default="real")
    parser.add_argument("--queries", type=int, default=4, help="questions of PromptRank's workloads")
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--peer-seconds", type=float, default=75, help="of measuring transformers, a model")
    parser.add_argument(
        "--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "hopeval-gpu", help="scratch; kept"
    )
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--go-on", action="store_true", help="with the other steps where the device does not conform")
    parser.add_argument("--dry-run-on-cpu", action="store_true")
    options = parser.parse_args()
    if options.dry_run_on_cpu:
        options.device, options.size = "cpu", "tiny"
    elif not options.device.startswith("cuda"):
        parser.error(f"--device {options.device}: this measures a GPU; --dry-run-on-cpu tries the script")
    if options.size == "tiny":
        options.work = options.work / "tiny"
        options.batch_tokens = min(options.batch_tokens, 2048)
    for path in ("hopeval", "out", "work"):
        setattr(options, path, getattr(options, path).absolute())
    return options


def steps(bench, watch):
    """Runs the chosen ones; yields their tables."""
    session = bench.session
    for name in bench.options.only:
        if session.left() < LEAST_S:
            session.record(name, "not run: no time was left")
            yield [f"{name}: not run, no time was left"]
            continue
        if bench.stop and not bench.options.go_on:
            session.record(name, f"not run: {bench.stop}")
            yield [f"{name}: not run, {bench.stop}"]
            continue
        session.say(f"{name} begins")
        try:
            lines = STEPS[name](bench)
        except Exception:
            session.raw(f"{name} failed", traceback.format_exc())
            session.record(name, "failed", error=traceback.format_exc())
            lines = [f"{name}: the script itself failed: {traceback.format_exc().splitlines()[-1]}"]
        clocks, samples = watch.since() if watch else ({}, "")
        if clocks:
            session.record(name, "clocks and power while busy", clocks=clocks)
            session.raw(f"{name}: nvidia-smi, {Watch.FIELDS}", samples)
            lines = [*lines, "", f"while busy: {', '.join(f'{key} {value:g}' for key, value in clocks.items())}"]
        yield lines


def main():
    options = arguments()
    some = [] if options.models == list(model_steps.MODELS) else options.models
    name = "-".join(["all"] if options.only == list(STEPS) else options.only) + "".join(f"-{model}" for model in some)
    session = Session(options.out, options.work, name, options.minutes, about(options))
    bench = Bench(options, session)
    watch = Watch(ordinal(options.device)) if bench.on_gpu else None
    first = f"# hopeval on {session.about['device']}, {now()}" + (f" ({DRY})" if options.dry_run_on_cpu else "")
    facts = ", ".join(f"{key} {value}" for key, value in session.about.items())
    text = [first, "", f"{facts}; `ops/bench/gpu/run.py {' '.join(sys.argv[1:])}`", ""]
    try:
        for lines in steps(bench, watch):
            text += lines + [""]
            (options.out / f"{session.name}.md").write_text("\n".join(text))
    finally:
        if watch:
            watch.close()
    print("\n".join(["", *text]), flush=True)


if __name__ == "__main__":
    main()
