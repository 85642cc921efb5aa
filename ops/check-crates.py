#!/usr/bin/env python3
"""Checks what the crates of the workspace must not know, and where `unsafe` may stand.

Why: each crate is cut where a dependency must not go, and a rule that nothing checks does not last. The reasons are in
ARCHITECTURE.md; this file is the list. It reads `cargo metadata --locked` and the sources, prints every broken rule,
and exits with 1 if there is one, 2 if it could not look. Only the standard library is used.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What moves data between workers, what waits on sockets, what writes tables.
DATAFLOW = {"timely", "differential-dataflow"}
ASYNC = {"tokio", "futures", "reqwest", "axum", "object_store"}
TABLES = {"arrow", "parquet"}
# The workspace's own.
BINARY = {"hopeval"}
JOBS = {"hopeval-jobs"}
ENGINE = {"hopeval-corpus", "hopeval-index"}
MODELS = {"hopeval-checkpoint", "hopeval-lm"}
SERVERS = {"hopeval-endpoint"}
RESULTS = {"hopeval-results", "hopeval-measures"}
INPUT = {"hopeval-datasets", "hopeval-world"}

# Crate: (crates it may name in [dependencies], None: any; crates it must not reach by any way).
RULES = {
    "hopeval-pytext": (set(), set()),
    "hopeval-loosejson": ({"serde_json", "thiserror"}, set()),
    # Patterns of Python, files of spaCy; what is cut into words, and for whom, is others' business.
    "hopeval-wordrules": (
        {"blake3", "fancy-regex", "hopeval-pytext", "rmp-serde", "rustc-hash", "serde", "thiserror"},
        DATAFLOW | ASYNC | TABLES | JOBS | ENGINE | MODELS | RESULTS | INPUT | {"hopeval-methods", "hopeval-operators"},
    ),
    # blake3: the names of the texts that requests share; hopeval-pytext: sentences; hopeval-loosejson: what models
    # write. Pure functions, all of them.
    "hopeval-methods": ({"blake3", "hopeval-loosejson", "hopeval-pytext", "serde", "serde_json", "thiserror"}, set()),
    # arrow, parquet: datasets come as Parquet files. Result tables are another crate's.
    "hopeval-datasets": (None, DATAFLOW | ASYNC | JOBS | ENGINE | RESULTS | {"hopeval-methods", "hopeval-operators"}),
    # It waits on sockets of publishers, and knows nothing of jobs, methods and stored answers.
    "hopeval-public-files": (
        None,
        SERVERS
        | DATAFLOW
        | JOBS
        | ENGINE
        | MODELS
        | RESULTS
        | {"axum", "object_store", "hopeval-methods", "hopeval-operators", "hopeval-world"},
    ),
    "hopeval-world": (
        None,
        DATAFLOW | ASYNC | TABLES | JOBS | ENGINE | RESULTS | {"hopeval-methods", "hopeval-operators", "hopeval-datasets"},
    ),
    "hopeval-models": (
        # serde_json: what a file of weights says of its tensors.
        {"blake3", "serde_json", "thiserror"},
        DATAFLOW | ASYNC | TABLES | JOBS | ENGINE | MODELS | RESULTS | INPUT | {"hopeval-methods", "hopeval-operators"},
    ),
    "hopeval-corpus": (
        None,
        DATAFLOW | ASYNC | JOBS | RESULTS | INPUT | {"parquet", "hopeval-methods", "hopeval-operators", "hopeval-index"},
    ),
    "hopeval-index": (
        None,
        DATAFLOW | ASYNC | TABLES | JOBS | MODELS | RESULTS | INPUT | {"hopeval-methods", "hopeval-operators", "hopeval-corpus"},
    ),
    "hopeval-device": (
        # memmap2: large buffers are pages of the system. nix: a thread's clock.
        {"bytes", "half", "memmap2", "nix", "rayon", "thiserror"},
        DATAFLOW | ASYNC | TABLES | JOBS | RESULTS | INPUT | ENGINE | MODELS | {"hopeval-methods", "hopeval-operators"},
    ),
    "hopeval-cuda": (
        # rayon: weights are converted by all threads.
        {"blake3", "cudarc", "half", "hopeval-device", "libloading", "nvml-wrapper", "rayon", "thiserror", "tracing"},
        DATAFLOW | ASYNC | TABLES | JOBS | RESULTS | INPUT | ENGINE | MODELS | {"hopeval-methods", "hopeval-operators"},
    ),
    # What is simulated is for tests: nothing that is shipped knows it.
    "hopeval-cuda-emulator": (
        {"blake3", "half", "hopeval-cuda", "hopeval-device", "libloading", "thiserror"},
        DATAFLOW | ASYNC | TABLES | JOBS | RESULTS | INPUT | ENGINE | MODELS | {"hopeval-methods", "hopeval-operators"},
    ),
    "hopeval-checkpoint": (
        None,
        # hopeval-device: tensors' types; not what computes with them on a GPU.
        DATAFLOW
        | ASYNC
        | TABLES
        | JOBS
        | RESULTS
        | INPUT
        | ENGINE
        | {"hopeval-cuda", "hopeval-lm", "hopeval-methods", "hopeval-operators"},
    ),
    "hopeval-lm": (
        None,
        DATAFLOW | ASYNC | TABLES | JOBS | RESULTS | INPUT | ENGINE | {"hopeval-methods", "hopeval-operators"},
    ),
    # Servers of models: it waits on sockets, and knows nothing of questions, methods and stored answers.
    "hopeval-endpoint": (
        {
            "bytes",
            "h2",
            "http-body",
            "httpdate",
            "reqwest",
            "rustls",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
            "zeroize",
        },
        DATAFLOW
        | TABLES
        | JOBS
        | RESULTS
        | INPUT
        | ENGINE
        | MODELS
        | {"axum", "object_store", "hopeval-cuda", "hopeval-device", "hopeval-methods", "hopeval-operators"},
    ),
    # It stands in for servers of others: what it answers must not come from what it tests. (By
    # reqwest it hands calls on to a server behind it.)
    "hopeval-simulated-llm": (
        None,
        DATAFLOW
        | TABLES
        | JOBS
        | ENGINE
        | MODELS
        | RESULTS
        | {"hopeval-datasets", "hopeval-endpoint", "hopeval-methods", "hopeval-operators", "object_store"},
    ),
    "hopeval-operators": (
        None,
        SERVERS | ASYNC | TABLES | JOBS | ENGINE | MODELS | RESULTS | INPUT | {"hopeval-methods", "hopeval-pytext"},
    ),
    "hopeval-measures": (
        None,
        SERVERS | DATAFLOW | ASYNC | TABLES | JOBS | ENGINE | INPUT | {"hopeval-methods", "hopeval-operators", "hopeval-results"},
    ),
    # Figures in, SVG out. The crate `plotters` would switch on features that build Arrow again.
    "hopeval-plots": ({"plotters-backend", "plotters-svg"}, set()),
    "hopeval-results": (
        None,
        SERVERS | DATAFLOW | JOBS | ENGINE | INPUT | {"hopeval-methods", "hopeval-operators", "hopeval-measures"},
    ),
    "hopeval-construct": (
        None,
        DATAFLOW | ASYNC | JOBS | RESULTS | MODELS | {"hopeval-operators", "hopeval-world"},
    ),
    "hopeval-jobs": (None, {"clap", "axum", "indicatif"}),
    "hopeval": (None, {"hopeval-cuda-emulator"}),
}

# File: why `unsafe` is needed there.
UNSAFE = {
    "engine/checkpoint/src/mapped.rs": "memory maps",
    "engine/corpus/src/mapped.rs": "memory maps, and passage ids read in place",
    "engine/cuda/emulator/src/library.rs": "kernels that the C++ compiler built, loaded and called",
    "engine/cuda/emulator/src/memory.rs": "blocks of exactly their size, as a device's memory",
    "engine/cuda/emulator/src/ptx/compiler.rs": "NVRTC of a folder",
    "engine/cuda/emulator/src/sanitizer.rs": "whether a sanitizer's runtime is in this process",
    "engine/cuda/src/compile.rs": "NVRTC",
    "engine/cuda/src/driver/context.rs": "the CUDA driver",
    "engine/cuda/src/driver/downloads.rs": "pinned memory that copies fill",
    "engine/cuda/src/driver/memory.rs": "the CUDA driver's memory",
    "engine/cuda/src/driver/modules.rs": "launches",
    "engine/cuda/src/driver/products.rs": "cuBLASLt",
    "engine/cuda/src/driver/staging.rs": "pinned memory",
    "engine/cuda/src/machine.rs": "the CUDA driver's and the libraries' facts",
    "engine/cuda/src/machine/held_library.rs": "libraries loaded, which runs their initialisers",
    "engine/device/src/cpu/attention.rs": "results that tasks write to disjoint places of",
    "engine/device/src/cpu/attention/distance.rs": "gathered lanes",
    "engine/device/src/cpu/attention/head.rs": "the products' operands, and the same places",
    "engine/device/src/cpu/attention/softmax.rs": "far positions' products, loaded in a row",
    "engine/device/src/cpu/attention/tile.rs": "micro-kernels",
    "engine/device/src/cpu/gemm.rs": "tiles of one result, written by several threads",
    "engine/device/src/cpu/kernel_avx2.rs": "AVX2",
    "engine/device/src/cpu/kernel_avx512.rs": "AVX-512",
    "engine/device/src/cpu/log_probs.rs": "one result, written by several threads",
    "engine/device/src/cpu/next_tokens.rs": "parts and kept logits, written by several threads",
    "engine/device/src/cpu/memory.rs": "aligned storage, seen as numbers",
    "engine/device/src/cpu/pack.rs": "AVX2 and F16C",
    "engine/device/src/cpu/simd.rs": "AVX2 and AVX-512",
    "engine/index/src/build/merge.rs": "the map of a file that this process just wrote",
    "engine/index/src/container.rs": "memory maps",
    "engine/index/src/simd.rs": "AVX2",
    "engine/index/src/simd/products.rs": "AVX2, AVX-512 and F16C, and numbers read in place",
    "cluster/src/heap.rs": "parameters of the C library's allocator",
    "cluster/src/supervise.rs": "a child that dies with its parent is set up between fork and exec",
}

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "mod"}
MOST_LINES = 800


def metadata() -> dict:
    """What cargo knows of the workspace; fails where Cargo.lock does not fit the manifests."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(2)
    return json.loads(done.stdout)


