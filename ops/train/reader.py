"""Trains the reader: the span of a path's passages that answers the question, and whether the passages hold the answer.

    reader.py --rows DIR --out DIR [--base FOLDER]
    reader.py --rows DIR --out DIR --preset small --tokenizer DIR [--base FOLDER]

Input `[CLS] question [SEP] yes no passage 1 passage 2 ... [SEP]`: the context begins with the two words, so that yes and no are
spans like others, and a rank head (`pooler.dense`, tanh, `rank`) says how likely the passages hold the answer (MDR, Xiong et
al. 2021). An answer that occurs several times is right wherever it stands: the loss is that of any of its places. Defaults are
what MDR's authors say of their published reader: from electra-large, rate 5e-5, a tenth of seven epochs as warm-up, gradients
clipped at 2, no weight decay, 512 pieces of which 64 are the question's. They have no supporting sentences here, and batches of
64 rows, where MDR's are of questions with five wrong paths each, on several devices. BERT and DeBERTa-v2 are trained alike.
"""

import argparse
import random
from dataclasses import dataclass

import encoders
import torch
from encoders import head, named, parted, states
from folder import save
from rows import read
from torch import nn
from torch.nn import functional


@dataclass
class Preset(encoders.Preset):
    passage: int = 0  # pieces of one passage at most
    question: int = 384  # pieces of the question at most


PRESETS = {
    "paper": Preset(0, 64, 5e-5, 0.0, 0.1, "linear", 512, passage=512, question=64, betas=(0.9, 0.999), epochs=7, clip=2.0),
    "small": Preset(300, 12, 8e-4, 0.01, 0.06, "cosine", 384, passage=144, layers=3),
}
CHECKPOINT = "google/electra-large-discriminator"
KINDS = ("electra", "bert", "deberta-v2")
MOST_ANSWER = 12


class Reader(nn.Module):
    def __init__(self, backbone, generator):
        super().__init__()
        hidden = backbone.config.hidden_size
        self.backbone = backbone
        self.spans = head(hidden, 2, generator)
        self.pooler = head(hidden, hidden, generator)
        self.rank = head(hidden, 1, generator)

    def forward(self, rows, begins):
        """Logits of starts and ends `[rows, width]`, the rank `[rows]`, and the mask; `begins` says where each row's context begins."""
        hidden, mask = states(self.backbone, rows, begins=begins)
        start, end = self.spans(hidden).unbind(dim=-1)
        return start, end, self.rank(torch.tanh(self.pooler(hidden[:, 0]))).squeeze(-1), mask

    def tensors(self):
        tensors = named(self.backbone, qa_outputs=self.spans, rank=self.rank)
        return tensors | {f"pooler.dense.{n}": t for n, t in self.pooler.state_dict().items()}


def example(pieces, row, preset):
    """Ids, where the context begins, places (start, end) of the answer, relevance, row."""
    cls, sep = pieces.id("[CLS]"), pieces.id("[SEP]")
    ids = [cls, *pieces.text(row["question"])[: preset.question], sep]
    begin = len(ids)
    ids += pieces.text("yes no")
    for text in row["passages"]:
        ids += pieces.text(text)[: preset.passage]
    ids = ids[: preset.pieces - 1] + [sep]
    answer = pieces.text(row["answer"]) if row["relevance"] else []
    places = []
    if answer:
        if row["answer"] in ("yes", "no"):
            at = begin + ("yes", "no").index(row["answer"])
            places = [(at, at)]
        else:
            size = len(answer)
            places = [(n, n + size - 1) for n in range(begin + 2, len(ids) - size) if ids[n : n + size] == answer]
    return ids, begin, places, row["relevance"], row


def best_span(start, end, begin, last):
    """First and last of the best span of at most MOST_ANSWER pieces."""
    values = start[begin:last].unsqueeze(1) + end[begin:last].unsqueeze(0)
    allowed = torch.ones_like(values).triu().tril(MOST_ANSWER - 1).bool()
    at = int(values.masked_fill(~allowed, float("-inf")).argmax())
    return begin + at // values.shape[1], begin + at % values.shape[1]


def measured(model, examples, size=16):
    """Exact spans and accuracy of the rank head; `exact` of yes and no, and of the rest, apart."""
    counts, ranks = {"yes_no": [0, 0], "span": [0, 0]}, 0
    for start in range(0, len(examples), size):
        part = examples[start : start + size]
        starts, ends, rank, _ = model([e[0] for e in part], [e[1] for e in part])
        for n, (ids, begin, places, relevance, row) in enumerate(part):
            ranks += (float(rank[n]) > 0) == bool(relevance)
            if places:
                found = best_span(starts[n], ends[n], begin, len(ids) - 1)
                kind = counts["yes_no" if row["answer"] in ("yes", "no") else "span"]
                kind[0] += ids[found[0] : found[1] + 1] == ids[places[0][0] : places[0][1] + 1]
                kind[1] += 1
    result = {f"exact_{name}": round(hit / max(1, of), 4) for name, (hit, of) in counts.items()}
    return result | {"rank_accuracy": round(ranks / max(1, len(examples)), 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options, preset, generator, log = encoders.begin(parser, PRESETS, CHECKPOINT, KINDS)
    begun = encoders.opened(options, preset, generator)
    model = Reader(begun.backbone, generator).to(options.device)
    rows = read(options.rows / "reader.parquet", "question_id", "question", "passages", "answer", "relevance")
    rows, aside = parted(rows, options.held_out)
    usable = lambda e: bool(e[2]) or not e[3]  # noqa: E731
    examples = [e for e in (example(begun.pieces, row, preset) for row in rows) if usable(e)]
    held = [e for e in (example(begun.pieces, row, preset) for row in random.Random(0).sample(aside, min(400, len(aside)))) if usable(e)]
    encoders.note(log, "reader", options, preset, model, examples, held)

    def loss(batch):
        starts, ends, rank, _ = model([begun.drawn(e[0], generator) for e in batch], [e[1] for e in batch])
        spans, right = [], 0
        for n, (ids, begin, places, _, _) in enumerate(batch):
            if not places:
                continue
            start = functional.log_softmax(starts[n, begin : len(ids) - 1], dim=0)
            end = functional.log_softmax(ends[n, begin : len(ids) - 1], dim=0)
            at = torch.tensor(places, device=options.device) - begin
            spans.append(-torch.logsumexp(start[at[:, 0]] + end[at[:, 1]], dim=0))
        wanted = torch.tensor([float(e[3]) for e in batch], device=options.device)
        ranks = functional.binary_cross_entropy_with_logits(rank, wanted)
        right = float(((rank > 0) == (wanted > 0)).float().mean())
        span = torch.stack(spans).mean() if spans else starts.sum() * 0
        return span + ranks, {"span": float(span.detach()), "rank": float(ranks.detach()), "rank_accuracy": right}

    def store():
        architecture = type(model.backbone).__name__.removesuffix("Model") + "ForQuestionAnswering"
        config = model.backbone.config.to_dict() | {"architectures": [architecture], "num_labels": 2}
        return save(options.out, model.tensors(), config, begun.tokenizer)

    encoders.train(model, examples, held, loss, measured, store, preset, log, generator)


if __name__ == "__main__":
    main()
