"""Trains the encoder of dense retrieval: a BERT whose mean state is the vector of a query or a passage.

    encoder.py --rows DIR --out DIR [--base FOLDER]
    encoder.py --rows DIR --out DIR --preset small --tokenizer DIR [--resume FOLDER] [--batch N]

Vectors are not normalised and compared by inner product, as Contriever's are (Izacard et al. 2022). Each query is to prefer its
passage to those of the other queries of the batch and to one hard negative each. Queries of later hops are among them.
The defaults start from Contriever, with what its `finetuning.py` and `src/options.py` have if nothing is said: AdamW with decay
0.01, a linear schedule, batches of 64, 256 pieces, temperature 1, one negative. The settings of the published fine-tuning on
MS MARCO are not there; the rate, 1e-5, the warm-up and 10,000 steps are chosen here.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import checkpoints
import encoders
import torch
from encoders import averaged, parted, states
from fitting import fit
from folder import Pieces, save
from renaming import Renaming
from rows import read
from safetensors.torch import load_file
from torch.nn import functional
from transformers import BertConfig, BertModel


@dataclass
class Preset(encoders.Preset):
    hidden: int = 0


CHECKPOINT = "facebook/contriever"
PRESETS = {
    "paper": Preset(10_000, 64, 1e-5, 0.01, 0.1, "linear", 256, betas=(0.9, 0.999)),
    "small": Preset(300, 32, 2e-3, 0.01, 0.05, "cosine", 96, layers=1, hidden=256),
}


def small(vocabulary, generator, preset):
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=preset.hidden,
        num_hidden_layers=preset.layers,
        num_attention_heads=4,
        intermediate_size=preset.hidden,
        hidden_act="gelu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=256,
        type_vocab_size=1,
        pad_token_id=0,
    )
    config._attn_implementation = "eager"
    model = BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim < 2:
                continue
            # Pieces begin as directions of their own, and the layer as little more than their sum.
            std = {"word": 1.0, "position": 0.1, "token_type": 0.01}.get(name.split("embeddings.")[-1].split("_emb")[0])
            std = 0.3 * weight.shape[1] ** -0.5 if std is None else std
            weight.copy_(torch.randn(weight.shape, generator=generator) * std)
        # Inner products of about 10 between equal texts.
        model.encoder.layer[-1].output.LayerNorm.weight.fill_(0.5)
    return model


def embed(model, rows):
    """Vectors `[rows, hidden]` of rows of ids."""
    return averaged(*states(model, rows))


class Texts:
    def __init__(self, tokenizer, most):
        self.pieces, self.most = Pieces(tokenizer), most
        self.cls, self.sep = self.pieces.id("[CLS]"), self.pieces.id("[SEP]")

    def ids(self, text):
        return [self.cls, *self.pieces.text(text)[: self.most - 2], self.sep]


def measured(model, texts, rows):
    """Recall of a query's passage among all passages of the rows, negatives too."""
    passages = sorted({p for row in rows for p in [row["positive"], *row["negatives"]]})
    place = {p: n for n, p in enumerate(passages)}
    vectors = lambda all: torch.cat([embed(model, [texts.ids(t) for t in all[n : n + 64]]) for n in range(0, len(all), 64)])  # noqa: E731
    matrix, queries = vectors(passages), vectors([row["query"] for row in rows])
    order = (queries @ matrix.T).argsort(dim=1, descending=True)
    wanted = torch.tensor([place[row["positive"]] for row in rows], device=order.device)
    ranks = (order == wanted.unsqueeze(1)).float().argmax(dim=1)
    return {"passages": len(passages)} | {f"recall@{k}": round(float((ranks < k).float().mean()), 4) for k in (1, 5, 10)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resume", type=Path, help="a folder of this script to train on, with exchanged names")
    parser.add_argument("--batch", type=int, help="queries of a step")
    options, preset, generator, log = encoders.begin(parser, PRESETS, CHECKPOINT, ("bert",))
    if options.base:
        tokenizer = options.base if options.preset == "small" else checkpoints.tokenizer(options)
        renaming, model = None, checkpoints.backbone(options.base)
    else:
        tokenizer, renaming = options.tokenizer / "bert", Renaming(options.tokenizer / "layout.json", words=(0.0,))
        model = small(renaming.size, generator, preset)
        if options.resume:
            trained = load_file(str(options.resume / "model.safetensors"))
            model.load_state_dict({n: t.float() for n, t in trained.items()})
    model.to(options.device)
    preset.rows = options.batch or preset.rows
    texts = Texts(tokenizer, preset.pieces)
    rows, aside = parted(read(options.rows / "encoder.parquet", "question_id", "query", "positive", "negatives"), options.held_out)
    aside = aside[:400]
    if len(rows) < preset.rows:
        raise SystemExit(f"{options.rows}: {len(rows)} rows are fewer than a batch of {preset.rows}; --batch takes fewer")
    # An epoch leaves out the rows that fill no batch: what a query's passage is told from are those of the whole batch.
    preset.steps = preset.steps or len(rows) // preset.rows * preset.epochs
    encoders.note(log, "encoder", options, preset, model, rows, aside)

    def batches():
        while True:
            order = torch.randperm(len(rows), generator=generator).tolist()
            for start in range(0, len(order) - preset.rows + 1, preset.rows):
                yield [rows[n] for n in order[start : start + preset.rows]]

    def loss(batch):
        table = renaming.draw(generator) if renaming else None
        ids = lambda t: texts.ids(t) if table is None else table[torch.tensor(texts.ids(t))]  # noqa: E731
        positives = [row["positive"] for row in batch]
        negatives = []
        for row in batch:
            if row["negatives"]:
                which = int(torch.randint(len(row["negatives"]), (), generator=generator))
                negatives.append(row["negatives"][which])
        passages = list(dict.fromkeys(positives + negatives))
        place = {p: n for n, p in enumerate(passages)}
        queries = embed(model, [ids(row["query"]) for row in batch])
        scores = queries @ embed(model, [ids(p) for p in passages]).T
        wanted = torch.tensor([place[p] for p in positives], device=options.device)
        # Another hop's gold of the same question is no negative.
        other = {}
        for n, row in enumerate(batch):
            other.setdefault(row["question_id"], []).append(n)
        barred = torch.zeros_like(scores).bool()
        for members in other.values():
            for a in members:
                for b in members:
                    barred[a, wanted[b]] = wanted[a] != wanted[b]
        scores = scores.masked_fill(barred, float("-inf"))
        right = float((scores.argmax(dim=1) == wanted).float().mean())
        return functional.cross_entropy(scores, wanted), {"accuracy": right}

    def evaluate():
        store(model, options, tokenizer)
        return measured(model, texts, aside)

    fit(model, batches, loss, preset, log, evaluate)
    store(model, options, tokenizer)


def store(model, options, tokenizer):
    return save(options.out, model.state_dict(), model.config.to_dict() | {"architectures": ["BertModel"]}, tokenizer)


if __name__ == "__main__":
    main()