def normal(dependency: dict) -> bool:
    """Whether a resolved dependency is part of what is shipped, not of tests alone."""
    return any(kind["kind"] in (None, "build") for kind in dependency["dep_kinds"])


def ways(start: str, edges: dict[str, list[str]]) -> dict[str, list[str]]:
    """Every package that `start` reaches, with the shortest way to it."""
    found = {start: [start]}
    queue = [start]
    for package in queue:
        for following in edges[package]:
            if following not in found:
                found[following] = found[package] + [following]
                queue.append(following)
    return found


def check_dependencies(cargo: dict) -> list[str]:
    """Broken rules of who may know whom."""
    packages = {package["id"]: package for package in cargo["packages"]}
    edges = {
        node["id"]: [d["pkg"] for d in node["deps"] if normal(d)] for node in cargo["resolve"]["nodes"]
    }
    broken = []
    members = {packages[id]["name"]: id for id in cargo["workspace_members"]}
    for name in sorted(members.keys() - RULES.keys()):
        broken.append(f"{name}: a crate without a rule; say in ops/check-crates.py what it must not know")
    for name in sorted(RULES.keys() - members.keys()):
        broken.append(f"{name}: has a rule and is not in the workspace")
    for name, id in sorted(members.items()):
        allowed, forbidden = RULES.get(name, (None, set()))
        forbidden = forbidden if name == "hopeval" else forbidden | BINARY
        if allowed is not None:
            direct = {d["name"] for d in packages[id]["dependencies"] if d["kind"] != "dev"}
            for extra in sorted(direct - allowed):
                broken.append(f"{name}: depends on {extra}; allowed are: {', '.join(sorted(allowed)) or 'none'}")
        for reached, way in sorted(ways(id, edges).items()):
            if packages[reached]["name"] in forbidden:
                names = " -> ".join(packages[step]["name"] for step in way)
                broken.append(f"{name}: must not know {packages[reached]['name']}: {names}")
    return broken


