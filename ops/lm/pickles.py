#!/usr/bin/env python3
"""Writes engine/checkpoint/tests/pickles: files of torch.save in every shape that the importer must read, or refuse.

Why: what PyTorch writes is defined by what PyTorch writes. The folders are small; `expected.safetensors` in each is what the
import must give, written by the safetensors library.

    python3 ops/lm/pickles.py engine/checkpoint/tests/pickles

Needs: torch, safetensors. Nothing to tune; the same numbers every time.
"""

import collections
import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

torch.manual_seed(0)


def state() -> collections.OrderedDict:
    """Tensors of every kind that checkpoints hold."""
    base = torch.randn(6, 5)
    shared = torch.arange(24, dtype=torch.float32)
    embedding = torch.randn(7, 4)
    tensors = collections.OrderedDict()
    tensors["shared.weight"] = embedding
    tensors["matrix"] = torch.randn(3, 4)
    tensors["transposed"] = base.t()
    tensors["strided"] = base[::2, 1::3]
    tensors["three"] = torch.randn(2, 3, 4).permute(2, 0, 1)
    tensors["lm_head.weight"] = embedding
    tensors["query"] = shared[:12].view(3, 4)
    tensors["key"] = shared[12:].view(3, 4)
    tensors["half"] = torch.randn(5).half()
    tensors["brain"] = torch.randn(2, 3).bfloat16().t()
    tensors["double"] = torch.randn(3, 2, dtype=torch.float64).t()
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 4)
    tensors["parameter"] = torch.nn.Parameter(torch.randn(2, 2))
    tensors["embeddings.position_ids"] = torch.arange(5).expand(1, -1)
    tensors["attn.bias"] = torch.tril(torch.ones(3, 3, dtype=torch.bool))
    tensors._metadata = collections.OrderedDict({"": {"version": 1}, "layer": {"version": 2}})
    return tensors


def expected(tensors: dict, tied: bool = True) -> dict:
    """What the import writes."""
    weights = {}
    for name, tensor in tensors.items():
        if not tensor.dtype.is_floating_point or (tied and name == "lm_head.weight"):
            continue
        tensor = tensor.detach().float() if tensor.dtype == torch.float64 else tensor.detach()
        weights[name] = tensor.contiguous().clone()
    return weights


def folder(out: Path, name: str, config: dict | None = None) -> Path:
    path = out / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config or {"model_type": "t5"}))
    return path


class Command:
    """What a hostile pickle does: runs a command where it is loaded."""

    def __reduce__(self):
        return os.system, ("touch hopeval-pickle-was-run",)


def main() -> None:
    out = Path(sys.argv[1])
    tensors = state()
    for name, zipped, config in [
        ("zip", True, None), ("legacy", False, None), ("untied", True, {"model_type": "t5", "tie_word_embeddings": False}),
    ]:
        path = folder(out, name, config)
        torch.save(tensors, path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        save_file(expected(tensors, tied=name != "untied"), path / "expected.safetensors")
    path = folder(out, "protocol-4")
    torch.save(dict(tensors), path / "pytorch_model.bin", pickle_protocol=4)
    save_file(expected(tensors), path / "expected.safetensors")
    path = folder(out, "sharded")
    names = list(tensors)
    weight_map = {}
    for number, part in enumerate([names[:8], names[8:]], 1):
        file = f"pytorch_model-{number:05}-of-00002.bin"
        torch.save({name: tensors[name] for name in part}, path / file)
        weight_map |= dict.fromkeys(part, file)
    (path / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    save_file(expected(tensors), path / "expected.safetensors")
    for name, zipped in [("evil-zip", True), ("evil-legacy", False)]:
        path = folder(out, name)
        torch.save({"weight": torch.ones(2), "x": Command()}, path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    path = folder(out, "whole-model")
    torch.save(torch.nn.Linear(2, 2), path / "pytorch_model.bin")
    path = folder(out, "no-tensors")
    torch.save({"epoch": 3, "model": {"weight": torch.ones(2)}}, path / "pytorch_model.bin")


if __name__ == "__main__":
    main()
