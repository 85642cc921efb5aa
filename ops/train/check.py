"""Compares what `hopeval lm` says of the small models with transformers, texts in and numbers out, tokenizer included.

    check.py --hopeval PROGRAM --models DIR --rows DIR [--lines N]

Prints one row per model: numbers compared and the largest difference; ends with 1 if one is above --tolerance, or if
no model is there. A model without a folder is left out, and the row says so.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch
from checkpoints import bare
from encoder import embed
from encoders import averaged
from folder import read_tokenizer
from rows import read
from safetensors.torch import load_file
from scorer import DEFAULT, INSTRUCTIONS
from torch.nn import functional
from transformers import AutoConfig, AutoModel, BertModel, DebertaV2ForSequenceClassification
from transformers import T5ForConditionalGeneration, logging


def ask(options, command, folder, lines, *more):
    run = [str(options.hopeval), "--threads", "1", "lm", command, "--model", str(folder), *more]
    text = "".join(json.dumps({"id": n} | line) + "\n" for n, line in enumerate(lines))
    done = subprocess.run(run, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def scores(options, folder, rows):
    model = T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    if torch.equal(model.lm_head.weight, model.shared.weight):
        raise SystemExit("transformers tied the scorer's tables")
    tokenizer, lines, theirs = read_tokenizer(folder), [], []
    for row in rows:
        prompt = " ".join(f"Document: {text}" for text in row["path"]) + f" {INSTRUCTIONS[DEFAULT][1]} Question:"
        lines.append({"prompt": prompt, "target": row["question"]})
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        target = torch.tensor(tokenizer(row["question"])["input_ids"])
        given = torch.cat([torch.zeros(1, dtype=torch.long), target[:-1]]).unsqueeze(0)
        logits = model(input_ids=ids, decoder_input_ids=given, use_cache=False).logits[0]
        theirs.append(logits.log_softmax(-1)[torch.arange(len(target)), target].tolist())
    return theirs, [answer["logprobs"]["1.0"] for answer in ask(options, "score", folder, lines)]


class Parts:
    """A backbone and the linear layers beside it, from the file itself."""

    def __init__(self, folder):
        self.tensors = {n: t.float() for n, t in load_file(str(folder / "model.safetensors")).items()}
        self.config = AutoConfig.from_pretrained(folder)
        self.backbone = AutoModel.from_config(self.config, dtype=torch.float32, **bare(self.config)).eval()
        prefix = f"{self.backbone.base_model_prefix}."
        own = {n.removeprefix(prefix): t for n, t in self.tensors.items() if n.startswith(prefix)}
        self.backbone.load_state_dict(own, strict=True)
        self.tokenizer = read_tokenizer(folder)

    def linear(self, name, x):
        return functional.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def states(self, *texts):
        """States `[tokens, hidden]` of a text or of a pair of them."""
        names = ["input_ids"] + ["token_type_ids"] * (self.config.type_vocab_size > 1)
        read = self.tokenizer(*texts, return_token_type_ids=True)
        return self.backbone(**{name: torch.tensor([read[name]]) for name in names}).last_hidden_state[0]

    def tags(self, states, mask):
        """A labeler's logits of tags `[rows, tags]`, of states `[rows, width, hidden]` and their mask, by the pooling it has."""
        cls = self.config.classifier_pooling == "cls"
        pooled = functional.gelu(self.linear("pooler.dense", states[:, 0])) if cls else averaged(states, mask)
        return self.linear("sequence_classifier", pooled)


def labels(options, folder, rows):
    parts, theirs = Parts(folder), []
    for row in rows:
        states = parts.states(row["question"], row["chunk"])
        tag = parts.tags(states.unsqueeze(0), torch.ones(1, len(states)))[0]
        theirs.append(parts.linear("token_classifier", states).flatten().tolist() + tag.tolist())
    lines = [{"text": row["question"], "text_pair": row["chunk"]} for row in rows]
    answers = ask(options, "label", folder, lines)
    return theirs, [sum(a["token_logits"], []) + a["sequence_logits"] for a in answers]