def sources() -> list[Path]:
    """All Rust files of the repository that git tracks or would."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False, text=True)
    if listed.returncode == 0:
        return sorted({ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()})
    # An archive of the repository has no git.
    return sorted(path for path in ROOT.rglob("*.rs") if "target" not in path.relative_to(ROOT).parts)


def check_sources() -> list[str]:
    """Broken rules of single files."""
    broken = []
    used = set()
    for path in sources():
        where = path.relative_to(ROOT).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines or not lines[0].startswith("//!"):
            broken.append(f"{where}:1: does not begin with a `//!` line that says what the file does")
        if len(lines) > MOST_LINES:
            broken.append(f"{where}: {len(lines)} lines; at most {MOST_LINES} are allowed: one thing per file")
        if path.stem in VAGUE_NAMES:
            broken.append(f"{where}: a name that says nothing; call it what it holds")
        for number, line in enumerate(lines, 1):
            code = line.split("//", 1)[0]
            if re.search(r"\bunsafe\b", code):
                used.add(where)
                if where not in UNSAFE:
                    broken.append(f"{where}:{number}: `unsafe` here; the files that may have it are those of UNSAFE in ops/check-crates.py")
    for where in sorted(UNSAFE.keys() - used):
        broken.append(f"{where}: is allowed `unsafe` and has none; take it off the list in ops/check-crates.py")
    return broken


def main() -> int:
    broken = check_dependencies(metadata()) + check_sources()
    for line in broken:
        print(line)
    if broken:
        print(f"{len(broken)} broken; the rules and their reasons are in ARCHITECTURE.md", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
