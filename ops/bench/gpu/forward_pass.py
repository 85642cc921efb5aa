"""The forward passes of the models as lists of operations, and the time of each by its counts.

Products (rows x inner x out), launches of our own kernels with their numbers, attention with its blocks and pairs of
tiles, as `engine/lm/src/architectures` runs them. `predicted.py` tells how an operation gets its time.
"""

import math

import floors
from drawn_requests import forest

PRODUCTS = 650e12
"""Operations a second of cuBLASLt's products, as the bars count them."""
COPY = 4.3e12
"""Bytes a second, read and written."""
CLOCK = 1.7e9
PROCESSORS, SCHEDULERS, LANES = 132, 4, 32
ISSUE = PROCESSORS * SCHEDULERS * LANES * CLOCK
"""Instructions of threads a second."""
MMA_CYCLES = 6.4
"""Of a tensor core for m16n8k16 by `mma.sync`: 2,048 multiplications at 512 a cycle and 63 % of that, the share which
"Dissecting the NVIDIA Hopper Architecture through Microbenchmarking" (Luo et al. 2024) finds for `mma.sync`."""
WAVEFRONTS = 4
"""Cycles of shared memory that 16 bytes a lane take: 512 bytes at 128 a cycle."""
DEPENDENT = 4
"""Cycles from an instruction to one that needs it ("Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking", Jia et al. 2018, and alike since)."""
MEMORY = 600
"""Cycles of a load from global memory, a round figure between L2 and HBM."""
BETWEEN_S = 1e-6
"""From a kernel's end to the next one's begin. Assumed."""
HOST_S = 2.5e-3
"""The device idle around a batch: the review's 2 to 3 ms for XL models. Its 5 to 8 ms for DeBERTa count the decoding of
answers, which `lm bench` does not do."""
NVML_S = 3.0e-3
"""A reading of the energy counter on the machine of 2026-11-27, median."""
SIDE, SHORT_SIDE = 64, 32
"""The most query rows of a block of attention, and keys of a tile; the most rows of a short block."""
VECTOR = 8
"""Numbers in bf16 of sixteen bytes."""


class ForwardPass:
    """Adds up the operations of a workload: seconds by kind of kernel, and launches a batch."""

    def __init__(self, known, before, rate):
        self.known, self.before, self.rate = known, before, rate
        """Counts by kernel; whether they are of bdcd5ee; operations of products a second."""
        self.seconds, self.launches = {}, 0

    def add(self, kind, seconds, launches):
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds
        self.launches += launches

    def product(self, rows, inner, out, times, kind="products"):
        self.add(kind, times * 2 * rows * inner * out / self.rate, times)

    def elementwise(self, kind, numbers, read, instructions, times):
        """Of bf16 numbers that are written; `read` numbers are read for one."""
        bytes_ = 2 * numbers * (read + 1)
        self.add(kind, times * max(bytes_ / COPY, instructions * numbers / ISSUE), times)

    def copy(self, name, rows, columns, times):
        self.elementwise("copies", rows * columns, 1, self.known[name].longest, times)

    def activation(self, name, rows, columns, read, times):
        self.elementwise("activations", rows * columns, read, self.known[name].longest, times)

    def norm(self, rows, columns, times):
        vectors = columns // VECTOR
        if self.before:
            # A block's 256 threads at most, a vector each; whole warps issue.
            lanes = math.ceil(vectors / LANES) * LANES
            instructions = self.known["norm_bf16"].longest * VECTOR * lanes / columns
        else:
            # The table has the ways of one vector a lane and of eight; the code for two and four lies on their line.
            held = next(parts for parts in (1, 2, 4, 8) if vectors <= parts * LANES)
            short = self.known["norm_short_bf16"]
            one, eight = short.shortest * VECTOR, short.longest * 8 * VECTOR
            instructions = (one + (held - 1) * (eight - one) / 7) * LANES / columns
        self.elementwise("norms", rows * columns, 1, instructions, times)

    def head(self, rows, hidden, vocabulary):
        """Logits of tiles of 8,192 entries in f32, read once; 32 of them a thread."""
        self.product(rows, hidden, vocabulary, 1, kind="head")
        bytes_, slots = 2 * 4 * rows * vocabulary, self.known["log_probs_tile"].everything / 32 * rows * vocabulary
        tiles = math.ceil(vocabulary / 8192)
        self.add("head", max(bytes_ / COPY, slots / ISSUE), 2 * tiles - 1)

    def attention(self, name, blocks, heads, times):
        """`blocks`: rows, and pairs of tiles, of each block of one head. Short blocks have a launch of their own if
        there are no more of the others."""
        short, long = (
            [block for block in blocks if (block[0] <= SHORT_SIDE) == is_short] for is_short in (True, False)
        )
        short_name = name.replace("attention_", "attention_short_")
        if self.before or short_name not in self.known or len(short) < len(long):
            return self.launch_attention(name, 4, blocks, heads, times)
        self.launch_attention(name, 4, long, heads, times)
        return self.launch_attention(short_name, 2, short, heads, times)

    def launch_attention(self, name, warps, blocks, heads, times):
        if not blocks:
            return
        blocks = [pairs for _, pairs in blocks]
        kernel = self.known[name]
        tensors = 4 if "disentangled" in name else 2
        # Queries are loaded once a block, by four LDSM. A tensor of 64 rows takes four LDGSTS a thread of four warps.
        shared = warps * WAVEFRONTS * (kernel.ldsm - 4) + 16 * WAVEFRONTS * tensors + kernel.more_wavefronts
        share = warps / SCHEDULERS
        pair = max(share * kernel.loop, share * MMA_CYCLES * kernel.hmma, shared)
        rest = kernel.everything - kernel.loop
        alone_pair, alone_block = DEPENDENT * kernel.loop + 2 * MEMORY, DEPENDENT * rest + 3 * MEMORY
        work = heads * sum(pairs * pair + share * rest for pairs in blocks)
        latency = heads * sum(pairs * alone_pair + alone_block for pairs in blocks) / kernel.blocks
        self.add("attention", times * max(work, latency) / PROCESSORS / CLOCK, times)

    def done(self, batches):
        """Adds what passes between kernels and around batches; returns seconds by kind. The head has two batches in
        flight: the host's time shows around the first and the last one alone."""
        around = batches * (HOST_S + 2 * NVML_S) if self.before else HOST_S
        self.seconds["gaps"] = batches * self.launches * BETWEEN_S + around
        return self.seconds


