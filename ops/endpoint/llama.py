#!/usr/bin/env python3
"""Trains a small Llama-class decoder in f32 on generated worlds: one checkpoint for hopeval's engine and for others.

    llama.py --world DIR [--world DIR ...] --out DIR [--minutes 20] [--context 4096] [--seed 1] [--bf16]

Why: the same weights must give the same scores and texts in hopeval's own engine and behind an endpoint (vLLM,
`transformers serve`). That needs a checkpoint that both open, in f32, with an output that is no coin toss: random
weights have logits that nearly tie, and then the last bit decides a greedy text.

What: a byte-level BPE tokenizer with a chat template, and a decoder with rotary positions, grouped queries and RMS
norms. It learns four forms of text: passages, PromptRank's prompts (documents, then the question), and questions below
passages with their answers or with chains of thought. Half of the texts are chains, since IRCoT asks for them.
`hopeval world --out DIR` writes a world; its fields are those of `jobs/world/src/record.rs`.

Rows of the training are shorter than the context. A row's texts lie apart: their positions leave room between them, so
that the model has met every distance of a long prompt.

The training stops after `--minutes` of CPU time (user and system, all threads), so it costs the same on every machine;
the log says how many steps that were. `--bf16` multiplies in bfloat16: a step took 1.2 CPU seconds in place of 1.8 on a
processor with AVX-512 BF16. The weights stay in f32.

Needs Python 3.11 with torch, transformers, tokenizers and safetensors.
"""

import argparse
import json
import math
import random
import sys
import time
from pathlib import Path

SPECIALS = ["<pad>", "<s>", "</s>"]
CHAT = (
    "{{ bos_token }}{% for message in messages %}{{ '### ' + message['role'] + '\n' + message['content'] + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '### assistant\n' }}{% endif %}"
)
VOCABULARY, LENGTH, BATCH = 4096, 1024, 4
FORMS = (0, 1, 2, 3, 3, 3)


def read_world(folder):
    """(passages, questions): passages are (title, text) by id."""
    passages, questions = {}, []
    with open(Path(folder) / "corpus.jsonl", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            passages[row["id"]] = (row["title"], row["text"])
    with open(Path(folder) / "questions.jsonl", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            gold = [passage["id"] for passage in row["gold"]]
            questions.append((row["text"], row["answers"][0], row["rationale"], gold))
    return passages, questions


def texts(worlds, source):
    """Training texts without end, in an order that `source` draws."""
    while True:
        passages, questions = source.choice(worlds)
        ids = list(passages)
        question, answer, rationale, gold = source.choice(questions)
        shown = [passages[n] for n in gold if n in passages]
        shown += [passages[source.choice(ids)] for _ in range(source.randrange(3))]
        form = source.choice(FORMS)
        if form == 0:
            title, text = passages[source.choice(ids)]
            yield f"{title}: {text}"
        elif form == 1:
            documents = " ".join(f"Document: {title}: {text}" for title, text in shown)
            yield f"{documents} Read the documents above and ask a question. Question: {question}"
        else:
            source.shuffle(shown)
            lines = "\n\n".join(f"Wikipedia Title: {title}\n{text}" for title, text in shown)
            yield f"{lines}\n\nQ: {question}\nA: {answer if form == 2 else rationale}\n"


def train_tokenizer(sample, out, context):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIALS, initial_alphabet=alphabet)
    made.train_from_iterator(sample, trainer)
    start = [("<s>", made.token_to_id("<s>"))]
    made.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=start)
    made.save(str(out / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>",
        "clean_up_tokenization_spaces": False, "model_max_length": context, "chat_template": CHAT,
    }  # fmt: skip
    (out / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    return made


def build_model(vocabulary, seed, context=4096):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=192, intermediate_size=512, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=context, rms_norm_eps=1e-5, tie_word_embeddings=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def rows(tokenizer, worlds, source):
    """Rows of `LENGTH` + 1 ids: texts one after another, each between its marks."""
    held, stream = [], texts(worlds, source)
    while True:
        while len(held) <= LENGTH:
            held += tokenizer.encode(next(stream)).ids + [2]
        yield held[: LENGTH + 1]
        held = held[LENGTH:]


def spread(ids, context, source):
    """The positions of a row: behind each text's begin there is a gap, and all of them fit the context."""
    starts = [place for place, token in enumerate(ids) if token == 1]
    gap = (context - len(ids)) // max(1, len(starts))
    positions, moved = [], 0
    for token in ids:
        moved += source.randrange(gap + 1) if token == 1 else 0
        positions.append(len(positions) + moved)
    return positions


def fit(model, source_rows, minutes, source, bf16, log):
    import torch

    context = model.config.max_position_embeddings

    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.05)
    begun, step, rate = time.process_time(), 0, 2e-3
    while True:
        spent = (time.process_time() - begun) / 60
        if spent >= minutes:
            break
        # The rate follows the time that is left, since the number of steps is not known beforehand.
        factor = min(1.0, (step + 1) / 50) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * spent / minutes)))
        for group in optimiser.param_groups:
            group["lr"] = rate * factor
        ids = torch.tensor([next(source_rows) for _ in range(BATCH)])
        positions = torch.tensor([spread(row[:-1], context, source) for row in ids.tolist()])
        # Without a mask, texts with a gap between them would not see each other.
        seen = torch.ones_like(positions)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(input_ids=ids[:, :-1], position_ids=positions, attention_mask=seen).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
        if step % 50 == 0:
            log({"step": step, "loss": round(loss.item(), 4), "cpu_minutes": round(spent, 2)})
    log({"step": step, "loss": round(loss.item(), 4), "cpu_minutes": round(minutes, 2), "end": True})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", action="append", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--minutes", type=float, default=20.0, help="CPU minutes of training")
    parser.add_argument("--context", type=int, default=4096, help="the model's positions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bf16", action="store_true", help="products in bfloat16")
    options = parser.parse_args()
    from transformers import PreTrainedTokenizerFast

    options.out.mkdir(parents=True, exist_ok=True)
    worlds = [read_world(folder) for folder in options.world]
    source = random.Random(options.seed)
    stream = texts(worlds, random.Random(options.seed))
    tokenizer = train_tokenizer((next(stream) for _ in range(20_000)), options.out, options.context)
    PreTrainedTokenizerFast.from_pretrained(str(options.out))  # fails here, not in a server, if a file is wrong
    model = build_model(tokenizer.get_vocab_size(), options.seed, options.context)
    with open(options.out / "training.jsonl", "w", encoding="utf-8") as file:

        def log(entry):
            print(json.dumps(entry), file=file, flush=True)
            print(json.dumps(entry), file=sys.stderr, flush=True)

        fit(model, rows(tokenizer, worlds, source), options.minutes, random.Random(options.seed), options.bf16, log)
    model.eval().float().save_pretrained(str(options.out), safe_serialization=True)
    print(sum(p.numel() for p in model.parameters()), "parameters in", options.out)


if __name__ == "__main__":
    main()
