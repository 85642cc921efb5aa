"""Finds the checkpoint that a training starts from, and opens it in single precision.

A checkpoint is a folder, or `ORG/NAME` on the Hugging Face hub, which is fetched into the hub's cache (`HF_HOME`) where it is
not there yet; with `HF_HUB_OFFLINE=1` nothing is fetched. Weights may lie in safetensors or in `pytorch_model.bin`, in any
precision: they are trained in f32, because heads are, and because steps of 5e-6 vanish in f16.
"""

import argparse
import json
import re
from pathlib import Path

import torch
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.constants import HF_HUB_OFFLINE
from transformers import AutoConfig, AutoModel

NAME = re.compile(r"[\w.-]+/[\w.-]+")


def device(name):
    """A device of the command line, such as `cpu`, `cuda` or `cuda:1`."""
    try:
        return torch.device(name)
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"{name!r} is no device of torch; cpu, cuda and cuda:1 are such") from None


def offers(parser):
    """The options that say from where a training starts and where it runs."""
    parser.add_argument("--base", help="a checkpoint to start from: a folder, or ORG/NAME on the hub")
    parser.add_argument(
        "--tokenizer", type=Path,
        help="with --preset small the folder of tokenizer.py; else a folder with the checkpoint's tokenizer.json, where --base has none",
    )  # fmt: skip
    parser.add_argument("--device", type=device, default="cpu", help="where batches and model go: cpu, cuda, cuda:1")


def settle(parser, options, default, kinds):
    """Makes `options.base` a folder, of `default` if nothing is named and the preset is the papers'; `kinds` are the
    `model_type`s that will do."""
    if options.preset == "small" and options.tokenizer is None:
        parser.error("--preset small needs --tokenizer: the folder that tokenizer.py made")
    if options.preset != "small" and options.base is None:
        if default is None:
            parser.error(f"--preset {options.preset} needs --base: a folder, or ORG/NAME on the hub")
        options.base = default
    if options.base is not None:
        options.base = folder(options.base, tokenizer=options.preset != "small" and options.tokenizer is None)
        kind = json.loads((options.base / "config.json").read_text()).get("model_type")
        if kind not in kinds:
            raise SystemExit(f"{options.base / 'config.json'}: model_type is {kind!r}; allowed are: {', '.join(kinds)}")


def folder(name, tokenizer=False):
    """The folder of a checkpoint: `name` itself, or what the hub has under it. With `tokenizer` a tokenizer.json must be there."""
    path = Path(name)
    if not path.is_dir():
        # A name on the hub looks like a folder in a folder; where the outer one is there, a folder is meant.
        if not NAME.fullmatch(str(name)) or path.parent.is_dir():
            raise SystemExit(f"{name}: no such folder")
        if not HF_HUB_OFFLINE:
            refuse_lacking(str(name), tokenizer)
        path = fetched(str(name))
    if not (path / "config.json").is_file():
        raise SystemExit(f"{path}: not a model's folder: it has no config.json")
    return path


def refuse_lacking(name, tokenizer):
    """Refuses a checkpoint that lacks what a training needs, before gigabytes of it are fetched."""
    try:
        files = HfApi().list_repo_files(name)
    except Exception:
        return  # The hub says why when it is asked for the files, and what is in the cache already needs no hub.
    weights = [file for file in files if re.fullmatch(r"(model|pytorch_model).*\.(safetensors|bin)", file)]
    wanted = {"config.json": "config.json" in files, "weights (model*.safetensors or pytorch_model*.bin)": bool(weights)}
    lacks = [what for what, there in wanted.items() if not there]
    if lacks:
        raise SystemExit(f"{name}: the hub has no {' and no '.join(lacks)} of it, so nothing was fetched; it has: {', '.join(files)}")
    if tokenizer and "tokenizer.json" not in files:
        hint = (
            f"hint: `hf download {name} --local-dir DIR` fetches it, `hopeval model import DIR --out BASE` makes the file of its "
            "spm.model, spiece.model or vocab.txt; then --base BASE"
        )
        raise SystemExit(f"{name}: the hub has no tokenizer.json of it, which the training needs, so nothing was fetched\n{hint}")


def fetched(name):
    """The folder in the hub's cache, with the weights in one format only: many repositories have them in several."""
    try:
        path = Path(snapshot_download(name, allow_patterns=["*.json", "*.txt", "*.model", "model*.safetensors"]))
        if not any(path.glob("model*.safetensors")):
            path = Path(snapshot_download(name, allow_patterns=["pytorch_model*.bin"], ignore_patterns=["*generator*"]))
    except Exception as error:
        # Whatever the hub's client raises, from a name that is not there to a cable that is not: nothing can be trained.
        raise SystemExit(f"{name}: no such folder, and the hub does not give it: {error}") from error
    return path


def tokenizer(options):
    """The folder of the checkpoint's tokenizer.json: `--tokenizer`, or else that of `--base`."""
    found = options.tokenizer or options.base
    if not (found / "tokenizer.json").is_file():
        hint = f"`hopeval model import {options.base} --out DIR` makes one of spm.model, spiece.model or vocab.txt; then --base DIR"
        raise SystemExit(f"{found}: no tokenizer.json\nhint: {hint}")
    return found


def bare(config):
    """What makes an encoder of transformers without the pooler that BERT's alone has: readers and labelers have one beside it."""
    return {"add_pooling_layer": False} if config.model_type == "bert" else {}


def backbone(path):
    """The encoder of a folder."""
    return opened(AutoModel, path, **bare(AutoConfig.from_pretrained(path)))


def opened(model, path, **settings):
    """The weights of a folder as `model`, a class of transformers, in f32; none may be missing."""
    made, report = model.from_pretrained(path, dtype=torch.float32, output_loading_info=True, **settings)
    missing = sorted(report["missing_keys"])
    if missing:
        raise SystemExit(f"{path}: the weights lack {len(missing)} tensors: {', '.join(missing[:5])}")
    return made
