"""Trains the scorer: a T5 that says how likely a question is after a path of passages, as PromptRank asks it.

    scorer.py --rows DIR --out DIR --base FOLDER [--eval-world DIR]
    scorer.py --rows DIR --out DIR --preset small --tokenizer DIR [--resume FOLDER] [--eval-world DIR]

The prompt is what the method writes: `Document: p1 Document: p2 <instruction> Question:`, with one of several instructions or
none, so that the model depends on none of them. Two terms are learned: the likelihood of the question after its gold path,
which keeps the model a language model that can generate, and a softmax over a question's candidates of `scale` times the mean
log-likelihood, in which the gold path must stand above single passages, above paths that went wrong, and gold single passages
above others: one scale for one hop and for two, as the method compares them.

PromptRank itself trains nothing. The defaults without `--preset small` fine-tune a checkpoint that `--base` names, since no paper
says which, with T5's usual settings (Raffel et al. 2020; constant rates of 1e-4 to 1e-3 are usual, with AdamW and a schedule here).
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import checkpoints
import torch
from fitting import Log, determine, fit, padded
from folder import Pieces, save
from measure import promptrank
from renaming import Renaming
from rows import read
from safetensors.torch import load_file
from torch.nn import functional
from transformers import T5Config, T5ForConditionalGeneration, logging
from wiring import t5
from worlds import World

# (before, after): the wordings under `jobs/methods/prompts/promptrank`, and others, and none.
INSTRUCTIONS = [
    ("", ""),
    ("", "Go through the documents above and write the question that they answer together."),
    ("", "Go through the documents above and write the question that they answer together."),
    ("", "Consider all documents above and state the question behind them."),
    ("", "Look at the documents above and pose the question whose answer they hold."),
    ("", "Use each of the documents above to word one question."),
    ("Study the documents below and write the question that they answer together.", ""),
    ("", "Ask a question that these documents answer."),
    ("", "Combine the facts of the documents and ask about them."),
]
DEFAULT = 1


@dataclass
class Preset:
    steps: int
    questions: int  # per step
    learning_rate: float
    weight_decay: float
    warm_up: float
    max_document: int  # tokens
    scale: float  # of the mean log-likelihood in the softmax over candidates
    likelihood: float  # weight of the gold path's likelihood
    first_hop: float  # weight of the softmax over single passages
    wrong: int  # wrong candidates of a question in a step at most
    short: tuple = (0.0, 0)  # for this share of the steps documents are cut to so many tokens
    tables: float = 1.0  # share of the rate at which the tables of pieces learn
    wired: tuple = ()  # parts of names of what learns as slowly as the tables
    seconds: float = 0.0
    schedule: str = "cosine"
    betas: tuple = (0.9, 0.98)
    clip: float = 1.0
    log_every: int = 10
    evaluate_every: int = 0
    warm_up_steps: int = 0  # in place of the share
    decaying_tables: bool = False


# Where `wiring.t5` put its heads: Adam's steps are of one size for all weights, and these are small and right from the start.
WIRED = ("encoder.block.0.layer.0.SelfAttention", "decoder.block.1.layer.1.EncDecAttention")
PRESETS = {
    "paper": Preset(10_000, 8, 1e-4, 0.0, 0.02, 230, 10.0, 1.0, 0.5, 16),
    "small": Preset(600, 4, 1e-3, 0.01, 0.1, 128, 10.0, 1.5, 0.5, 6, (0.4, 80), tables=0.1, wired=WIRED),
}


def small(vocabulary, generator, layers=(2, 2), hidden=128, inner=256):
    config = T5Config(
        vocab_size=vocabulary,
        d_model=hidden,
        d_kv=hidden // 4,
        num_heads=4,
        d_ff=inner,
        num_layers=layers[0],
        num_decoder_layers=layers[1],
        feed_forward_proj="relu",
        dropout_rate=0.0,
        tie_word_embeddings=False,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    config._attn_implementation = "eager"
    model = T5ForConditionalGeneration(config)
    # Transformers 5 ties the two tables when it makes a model, whatever the configuration says.
    model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    t5(model, generator)
    return model


def untied(model):
    """The model with an output table of its own, which is how it is written. Where a checkpoint has one table for both (T5 1.0),
    transformers multiplies the states before it by `d_model ** -0.5`; here the table has that in it."""
    if model.config.scale_decoder_outputs:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach() * model.config.d_model**-0.5)
        model.config.scale_decoder_outputs = False
    return model


class Prompts:
    """Ids of prompts and targets, as the method puts them together."""

    def __init__(self, tokenizer, max_document):
        self.pieces = Pieces(tokenizer)
        self.end, self.most = self.pieces.id("</s>"), max_document

    def prompt(self, texts, instruction, most=None):
        before, after = instruction
        ids = list(self.pieces.text(before))
        for text in texts:
            ids += self.pieces.text("Document:") + self.pieces.text(text)[: most or self.most]
        return ids + self.pieces.text(f"{after} Question:") + [self.end]

    def target(self, question):
        return self.pieces.text(question if question.endswith("?") else question + "?") + [self.end]


def likelihoods(model, prompts, targets, most_tokens=8192):
    """The mean log-likelihood of each target after its prompt, in batches of like length; differentiable."""
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    found, start = [None] * len(prompts), 0
    while start < len(order):
        end = start + 1
        while end < len(order) and len(prompts[order[end]]) * (end + 1 - start) <= most_tokens:
            end += 1
        part = order[start:end]
        ids, mask = (t.to(model.device) for t in padded([prompts[n] for n in part]))
        wanted, counted = (t.to(model.device) for t in padded([targets[n] for n in part]))
        given = torch.cat([torch.zeros_like(wanted[:, :1]), wanted[:, :-1]], dim=1)
        states = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        hidden = model.decoder(
            input_ids=given, encoder_hidden_states=states, encoder_attention_mask=mask, use_cache=False
        ).last_hidden_state
        rows = counted.bool()
        logits = model.lm_head(hidden[rows])
        losses = functional.cross_entropy(logits, wanted[rows], reduction="none")
        owners = torch.arange(len(part), device=model.device).unsqueeze(1).expand_as(wanted)[rows]
        sums = torch.zeros(len(part), device=model.device).index_add(0, owners, losses)
        for n, mean in zip(part, -sums / counted.sum(dim=1)):
            found[n] = mean
        start = end
    return torch.stack(found)


def groups(rows):
    """The rows of each question: (question, [(path, relevance)])."""
    found = {}
    for row in rows:
        found.setdefault(row["question_id"], (row["question"], []))[1].append((row["path"], row["relevance"]))
    return [g for g in found.values() if any(r == 2 for _, r in g[1]) and any(r < 2 for _, r in g[1])]


class Objective:
    def __init__(self, model, prompts, renaming, preset, generator):
        self.model, self.prompts, self.renaming = model, prompts, renaming
        self.preset, self.generator = preset, generator
        self.steps = 0

    def chosen(self, candidates):
        """The right candidates, and some of the wrong ones."""
        wrong = [n for n, (_, relevance) in enumerate(candidates) if relevance < 2]
        dropped = len(wrong) - self.preset.wrong
        if dropped > 0:
            order = torch.randperm(len(wrong), generator=self.generator)[:dropped].tolist()
            gone = {wrong[n] for n in order}
            return [c for n, c in enumerate(candidates) if n not in gone]
        return candidates

    def loss(self, batch):
        prompts, targets, spans = [], [], []
        share, most = self.preset.short
        most = most if self.steps < share * self.preset.steps else None
        self.steps += 1
        for question, candidates in batch:
            candidates = self.chosen(candidates)
            table = self.renaming.draw(self.generator) if self.renaming else None
            which = int(torch.randint(len(INSTRUCTIONS), (), generator=self.generator))
            ids = lambda row: row if table is None else table[torch.tensor(row)]  # noqa: E731
            spans.append((len(prompts), candidates))
            for path, _ in candidates:
                prompts.append(ids(self.prompts.prompt(path, INSTRUCTIONS[which], most)))
                targets.append(ids(self.prompts.target(question)))
        means = likelihoods(self.model, prompts, targets)
        likelihood, paths, firsts, right = [], [], [], 0
        for start, candidates in spans:
            scores = means[start : start + len(candidates)]
            relevance = torch.tensor([r for _, r in candidates], device=scores.device)
            single = torch.tensor([len(path) == 1 for path, _ in candidates], device=scores.device)
            likelihood.append(-scores[relevance == 2].mean())
            scaled = self.preset.scale * scores
            paths.append(above(scaled, relevance == 2, relevance < 2))
            if (single & (relevance > 0)).any() and (single & (relevance == 0)).any():
                firsts.append(above(scaled, single & (relevance > 0), single & (relevance == 0)))
            right += int(scores[relevance == 2].min() > scores[relevance < 2].max())
        mean = lambda values: torch.stack(values).mean() if values else torch.zeros((), device=means.device)  # noqa: E731
        likelihood, paths, firsts = mean(likelihood), mean(paths), mean(firsts)
        total = self.preset.likelihood * likelihood + paths + self.preset.first_hop * firsts
        parts = {"nll": likelihood, "paths": paths, "first_hop": firsts}
        numbers = {name: float(part.detach()) for name, part in parts.items()} | {"right": right / len(batch)}
        return total, numbers


def above(scores, right, wrong):
    """The mean over the right candidates of -log softmax among it and all wrong ones."""
    rest = torch.logsumexp(scores[wrong], dim=0)
    return (torch.logaddexp(scores[right], rest) - scores[right]).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    checkpoints.offers(parser)
    parser.add_argument("--rows", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--preset", choices=PRESETS, default="paper")
    parser.add_argument("--resume", type=Path, help="a folder of this script to train on, with its tokenizer and exchanged names")
    parser.add_argument("--wrong", type=int, help="wrong candidates of a question in a step at most")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--seconds", type=float, default=0.0, help="processor seconds at most; 0 for no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--eval-world", type=Path)
    parser.add_argument("--eval-questions", type=int, default=100)
    parser.add_argument("--evaluate-every", type=int, default=0)
    parser.add_argument("--log-every", type=int, help="steps")
    options = parser.parse_args()
    checkpoints.settle(parser, options, None, ("t5",))
    logging.set_verbosity_error()
    generator = determine(options.seed, options.threads)
    preset = PRESETS[options.preset]
    preset.steps = preset.steps if options.steps is None else options.steps
    preset.learning_rate = options.learning_rate or preset.learning_rate
    preset.seconds, preset.evaluate_every = options.seconds, options.evaluate_every
    preset.log_every = options.log_every or preset.log_every
    preset.wrong = options.wrong or preset.wrong
    if preset.steps < 1:
        raise SystemExit(f"there is nothing to train: {preset.steps} steps")
    options.out.mkdir(parents=True, exist_ok=True)
    log = Log(options.out / "training.jsonl")

    if options.base:
        tokenizer = options.base if options.preset == "small" else checkpoints.tokenizer(options)
        model = untied(checkpoints.opened(T5ForConditionalGeneration, options.base))
        renaming = None
    else:
        tokenizer = options.tokenizer / "t5"
        renaming = Renaming(options.tokenizer / "layout.json")
        model = small(renaming.size, generator)
    if options.resume:
        trained = {n: t.float() for n, t in load_file(str(options.resume / "model.safetensors")).items()}
        missing = model.load_state_dict(trained, strict=False).missing_keys
        assert all("embed_tokens" in name for name in missing), missing
        preset.short = (0.0, 0)
    model.to(options.device)
    prompts = Prompts(tokenizer, preset.max_document)
    questions = groups(read(options.rows / "scorer.parquet", "question_id", "question", "path", "relevance"))
    if len(questions) < preset.questions:
        raise SystemExit(f"{options.rows}: {len(questions)} questions have right and wrong candidates; a step takes {preset.questions}")
    log.write(
        model="scorer",
        preset=options.preset,
        seed=options.seed,
        questions=len(questions),
        candidates=sum(len(g[1]) for g in questions),
        parameters=sum(p.numel() for p in model.parameters()),
        settings=vars(preset),
        base=options.base and str(options.base),
        device=str(options.device),
    )
    objective = Objective(model, prompts, renaming, preset, generator)

    def batches():
        while True:
            order = torch.randperm(len(questions), generator=generator).tolist()
            for start in range(0, len(order) - preset.questions + 1, preset.questions):
                yield [questions[n] for n in order[start : start + preset.questions]]

    def score(question, paths):
        inputs = [prompts.prompt(path, INSTRUCTIONS[DEFAULT]) for path in paths]
        return likelihoods(model, inputs, [prompts.target(question)] * len(paths), 16384).tolist()

    world = World.read(options.eval_world) if options.eval_world else None

    def evaluate():
        store(model, options.out, tokenizer)
        return promptrank(world, score, options.eval_questions) if world else {}

    fit(model, batches, objective.loss, preset, log, evaluate)
    store(model, options.out, tokenizer)


def store(model, out, tokenizer):
    config = model.config.to_dict() | {"tie_word_embeddings": False}
    config.pop("scale_decoder_outputs", None)
    tensors = {n: t for n, t in model.state_dict().items() if "embed_tokens" not in n}
    return save(out, tensors, config | {"architectures": ["T5ForConditionalGeneration"]}, tokenizer)


if __name__ == "__main__":
    main()
