"""Runs the slow, obvious methods of `measure.py` with models from folders, on a world.

    evaluate.py --world DIR --models DIR [--questions N] [--method promptrank|efficientrag|reranker] [--untrained]

`--untrained` takes the scorer's weights as they start, before any training: what the wiring alone is worth.
"""

import argparse
import json
from pathlib import Path

import torch
from check import Parts
from encoder import Texts
from encoder import embed as mean_state
from filter import sequence as filter_sequence
from fitting import determine, padded
from folder import Pieces, read_tokenizer
from labeler import sequence as labeler_sequence
from measure import dense, promptrank, reranked
from scorer import DEFAULT, INSTRUCTIONS, Prompts, likelihoods, small
from transformers import BertModel, DebertaV2ForSequenceClassification, T5ForConditionalGeneration, logging
from worlds import World


def scoring(folder, most, untrained):
    model = T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    if untrained:
        model = small(model.config.vocab_size, determine(1, 1)).eval()
    prompts = Prompts(folder, most)

    def score(question, paths):
        inputs = [prompts.prompt(path, INSTRUCTIONS[DEFAULT]) for path in paths]
        return likelihoods(model, inputs, [prompts.target(question)] * len(paths), 16384).tolist()

    return score


def efficientrag(models):
    encoder = BertModel.from_pretrained(models / "encoder", add_pooling_layer=False, dtype=torch.float32).eval()
    texts = Texts(models / "encoder", 256)
    labeler, refiner = Parts(models / "labeler"), Parts(models / "filter")
    pieces = Pieces(models / "labeler")

    def embed(given):
        order = sorted(range(len(given)), key=lambda n: len(given[n]))
        rows = torch.zeros(len(given), encoder.config.hidden_size)
        for start in range(0, len(order), 64):
            part = order[start : start + 64]
            rows[torch.tensor(part)] = mean_state(encoder, [texts.ids(given[n]) for n in part])
        return rows.numpy()

    def decode(ids):
        return pieces.tokenizer.decode(ids, skip_special_tokens=True)

    def label(query, chunks):
        rows = [labeler_sequence(pieces, query, chunk, 384)[0] for chunk in chunks]
        ids, mask = padded(rows)
        states = labeler.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
        tags = labeler.tags(states, mask)
        keeps = labeler.linear("token_classifier", states).argmax(-1).bool() & mask.bool()
        found = []
        for row, keep, tag in zip(rows, keeps, tags):
            kept = [i for i, k in zip(row, keep[: len(row)].tolist()) if k]
            found.append((decode(kept), int(tag.argmax()) == 1))
        return found

    def refine(query, infos):
        from worlds import words

        text = f"Query: {' '.join(query)} Info: " + "; Info: ".join(i for i in infos if i.strip())
        row = filter_sequence(pieces, words(text), 128)[0]
        keeps = refiner.linear("classifier", refiner.backbone(input_ids=torch.tensor([row])).last_hidden_state[0])
        return words(decode([i for i, k in zip(row, keeps.argmax(-1).tolist()) if k]))

    return embed, label, refine


def reranking(folder):
    model = DebertaV2ForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = read_tokenizer(folder)

    def score(query, texts):
        logits, order = [0.0] * len(texts), sorted(range(len(texts)), key=lambda n: len(texts[n]))
        for start in range(0, len(order), 10):
            part = order[start : start + 10]
            ids, mask = padded([tokenizer(query, texts[n])["input_ids"] for n in part])
            for n, logit in zip(part, model(input_ids=ids, attention_mask=mask).logits[:, 0].tolist()):
                logits[n] = logit
        return logits

    return score


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", required=True, type=Path)
    parser.add_argument("--models", required=True, type=Path)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--method", choices=("promptrank", "efficientrag", "reranker"), default="promptrank")
    parser.add_argument("--passage-tokens", type=int, default=230)
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--k", type=int, default=10)
    options = parser.parse_args()
    logging.set_verbosity_error()
    determine(1, 1)
    torch.set_grad_enabled(False)
    world = World.read(options.world)
    if options.method == "promptrank":
        score = scoring(options.models / "scorer", options.passage_tokens, options.untrained)
        result = promptrank(world, score, options.questions)
    elif options.method == "reranker":
        result = reranked(world, reranking(options.models / "reranker"), options.questions)
    else:
        result = dense(world, *efficientrag(options.models), options.questions, options.k)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
