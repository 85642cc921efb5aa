"""Trains EfficientRAG's filter: which words of a query and of what was found make the next query.

    filter.py --rows DIR --out DIR [--base FOLDER]
    filter.py --rows DIR --out DIR --preset small --tokenizer DIR [--base FOLDER] [--shuffle-labels SEED]

Input `[CLS] Query : ... Info : ... ; Info : ... [SEP]`, word by word. The defaults are the paper's, and where it says nothing the
authors' code's: from deberta-v3-large, rate 5e-6 (the code has 1e-5: `--learning-rate 1e-5`), two epochs of batches of 32, 256
pieces, weight decay 0.01, 200 steps of warm-up, linear schedule, a loss over all 256 positions, padding included.
"""

import argparse

import encoders
from encoders import Preset, head, named, parted, states
from fitting import padded
from folder import save
from labeler import CHECKPOINT, PAPER
from rows import read
from torch import nn
from torch.nn import functional

PRESETS = {
    "paper": Preset(0, 32, 5e-6, 0.01, 0.0, "linear", 256, **PAPER),
    "small": Preset(220, 24, 8e-4, 0.01, 0.06, "cosine", 128, layers=3),
}


class Filter(nn.Module):
    def __init__(self, backbone, generator):
        super().__init__()
        self.backbone, self.classifier = backbone, head(backbone.config.hidden_size, 2, generator)
        self.dropout = nn.Dropout(backbone.config.hidden_dropout_prob)

    def forward(self, rows, length=0):
        """Logits `[rows, width, 2]`, and the mask; `length` as `states` has it."""
        hidden, mask = states(self.backbone, rows, length)
        return self.classifier(self.dropout(hidden)), mask


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
    options, preset, generator, log = encoders.begin(parser, PRESETS, CHECKPOINT)
    begun = encoders.opened(options, preset, generator, marks=("info",))
    if options.preset == "small" and options.base:
        # What [SEP] is to the labeler, "info" is here.
        table = begun.backbone.embeddings.word_embeddings.weight.data
        table[begun.pieces.id("info")] = table[begun.pieces.id("[SEP]")]
    model = Filter(begun.backbone, generator).to(options.device)
    rows = read(options.rows / "filter.parquet", "query_info_tokens", "query_info_labels", "question_id")
    rows, aside = parted(rows, options.held_out)
    if options.shuffle_labels is not None:
        # What is held out keeps its labels: it measures what the control has not learned.
        rows = encoders.shuffled_labels(rows, options.shuffle_labels, "query_info_labels")
    examples = [example(begun.pieces, row, preset.pieces) for row in rows]
    held = [example(begun.pieces, row, preset.pieces) for row in aside][:600]
    encoders.note(log, "filter", options, preset, model, examples, held)

    length = preset.pieces if preset.whole else 0

    def loss(batch):
        logits, mask = model([begun.drawn(ids, generator) for ids, _ in batch], length)
        labels = padded([labels for _, labels in batch], length)[0].to(options.device)
        # As the authors count: padding is a label like another; the small preset leaves it out.
        rows = mask.bool() | preset.whole
        value = functional.cross_entropy(logits[rows], labels[rows])
        right = (logits.argmax(dim=-1) == labels) | ~mask.bool()
        return value, {"exact": float(right.all(dim=1).float().mean())}

    def store():
        config = model.backbone.config.to_dict() | {"architectures": ["DebertaV2ForTokenClassification"], "num_labels": 2}
        return save(options.out, named(model.backbone, classifier=model.classifier), config, begun.tokenizer)

    encoders.train(model, examples, held, loss, measured, store, preset, log, generator)


if __name__ == "__main__":
    main()
