"""Trains a small writer: a T5 that quotes its prompt and answers.

    writer.py --course chains|modules [--course ...] --world DIR [--world DIR ...] --tokenizer DIR --held-out DIR
              --out DIR

A course says what it is shown and what it should write: `chains.py` for IRCoT and the readers beside it, `modules.py`
for MIGRES and FSM. Three losses are summed: the likelihood of the text; for each piece that is copied, the likelihood
of the places it may be copied from under the two heads that `wiring.writer` made for quoting; and four flags of the
prompt's pieces (copied next, copied later, the answer, the begin of a copy), which the encoder writes where those heads
read them. The last two say where to look, which a likelihood alone teaches slowly.

Short contexts first, then whole passages (`--contexts growing`). Names are exchanged in each example (`renaming.py`),
and so are words: few in most examples, most of them in some whose question has a word of the text, since a writer is to
quote texts whose words it never met, and to find by words what no training says. For the same reason some words are
spelled like names. Products are in bf16 (or f32, `--f32`), weights in f32. What is resumed may have another tokenizer:
rows of pieces that both have go over, others begin anew.

With `--device cuda` one step takes less than 80 ms, so larger steps pay (`--tokens`), and examples are made by
processes beside it (`--workers`). On a processor `torchrun` starts a process for each core. A world's states take
longer to make than to read: `--states FILE` keeps them.
"""

import argparse
import itertools
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import checkpoints
import meanings
import torch
from chains import FLAGS, MOST_PASSAGES
from fitting import Log, Processes, determine, fit
from folder import Pieces, save
from lessons import COURSES, read_lessons
from pieces import MARKS
from renaming import Renaming
from retelling import Retelling
from safetensors.torch import load_file
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from transformers import T5Config, T5ForConditionalGeneration, logging
from wiring import WIRING_SEED, writer

ENDS = ("\n", ".", "?", "!")  # of titles and sentences
# Until a share of the training: shapes of contexts, each most passages and most sentences of one (0 for all). Many
# passages of few sentences teach to choose a passage, few whole ones to choose a sentence. Both are cheap. All passages
# whole are what the methods show: a writer that never saw so many errs oftener there (`retrieved`).
CONTEXTS = {
    "short": ((1.0, ((2, 2),)),),
    "whole": ((0.7, ((1, 0), (1, 0), (2, 0), (3, 0))), (1.0, ((2, 0), (3, 0), (5, 0), (8, 0), (12, 2)))),
    "mixed": ((0.65, ((12, 2), (3, 0), (5, 4))), (1.0, ((8, 0), (15, 0), (12, 2), (3, 0)))),
}
CONTEXTS["retrieved"] = ((0.35, *CONTEXTS["whole"][1][1:]), (1.0, ((0, 0), (0, 0), (5, 0), (12, 2))))
CONTEXTS["growing"] = ((0.1, *CONTEXTS["short"][0][1:]), *CONTEXTS["whole"])
# Most of what the wiring set: it is right from the start, and learns as slowly as the tables.
WIRED = ("encoder.block.0.layer.0.SelfAttention", "encoder.block.1.layer.0.SelfAttention", "EncDecAttention")
QUOTING = 2  # heads
EXCHANGED = (0.0, 0.03, 0.1)  # shares of words
EXCHANGED_IF_TOLD = (0.03, 0.3, 0.8)  # where the question has words of the text
RARE = 2  # times at most that such a word stands in a prompt besides
SPELLED = 0.03  # of words
TAKEN = 8  # parts of a step each, before more examples are made


@dataclass
class Preset:
    steps: int = 9000
    tokens: int = 4000  # of prompts, in a step
    learning_rate: float = 1.5e-3
    weight_decay: float = 0.01
    warm_up: float = 0.03
    guidance: float = 1.0  # weight of where to copy from
    tagging: float = 1.0  # weight of the flags
    layers: tuple = (6, 2)
    hidden: int = 128
    inner: int = 384
    contexts: str = "short"
    emphasis: dict = field(default_factory=dict)  # how much oftener than the others a task comes
    tables: float = 0.6  # share of the rate at which tables, and what is wired, learn
    wired: tuple = WIRED
    seconds: float = 0.0
    by_wall: bool = False  # as seconds are counted
    schedule: str = "cosine"
    betas: tuple = (0.9, 0.98)
    clip: float = 1.0
    half: bool = True  # products in bf16
    log_every: int = 50
    evaluate_every: int = 400
    warm_up_steps: int = 0
    decaying_tables: bool = False


