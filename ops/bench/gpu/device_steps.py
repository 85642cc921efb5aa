"""The steps that need no model: what is there, conformance, compute-sanitizer, the driver's tests, the peak."""

import importlib.metadata
import platform
import re

from bench import head, row, runnable, tool
from process import ask

SUMMARY = re.compile(r"(ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY): *(.*)")
FINDING = re.compile(
    r"^=+ (Invalid|Error|Warning|Uninitialized|Potential|Race|Barrier|Divergent|Misaligned|Program hit|Unused|Internal)"
    r"[^\n]*",
    re.M,
)
PLACE = re.compile(r"^=+ {2,}at (.+?)(?:[(+]|$)", re.M)
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")
"""Tools of compute-sanitizer."""
LIBRARY = "regex=nvjet|cublas|cutlass|gemm|splitK"
"""Kernels of cuBLASLt: not ours to mend, slow to check, and the tools of CUDA 13.0 misread what those of Hopper do
(compute-sanitizer's release notes of 2025.4 and 2026.1). What they write is not tracked either, so initcheck must see
them, and misreads them."""


def doctor(bench):
    done = bench.hopeval("doctor", "--store", bench.session.work / "store", "doctor", limit=30)
    interesting = re.compile(r"GPU|CUDA|cuda|NVRTC|cuBLAS|NVML|driver|hopeval|cores|memory", re.I)
    facts = [line for line in done.stdout.splitlines() if line.startswith("|") and interesting.search(line)]
    limits = ask("nvidia-smi", "-q", "-d", "CLOCK,POWER,PERFORMANCE,MEMORY") if bench.on_gpu else ""
    bench.session.raw("doctor: nvidia-smi -q", limits or "nvidia-smi said nothing")
    fields = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,clocks.sm,power.limit,compute_mode"
    fields += ",mig.mode.current"
    values = (ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader") if bench.on_gpu else "").split(", ")
    device = dict(zip(fields.split(","), values)) if len(values) == len(fields.split(",")) else {}
    # Without an import, which takes seconds.
    packages = {"python": platform.python_version()} | {name: version(name) for name in ("torch", "transformers")}
    tools = {name: ask(tool(name), "--version").splitlines()[-1:] for name in ("compute-sanitizer", "ncu")}
    bench.session.record(
        "doctor", "hopeval doctor", done, facts=facts, device_facts=device, packages=packages, tools=tools
    )
    pairs = device | packages | {name: (said or ["not found"])[0] for name, said in tools.items()}
    lines = bench.title("doctor") + head("what", "found") + [row(name, value) for name, value in pairs.items()]
    return lines + ["", f"hopeval doctor: {done.why or 'exit 0'}", ""] + head("what", "found", "", "note") + facts


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not found"


def conformance(bench):
    """Of the device and of the same in float32, at once."""
    lines = bench.title("conformance") + head(
        "device", "conforms", "operations", "cases", "largest, as a part of the tolerated", "failed cases", "failure"
    )
    failures = []
    ask = lambda device: bench.hopeval("conformance", "lm", "conformance", "--device", device, "--json", limit=60)
    devices = (bench.device, bench.exact)
    for device, done in zip(devices, bench.at_once(ask, devices)):
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
        lines.append(
            row(device, "not seen" if conforms is None else conforms, len(checks) or None, cases, largest, failed, why)
        )
        failed_ones = [check for check in checks if check["failed"]]
        told = [
            f"{check['operation']}: {check['failed']}, the first: {check['failures'][0][:300]}" for check in failed_ones
        ]
        failures += [f"* {device}, {line}" for line in told]
        if conforms is not True:
            what = "does not conform" if conforms is False else "was not seen to conform"
            bench.stopped.append(f"{device} {what}: mend that first")
    return lines + ([""] + failures if failures else [])


def sanitizer(bench):
    """All tools on both devices at once: they wait for each other little, and are slow by themselves."""
    if not bench.on_gpu:
        return [*bench.title("compute-sanitizer"), "needs a GPU: left out"]
    lines = bench.title("compute-sanitizer over conformance, at once")
    lines += head("tool", "device", "summary", "findings", "s", "ended")
    asked = [(name, device) for name in bench.options.tools for device in (bench.device, bench.exact)]
    for rows in bench.at_once(lambda numbered: sanitized(bench, numbered[0], *numbered[1]), enumerate(asked)):
        lines += rows
    return lines


WITHOUT_PRODUCTS = "embed,norm,normgroups,gate,rotate,attention,gather,scatter,average"
"""Operations of the device that call no library."""
FIRST_PORT, PORTS = 49152, 10
"""By which a tool and its target find each other, and how many a tool tries."""


def sanitized(bench, number, name, device):
    """Rows of the table."""
    # What frameworks leak at the end is the driver's to free. A call that fails is not an error: asking for a kernel's
    # parameters until there is none, for one, ends with a refusal.
    more = ["--leak-check", "no", "--report-api-errors", "no"] if name == "memcheck" else []
    more += ["--kernel-name-exclude", LIBRARY] if name != "initcheck" else []
    more += ["--port", FIRST_PORT + PORTS * number, "--launch-timeout", "60", "--show-backtrace", "device"]
    before = [tool("compute-sanitizer"), "--tool", name, *more, "--print-limit", "50", "--error-exitcode", "99"]
    arguments = ["--device", device, "--json"]
    if name == "racecheck" and device == bench.device:
        # The tool of CUDA 13.0 failed inside the first product in bf16 ("failed to handle a hardware exception"), a
        # kernel that was to be left out.
        arguments += ["--operations", WITHOUT_PRODUCTS]
    # As long as there is time: nothing comes after.
    done = bench.hopeval("sanitizer", "lm", "conformance", *arguments, limit=600, before=before)
    said = done.stdout + done.stderr
    summary = "; ".join(match.group(2).strip() for match in SUMMARY.finditer(said)) or None
    findings, places = len(FINDING.findall(said)), sorted(set(PLACE.findall(said)))
    bench.session.record("sanitizer", f"{name} {device}", done, summary=summary, findings=findings, places=places[:20])
    rows = [row(name, device, summary, findings, f"{done.seconds:.0f}", done.why or "exit 0")]
    return rows + ([row("", "", f"in {', '.join(places[:4])}", "", "", "")] if places else [])


RESULT = re.compile(r"^test result: (\w+)\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)
FAILED = re.compile(r"^    (\w+)$", re.M)
ENDED = re.compile(r"(?:^test \S+ \.\.\. |^)ok$", re.M)
FAILED_LINE = re.compile(r"(?:^test \S+ \.\.\. |^)FAILED$", re.M)
"""Tests that ended, each with its name before it or, where it printed, alone in a line."""


def driver(bench):
    """The tests of hopeval's driver, from a carried binary; its raw output is kept."""
    lines = bench.title("tests of the driver")
    if bench.options.driver is None:
        return [*lines, "not run: no binary was named (--driver)"]
    program = runnable(bench.options.driver, bench.session.work)
    with bench.gate.beside_others():
        arguments = [program, "--nocapture", "--test-threads", "1"]
        done = bench.session.run("driver", arguments, 90, bench.environment)
    # A test may run others, whose result comes before its own. The last line is of all, unless the time was up.
    results = RESULT.findall(done.stdout)
    if done.code is None:
        ended = len(ENDED.findall(done.stdout)) - len(results)
        results = [(None, str(ended), str(len(FAILED_LINE.findall(done.stdout))), None)]
    result = (results or [(None, None, None, None)])[-1]
    names = (
        sorted(set(FAILED.findall(done.stdout.rpartition("\nfailures:\n")[2])))
        if "\nfailures:\n" in done.stdout
        else []
    )
    counts = dict(zip(("result", "passed", "failed", "ignored"), result))
    bench.session.record("driver", "tests of the driver", done, **counts, failed_tests=names)
    lines += head("passed", "failed", "ignored", "s", "ended")
    lines.append(row(*result[1:], f"{done.seconds:.0f}", done.why or "exit 0"))
    return lines + ([""] + [f"* {name} failed" for name in names] if names else [])


def peak(bench):
    lines = bench.title("the measured peak") + head("what", "median", "best")
    for figure in bench.figures_of_peak():
        if "product" in figure:
            name = f"product {figure['product']}, {figure['dtype']}"
            lines.append(row(name, f"{figure['tflops']:.4g} TFLOP/s", f"{figure['best_tflops']:.4g} TFLOP/s"))
        else:
            lines.append(
                row(
                    f"copy of {figure['copy_bytes'] / 2**30:.3g} GiB, read and written",
                    f"{figure['tb_s']:.3g} TB/s",
                    None,
                )
            )
    return lines
