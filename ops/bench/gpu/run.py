#!/usr/bin/env python3
"""Proves and measures hopeval on one GPU, from a program that was built elsewhere; builds and fetches nothing.

Why: a machine with a GPU is at hand for minutes, without Rust and without a network. So everything that is to be
shown there is one call of one script, in order of value, in steps that each bound their time and whose failure ends
no other step.

Steps that time something run one after the other, and nothing else of the call uses the device meanwhile (`gate.py`).
Steps that time nothing and stand beside each other run at once. Checkpoints are made, and transformers is imported,
in the background from the beginning. Steps that follow a conformance that failed are not run, unless with --go-on:
their figures would be of something wrong.

What, by step, in the order in which they run by default:

* `doctor`: what `hopeval doctor` finds, versions, clocks and power limits.
* `conformance`: `hopeval lm conformance` of the device and of the same device in float32.
* `peak`: products of large matrices by PyTorch, which are the denominator of every share of a peak, and a copy.
* `score`: PromptRank's and EfficientRAG's requests through `hopeval lm bench` and through transformers in bf16 on the
  same device, of T5-XL, GPT-2-XL and DeBERTa-v3-large (EfficientRAG's labeler and filter) with random weights in
  bf16.
* `agreement`: numbers of a sample, hopeval's and transformers', in bf16 and in float32.
* `self-check`: the same requests in other batches, bit by bit.
* `profile`: time by kernel, and what launches of our own kernels do with the device.
* `generation`: greedy continuations of one prompt, of some, and of many at once.
* `job`: a job on the device: measures, joules.
* `sanitizer`: conformance under tools of compute-sanitizer.
* `driver`: the tests of hopeval's driver, from a binary that is carried (`--driver`).
* `job-on-cpu`: the same job on the CPU: measures and rankings beside the device's.

Only where `--only` names them: `models` (makes the checkpoints and no more), `products` (what cuBLASLt offers for the
models' products), `host` (what calls of the driver and of NVML cost).

Every record has date, device, driver, commit and command. --out gets three files a call, named for its steps: `.md`
(the tables, which are also printed last), `.json` (records), `.txt` (raw output). Folders of the machine are not in
them.

Knobs: --hopeval, --device, --out, --commit, --only, --models, --tools, --size, --queries, --batch-tokens,
--peer-seconds, --driver, --work, --minutes, --go-on, --dry-run-on-cpu (tiny models on the CPU: shows that the script
runs, measures nothing).

Needs Python 3.11 with torch, transformers 5, safetensors, numpy, and pyarrow for `job-on-cpu`; CUDA 13's NVRTC and
cuBLASLt; for `sanitizer` and `profile` the toolkit's tools. With models of real sizes 12 GB of disk. README.md has
the call.
"""

import argparse
import dataclasses
import hashlib
import itertools
import os
import pathlib
import sys
import sysconfig
import tempfile
import traceback
from typing import Callable

import agreement_step
import device_steps
import generation_step
import job_step
import library_steps
import models
import profile_step
import score_step
from bench import DRY, ROOT, Bench
from process import Session, Watch, ask, now

CALL_MINUTES = 6.7


@dataclasses.dataclass(frozen=True)
class Step:
    """A part of the call."""

    run: Callable
    """From a bench to lines of Markdown."""
    seconds: float
    """That it may take in a call of CALL_MINUTES, and the more in a longer one."""
    timed: bool = False
    """It runs by itself; others run at once with those beside them."""
    models: bool = False
    peers: bool = False
    """It asks transformers' processes."""
    default: bool = True


STEPS = {
    "doctor": Step(device_steps.doctor, 40),
    "conformance": Step(device_steps.conformance, 70),
    "peak": Step(device_steps.peak, 60, timed=True),
    "models": Step(models.checkpoints, 150, models=True, default=False),
    "score": Step(score_step.score, 210, timed=True, models=True, peers=True),
    "agreement": Step(agreement_step.agreement_of_models, 70, models=True, peers=True),
    "self-check": Step(agreement_step.self_check, 60, models=True),
    "profile": Step(profile_step.profile, 110, timed=True, models=True),
    "generation": Step(generation_step.generation, 60, timed=True, models=True),
    "job": Step(job_step.job, 45, timed=True),
    "products": Step(library_steps.products, 60, timed=True, default=False),
    "host": Step(library_steps.host, 40, timed=True, default=False),
    "sanitizer": Step(device_steps.sanitizer, 330),
    "driver": Step(device_steps.driver, 100),
    "job-on-cpu": Step(job_step.job_on_cpu, 160),
}
"""By value: what comes first is worth more."""
DEFAULT = [name for name, step in STEPS.items() if step.default]
LEAST_S = 12
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
    known = ask(
        "nvidia-smi", "-i", ordinal(options.device), "--query-gpu=name,driver_version", "--format=csv,noheader"
    ).split(", ")
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
    parser.add_argument("--only", type=names(STEPS), default=DEFAULT, help="steps, comma-separated")
    parser.add_argument("--models", type=names(models.MODELS), default=list(models.MODELS), help="comma-separated")
    parser.add_argument(
        "--tools", type=names(device_steps.SANITIZERS), default=["memcheck", "racecheck"], help="of compute-sanitizer"
    )
    parser.add_argument("--size", choices=["tiny", "real"], default="real")
    parser.add_argument("--queries", type=int, default=4, help="questions of PromptRank's workloads")
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--peer-seconds", type=float, default=10, help="of measuring transformers, a model")
    parser.add_argument(
        "--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "hopeval-gpu", help="scratch; kept"
    )
    parser.add_argument("--driver", type=pathlib.Path, help="the binary of the driver's tests")
    parser.add_argument("--minutes", type=float, default=CALL_MINUTES)
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
    for name in ("hopeval", "driver"):
        program = getattr(options, name)
        if program and not program.is_file():
            parser.error(f"--{name} {program}: there is no such file")
    for path in ("hopeval", "driver", "out", "work"):
        if getattr(options, path):
            setattr(options, path, getattr(options, path).absolute())
    return options