def filters(options, folder, rows):
    parts = Parts(folder)
    texts = [" ".join(row["query_info_tokens"]) for row in rows]
    theirs = [parts.linear("classifier", parts.states(text)).flatten().tolist() for text in texts]
    return theirs, [sum(a["token_logits"], []) for a in ask(options, "label", folder, [{"text": t} for t in texts])]


def spans(options, folder, rows):
    parts, theirs, lines = Parts(folder), [], []
    for row in rows:
        context = "yes no " + " ".join(row["passages"])
        states = parts.states(row["question"], context)
        start, end = parts.linear("qa_outputs", states).unbind(-1)
        rank = parts.linear("rank", torch.tanh(parts.linear("pooler.dense", states[0])))
        theirs.append(start.tolist() + end.tolist() + rank.tolist())
        lines.append({"question": row["question"], "context": context})
    answers = ask(options, "read", folder, lines)
    return theirs, [a["start_logits"] + a["end_logits"] + [a["rank"]] for a in answers]


def relevances(options, folder, rows):
    model = DebertaV2ForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = read_tokenizer(folder)
    pairs = [(row["query"], row["text"]) for row in rows]
    ids = [tokenizer(*pair)["input_ids"] for pair in pairs]
    theirs = [model(input_ids=torch.tensor([row])).logits[0].tolist() for row in ids]
    lines = [{"text": query, "text_pair": text} for query, text in pairs]
    return theirs, [[a["score"]] for a in ask(options, "rerank", folder, lines)]


def vectors(options, folder, rows):
    model = BertModel.from_pretrained(folder, add_pooling_layer=False, dtype=torch.float32).eval()
    tokenizer = read_tokenizer(folder)
    texts = [row["query"] for row in rows] + [row["positive"][:600] for row in rows]
    theirs = [embed(model, [tokenizer(text)["input_ids"]])[0].tolist() for text in texts]
    answers = ask(options, "embed", folder, [{"text": text} for text in texts], "--pooling", "mean")
    return theirs, [a["embedding"] for a in answers]


MODELS = {
    "scorer": (scores, "scorer", ("question", "path")),
    "labeler": (labels, "labeler", ("question", "chunk")),
    "filter": (filters, "filter", ("query_info_tokens",)),
    "reader": (spans, "reader", ("question", "passages")),
    "encoder": (vectors, "encoder", ("query", "positive")),
    "reranker": (relevances, "reranker", ("query", "text")),
}


def largest_difference(theirs, ours):
    """The largest one of two lists of rows; NaN if any is NaN. Python's `max` passes over a NaN behind a number."""
    found = [abs(a - b) for x, y in zip(theirs, ours) for a, b in zip(x, y)]
    return torch.tensor(found, dtype=torch.float64).max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True, type=Path)
    parser.add_argument("--models", required=True, type=Path)
    parser.add_argument("--rows", required=True, type=Path)
    parser.add_argument("--lines", type=int, default=12)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    bad, compared = False, 0
    for name, (compare, file, columns) in MODELS.items():
        folder = options.models / name
        if not folder.is_dir():
            print(f"{name}: SKIPPED, no {folder}")
            continue
        rows = read(options.rows / f"{file}.parquet", *columns)
        rows = rows[:: max(1, len(rows) // options.lines)][: options.lines]
        theirs, ours = compare(options, folder, rows)
        if [len(row) for row in theirs] != [len(row) for row in ours]:
            raise SystemExit(f"{name}: other numbers of tokens: {[(len(a), len(b)) for a, b in zip(theirs, ours)]}")
        largest = largest_difference(theirs, ours)
        compared += 1
        bad |= not largest <= options.tolerance
        print(f"{name}: {sum(map(len, theirs))} numbers, largest difference {largest:.1e}")
    if not compared:
        raise SystemExit(f"{options.models} has none of {', '.join(MODELS)}")
    sys.exit(bad)


if __name__ == "__main__":
    main()
