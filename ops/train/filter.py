"""Trains EfficientRAG's filter: which words of a query and of what was found make the next query.

    filter.py --rows DIR --tokenizer DIR --out DIR [--preset small] [--base FOLDER] [--shuffle-labels SEED]

Input `[CLS] Query : ... Info : ... ; Info : ... [SEP]`, word by word. The defaults are those of the authors' code: rate 1e-5
(the paper says 5e-6), two epochs of batches of 32, 256 pieces.
"""

import argparse

import encoders
import torch
from encoders import Preset, head, named, parted, states
from fitting import padded
from folder import save
from rows import read
from torch import nn
from torch.nn import functional

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
    encoders.offers_control(parser)
    options, preset, generator, log = encoders.begin(parser, PRESETS)
    begun = encoders.opened(options, preset, generator, marks=("info",))
    if options.preset == "small" and options.base:
        # What [SEP] is to the labeler, "info" is here.
        table = begun.backbone.embeddings.word_embeddings.weight.data
        table[begun.pieces.id("info")] = table[begun.pieces.id("[SEP]")]
    model = Filter(begun.backbone, generator)
    rows = read(options.rows / "filter.parquet", "query_info_tokens", "query_info_labels", "question_id")
    rows, aside = parted(rows, options.held_out)
    if options.shuffle_labels is not None:
        # What is held out keeps its labels: it measures what the control has not learned.
        rows = encoders.shuffled_labels(rows, options.shuffle_labels, "query_info_labels")
    examples = [example(begun.pieces, row, preset.pieces) for row in rows]
    held = [example(begun.pieces, row, preset.pieces) for row in aside][:600]
    encoders.note(log, "filter", options, preset, model, examples, held)

    def loss(batch):
        logits, mask = model([begun.drawn(ids, generator) for ids, _ in batch])
        labels, _ = padded([labels for _, labels in batch])
        # As the authors count: padding is a label like another; the small preset leaves it out.
        rows = mask.bool() if begun.renaming else torch.ones_like(mask).bool()
        value = functional.cross_entropy(logits[rows], labels[rows])
        right = (logits.argmax(dim=-1) == labels) | ~mask.bool()
        return value, {"exact": float(right.all(dim=1).float().mean())}

    def store():
        config = model.backbone.config.to_dict() | {"architectures": ["DebertaV2ForTokenClassification"], "num_labels": 2}
        return save(options.out, named(model.backbone, classifier=model.classifier), config, begun.tokenizer)

    encoders.train(model, examples, held, loss, measured, store, preset, log, generator)


if __name__ == "__main__":
    main()
