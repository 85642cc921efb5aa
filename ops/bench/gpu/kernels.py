"""Reads what the profilers print: time by kernel of `nsys stats` and of `ncu`, and figures of single launches."""

import csv
import io


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


def of_nsys(text):
    """`(kernel, launches, seconds)` of `nsys stats --report cuda_gpu_kern_sum --format csv`, the longest first."""
    found = []
    for row in table(text, "Time (%)"):
        taken, launches = number(row.get("Total Time (ns)")), number(row.get("Instances"))
        if taken is not None and launches is not None and row.get("Name"):
            found.append((row["Name"], int(launches), taken / 1e9))
    return sorted(found, key=lambda kernel: -kernel[2])


UNITS = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0}


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


def of_ncu(text):
    """As [`of_nsys`], from `ncu --csv --metrics gpu__time_duration.sum`."""
    sums = {}
    for _, kernel, name, unit, value in metrics(text):
        if name == "gpu__time_duration.sum" and number(value) is not None:
            launches, seconds = sums.get(kernel, (0, 0.0))
            sums[kernel] = (launches + 1, seconds + number(value) * UNITS.get(unit, 1e-9))
    return sorted(((kernel, *sum_) for kernel, sum_ in sums.items()), key=lambda kernel: -kernel[2])


SHOWN = (
    "Duration", "Compute (SM) Throughput", "Memory Throughput", "DRAM Throughput", "L1/TEX Cache Throughput", "Registers Per Thread",
    "Achieved Occupancy", "Theoretical Occupancy", "Grid Size", "Block Size",
)  # fmt: skip


def of_launches(text):
    """`{launch: {"kernel", figure: "value unit"}}` of `ncu --csv --page details` with its sections."""
    launches = {}
    for launch, kernel, name, unit, value in metrics(text):
        if name in SHOWN:
            launches.setdefault(launch, {"kernel": kernel}).setdefault(name, f"{value} {unit}".strip())
    return launches


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
        lines.append(f"| {len(rest)} others | {sum(k[1] for k in rest)} | {1e3 * seconds:.2f} | {seconds / whole:.3f} |")
    return [*lines, f"| all | {sum(k[1] for k in kernels)} | {1e3 * whole:.2f} | 1 |"]
