"""Trains EfficientRAG's labeler: which words of a chunk to keep, and whether the chunk is of use at all.

    labeler.py --rows DIR --out DIR [--base FOLDER] [--tags 2|3] [--pooling mean|cls] [--keep-weights A,B]
    labeler.py --rows DIR --out DIR --preset small --tokenizer DIR [--base FOLDER] [--shuffle-labels SEED]

Input `[CLS] query words [SEP] chunk words [SEP]`, each word tokenised on its own. The defaults are the paper's, and where it says
nothing the authors' code's: from deberta-v3-large, rate 5e-6, two epochs of batches of 32, 384 pieces, weight decay 0.01, 200
steps of warm-up, linear schedule. The words count in rows whose tag is predicted as something other than TERMINATE, over all
384 positions, padding included, which is to be dropped. The tag is a linear layer on the mean state (section 3.1). (A batch of
32 is one device's in the code; on how many of the paper's four GPUs it ran the paper does not say.)

Where the authors' code does otherwise: `--pooling cls` takes the first position's state through `pooler.dense`; `--keep-weights`
weighs words to drop and to keep, 0.51,25.32 (2WikiMultihopQA), 0.51,25.45 (MuSiQue) or 1,1 (HotpotQA) with its
`--weight_average`, 1,1 without.

In the small preset the words count in rows whose tag is not TERMINATE, without padding; kept words weigh 3, since they are few.
"""

import argparse
from dataclasses import dataclass

import encoders
import torch
from encoders import averaged, head, named, parted, states
from fitting import padded
from folder import save
from rows import read
from torch import nn
from torch.nn import functional
from worlds import words

TAGS = {2: {"CONTINUE": 0, "FINISH": 0, "TERMINATE": 1}, 3: {"CONTINUE": 0, "TERMINATE": 1, "FINISH": 2}}


@dataclass
class Preset(encoders.Preset):
    pooling: str = "mean"  # of the states that the tag is told from: `mean` of all, or `cls`, the first through `pooler.dense`
    keep_weights: tuple = (1.0, 1.0)  # of words to drop and to keep
    predicted: bool = True  # words count where the predicted tag, not the given one, is not TERMINATE


PAPER = {"betas": (0.9, 0.999), "epochs": 2, "warm_up_steps": 200, "decaying_tables": True, "whole": True}
PRESETS = {
    "paper": Preset(0, 32, 5e-6, 0.01, 0.0, "linear", 384, **PAPER),
    "small": Preset(1_400, 16, 1e-3, 0.01, 0.06, "cosine", 256, layers=3, pooling="cls", keep_weights=(1.0, 3.0), predicted=False),
}
CHECKPOINT = "microsoft/deberta-v3-large"


class Labeler(nn.Module):
    def __init__(self, backbone, tags, pooling, generator):
        super().__init__()
        hidden, dropout = backbone.config.hidden_size, backbone.config.hidden_dropout_prob
        self.backbone = backbone
        self.pooler = head(hidden, hidden, generator) if pooling == "cls" else None
        self.sequence = head(hidden, tags, generator)
        self.token = head(hidden, 2, generator)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows, length=0):
        """Logits of words `[rows, width, 2]` and of tags `[rows, tags]`, and the mask; `length` as `states` has it."""
        hidden, mask = states(self.backbone, rows, length)
        pooled = functional.gelu(self.pooler(hidden[:, 0])) if self.pooler else averaged(hidden, mask)
        return self.token(self.dropout(hidden)), self.sequence(self.dropout(pooled)), mask

    def tensors(self):
        """Under the names that hopeval reads; it tells the pooling by `classifier_pooling`, and projects if there is a `pooler.dense`."""
        tensors = named(self.backbone, sequence_classifier=self.sequence, token_classifier=self.token)
        projection = self.pooler.state_dict() if self.pooler else {}
        return tensors | {f"pooler.dense.{n}": t for n, t in projection.items()}


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


def weights(text):
    """Two weights of the command line, `A,B`."""
    try:
        drop, keep = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; two numbers are, as in 0.51,25.45") from None
    return drop, keep


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tags", type=int, choices=TAGS, default=2)
    parser.add_argument("--pooling", choices=("mean", "cls"), help="of the states that the tag is told from")
    parser.add_argument("--keep-weights", type=weights, metavar="A,B", help="of words to drop and to keep")
    encoders.offers_control(parser)
    options, preset, generator, log = encoders.begin(parser, PRESETS, CHECKPOINT)
    preset.pooling, preset.keep_weights = options.pooling or preset.pooling, options.keep_weights or preset.keep_weights
    tags, begun = TAGS[options.tags], encoders.opened(options, preset, generator)
    model = Labeler(begun.backbone, options.tags, preset.pooling, generator)
    if options.preset == "small" and options.base:
        # Of a labeler, the heads too.
        heads = {"pooler.dense.": model.pooler, "sequence_classifier.": model.sequence, "token_classifier.": model.token}
        for prefix, head_of in heads.items():
            if head_of:
                encoders.adopt(head_of, options.base, prefix)
    model.to(options.device)
    rows = read(options.rows / "labeler.parquet", "question", "chunk_tokens", "labels", "tag", "question_id")
    rows, aside = parted(rows, options.held_out)
    if options.shuffle_labels is not None:
        # What is held out keeps its labels: it measures what the control has not learned.
        rows = encoders.shuffled_labels(rows, options.shuffle_labels, "labels", "tag")
    examples = [example(begun.pieces, row, preset.pieces, tags) for row in rows]
    held = [example(begun.pieces, row, preset.pieces, tags) for row in aside][:600]
    encoders.note(log, "labeler", options, preset, model, examples, held)
    of_words = torch.tensor(preset.keep_weights, device=options.device)
    length = preset.pieces if preset.whole else 0

    def loss(batch):
        token, tag, mask = model([begun.drawn(ids, generator) for ids, _, _ in batch], length)
        labels = padded([labels for _, labels, _ in batch], length)[0].to(options.device)
        wanted = torch.tensor([tag for _, _, tag in batch], device=options.device)
        counts = (tag.argmax(dim=-1) if preset.predicted else wanted) != 1
        # As the authors count: padding is a label like another; the small preset leaves it out.
        rows = counts.unsqueeze(1).expand_as(labels) & (mask.bool() | preset.whole)
        words_loss = functional.cross_entropy(token[rows], labels[rows], weight=of_words) if rows.any() else token.sum() * 0
        tag_loss = functional.cross_entropy(tag, wanted)
        right = float((tag.argmax(dim=-1) == wanted).float().mean())
        return words_loss + tag_loss, {"words": float(words_loss.detach()), "tags": float(tag_loss.detach()), "tag_accuracy": right}

    def store():
        config = model.backbone.config.to_dict() | {
            "architectures": ["DebertaV2ForSequenceTokenClassification"],
            "classifier_pooling": preset.pooling,
            "pooler_hidden_act": "gelu",
            "num_labels": 2,
        }
        return save(options.out, model.tensors(), config, begun.tokenizer)

    encoders.train(model, examples, held, loss, measured, store, preset, log, generator)


if __name__ == "__main__":
    main()
