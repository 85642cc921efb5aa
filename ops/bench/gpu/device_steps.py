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
        "device", "conforms", "operations", "cases", "largest, as a part of the tolerated", "failure"
    )
    for device in (bench.device, bench.exact):
        done = bench.hopeval("conformance", "lm", "conformance", "--device", device, "--json", limit=150)
        document = (done.answers() or [{}])[-1]
        bench.session.record("conformance", device, done, result=document)
        checks = document.get("checks", [])
        worst = max(checks, key=lambda check: check["largest"], default=None)
        largest = f"{worst['largest']:.3f} ({worst['operation']})" if worst else None
        failure = document.get("failure") or done.why or None
        cases = sum(check["cases"] for check in checks) or None
        lines.append(
            row(device, document.get("conforms", "not seen"), len(checks) or None, cases, largest, failure and failure[:200])
        )
    return lines


def sanitizer(bench):
    lines = bench.title("compute-sanitizer over conformance") + head("tool", "device", "summary", "findings", "s", "ended")
    if not bench.on_gpu:
        return [*bench.title("compute-sanitizer"), "needs a GPU: left out"]
    for device in (bench.device, bench.exact):
        for name in bench.options.tools:
            # What frameworks leak at the end is the driver's to free.
            more = ["--leak-check", "no"] if name == "memcheck" else []
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
