"""Writes a model as a Hugging Face folder that `hopeval lm` opens: config.json, model.safetensors in f16, the tokenizer."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

MOST_TEXTS = 200_000  # retold texts are new in each example


def save(out, tensors, config, tokenizer):
    """`tensors` by name, `config` a dictionary, `tokenizer` a folder with a tokenizer.json."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    halves = {name: t.detach().to("cpu", torch.float16).contiguous().clone() for name, t in sorted(tensors.items())}
    for name, tensor in halves.items():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{name} does not fit into f16")
    save_file(halves, str(out / "model.safetensors"), metadata={"format": "pt"})
    config = {k: v for k, v in config.items() if k not in ("dtype", "torch_dtype", "_name_or_path")} | {"dtype": "float16"}
    (out / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        # A checkpoint of another's making may have no tokenizer_config.json; what hopeval reads is the other file.
        if name == "tokenizer.json" or (Path(tokenizer) / name).is_file():
            shutil.copyfile(Path(tokenizer) / name, out / name)
    return sum(f.stat().st_size for f in out.iterdir() if f.name != "README.md")


def read_tokenizer(folder):
    return PreTrainedTokenizerFast.from_pretrained(str(folder))


class Pieces:
    """Ids of texts and of words, each computed once while `MOST_TEXTS` are kept."""

    def __init__(self, folder):
        self.tokenizer = read_tokenizer(folder)._tokenizer
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.texts, self.single = {}, {}

    def text(self, text):
        """Ids without special tokens."""
        if text not in self.texts:
            if len(self.texts) >= MOST_TEXTS:
                self.texts.clear()
            self.texts[text] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self.texts[text]

    def words(self, words):
        """Ids of words, each tokenised on its own, and for each id the position of its word."""
        ids, owners = [], []
        for n, word in enumerate(words):
            if word not in self.single:
                self.single[word] = self.tokenizer.encode(word, add_special_tokens=False).ids
            ids += self.single[word]
            owners += [n] * len(self.single[word])
        return ids, owners

    def id(self, token):
        return self.tokenizer.token_to_id(token)