def tiles(rows):
    return math.ceil(rows / SIDE)


def heights(rows):
    """Rows of the blocks of a sequence."""
    return [min(SIDE, rows - at) for at in range(0, rows, SIDE)]


def full(lengths):
    """Rows, and pairs of tiles, of the blocks of sequences that see all of themselves."""
    return [(height, tiles(length)) for length in lengths for height in heights(length)]


def causal(nodes):
    """Of nodes `(position of the first row, rows)`."""
    return [
        (height, tiles(start + number * SIDE + height))
        for start, rows in nodes
        for number, height in enumerate(heights(rows))
    ]


def t5(lines, shared, forward, size):
    """Adds an encoder over the prompts, keys and values of its states, and a decoder over the targets; returns rows."""
    prompts = {tuple(line["prompt_ids"]) for line in lines} if shared else [line["prompt_ids"] for line in lines]
    states, targets = sum(map(len, prompts)), sum(len(line["target_ids"]) for line in lines)
    hidden, width, inner, heads = size.hidden, size.attention, size.inner, size.attention // 64
    for rows in (states, targets):
        forward.copy("embed_bf16", rows, hidden, 1)
        forward.norm(rows, hidden, 2 * size.layers + 1)
        forward.product(rows, hidden, 3 * width, size.layers)
        forward.product(rows, width, hidden, size.layers)
        forward.product(rows, hidden, 2 * inner, size.layers)
        forward.activation("gate_bf16", rows, inner, 2, size.layers)
        forward.product(rows, inner, hidden, size.layers)
    forward.attention("attention_relative_64", full(map(len, prompts)), heads, size.layers)
    forward.copy("scatter_bf16", states, hidden, 1)
    forward.copy("gather_bf16", states, hidden, 1)
    own = causal((0, len(line["target_ids"])) for line in lines)
    forward.attention("attention_relative_64", own, heads, size.layers)
    forward.norm(targets, hidden, size.layers)
    forward.product(targets, hidden, width, size.layers)
    forward.product(states, hidden, 2 * width, size.layers)
    # Neighbours over the same prompt share blocks.
    rows_of = {}
    for line in lines:
        prompt = tuple(line["prompt_ids"])
        rows_of[prompt] = rows_of.get(prompt, 0) + len(line["target_ids"])
    cross = [(height, tiles(len(prompt))) for prompt, rows in rows_of.items() for height in heights(rows)]
    forward.attention("attention_64", cross, heads, size.layers)
    forward.product(targets, width, hidden, size.layers)
    forward.head(targets, hidden, size.vocabulary)
    return states + targets


def gpt2(lines, shared, forward, size):
    sequences = floors.Gpt2.inputs(lines)
    nodes = forest(sequences) if shared else [(0, len(ids)) for ids in sequences]
    rows, targets, hidden = sum(count for _, count in nodes), floors.targets(lines), size.hidden
    forward.copy("embed_bf16", rows, hidden, 1)
    forward.norm(rows, hidden, 2 * size.layers + 1)
    forward.product(rows, hidden, 3 * hidden, size.layers)
    forward.attention("attention_64", causal(nodes), hidden // 64, size.layers)
    forward.product(rows, hidden, hidden, size.layers)
    forward.product(rows, hidden, 4 * hidden, size.layers)
    forward.product(rows, 4 * hidden, hidden, size.layers)
    forward.copy("gather_bf16", targets, hidden, 1)
    forward.head(targets, hidden, size.vocabulary)
    return rows


def deberta(lines, shared, forward, size):
    """Nothing is shared between its sequences. Heads of two to four labels are left out."""
    lengths = [len(line["ids"]) for line in lines]
    rows, hidden = sum(lengths), size.hidden
    forward.copy("embed_bf16", rows, hidden, 1)
    forward.norm(rows, hidden, 2 * size.layers + 1)
    forward.product(rows, hidden, 3 * hidden, size.layers)
    forward.attention("attention_disentangled_64", full(lengths), hidden // 64, size.layers)
    forward.product(rows, hidden, hidden, size.layers)
    forward.product(rows, hidden, size.inner, size.layers)
    # The library's epilogue has no erf. The bias was added here before, and by the epilogue now.
    forward.activation("finish_bf16", rows, size.inner, 1, size.layers)
    forward.product(rows, size.inner, hidden, size.layers)
    return rows
