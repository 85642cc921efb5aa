#!/usr/bin/env python3
"""Makes checkpoints of real sizes with random weights, stored as bfloat16, drawn on the device: nothing is downloaded.

Why: speed and rounding depend on sizes, not on what a model has learnt. Names and shapes are transformers' own, from a model
that is built without memory; tensors are drawn one by one from a seed and the tensor's place, and stored as published files
are: T5's head beside its embeddings (transformers 5 ties them at construction, and un-ties on load only if the file holds
both and they differ), GPT-2's tied head left out.

Projections keep the scale of their input, norms and biases are not trivial, logits spread by about two, as in
`ops/lm/real_models.py`, which makes the base models.

Usage: checkpoints.py FOLDER DEVICE real|tiny NAME...; folders that are there already stay.
"""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lm"))

NAMES = ("t5-xl", "gpt2-xl", "deberta-v3-large-labeler", "deberta-v3-large-filter")


def build(name, tiny):
    """A model without memory."""
    import torch
    import transformers as t

    with torch.device("meta"):
        if name == "t5-xl":
            sizes = {"d_model": 64, "d_kv": 32, "d_ff": 96, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2}
            if not tiny:
                sizes = {"d_model": 2048, "d_kv": 64, "d_ff": 5120, "num_layers": 24, "num_decoder_layers": 24, "num_heads": 32}
            return t.T5ForConditionalGeneration(
                t.T5Config(
                    **sizes,
                    vocab_size=32128,
                    feed_forward_proj="gated-gelu",
                    tie_word_embeddings=False,
                    decoder_start_token_id=0,
                )  # fmt: skip
            )
        if name == "gpt2-xl":
            sizes = {"n_embd": 64, "n_layer": 2, "n_head": 2} if tiny else {"n_embd": 1600, "n_layer": 48, "n_head": 25}
            return t.GPT2LMHeadModel(t.GPT2Config(**sizes))
        from efficientrag import DebertaForSequenceTokenClassification

        sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96}
        if not tiny:
            sizes = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
        config = t.DebertaV2Config(
            **sizes, pooler_hidden_size=sizes["hidden_size"], vocab_size=128100, max_position_embeddings=512, type_vocab_size=0,
            relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True,
            pos_att_type=["p2c", "c2p"], layer_norm_eps=1e-7, max_relative_positions=-1, position_biased_input=False, num_labels=2,
        )  # fmt: skip
        labeler = name.endswith("labeler")
        return (DebertaForSequenceTokenClassification if labeler else t.DebertaV2ForTokenClassification)(config)


def stored(name):
    """Whether a file holds this tensor, rather than another that it is tied to."""
    return "embed_tokens" not in name


def draw(name, shape, config, device, generator):
    import torch

    tensor = torch.randn(shape, device=device, dtype=torch.float32, generator=generator)
    if len(shape) == 1:
        tensor *= 0.1
        if ("norm" in name.lower() or "ln_" in name) and name.endswith("weight"):
            tensor += 1
    elif "relative_attention_bias" in name or name == "shared.weight":
        pass
    elif "embed" in name or "wte" in name or "wpe" in name or name == "lm_head.weight":
        tensor *= 2 / shape[1] ** 0.5
    else:
        # GPT-2 stores [into, out]; all others [out, into].
        tensor *= (shape[0] if ".c_" in name else shape[1]) ** -0.5
        if name.endswith("Attention.q.weight"):
            # T5 does not divide products of queries and keys.
            tensor *= config.d_kv**-0.5
    return tensor.to(torch.bfloat16).cpu()


def make(folder, name, device, tiny):
    import torch
    from safetensors.torch import save_file

    model = build(name, tiny)
    shapes = {n: tuple(p.shape) for n, p in model.named_parameters() if stored(n)}
    if name == "t5-xl":
        shapes["lm_head.weight"] = shapes["shared.weight"]
    tensors = {}
    for number, (tensor, shape) in enumerate(sorted(shapes.items())):
        generator = torch.Generator(device).manual_seed(1000 * NAMES.index(name) + number)
        tensors[tensor] = draw(tensor, shape, model.config, device, generator)
    part = folder / f"{name}.part"
    part.mkdir(parents=True, exist_ok=True)
    save_file(tensors, part / "model.safetensors", metadata={"format": "pt"})
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(part)
    config = json.loads((part / "config.json").read_text()) | {"dtype": "bfloat16"}
    if name == "t5-xl":
        # As the published files say it; transformers 5 would write that the head is tied.
        config.pop("scale_decoder_outputs", None)
        config["tie_word_embeddings"] = False
    (part / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    part.rename(folder / name)
    return sum(tensor.numel() for tensor in tensors.values())


def main():
    import torch

    folder, device, size, *names = sys.argv[1:]
    folder = pathlib.Path(folder)
    torch.set_grad_enabled(False)
    for name in names:
        begun = time.perf_counter()
        if name not in NAMES:
            raise SystemExit(f"no model {name}; there are {', '.join(NAMES)}")
        if (folder / name).exists():
            continue
        numbers = make(folder, name, device, size == "tiny")
        print(json.dumps({"model": name, "parameters": numbers, "seconds": time.perf_counter() - begun}), flush=True)


if __name__ == "__main__":
    main()
