"""Counts of the kernels' instructions, read from `sass.md`, and those of kernels that are no more."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class KernelCounts:
    """What `sass.md` says of a kernel on sm_90."""

    hmma: int
    ldsm: int
    everything: int
    loop: int
    shortest: float | None
    longest: float | None
    """Instructions of a number."""
    blocks: int
    """On a multiprocessor at once."""
    more_wavefronts: int = 0
    """Of shared memory a pair of tiles, beside LDSM and LDGSTS."""


BEFORE = {
    # Counted in the code of ee8ef5e6, whose kernels are those of bdcd5ee, before there was a table.
    # From the cheapest function to the dearest.
    "gate_bf16": KernelCounts(0, 0, 0, 0, 75, 127, 8),
    "finish_bf16": KernelCounts(0, 0, 0, 0, 45, 129, 8),
    # `sass.md` of 418afabb. The review of bdcd5ee counts 1,000 wavefronts for the f32 terms of positions.
    "attention_disentangled_64": KernelCounts(144, 80, 3430, 1772, None, None, 2, 1000),
    # `sass.md` of 974380d8.
    "attention_64": KernelCounts(64, 36, 1877, 983, None, None, 4),
    "attention_relative_64": KernelCounts(64, 36, 2170, 1098, None, None, 4),
}
"""Kernels of bdcd5ee that have changed since. `norm_bf16` is as it was; it served rows of all lengths."""


def counts(path):
    """By kernel, those of sm_90."""
    found, columns = {}, []
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| kernel |"):
            columns = [cell.partition(":")[0] for cell in cells]
        elif columns and len(cells) == len(columns) and cells[1] == "sm_90":
            row = dict(zip(columns, cells))
            shortest, longest = (None if way == "-" else float(way) for way in row["a number"].split(" / "))
            found[row["kernel"].strip("`")] = KernelCounts(
                hmma=int(row["HMMA"]), ldsm=sum(map(int, row["LDSM"].split(" / "))), everything=int(row["all"]),
                loop=int(row["loop"]), shortest=shortest, longest=longest, blocks=int(row["occupancy"].split(" / ")[0]),
            )  # fmt: skip
    if not found:
        raise SystemExit(f"{path}: no table with the columns of sass.md and rows for sm_90")
    return found