class Output(torch.nn.Module):
    """The output table as a product of the input's table and a matrix. So a piece that training hardly met is written
    as surely as any other, if it can be read; with a table of its own it would be copied wrongly."""

    def __init__(self, shared):
        super().__init__()
        self.table = [shared]  # which is the model's parameter, once
        self.mix = torch.nn.Parameter(torch.empty(shared.weight.shape[1], shared.weight.shape[1]))

    @property
    def weight(self):
        return self.table[0].weight @ self.mix

    def forward(self, states):
        return functional.linear(functional.linear(states, self.mix), self.table[0].weight)


class Meanings:
    """Holds words where their meanings are, whatever the training does: a word that it never met has its own still."""

    def __init__(self, table, directions):
        self.words = torch.nonzero(table.any(dim=1)).ravel()
        self.rows, self.directions = directions.shape[0] ** 0.5 * table[self.words], directions

    def to(self, device):
        for name, tensor in vars(self).items():
            setattr(self, name, tensor.to(device))

    @torch.no_grad()
    def hold(self, table):
        """Puts the words' rows of `table` back in the directions of meanings."""
        table[self.words] += (self.rows - table[self.words] @ self.directions.T) @ self.directions


def build(vocabulary, generator, marks, ends, meant, preset):
    config = T5Config(
        vocab_size=vocabulary,
        d_model=preset.hidden,
        d_kv=preset.hidden // 4,
        num_heads=6,
        d_ff=preset.inner,
        num_layers=preset.layers[0],
        num_decoder_layers=preset.layers[1],
        relative_attention_num_buckets=64,
        relative_attention_max_distance=1024,
        feed_forward_proj="relu",
        dropout_rate=0.0,
        tie_word_embeddings=False,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    config._attn_implementation = "eager"
    model = T5ForConditionalGeneration(config)
    model.lm_head = Output(model.shared)
    flags, directions = writer(model, generator, marks, ends, meant)
    return model, flags, None if meant is None else Meanings(meant, directions)


def question(prompt, marks):
    """Where the question stands in a prompt: from the last mark that begins one to the next mark."""
    begin = max((n for n, piece in enumerate(prompt) if marks.get(piece) == 1), default=len(prompt))
    end = next((n for n in range(begin + 1, len(prompt)) if prompt[n] in marks), len(prompt))
    return slice(begin, end)


class Batch:
    """Examples as tensors; names exchanged by one table of `draw` for each, which is told whether the question has rare
    words of the text. `like`, if it is given, draws tables of words of like meaning, for the question."""

    def __init__(self, examples, draw, like=None, marks=None, words=range(0)):
        rows, shown = len(examples), max(len(e[0]) for e in examples)
        written = max(len(e[1]) for e in examples)
        self.ids = torch.zeros(rows, shown, dtype=torch.long)
        self.mask = torch.zeros(rows, shown)
        self.target = torch.full((rows, written), -100)
        self.labels = torch.zeros(rows, shown, FLAGS)
        self.sources = torch.zeros(rows, written, shown, dtype=torch.bool)
        self.counts = torch.zeros(rows, written)
        for row, (prompt, target, sources, labels, counts) in enumerate(examples):
            asked = question(prompt, marks or {})
            said = Counter(piece for part in (prompt[: asked.start], prompt[asked.stop :]) for piece in part)
            table = draw(any(piece in words and said[piece] <= RARE for piece in set(prompt[asked]) & set(target)))
            # Words that are not shown cannot be known by another name.
            unseen = torch.tensor([piece for piece in set(target) - set(prompt)], dtype=torch.long)
            table[unseen] = unseen
            self.ids[row, : len(prompt)] = table[torch.tensor(prompt)]
            if like:
                kept = table[torch.tensor(sorted(set(target)))]  # what is quoted from the question stays
                other = like()
                other[kept] = kept
                self.ids[row, asked] = other[self.ids[row, asked]]
            self.mask[row, : len(prompt)] = 1
            self.target[row, : len(target)] = table[torch.tensor(target)]
            self.counts[row, : len(target)] = torch.tensor(counts)
            self.labels[row, : len(labels)] = labels.float()
            for place, spots in enumerate(sources):
                self.sources[row, place, spots] = True

    def to(self, device):
        for name, tensor in vars(self).items():
            setattr(self, name, tensor.to(device, non_blocking=True))
        return self


class Spelled:
    """A tokenizer for one example: some words are spelled by random pieces, the same ones wherever they stand."""

    def __init__(self, pieces, regions, rng):
        self.pieces, self.id = pieces, pieces.id
        (letters, _), (first, end), (start, last) = (regions[kind] for kind in ("letters", "words", "later_pieces"))
        chosen = rng.sample(range(first, end), int((end - first) * rng.choice((0.0, SPELLED, 3 * SPELLED))))
        self.spelled = {
            word: [letters + rng.randrange(26), *(rng.randrange(start, last) for _ in range(rng.randint(1, 3)))]
            for word in chosen
        }

    def text(self, text):
        return [piece for word in self.pieces.text(text) for piece in self.spelled.get(word, (word,))]


class Tagger(torch.nn.Module):
    """From what stands in the flags' directions to log-odds. It is not stored, and begins anew in each training."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((FLAGS,), 4.0))
        self.bias = torch.nn.Parameter(torch.full((FLAGS,), -3.0))

    def forward(self, flags):
        return self.scale * flags + self.bias


class Objective:
    def __init__(self, model, flags, meant, preset):
        self.model, self.preset, self.flags, self.meant = model, preset, flags, meant
        self.encode = model.encoder
        # How sure a flag is: its direction is the wiring's, so that the heads that quote can read it.
        self.tagger = Tagger()

    def hold(self):
        if self.meant:
            self.meant.hold(self.model.shared.weight)

    def parts(self, batch):
        """Loss of the text, of the quoting and of the tags, and for each row whether its whole text is right."""
        device = self.model.device
        batch = batch.to(device)
        self.hold()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.preset.half):
            states = self.encode(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state
            given = torch.cat([torch.zeros_like(batch.target[:, :1]), batch.target[:, :-1].clamp(min=0)], dim=1)
            decoded = self.model.decoder(
                input_ids=given,
                encoder_hidden_states=states,
                encoder_attention_mask=batch.mask,
                use_cache=False,
                output_attentions=True,
            )
            real = batch.target >= 0
            logits = self.model.lm_head(decoded.last_hidden_state[real]).float()
            tags = self.tagger(states.float() @ self.flags.T)
        counts = batch.counts[real]
        text = (counts * functional.cross_entropy(logits, batch.target[real], reduction="none")).sum() / counts.sum()
        quoting = decoded.cross_attentions[-1][:, :QUOTING].float().mean(dim=1)
        copied = batch.sources.any(dim=-1)
        share = (quoting * batch.sources).sum(dim=-1)[copied]
        counts = batch.counts[copied]
        looking = -(counts * (share + 1e-6).log()).sum() / counts.sum().clamp(min=1)
        flagged = functional.binary_cross_entropy_with_logits(
            tags, batch.labels, weight=1 + 3 * batch.labels, reduction="none"
        )
        tagging = (flagged.sum(dim=-1) * batch.mask).sum() / batch.mask.sum()
        right = torch.ones(batch.target.shape, device=device)
        right[real] = ((logits.argmax(dim=-1) == batch.target[real]) | (batch.counts[real] == 0)).float()
        return text, looking, tagging, right.min(dim=1).values

    def loss(self, batch):
        text, looking, tagging, whole = self.parts(batch)
        parts = {"nll": text, "looking": looking, "tagging": tagging, "whole": whole.mean()}
        total = text + self.preset.guidance * looking + self.preset.tagging * tagging
        return total, {name: float(part.detach()) for name, part in parts.items()}


class Course(IterableDataset):
    """The batches of a training, with contexts that grow as it goes on. Workers take turns, each with its own draws."""

    def __init__(self, lessons, pieces, renaming, retelling, marks, preset, seed, shared_seed):
        self.pieces, self.renaming, self.retelling, self.marks = pieces, renaming, retelling, marks
        self.preset, self.seed, self.shared_seed = preset, seed, shared_seed
        self.states = [(part, state) for part in lessons for state in part.states]
        share = preset.emphasis.get
        # By the number of facts, too: single ones are many, and would teach that one step is enough.
        weights = [
            share(part.course, 1.0) * share(state.task, 1.0) * len(state.lesson.facts) for part, state in self.states
        ]
        self.weights = list(itertools.accumulate(weights))

    def shapes(self, step, spent):
        """The shapes of contexts after so many steps and seconds."""
        preset = self.preset
        progress = max(step / preset.steps, spent / preset.seconds if preset.seconds else 0.0)
        return next(shapes for until, shapes in CONTEXTS[preset.contexts] if progress < until or until == 1.0)

    def __iter__(self):
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        rng, generator = (
            random.Random(self.seed * 1000 + number),
            torch.Generator().manual_seed(self.seed * 1000 + number),
        )
        # Processes wait for each other at every step: by this all draw where in the order of lengths they take a part.
        places = random.Random(self.shared_seed)
        clock = time.time if self.preset.by_wall else time.process_time
        step, started, parts = 0, clock(), []
        while True:
            while len(parts) < TAKEN:
                parts += packed(self.examples(rng, self.shapes(step * workers, clock() - started)), self.preset.tokens)
            parts.sort(key=lambda part: max(len(shown) for shown, *_ in part))
            for _ in range(TAKEN):
                step += 1
                yield Batch(
                    parts.pop(int(places.random() * len(parts))),
                    lambda told: self.renaming.draw(generator, told),
                    lambda: self.renaming.like(generator),
                    self.marks,
                    range(*self.renaming.regions["words"]),
                )

    def examples(self, rng, shapes):
        made = []
        for part, state in rng.choices(self.states, cum_weights=self.weights, k=max(96, self.preset.tokens // 42)):
            passages, sentences = rng.choice(shapes)
            pieces = Spelled(self.pieces, self.renaming.regions, rng)
            count = rng.randint(min(2, passages), passages) if passages else MOST_PASSAGES
            reading, state = self.retelling(part.reading, state, rng)
            made.append(COURSES[part.course].example(reading, pieces, state, rng, count, sentences, True))
        return made


def packed(examples, tokens):
    """Examples of like length together, as many as make no more tokens than that with their padding."""
    part = []
    for made in sorted(examples, key=lambda e: len(e[0])):
        if part and (len(part) + 1) * len(made[0]) > tokens:
            yield part
            part = []
        part.append(made)
    yield part


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--course", action="append", choices=COURSES, required=True)
    parser.add_argument("--world", action="append", required=True, type=Path)
    parser.add_argument("--tokenizer", required=True, type=Path)
    parser.add_argument("--held-out", required=True, type=Path, help="a world whose states are written for the log")
    parser.add_argument("--held-states", type=int, default=200, help="how many of them at most, of each course")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--resume", type=Path, help="a folder of this script to train on")
    parser.add_argument("--contexts", choices=CONTEXTS, default="short")
    parser.add_argument(
        "--emphasis",
        action="append",
        default=[],
        metavar="TASK=SHARE",
        help="how much oftener a task, or a course, comes",
    )
    parser.add_argument("--steps", type=int)
    parser.add_argument("--until", type=int, default=0, help="stops after this step of the schedule; 0 for its end")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="processor seconds at most, on a GPU seconds; 0 for no limit"
    )
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--tokens", type=int, help="of prompts, in a step, with their padding")
    parser.add_argument("--states", type=Path, help="a file that keeps the worlds' states between trainings")
    parser.add_argument(
        "--device", type=checkpoints.device, default="cpu", help="where batches and model go: cpu, cuda, cuda:1"
    )
    parser.add_argument("--workers", type=int, default=0, help="processes that make examples; 0 for this one")
    parser.add_argument("--f32", action="store_true", help="products in f32, for a processor without bf16")
    parser.add_argument(
        "--compile", action="store_true", help="compiles the encoder: a minute or two, for less time in long contexts"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    logging.set_verbosity_error()
    determine(options.seed, options.threads)
    preset = Preset()
    preset.steps, preset.seconds = options.steps or preset.steps, options.seconds
    preset.contexts, preset.by_wall = options.contexts, options.device.type == "cuda"
    try:
        preset.emphasis = {task: float(share) for task, share in (given.split("=") for given in options.emphasis)}
    except ValueError:
        parser.error(f"--emphasis {' '.join(options.emphasis)}: expected TASK=SHARE, such as fact=2.5")
    preset.half = not options.f32
    preset.learning_rate = options.learning_rate or preset.learning_rate
    preset.tokens = options.tokens or preset.tokens
    options.out.mkdir(parents=True, exist_ok=True)
    processes = Processes()
    first = processes.number == 0
    log = Log(options.out / "training.jsonl", silent=not first)
    meant = meanings.read(options.tokenizer)
    meant = None if meant is None else torch.from_numpy(meant)
    pieces = Pieces(options.tokenizer)
    renaming = Renaming(options.tokenizer / "layout.json", words=EXCHANGED, told=EXCHANGED_IF_TOLD, meanings=meant)
    vocabulary = pieces.tokenizer.get_vocab()
    if unknown := [mark for course in options.course for mark in MARKS[course] if mark not in vocabulary]:
        raise SystemExit(
            f"{options.tokenizer}: {unknown[0]!r} is not a piece: the folder is not one of "
            f"`pieces.py --course {' --course '.join(options.course)}`"
        )
    # Marks of a course that comes later begin as marks, too.
    marks = {vocabulary[mark]: kind for of in MARKS.values() for mark, kind in of.items() if mark in vocabulary}
    generator, ends = torch.Generator().manual_seed(WIRING_SEED), [pieces.id(end) for end in ENDS]
    model, flags, held_meanings = build(renaming.size, generator, marks, ends, meant, preset)
    if options.resume:
        resume(model, options.resume, pieces, renaming)
    objective = Objective(model, flags, held_meanings, preset)
    objective.flags = objective.flags.to(options.device)
    if options.compile:
        objective.encode = torch.compile(model.encoder.forward, dynamic=True)
    if held_meanings:
        held_meanings.to(options.device)
    model.add_module("tagger", objective.tagger)
    model.to(options.device)
    *taught, held = read_lessons(options.course, [*options.world, options.held_out], options.seed, options.states)
    lessons, seed = list(itertools.chain(*taught)), options.seed + 100 * processes.number
    course = Course(lessons, pieces, renaming, Retelling(vocabulary), marks, preset, seed, options.seed)
    known = {*options.course, *itertools.chain(*(part.tasks() for part in lessons))}
    if unknown := sorted(set(preset.emphasis) - known):
        parser.error(f"--emphasis {unknown[0]}: no such task; allowed are: {', '.join(sorted(known))}")
    sample = random.Random(options.seed)
    for part in held:
        part.states = sample.sample(part.states, min(len(part.states), options.held_states))
    log.write(
        model=f"writer, {' and '.join(options.course)}",
        seed=options.seed,
        states=len(course.states),
        parameters=sum(p.numel() for p in [*model.parameters(), model.shared.weight])
        - 2 * FLAGS
        - model.lm_head.mix.numel(),
        settings=vars(preset),
        device=str(options.device),
        processes=processes.count,
    )

    def evaluate():
        """The share of whole texts that are right, by task, in contexts of up to six whole passages."""
        objective.hold()
        store(model, options.out, options.tokenizer)
        rng, found = random.Random(options.seed), {}
        for part, task in ((part, task) for part in held for task in part.tasks()):
            states = [state for state in part.states if state.task == task]
            made = [COURSES[part.course].example(part.reading, pieces, state, rng, 6) for state in states]
            right = [
                objective.parts(Batch(batch, lambda told: torch.arange(renaming.size)))[3].cpu()
                for batch in packed(made, preset.tokens)
            ]
            found[f"held_{part.course}_{task}"] = round(float(torch.cat(right).mean()), 4)
        return found

    loader = DataLoader(course, batch_size=None, num_workers=options.workers)
    fit(
        model,
        lambda: itertools.islice(loader, options.until or None),
        objective.loss,
        preset,
        log,
        evaluate if first else None,
        processes,
    )
    if first:
        objective.hold()
        store(model, options.out, options.tokenizer)


def resume(model, folder, pieces, renaming):
    """Takes over a model's weights; of its tables the rows of pieces that are known here."""
    trained = {n: t.float() for n, t in load_file(str(folder / "model.safetensors")).items()}
    theirs, ours = Pieces(folder).tokenizer.get_vocab(), pieces.tokenizer.get_vocab()
    both = [(place, theirs[piece]) for piece, place in ours.items() if piece in theirs]
    here, there = (torch.tensor(places) for places in zip(*both))
    table, output = trained["shared.weight"], trained.pop("lm_head.weight")
    # The matrix is that of pieces which are exchanged, in case the folder's model had an output table of its own.
    exchanged = torch.tensor([there for here, there in both if renaming.may_exchange(here)])
    centred = [
        rows[exchanged] - rows[exchanged].mean(dim=0) for rows in (table, output)
    ]  # a shift of all logits is none
    mix = torch.linalg.lstsq(*centred).solution
    trained["shared.weight"] = model.shared.weight.detach().clone()
    trained["shared.weight"][here] = table[there]
    trained["lm_head.mix"] = mix
    missing = model.load_state_dict(trained, strict=False).missing_keys
    assert all("embed_tokens" in name for name in missing), missing


def store(model, out, tokenizer):
    config = model.config.to_dict() | {"tie_word_embeddings": False}
    config.pop("scale_decoder_outputs", None)
    left = ("embed_tokens", "tagger", "lm_head")
    tensors = {n: t for n, t in model.state_dict().items() if not any(part in n for part in left)}
    tensors["lm_head.weight"] = model.lm_head.weight
    return save(out, tensors, config | {"architectures": ["T5ForConditionalGeneration"]}, tokenizer)


if __name__ == "__main__":
    main()
