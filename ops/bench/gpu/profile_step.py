"""The step that looks into kernels: the time of each over one pass, and what launches of our own do with the device.

By `ncu`, each kernel by itself: no overlap, and for the times caches as the kernel before left them. (`nsys` made no
report on the machine that this was first run on.)
"""

import re

import kernels
from bench import head, row, tool
from models import ask_bench, chosen
from workloads import EVEN

PRINTED, KEPT = 22, 40
ONE_QUESTION = 115
"""Requests of a question of PromptRank, and of a few iterations of EfficientRAG."""
OWN = "gate_|finish_|norm_|attention_|log_probs_"
"""Kernels whose single launches are looked at; the large products are cuBLASLt's."""
TIMES = ["--clock-control", "none", "--cache-control", "none", "--launch-count", "4000"]
TIMES += ["--metrics", "gpu__time_duration.sum", "--csv", "--page", "raw", "--print-units", "base"]
LAUNCHES = ["--clock-control", "none", "--kernel-name", f"regex:{OWN}"]
LAUNCHES += ["--csv", "--page", "raw", "--print-units", "base"]
METRICS = ["--metrics", ",".join(kernels.FIGURES)]
# The same figures and more, and slower; for an ncu that does not know one of the names.
SECTIONS = [word for name in ("SpeedOfLight", "LaunchStats", "Occupancy") for word in ("--section", name)]
LOOKED_AT = 24
"""Launches of our own kernels of the first batch of a file. With all figures one of a large model takes a second, for
what it writes is saved and restored. Those before, which warm up, are skipped: the pass for times has counted them."""
FEW = 40
LONGEST = 3
"""Launches that are shown of a kernel."""


def profile(bench):
    """Times of all models first, then single launches: the first says more."""
    if not bench.on_gpu:
        return [*bench.title("time by kernel"), "needs a GPU: left out"]
    lines, looked_at = [], []
    for model in chosen(bench):
        folder = bench.checkpoints[model.name].result()
        if model.kind == "filter":
            continue
        if folder is None:
            lines += [f"{model.name}: no checkpoint"]
            continue
        file = one_question(bench, model)
        told, skipped = times(bench, model, folder, file)
        looked_at.append((model, folder, file, skipped))
        lines += told
    for model, folder, file, skipped in looked_at:
        lines += launches(bench, model, folder, file, skipped)
    return lines


def one_question(bench, model):
    """A file of the first question's requests."""
    asked = bench.requests[model.name].result()[EVEN]
    first = [line for line in asked.lines if model.command == "label" or line["id"].startswith("0-")]
    return type(asked)(bench, model, "one-question", first[:ONE_QUESTION]).path


def times(bench, model, folder, file):
    # Without a profiler first: products are tuned for these numbers of rows, and the choices are kept for the next.
    ask_bench(bench, "profile", model, folder, file, repeat=1)
    done = ask_bench(bench, "profile", model, folder, file, repeat=1, before=[tool("ncu"), *TIMES])
    before, measured = kernels.timed(done.stdout)
    found, skipped = kernels.summed(measured), sum(bool(re.match(OWN, kernel)) for kernel, _ in before)
    top = [{"kernel": name, "launches": launched, "seconds": seconds} for name, launched, seconds in found[:KEPT]]
    whole = sum(seconds for _, _, seconds in found)
    bench.session.record("profile", f"{model.name} by ncu, one pass", done, kernels=top, all_kernels_s=whole)
    lines = bench.title(f"{model.name}: time by kernel, one pass over one question")
    return lines + (kernels.shown(found, PRINTED) if found else [f"no kernels were seen: {done.why}"]) + [""], skipped


def launches(bench, model, folder, file, skipped):
    """The longest launches of each of our kernels."""
    for figures, count in ((METRICS, FEW if bench.tiny else LOOKED_AT), (SECTIONS, FEW)):
        window = ["--launch-skip", skipped, "--launch-count", count]
        before = [tool("ncu"), *LAUNCHES, *figures, *window]
        done = ask_bench(bench, "profile", model, folder, file, repeat=1, limit=25, before=before)
        found = kernels.of_launches(done.stdout)
        bench.session.record("profile", f"{model.name}: single launches", done, launches=found)
        if found or done.code is None:
            break
    by_kernel = {}
    for figures in found:
        by_kernel.setdefault(figures["kernel"], []).append(figures)
    lines = bench.title(f"{model.name}: single launches of our kernels, caches emptied before each")
    lines += head("kernel", *kernels.LABELS)
    for kernel, some in by_kernel.items():
        for figures in some[:LONGEST]:
            cells = [figures.get(name) for name in kernels.LABELS]
            lines.append(row(f"`{kernel[:48]}`", *[cell if cell is None else f"{cell:g}" for cell in cells]))
    return lines + ([] if found else [f"no launches were seen: {done.why}"]) + [""]
