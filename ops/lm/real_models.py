#!/usr/bin/env python3
"""Models of real sizes with random weights, for parity and for speed: nothing is downloaded.

Why: times, memory and rounding depend on the sizes of a model, not on what it has learnt.

What: writes GPT-2 small, T5 v1.1 base with a head of its own, DeBERTa v3 base for token classification and BERT base as
transformers saves them, into folders of those names; those that are there already stay. Projections keep the scale of
their input and norms and biases are not trivial, so that a wrong or forgotten one shows in the outputs.

Knobs: the folder, names of models (default all), --positions of GPT-2. About 2.7 GB on disk and 2 GB of memory.

Needs Python 3.11 with torch, transformers and numpy.
"""

import argparse
import json
import pathlib

NAMES = ("gpt2", "t5-v1.1-base", "deberta-v3-base", "bert-base")


def build(name, positions=1024):
    import torch
    import transformers as t

    torch.set_grad_enabled(False)
    if name == "gpt2":
        return t.GPT2LMHeadModel(t.GPT2Config(n_positions=positions))
    if name == "t5-v1.1-base":
        config = t.T5Config(
            vocab_size=32128, d_model=768, d_kv=64, d_ff=2048, num_layers=12, num_decoder_layers=12, num_heads=12,
            feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0,
        )  # fmt: skip
        model = t.T5ForConditionalGeneration(config)
        # transformers 5 ties the head at construction whatever the configuration says.
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
        return model
    if name == "deberta-v3-base":
        config = t.DebertaV2Config(
            vocab_size=128100, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
            max_position_embeddings=512, type_vocab_size=0, relative_attention=True, position_buckets=256,
            norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], layer_norm_eps=1e-7,
            max_relative_positions=-1, position_biased_input=False, num_labels=2,
        )  # fmt: skip
        return t.DebertaV2ForTokenClassification(config)
    return t.BertModel(t.BertConfig(), add_pooling_layer=False)


def randomise(model, seed):
    import numpy as np
    import torch

    random = np.random.default_rng(seed)
    for name, tensor in sorted(model.named_parameters()):
        shape = tuple(tensor.shape)
        draw = random.standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            draw *= 0.1
            if ("norm" in name.lower() or "ln_" in name) and name.endswith("weight"):
                draw += 1
        elif "relative_attention_bias" in name:
            pass
        elif "embed" in name or "wte" in name or "wpe" in name or name in ("shared.weight", "lm_head.weight"):
            # The logits of a tied head spread by 2 or so; T5's own embeddings have no norm before the first layer.
            draw *= 1.0 if name == "shared.weight" else 0.07
        else:
            # GPT-2 stores [into, out]; all others [out, into].
            draw /= (shape[0] if ".c_" in name else shape[1]) ** 0.5
            if name.endswith("Attention.q.weight"):
                draw /= model.config.d_kv**0.5
        tensor.copy_(torch.from_numpy(draw))


def make(folder, name, seed, positions=1024):
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = build(name, positions).eval()
    randomise(model, seed)
    part = folder / f"{name}.part"
    model.save_pretrained(part)
    if name.startswith("t5"):
        # As the published files say it; transformers 5 would write that the head is tied.
        config = json.loads((part / "config.json").read_text())
        config.pop("scale_decoder_outputs", None)
        (part / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}, indent=2) + "\n")
    part.rename(folder / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--positions", type=int, default=1024, help="of GPT-2")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        if name not in NAMES:
            parser.error(f"no model {name}; there are {', '.join(NAMES)}")
        config = options.folder / name / "config.json"
        there = json.loads(config.read_text()) if config.exists() else {}
        if there.get("n_positions", options.positions) != options.positions:
            parser.error(f"{config.parent} has {there['n_positions']} positions")
        if not (options.folder / name).exists():
            make(options.folder, name, NAMES.index(name), options.positions)
            print(f"made {options.folder / name}", flush=True)


if __name__ == "__main__":
    main()
