"""Reads what `ncu` prints: time by kernel, and figures of single launches."""

import csv
import io
import re


def table(text, first):
    """Rows of the CSV whose header begins with the column `first`, whatever a profiler prints around it."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.lstrip('"').startswith(first):
            return list(csv.DictReader(io.StringIO("\n".join(lines[number:]))))
    return []


def number(text):
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def metrics(text):
    """`(launch, kernel, metric, unit, value)` of `ncu --csv`, whether a row has one metric or all of a launch."""
    rows = table(text, "ID")
    if not rows:
        return
    if "Metric Name" in rows[0]:
        for row in rows:
            yield (
                row["ID"],
                row.get("Kernel Name", ""),
                row["Metric Name"],
                row.get("Metric Unit", ""),
                row.get("Metric Value", ""),
            )
        return
    units = rows[0] if not rows[0].get("ID") else {}
    for row in rows[1:] if units else rows:
        for name, value in row.items():
            if name and value is not None and not isinstance(value, list):
                yield row["ID"], row.get("Kernel Name", ""), name, units.get(name) or "", value


SMALL = 64
"""Rows of the batches that are no measured ones: the model warms up with two tokens, and the bench with some."""


def timed(text):
    """`(kernel, seconds)` of each launch in `ncu --csv --page raw --print-units base --metrics gpu__time_duration.sum`,
    those before the first batch of more than SMALL rows apart. A batch begins with `embed`, a block for each row."""
    before, behind = [], []
    for row in table(text, "ID"):
        kernel, nanoseconds = row.get("Kernel Name") or "", number(row.get("gpu__time_duration.sum"))
        if nanoseconds is None or not (row.get("ID") or "").isdigit():
            continue
        blocks = re.findall(r"\d+", row.get("Grid Size") or "")
        begins = kernel.startswith("embed") and bool(blocks) and int(blocks[0]) > SMALL
        (behind if behind or begins else before).append((kernel, 1e-9 * nanoseconds))
    return before, behind


def summed(launches):
    """`(kernel, launches, seconds)`, the longest first."""
    sums = {}
    for kernel, seconds in launches:
        count, whole = sums.get(kernel, (0, 0.0))
        sums[kernel] = (count + 1, whole + seconds)
    return sorted(((kernel, *sum_) for kernel, sum_ in sums.items()), key=lambda kernel: -kernel[2])


FIGURES = {
    "gpu__time_duration.sum": ("us", 1e-3),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("SM, %", 1),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("memory, %", 1),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("DRAM, %", 1),
    "dram__bytes.sum.per_second": ("DRAM, TB/s", 1e-12),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("occupancy, %", 1),
    "sm__maximum_warps_per_active_cycle_pct": ("possible, %", 1),
    "launch__registers_per_thread": ("registers", 1),
    "launch__shared_mem_per_block": ("shared, B", 1),
    "launch__grid_size": ("blocks", 1),
    "launch__block_size": ("threads", 1),
}
"""Metrics of ncu, what the table calls them, and the table's unit in ncu's own: nanoseconds, bytes a second."""
LABELS = [label for label, _ in FIGURES.values()]


def of_launches(text):
    """`{"kernel", figure: number}` of each launch in `ncu --csv --page raw --print-units base`, the longest first."""
    launches = {}
    for launch, kernel, name, _, value in metrics(text):
        value = number(value)
        if name in FIGURES and value is not None:
            label, unit = FIGURES[name]
            launches.setdefault(launch, {"kernel": kernel})[label] = round(unit * value, 3)
    return sorted(launches.values(), key=lambda figures: -figures.get("us", 0.0))


def shown(kernels, most, width=64):
    """Lines of a Markdown table."""
    whole = sum(seconds for _, _, seconds in kernels)
    lines = ["| kernel | launches | ms | share |", "| --- | --- | --- | --- |"]
    for name, launches, seconds in kernels[:most]:
        name = " ".join(name.split()).replace("|", "\\|")
        name = name if len(name) <= width else name[: width - 1] + "…"
        lines.append(f"| `{name}` | {launches} | {1e3 * seconds:.2f} | {seconds / whole:.3f} |")
    rest = kernels[most:]
    if rest:
        seconds = sum(seconds for _, _, seconds in rest)
        lines.append(
            f"| {len(rest)} others | {sum(k[1] for k in rest)} | {1e3 * seconds:.2f} | {seconds / whole:.3f} |"
        )
    return [*lines, f"| all | {sum(k[1] for k in kernels)} | {1e3 * whole:.2f} | 1 |"]
