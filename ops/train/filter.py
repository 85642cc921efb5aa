"""Trains EfficientRAG's filter: which words of a query and of what was found make the next query.

    filter.py --rows DIR --tokenizer DIR --out DIR [--preset small] [--base FOLDER]

Input `[CLS] Query : ... Info : ... ; Info : ... [SEP]`, word by word. The defaults are those of the authors' code: rate 1e-5
(the paper says 5e-6), two epochs of batches of 32, 256 pieces.
"""

import argparse
from dataclasses import dataclass

import torch
from encoders import adopt, applied, arguments, head, named, parted, small, states
from fitting import Log, determine, fit, padded, shuffled
from folder import Pieces, save
from renaming import Renaming
from rows import read
from torch import nn
from torch.nn import functional
from transformers import DebertaV2Model, logging


@dataclass
class Preset:
    steps: int
    rows: int
    learning_rate: float
    weight_decay: float
    warm_up: float
    schedule: str
    pieces: int
    layers: int = 0
    tables: float = 1.0  # share of the rate at which the tables of pieces learn
    wired: tuple = ()  # parts of names of what learns as slowly as the tables
    seconds: float = 0.0
    betas: tuple = (0.9, 0.98)
    clip: float = 1.0
    log_every: int = 20
    evaluate_every: int = 0


PRESETS = {
    "paper": Preset(5_000, 32, 1e-5, 0.01, 0.04, "linear", 256, betas=(0.9, 0.999)),
    "small": Preset(220, 24, 8e-4, 0.01, 0.06, "cosine", 128, layers=3),
}


class Filter(nn.Module):
    def __init__(self, backbone, generator):
        super().__init__()
        self.backbone, self.classifier = backbone, head(backbone.config.hidden_size, 2, generator)

    def forward(self, rows):
        hidden, mask = states(self.backbone, rows)
        return self.classifier(hidden), mask


def sequence(pieces, tokens, most):
    ids, owners = pieces.words(tokens)
    ids = [pieces.id("[CLS]"), *ids, pieces.id("[SEP]")]
    return ids[:most], [-1, *owners, -1][:most]


def example(pieces, row, most):
    ids, of = sequence(pieces, row["query_info_tokens"], most)
    return ids, [int(row["query_info_labels"][n]) if n >= 0 else 0 for n in of]


def measured(model, examples, size=64):
    """F1 of kept pieces, and the share of rows that are right altogether."""
    tp = wrong = whole = 0
    for start in range(0, len(examples), size):
        part = examples[start : start + size]
        logits, _ = model([ids for ids, _ in part])
        for n, (ids, labels) in enumerate(part):
            kept = logits[n, : len(ids)].argmax(dim=-1).tolist()
            tp += sum(k == w == 1 for k, w in zip(kept, labels))
            wrong += sum(k != w for k, w in zip(kept, labels))
            whole += kept == labels
    return {"keep_f1": round(2 * tp / max(1, 2 * tp + wrong), 4), "exact": round(whole / max(1, len(examples)), 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = arguments(parser, PRESETS)
    logging.set_verbosity_error()
    generator = determine(options.seed, options.threads)
    preset = applied(PRESETS[options.preset], options)
    options.out.mkdir(parents=True, exist_ok=True)
    log = Log(options.out / "training.jsonl")
    if options.preset == "small":
        tokenizer = options.tokenizer / "bert"
        pieces, renaming = Pieces(tokenizer), Renaming(options.tokenizer / "layout.json")
        backbone = small(renaming.size, generator, pieces, preset.layers, marks=("info",))
        if options.base:
            adopt(backbone, options.base)
            # What [SEP] is to the labeler, "info" is here.
            table = backbone.embeddings.word_embeddings.weight.data
            table[pieces.id("info")] = table[pieces.id("[SEP]")]
    else:
        tokenizer, renaming = options.base, None
        pieces, backbone = Pieces(tokenizer), DebertaV2Model.from_pretrained(options.base)
    model = Filter(backbone, generator)
    rows = read(options.rows / "filter.parquet", "query_info_tokens", "query_info_labels", "question_id")
    rows, aside = parted(rows, options.held_out)
    examples = [example(pieces, row, preset.pieces) for row in rows]
    held = [example(pieces, row, preset.pieces) for row in aside][:600]
    log.write(
        model="filter", preset=options.preset, seed=options.seed, rows=len(examples), held_out=len(held),
        parameters=sum(p.numel() for p in model.parameters()), settings=vars(preset),
    )  # fmt: skip

    def batches():
        for part in shuffled(len(examples), preset.rows, [len(e[0]) for e in examples], generator):
            yield [examples[n] for n in part]

    def loss(batch):
        given = [renaming.draw(generator)[torch.tensor(ids)] if renaming else ids for ids, _ in batch]
        logits, mask = model(given)
        labels, _ = padded([labels for _, labels in batch])
        # As the authors count: padding is a label like another; the small preset leaves it out.
        rows = mask.bool() if renaming else torch.ones_like(mask).bool()
        value = functional.cross_entropy(logits[rows], labels[rows])
        right = (logits.argmax(dim=-1) == labels) | ~mask.bool()
        return value, {"exact": float(right.all(dim=1).float().mean())}

    def evaluate():
        store(model, options, tokenizer)
        return measured(model, held)

    fit(model, batches, loss, preset, log, evaluate)
    store(model, options, tokenizer)


def store(model, options, tokenizer):
    config = model.backbone.config.to_dict() | {"architectures": ["DebertaV2ForTokenClassification"], "num_labels": 2}
    return save(options.out, named(model.backbone, classifier=model.classifier), config, tokenizer)


if __name__ == "__main__":
    main()
