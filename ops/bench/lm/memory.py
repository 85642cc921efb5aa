#!/usr/bin/env python3
"""What the engine holds of a model of T5-XL's size: how fast it opens, and how much memory scoring takes beside the weights.

Why: weights stay in their file, mapped, in the type they were stored in; products convert panel by panel. So a model of
5.7 GB should open in under two seconds, and scoring should peak under its weights plus 2 GB.

What: writes T5 v1.1 XL's tensors as bfloat16 with random bits of ordinary size (NumPy only, in two shards), and scores
paths of PromptRank's lengths with `hopeval lm bench`. Prints one row: seconds to open, peak resident memory (mapped pages
included), the weights' bytes, and what remains of the difference.

Knobs: --hopeval, --work (the model; kept), --paths, --batch-tokens, --threads.

Needs Python 3.11 with NumPy, 6 GB of disk, and 8 GB of memory.
"""

import argparse
import json
import pathlib
import struct
import subprocess

D_MODEL, D_KV, HEADS, D_FF, LAYERS, VOCABULARY = 2048, 64, 32, 5120, 24, 32128


def tensors():
    """Names and shapes, as transformers saves T5."""
    inner = D_KV * HEADS
    yield "shared.weight", (VOCABULARY, D_MODEL)
    yield "lm_head.weight", (VOCABULARY, D_MODEL)
    for stack in ("encoder", "decoder"):
        for layer in range(LAYERS):
            block = f"{stack}.block.{layer}.layer"
            attentions = ["0.SelfAttention"] + (["1.EncDecAttention"] if stack == "decoder" else [])
            for attention in attentions:
                for part in "qkv":
                    yield f"{block}.{attention}.{part}.weight", (inner, D_MODEL)
                yield f"{block}.{attention}.o.weight", (D_MODEL, inner)
            if layer == 0:
                yield f"{block}.0.SelfAttention.relative_attention_bias.weight", (32, HEADS)
            last = len(attentions)
            for part in ("wi_0", "wi_1"):
                yield f"{block}.{last}.DenseReluDense.{part}.weight", (D_FF, D_MODEL)
            yield f"{block}.{last}.DenseReluDense.wo.weight", (D_MODEL, D_FF)
            for sublayer in range(last + 1):
                yield f"{block}.{sublayer}.layer_norm.weight", (D_MODEL,)
        yield f"{stack}.final_layer_norm.weight", (D_MODEL,)


def random_bfloat16(random, shape):
    """Of the size that keeps a projection's output near its input's."""
    import numpy as np

    count = int(np.prod(shape))
    if len(shape) == 1:
        return np.full(count, 0x3F80, dtype=np.uint16)  # ones
    numbers = random.integers(-128, 128, count, dtype=np.int8).astype(np.float32)
    numbers *= 1.0 / (74.0 * shape[-1] ** 0.5)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def write(folder):
    """Two shards and their index."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(3)
    named = list(tensors())
    half = len(named) // 2
    where = {}
    for number, part in enumerate((named[:half], named[half:]), 1):
        name = f"model-{number:05}-of-00002.safetensors"
        header, offset = {}, 0
        for tensor, shape in part:
            size = 2 * int(np.prod(shape))
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
            offset += size
            where[tensor] = name
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, shape in part:
                file.write(random_bfloat16(random, shape).tobytes())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    config = {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": D_MODEL, "d_kv": D_KV, "d_ff": D_FF,
        "num_heads": HEADS, "num_layers": LAYERS, "num_decoder_layers": LAYERS, "vocab_size": VOCABULARY,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-6, "decoder_start_token_id": 0,
        "pad_token_id": 0, "eos_token_id": 1,
    }  # fmt: skip
    # Last, so that a folder that is half written is written again.
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hopeval", default="target/release/hopeval")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("target/bench-lm"))
    parser.add_argument("--paths", type=int, default=24)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--threads", default="2")
    arguments = parser.parse_args()
    import numpy as np

    model = arguments.work / "t5-xl-random"
    if not (model / "config.json").exists():
        write(model)
    weights = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    random = np.random.default_rng(5)
    lengths = np.clip(np.round(random.lognormal(np.log(110) - 0.18, 0.6, arguments.paths)), 12, 230).astype(int)
    question = random.integers(300, 30000, 20).tolist() + [1]
    requests = arguments.work / "t5-xl-random.jsonl"
    with open(requests, "w") as file:
        for number, length in enumerate(lengths):
            prompt = random.integers(300, 30000, length + 12).tolist() + [1]
            file.write(json.dumps({"id": number, "prompt_ids": prompt, "target_ids": question}) + "\n")
    command = [
        arguments.hopeval, "--threads", arguments.threads, "lm", "bench", "--model", model, "--task", "score", "--input", requests,
        "--batch-tokens", str(arguments.batch_tokens),
    ]  # fmt: skip
    row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    beside = row["peak_rss_bytes"] - weights
    print("| weights, GB | opened in, s | peak, GB | beside the weights, GB | CPU s | useful GFLOP/s a thread |")
    print("| --- | --- | --- | --- | --- | --- |")
    cells = [weights / 1e9, row["open_s"], row["peak_rss_bytes"] / 1e9, beside / 1e9, row["cpu_s"]]
    print("| " + " | ".join(f"{cell:.2f}" for cell in cells) + f" | {row['operations'] / row['cpu_s'] / 1e9:.0f} |")


if __name__ == "__main__":
    main()
