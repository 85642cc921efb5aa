"""The steps that need no model: what is there, conformance, conformance under compute-sanitizer, and the measured peak."""

import re
import sys

from bench import head, row, tool
from process import ask

SUMMARY = re.compile(r"(ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY): *(.*)")
FINDING = re.compile(
    r"^=+ (Invalid|Error|Warning|Uninitialized|Potential|Race|Barrier|Divergent|Misaligned|Program hit|Unused|Internal)[^\n]*",
    re.M,
)
PLACE = re.compile(r"^=+ {2,}at (.+?)(?:[(+]|$)", re.M)
SANITIZERS = {"memcheck": 200, "racecheck": 150, "synccheck": 90, "initcheck": 90}
"""Tools of compute-sanitizer, and the seconds that each may take."""
LIBRARY = "regex=nvjet|cublas|cutlass|gemm|splitK"
"""Kernels of cuBLASLt: not ours to mend, slow to check, and the tools of CUDA 13.0 misread what those of Hopper do (compute-sanitizer's
release notes of 2025.4 and 2026.1). What they write is not tracked either, so initcheck must see them, and misreads them."""


def doctor(bench):
    done = bench.hopeval("doctor", "--store", bench.session.work / "store", "doctor", limit=60)
    interesting = re.compile(r"GPU|CUDA|cuda|NVRTC|cuBLAS|NVML|driver|hopeval|cores|memory", re.I)
    facts = [line for line in done.stdout.splitlines() if line.startswith("|") and interesting.search(line)]
    limits = ask("nvidia-smi", "-q", "-d", "CLOCK,POWER,PERFORMANCE,MEMORY") if bench.on_gpu else ""
    bench.session.raw("doctor: nvidia-smi -q", limits or "nvidia-smi said nothing")
    fields = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,clocks.sm,power.limit,compute_mode,mig.mode.current"
    values = (ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader") if bench.on_gpu else "").split(", ")
    device = dict(zip(fields.split(","), values)) if len(values) == len(fields.split(",")) else {}
    code = (
        "import json, torch, transformers, platform; print(json.dumps({'python': platform.python_version(), 'torch': torch.__version__, "
        "'torch_cuda': torch.version.cuda, 'transformers': transformers.__version__}))"
    )
    versions = bench.session.run("doctor", [sys.executable, "-c", code], 120)
    packages = (versions.answers() or [{}])[-1]
    tools = {name: ask(tool(name), "--version").splitlines()[-1:] for name in ("nvcc", "compute-sanitizer", "nsys", "ncu")}
    bench.session.record("doctor", "hopeval doctor", done, facts=facts, device_facts=device, packages=packages, tools=tools)
    pairs = device | packages | {name: (said or ["not found"])[0] for name, said in tools.items()}
    lines = bench.title("doctor") + head("what", "found") + [row(name, value) for name, value in pairs.items()]
    return lines + ["", f"hopeval doctor: {done.why or 'exit 0'}", ""] + head("what", "found", "", "note") + facts


def conformance(bench):
    lines = bench.title("conformance") + head(
        "device", "conforms", "operations", "cases", "largest, as a part of the tolerated", "failed cases", "failure"
    )
    failures = []
    for device in (bench.device, bench.exact):
        done = bench.hopeval("conformance", "lm", "conformance", "--device", device, "--json", limit=150)
        document = (done.answers() or [{}])[-1]
        bench.session.record("conformance", device, done, result=document)
        checks = document.get("checks", [])
        worst = max(checks, key=lambda check: check["largest"], default=None)
        largest = f"{worst['largest']:.3g} ({worst['operation']})" if worst else None
        cases = sum(check["cases"] for check in checks) or None
        failed = sum(check["failed"] for check in checks) if checks else None
        conforms = document.get("conforms")
        # A document tells more than the exit code that comes with it.
        why = None if document else done.why
        lines.append(row(device, "not seen" if conforms is None else conforms, len(checks) or None, cases, largest, failed, why))
        told = [f"{check['operation']}: {check['failed']}, the first: {check['failures'][0][:300]}" for check in checks if check["failed"]]
        failures += [f"* {device}, {line}" for line in told]
        if conforms is False:
            bench.stop = bench.stop or f"{device} does not conform: mend that first"
    return lines + ([""] + failures if failures else [])


def sanitizer(bench):
    lines = bench.title("compute-sanitizer over conformance") + head("tool", "device", "summary", "findings", "s", "ended")
    if not bench.on_gpu:
        return [*bench.title("compute-sanitizer"), "needs a GPU: left out"]
    for device in (bench.device, bench.exact):
        for name in bench.options.tools:
            # What frameworks leak at the end is the driver's to free. A call that fails is not an error: asking for a kernel's
            # parameters until there is none, for one, ends with a refusal.
            more = ["--leak-check", "no", "--report-api-errors", "no"] if name == "memcheck" else []
            more += ["--kernel-name-exclude", LIBRARY] if name != "initcheck" else []
            before = [tool("compute-sanitizer"), "--tool", name, *more, "--print-limit", "50", "--error-exitcode", "99"]
            done = bench.hopeval(
                "sanitizer", "lm", "conformance", "--device", device, "--json", limit=SANITIZERS[name], before=before
            )
            said = done.stdout + done.stderr
            summary = "; ".join(match.group(2).strip() for match in SUMMARY.finditer(said)) or None
            findings, places = len(FINDING.findall(said)), sorted(set(PLACE.findall(said)))
            bench.session.record("sanitizer", f"{name} {device}", done, summary=summary, findings=findings, places=places[:20])
            lines.append(row(name, device, summary, findings, f"{done.seconds:.0f}", done.why or "exit 0"))
            if places:
                lines.append(row("", "", f"in {', '.join(places[:4])}", "", "", ""))
    return lines


def peak(bench):
    lines = bench.title("the measured peak") + head("what", "median", "best")
    for figure in bench.figures_of_peak():
        if "product" in figure:
            name = f"product {figure['product']}, {figure['dtype']}"
            lines.append(row(name, f"{figure['tflops']:.4g} TFLOP/s", f"{figure['best_tflops']:.4g} TFLOP/s"))
        else:
            lines.append(
                row(f"copy of {figure['copy_bytes'] / 2**30:.3g} GiB, read and written", f"{figure['tb_s']:.3g} TB/s", None)
            )
    return lines