def places(options):
    """Folders of this machine, and what files say in their place."""
    found = {
        str(options.work): "WORK",
        str(options.out): "OUT",
        str(ROOT): ".",
        sysconfig.get_paths()["purelib"]: "site-packages",
    }
    if options.size == "tiny":
        found[str(options.work.parent)] = "WORK"
    folders = [os.path.dirname(sys.executable), sys.prefix, sys.base_prefix]
    folders += [program.parent for program in (options.hopeval, options.driver) if program]
    for folder in map(str, folders):
        if folder.count("/") > 1 and not f"{folder}/".startswith(f"{ROOT}/"):
            found.setdefault(f"{folder}/", "")
    return found


def steps(bench, watch):
    """Runs the chosen ones; yields their tables in their order."""
    groups = itertools.groupby(bench.options.only, key=lambda name: name if STEPS[name].timed else "")
    for _, names in groups:
        names = list(names)
        for lines in bench.at_once(lambda name: step(bench, name), names):
            yield lines
        clocks, samples = watch.since() if watch else ({}, "")
        if clocks:
            of = ", ".join(names)
            bench.session.record(of, "clocks and power while busy", clocks=clocks)
            bench.session.raw(f"{of}: nvidia-smi, {Watch.FIELDS}", samples)
            yield [f"{of}, while busy: {', '.join(f'{key} {value:g}' for key, value in clocks.items())}"]


def step(bench, name):
    """The tables of one; its failure is its own."""
    session = bench.session
    reason = None
    if session.left() < LEAST_S:
        reason = "no time was left"
    elif bench.stopped and not bench.options.go_on:
        reason = bench.stopped[0]
    if reason:
        session.record(name, f"not run: {reason}")
        return [f"{name}: not run, {reason}"]
    session.say(f"{name} begins")
    begun = session.left()
    try:
        longer = max(1.0, bench.options.minutes / CALL_MINUTES)
        lines = STEPS[name].run(bench.bounded(longer * STEPS[name].seconds))
    except Exception:
        session.raw(f"{name} failed", traceback.format_exc())
        session.record(name, "failed", error=traceback.format_exc())
        lines = [f"{name}: the script itself failed: {traceback.format_exc().splitlines()[-1]}"]
    session.say(f"{name} ends after {begun - session.left():.1f} s")
    session.record(name, "the whole step", step_seconds=round(begun - session.left(), 1))
    return lines


def main():
    options = arguments()
    some = [] if options.models == list(models.MODELS) else options.models
    name = "-".join(["all"] if options.only == DEFAULT else options.only) + "".join(f"-{model}" for model in some)
    session = Session(options.out, options.work, name, options.minutes, about(options), places(options))
    bench = Bench(options, session)
    watch = Watch(ordinal(options.device)) if bench.on_gpu else None
    first = f"# hopeval on {session.about['device']}, {now()}" + (f" ({DRY})" if options.dry_run_on_cpu else "")
    facts = ", ".join(f"{key} {value}" for key, value in session.about.items())
    text = [first, "", f"{facts}; `ops/bench/gpu/run.py {' '.join(sys.argv[1:])}`", ""]
    try:
        if any(STEPS[name].models for name in options.only):
            models.begin(bench, any(STEPS[name].peers for name in options.only))
        for lines in steps(bench, watch):
            text += lines + [""]
            (options.out / f"{session.name}.md").write_text(session.placed("\n".join(text)))
    finally:
        models.close(bench)
        if watch:
            watch.close()
    print("\n".join(["", session.placed("\n".join(text))]), flush=True)


if __name__ == "__main__":
    main()
