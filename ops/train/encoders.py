"""What labeler, filter and reader share: a DeBERTa-v2 backbone, its small shape, its start and its batches."""

import torch
from fitting import padded
from transformers import DebertaV2Config, DebertaV2Model
from wiring import deberta


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


def adopt(backbone, folder):
    """Takes over the backbone of another folder, as far as its layers go."""
    from safetensors.torch import load_file

    tensors = load_file(str(folder / "model.safetensors"))
    own = backbone.state_dict()
    taken = {n.removeprefix("deberta."): t.float() for n, t in tensors.items() if n.startswith("deberta.")}
    taken = {n: t for n, t in taken.items() if n in own and own[n].shape == t.shape}
    backbone.load_state_dict(own | taken)
    return len(taken)


def states(backbone, rows):
    ids, mask = padded(rows)
    return backbone(input_ids=ids, attention_mask=mask).last_hidden_state, mask


def head(inputs, outputs, generator):
    linear = torch.nn.Linear(inputs, outputs)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(linear.weight.shape, generator=generator) * 0.5 * inputs**-0.5)
        linear.bias.zero_()
    return linear


def named(backbone, **heads):
    """Tensors under the names of the checkpoint: `deberta.*` and each head under its own."""
    tensors = {f"deberta.{n}": t for n, t in backbone.state_dict().items()}
    for name, module in heads.items():
        tensors |= {f"{name}.{n}": t for n, t in module.state_dict().items()}
    return tensors


def arguments(parser, presets):
    from pathlib import Path

    parser.add_argument("--rows", required=True, type=Path)
    parser.add_argument("--tokenizer", required=True, type=Path, help="folder of tokenizer.py")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--preset", choices=presets, default="paper")
    parser.add_argument("--base", type=Path, help="a DeBERTa-v2 folder to start from")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--seconds", type=float, default=0.0, help="processor seconds at most; 0 for no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--held-out", type=float, default=0.03, help="share of the questions that only measure")
    parser.add_argument("--evaluate-every", type=int, default=0)
    return parser.parse_args()


def applied(preset, options):
    preset.steps = preset.steps if options.steps is None else options.steps
    preset.learning_rate = options.learning_rate or preset.learning_rate
    preset.seconds, preset.evaluate_every = options.seconds, options.evaluate_every
    return preset


def parted(rows, share):
    """Rows to train on and rows to measure on, by question: a question is on one side only."""
    questions = sorted({row["question_id"] for row in rows})
    every = max(2, round(1 / share)) if share else len(questions) + 1
    aside = set(questions[::every]) if share else set()
    return [r for r in rows if r["question_id"] not in aside], [r for r in rows if r["question_id"] in aside]
