"""What the encoders' training shares: settings and options, a DeBERTa-v2 backbone with its small shape and its start, batches."""

import math
from dataclasses import dataclass
from pathlib import Path
from random import Random

import checkpoints
import torch
from fitting import Log, determine, fit, padded, shuffled
from folder import Pieces
from renaming import Renaming
from safetensors.torch import load_file
from transformers import DebertaV2Config, DebertaV2Model, logging
from wiring import deberta


@dataclass
class Preset:
    """What every encoder is trained with; some add settings of their own."""

    steps: int  # 0 for as many as `epochs` have
    rows: int  # per step
    learning_rate: float
    weight_decay: float
    warm_up: float  # share of the training
    schedule: str
    pieces: int  # at most
    layers: int = 0
    tables: float = 1.0  # share of the rate at which the tables of pieces learn
    wired: tuple = ()  # parts of names of what learns as slowly as the tables
    seconds: float = 0.0
    betas: tuple = (0.9, 0.98)
    clip: float = 1.0
    log_every: int = 20
    evaluate_every: int = 0
    epochs: int = 0
    warm_up_steps: int = 0  # in place of the share
    decaying_tables: bool = False  # weight decay is for tables, too
    whole: bool = False  # rows are padded to `pieces`, not to the longest of a batch


def small(vocabulary, generator, pieces, layers, marks=(), hidden=128, inner=256):
    """A prewired backbone; `marks` are words that begin the second text where no [SEP] does."""
    config = DebertaV2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=inner,
        hidden_act="gelu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=512,
        type_vocab_size=0,
        relative_attention=True,
        max_relative_positions=512,
        position_buckets=32,
        position_biased_input=False,
        pos_att_type=["c2p"],
        share_att_key=False,
        norm_rel_ebd="none",
        layer_norm_eps=1e-7,
        pad_token_id=0,
        pooler_hidden_act="gelu",
        pooler_hidden_size=hidden,
        pooler_dropout=0.0,
    )
    backbone = DebertaV2Model(config)
    deberta(backbone, generator, pieces.id("[CLS]"), [pieces.id(m) for m in ("[SEP]", *marks)])
    return backbone


def adopt(module, folder, prefix="deberta."):
    """Takes over what another folder has under `prefix`, as far as names and shapes are the same."""
    tensors = load_file(str(folder / "model.safetensors"))
    own = module.state_dict()
    taken = {n.removeprefix(prefix): t.float() for n, t in tensors.items() if n.startswith(prefix)}
    taken = {n: t for n, t in taken.items() if n in own and own[n].shape == t.shape}
    module.load_state_dict(own | taken)


def states(backbone, rows, length=0, begins=None):
    """The last layer's states `[rows, width, hidden]` of rows of ids, and their mask `[rows, width]`; `width` is that of the longest
    row, and at least `length`. `begins` says where each row's second text begins, for a backbone that tells texts apart by types."""
    ids, mask = (t.to(backbone.device) for t in padded(rows, length))
    types = {}
    if begins is not None and backbone.config.type_vocab_size > 1:
        second = torch.arange(ids.shape[1], device=ids.device) >= torch.tensor(begins, device=ids.device).unsqueeze(1)
        types["token_type_ids"] = second.long() * mask
    return backbone(input_ids=ids, attention_mask=mask, **types).last_hidden_state, mask


def averaged(hidden, mask):
    """The mean state `[rows, hidden]` of each row's pieces, special ones included, as hopeval's mean pooling has it."""
    kept = mask.unsqueeze(-1).float()
    return (hidden * kept).sum(dim=1) / kept.sum(dim=1)


def head(inputs, outputs, generator):
    linear = torch.nn.Linear(inputs, outputs)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(linear.weight.shape, generator=generator) * 0.5 * inputs**-0.5)
        linear.bias.zero_()
    return linear


def named(backbone, **heads):
    """Tensors under the names of the checkpoint: `deberta.*`, say, and each head under its own."""
    tensors = {f"{backbone.base_model_prefix}.{n}": t for n, t in backbone.state_dict().items()}
    for name, module in heads.items():
        tensors |= {f"{name}.{n}": t for n, t in module.state_dict().items()}
    return tensors


def offers_control(parser):
    parser.add_argument("--shuffle-labels", type=int, metavar="SEED", help="train a control: labels without sense, of this seed")


