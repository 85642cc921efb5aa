"""Trains EfficientRAG's labeler: which words of a chunk to keep, and whether the chunk is of use at all.

    labeler.py --rows DIR --tokenizer DIR --out DIR [--preset small] [--base FOLDER] [--tags 2|3] [--shuffle-labels SEED]

Input `[CLS] query words [SEP] chunk words [SEP]`, each word tokenised on its own. The defaults are those of the authors: from
deberta-v3-large, rate 5e-6, two epochs of batches of 32, 384 pieces, weight decay 0.01, 200 steps of warm-up, linear schedule;
the words count only in rows whose tag is predicted as something other than TERMINATE. In the small preset they count in rows
whose tag is so, and kept words weigh more, since they are few.
"""

import argparse
from dataclasses import dataclass

import encoders
import torch
from encoders import head, named, parted, states
from fitting import padded
from folder import save
from rows import read
from torch import nn
from torch.nn import functional
from worlds import words

TAGS = {2: {"CONTINUE": 0, "FINISH": 0, "TERMINATE": 1}, 3: {"CONTINUE": 0, "TERMINATE": 1, "FINISH": 2}}


@dataclass
class Preset(encoders.Preset):
    keep_weight: float = 1.0  # of kept words
    predicted: bool = True  # words count where the predicted tag, not the given one, is not TERMINATE


PRESETS = {
    "paper": Preset(10_000, 32, 5e-6, 0.01, 0.02, "linear", 384, betas=(0.9, 0.999)),
    "small": Preset(1_400, 16, 1e-3, 0.01, 0.06, "cosine", 256, layers=3, keep_weight=3.0, predicted=False),
}


class Labeler(nn.Module):
    def __init__(self, backbone, tags, generator):
        super().__init__()
        hidden = backbone.config.hidden_size
        self.backbone = backbone
        self.pooler = head(hidden, hidden, generator)
        self.sequence = head(hidden, tags, generator)
        self.token = head(hidden, 2, generator)

    def forward(self, rows):
        hidden, mask = states(self.backbone, rows)
        pooled = functional.gelu(self.pooler(hidden[:, 0]))
        return self.token(hidden), self.sequence(pooled), mask

    def tensors(self):
        tensors = named(self.backbone, sequence_classifier=self.sequence, token_classifier=self.token)
        return tensors | {f"pooler.dense.{n}": t for n, t in self.pooler.state_dict().items()}


def sequence(pieces, query, chunk, most):
    """Ids, the word of the chunk that each is of (-1 for none)."""
    asked, _ = pieces.words(query)
    told, owners = pieces.words(chunk)
    cls, sep = pieces.id("[CLS]"), pieces.id("[SEP]")
    ids = [cls, *asked, sep, *told, sep]
    of = [-1] * (len(asked) + 2) + owners + [-1]
    return ids[:most], of[:most]


def example(pieces, row, most, tags):
    ids, of = sequence(pieces, words(row["question"]), row["chunk_tokens"], most)
    labels = [int(row["labels"][n]) if n >= 0 else 0 for n in of]
    return ids, labels, tags[row["tag"].strip("<>").upper()]


def measured(model, examples, size=32):
    """F1 of kept words' pieces in rows that are not TERMINATE, accuracy of tags, recall and precision of being of use."""
    right = tp = fp = fn = useful = found = claimed = 0
    for start in range(0, len(examples), size):
        part = examples[start : start + size]
        token, tag, _ = model([ids for ids, _, _ in part])
        for n, (ids, labels, wanted) in enumerate(part):
            given = int(tag[n].argmax())
            right += given == wanted
            useful += wanted != 1
            claimed += given != 1
            found += wanted != 1 and given != 1
            if wanted != 1:
                kept = token[n, : len(ids)].argmax(dim=-1).tolist()
                tp += sum(k == 1 and w == 1 for k, w in zip(kept, labels))
                fp += sum(k == 1 and w == 0 for k, w in zip(kept, labels))
                fn += sum(k == 0 and w == 1 for k, w in zip(kept, labels))
    return {
        "tag_accuracy": round(right / max(1, len(examples)), 4),
        "useful_recall": round(found / max(1, useful), 4),
        "useful_precision": round(found / max(1, claimed), 4),
        "keep_f1": round(2 * tp / max(1, 2 * tp + fp + fn), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tags", type=int, choices=TAGS, default=2)
    encoders.offers_control(parser)
    options, preset, generator, log = encoders.begin(parser, PRESETS)
    tags, begun = TAGS[options.tags], encoders.opened(options, preset, generator)
    model = Labeler(begun.backbone, options.tags, generator)
    if options.preset == "small" and options.base:
        # Of a labeler, the heads too.
        heads = {"pooler.dense.": model.pooler, "sequence_classifier.": model.sequence, "token_classifier.": model.token}
        for prefix, head_of in heads.items():
            encoders.adopt(head_of, options.base, prefix)
    rows = read(options.rows / "labeler.parquet", "question", "chunk_tokens", "labels", "tag", "question_id")
    rows, aside = parted(rows, options.held_out)
    if options.shuffle_labels is not None:
        # What is held out keeps its labels: it measures what the control has not learned.
        rows = encoders.shuffled_labels(rows, options.shuffle_labels, "labels", "tag")
    examples = [example(begun.pieces, row, preset.pieces, tags) for row in rows]
    held = [example(begun.pieces, row, preset.pieces, tags) for row in aside][:600]
    encoders.note(log, "labeler", options, preset, model, examples, held)
    weights = torch.tensor([1.0, preset.keep_weight])

    def loss(batch):
        token, tag, _ = model([begun.drawn(ids, generator) for ids, _, _ in batch])
        labels, mask = padded([labels for _, labels, _ in batch])
        wanted = torch.tensor([tag for _, _, tag in batch])
        counts = (tag.argmax(dim=-1) if preset.predicted else wanted) != 1
        # As the authors count: padding is a label like another; the small preset leaves it out.
        rows = counts.unsqueeze(1).expand_as(labels) & (mask.bool() | preset.predicted)
        words_loss = functional.cross_entropy(token[rows], labels[rows], weight=weights) if rows.any() else token.sum() * 0
        tag_loss = functional.cross_entropy(tag, wanted)
        right = float((tag.argmax(dim=-1) == wanted).float().mean())
        return words_loss + tag_loss, {"words": float(words_loss.detach()), "tags": float(tag_loss.detach()), "tag_accuracy": right}

    def store():
        config = model.backbone.config.to_dict() | {
            "architectures": ["DebertaV2ForSequenceTokenClassification"],
            "classifier_pooling": "cls",
            "num_labels": 2,
        }
        return save(options.out, model.tensors(), config, begun.tokenizer)

    encoders.train(model, examples, held, loss, measured, store, preset, log, generator)


if __name__ == "__main__":
    main()
