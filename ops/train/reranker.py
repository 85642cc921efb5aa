"""Trains a cross-encoder: one logit that says whether a text holds a fact that a query asks for.

    reranker.py --rows DIR --out DIR --base FOLDER [--held-out-rows DIR]
    reranker.py --rows DIR --out DIR --preset small --tokenizer DIR [--base FOLDER] [--held-out-rows DIR]

Input `[CLS] query [SEP] text [SEP]`, a passage as `title text`, or one sentence. The head is transformers'
`DebertaV2ForSequenceClassification` with one label: the first state through `pooler.dense`, its activation and
`classifier`. The loss is binary cross-entropy, so a logit above 0 says that the text is of use. Without
`--preset small` all settings are chosen here and no paper's; `--base` must say the checkpoint.

In the small preset a labeler as `--base` gives its heads, too: the pooler as it is, and as classifier its logit for
going on less that for TERMINATE, which already says whether a chunk is of use. Products are in bf16 there, weights in
f32.
"""

import argparse
import contextlib
from dataclasses import dataclass
from pathlib import Path

import encoders
import torch
from encoders import head, named, parted, states
from folder import save
from labeler import PAPER, TAGS
from rows import read
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from transformers.activations import ACT2FN

TAG = TAGS[2]
COLUMNS = ("question_id", "query", "text", "relevance")


@dataclass
class Preset(encoders.Preset):
    text: int = 512  # pieces of the text at most
    products: str = "f32"  # of matrices: `f32` or `bf16`


PRESETS = {
    "paper": Preset(0, 32, 1e-5, 0.01, 0.0, "linear", 512, **PAPER | {"whole": False}),
    "small": Preset(500, 16, 8e-4, 0.01, 0.06, "cosine", 256, layers=3, text=144, products="bf16"),
}


class Reranker(nn.Module):
    def __init__(self, backbone, products, generator):
        super().__init__()
        hidden = backbone.config.hidden_size
        self.backbone, self.products = backbone, products
        self.pooler = head(hidden, hidden, generator)
        self.classifier = head(hidden, 1, generator)
        self.activation = ACT2FN[backbone.config.pooler_hidden_act]
        self.dropout = nn.Dropout(backbone.config.hidden_dropout_prob)

    def forward(self, rows):
        """The logit of each row `[rows]`, in f32."""
        device = self.backbone.device.type
        products = torch.autocast(device, dtype=torch.bfloat16) if self.products == "bf16" else contextlib.nullcontext()
        with products:
            first = states(self.backbone, rows)[0][:, 0]
        pooled = self.activation(self.pooler(self.dropout(first.float())))
        return self.classifier(self.dropout(pooled)).squeeze(-1)

    def tensors(self):
        pooler = {f"pooler.dense.{n}": t for n, t in self.pooler.state_dict().items()}
        return named(self.backbone, classifier=self.classifier) | pooler


def adopt_heads(model, folder):
    """Takes over a labeler's pooler and the difference of its two tags, or a reranker's heads."""
    encoders.adopt(model.pooler, folder, "pooler.dense.")
    tensors = load_file(str(folder / "model.safetensors"))
    if "sequence_classifier.weight" not in tensors:
        encoders.adopt(model.classifier, folder, "classifier.")
        return
    with torch.no_grad():
        for name, parameter in model.classifier.named_parameters():
            tags = tensors[f"sequence_classifier.{name}"].float()
            parameter.copy_((tags[TAG["CONTINUE"]] - tags[TAG["TERMINATE"]]).reshape(parameter.shape))


def example(pieces, row, preset):
    """Ids and relevance."""
    cls, sep = pieces.id("[CLS]"), pieces.id("[SEP]")
    ids = [cls, *pieces.text(row["query"]), sep, *pieces.text(row["text"])[: preset.text]]
    return ids[: preset.pieces - 1] + [sep], row["relevance"]


def measured(model, examples, size=32):
    """The shares of relevant and of other texts whose logit is above 0, and how often one of those stands above one of
    these."""
    logits = [[], []]
    for start in range(0, len(examples), size):
        part = examples[start : start + size]
        for logit, (_, relevance) in zip(model([ids for ids, _ in part]).tolist(), part):
            logits[relevance].append(logit)
    without, holding = map(torch.tensor, logits)
    pairs = (holding.unsqueeze(1) > without).float().mean() if len(holding) and len(without) else torch.tensor(0.0)
    return {
        "relevant_above_0": round(float((holding > 0).float().sum()) / max(1, len(holding)), 4),
        "others_above_0": round(float((without > 0).float().sum()) / max(1, len(without)), 4),
        "ordered_pairs": round(float(pairs), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measures = "rows of another world to measure on, in place of --held-out"
    parser.add_argument("--held-out-rows", type=Path, help=measures)
    options, preset, generator, log = encoders.begin(parser, PRESETS, None)
    begun = encoders.opened(options, preset, generator)
    model = Reranker(begun.backbone, preset.products, generator)
    if options.preset == "small" and options.base:
        adopt_heads(model, options.base)
    model.to(options.device)
    rows = read(options.rows / "reranker.parquet", *COLUMNS)
    if options.held_out_rows:
        aside = read(options.held_out_rows / "reranker.parquet", *COLUMNS)
    else:
        rows, aside = parted(rows, options.held_out)
    examples = [example(begun.pieces, row, preset) for row in rows]
    held = [example(begun.pieces, row, preset) for row in aside[:600]]
    encoders.note(log, "reranker", options, preset, model, examples, held)

    def loss(batch):
        logits = model([begun.drawn(ids, generator) for ids, _ in batch])
        wanted = torch.tensor([float(relevance) for _, relevance in batch], device=options.device)
        value = functional.binary_cross_entropy_with_logits(logits, wanted)
        return value, {"accuracy": float(((logits > 0) == (wanted > 0)).float().mean())}

    def store():
        config = model.backbone.config.to_dict() | {
            "architectures": ["DebertaV2ForSequenceClassification"],
            "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0},
            "num_labels": 1,
        }
        return save(options.out, model.tensors(), config, begun.tokenizer)

    encoders.train(model, examples, held, loss, measured, store, preset, log, generator)


if __name__ == "__main__":
    main()