def begin(parser, presets, checkpoint, kinds=("deberta-v2",)):
    """The options, the preset with what they say, the source of everything that is drawn, and the log. `checkpoint` is what the
    papers' preset starts from, `kinds` are the `model_type`s that may stand in its place."""
    checkpoints.offers(parser)
    parser.add_argument("--rows", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--preset", choices=presets, default="paper")
    parser.add_argument("--epochs", type=int, help="how often every row is trained on, in place of a number of steps")
    parser.add_argument("--steps", type=int, help="goes before --epochs")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--seconds", type=float, default=0.0, help="processor seconds at most; 0 for no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--held-out", type=float, default=0.03, help="share of the questions that only measure")
    parser.add_argument("--evaluate-every", type=int, default=0)
    parser.add_argument("--log-every", type=int, help="steps")
    options = parser.parse_args()
    checkpoints.settle(parser, options, checkpoint, kinds)
    logging.set_verbosity_error()
    generator = determine(options.seed, options.threads)
    preset = presets[options.preset]
    if options.epochs is not None:
        preset.steps, preset.epochs = 0, options.epochs
    if options.steps is not None:
        preset.steps, preset.epochs = options.steps, 0
    preset.learning_rate = options.learning_rate or preset.learning_rate
    preset.seconds, preset.evaluate_every = options.seconds, options.evaluate_every
    preset.log_every = options.log_every or preset.log_every
    options.out.mkdir(parents=True, exist_ok=True)
    return options, preset, generator, Log(options.out / "training.jsonl")


@dataclass
class Start:
    """What a training starts from."""

    backbone: torch.nn.Module
    tokenizer: Path  # its folder
    pieces: Pieces
    renaming: Renaming | None  # of the small preset

    def drawn(self, ids, generator):
        """An example's ids, its names exchanged."""
        return self.renaming.draw(generator)[torch.tensor(ids)] if self.renaming else ids


def opened(options, preset, generator, marks=()):
    """The small backbone, prewired or that of `--base`, or a checkpoint as it is; `marks` as in `small`."""
    if options.preset != "small":
        tokenizer = checkpoints.tokenizer(options)
        return Start(checkpoints.backbone(options.base), tokenizer, Pieces(tokenizer), None)
    tokenizer = options.tokenizer / "bert"
    pieces, renaming = Pieces(tokenizer), Renaming(options.tokenizer / "layout.json")
    backbone = small(renaming.size, generator, pieces, preset.layers, marks)
    if options.base:
        adopt(backbone, options.base)
    return Start(backbone, tokenizer, pieces, renaming)


def plan(preset, rows):
    """Settles how long the training lasts: as many steps as were asked for, or as its epochs have."""
    preset.steps = preset.steps or math.ceil(rows / preset.rows) * preset.epochs
    if preset.steps < 1:
        raise SystemExit(f"there is nothing to train: {rows} rows, {preset.epochs} epochs, {preset.steps} steps")


def note(log, name, options, preset, model, rows, held):
    """The log's first line."""
    plan(preset, len(rows))
    log.write(
        model=name, preset=options.preset, seed=options.seed, rows=len(rows), held_out=len(held),
        parameters=sum(p.numel() for p in model.parameters()), settings=vars(preset),
        shuffled_labels=vars(options).get("shuffle_labels"), base=options.base and str(options.base), device=str(options.device),
    )  # fmt: skip


def train(model, examples, held, loss, measured, store, preset, log, generator):
    """Fits `model` to examples, whose first member is their ids; `store()` writes it, and `measured` judges it on those held out."""
    # Like lengths stand together to save padding; where all of it is computed anyway, a batch is any rows, as the authors draw them.
    window = {"window": 1} if preset.whole else {}

    def batches():
        for part in shuffled(len(examples), preset.rows, [len(e[0]) for e in examples], generator, **window):
            yield [examples[n] for n in part]

    def evaluate():
        store()
        return measured(model, held)

    fit(model, batches, loss, preset, log, evaluate)
    store()


def shuffled_labels(rows, seed, labels, tag=None):
    """The rows of a control: each row's labels in another order, and the tag of another row. Their numbers stay, so that a model can
    learn how often each occurs, and nothing else."""
    random = Random(seed)
    tags = [row[tag] for row in rows] if tag else []
    random.shuffle(tags)
    for n, row in enumerate(rows):
        drawn = row | {labels: random.sample(list(row[labels]), len(row[labels]))}
        rows[n] = drawn | {tag: tags[n]} if tag else drawn
    return rows


def parted(rows, share):
    """Rows to train on and rows to measure on, by question: a question is on one side only."""
    questions = sorted({row["question_id"] for row in rows})
    every = max(2, round(1 / share)) if share else len(questions) + 1
    aside = set(questions[::every]) if share else set()
    return [r for r in rows if r["question_id"] not in aside], [r for r in rows if r["question_id"] in aside]
