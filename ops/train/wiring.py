"""Weights to start from: heads that look for equal pieces are there from the first step.

A small model learns to copy and to match only after a long plateau (Olsson et al. 2022, "In-context learning and induction
heads"), which two cores cannot afford. So a few heads begin as what they would become, in the spirit of mimetic
initialisation (Trockman and Kolter 2023): a head that looks one token back, and heads that look for the piece at hand. All of
it is trained like the rest, and everything else begins at random and small.

The hidden space is cut into four frames of `hidden / 4` dimensions; `P0..P3` are their rows. A head writes what it read from
frames 0 and 1 into frames 2 and 3, so that a token's own piece and its neighbour's do not mix.
"""

import torch
from torch import nn


def frames(hidden, generator):
    """Four matrices `[hidden / 4, hidden]` with orthonormal rows."""
    basis, _ = torch.linalg.qr(torch.randn(hidden, hidden, generator=generator, dtype=torch.float64))
    return list(basis.T.to(torch.float32).contiguous().split(hidden // 4))


def _rows(linear, head, size):
    return linear.weight.data[head * size : (head + 1) * size]


def _begin_at_random(model, size, normal):
    """A T5's matrices but for its tables: what writes into the states, and queries, begins small."""
    for name, weight in model.named_parameters():
        if weight.ndim < 2 or "shared" in name or "lm_head" in name or "relative_attention_bias" in name:
            continue
        quiet = 0.25 if name.endswith(("o.weight", "wo.weight")) else 1.0
        if name.endswith(".q.weight"):
            quiet = size**-0.5
        weight.copy_(normal(weight.shape, quiet * weight.shape[1] ** -0.5))


def t5(model, generator, match=9.0, copy=3.0, back=1.5):
    """Prewires a T5 of four heads with `d_kv = d_model / 4` and an output table of its own.

    Encoder, first layer: heads 0 and 1 look one token back and write what they see into frames 2 and 3. Decoder, last layer:
    cross-attention heads 0 and 1 look for a place whose previous token is the current one, and write what stands there into
    frames 2 and 3, which the output table reads: an induction head across the two stacks.
    """
    config = model.config
    hidden, size, heads = config.d_model, config.d_kv, config.num_heads
    assert heads == 4 and size * 4 == hidden
    p = frames(hidden, generator)

    def normal(shape, std):
        return torch.randn(shape, generator=generator) * std

    with torch.no_grad():
        _begin_at_random(model, size, normal)
        model.shared.weight.copy_(normal(model.shared.weight.shape, 1.0))
        table = model.shared.weight
        model.lm_head.weight.copy_(0.2 * (table @ p[0].T @ p[2] + table @ p[1].T @ p[3]))

        for stack in (model.encoder, model.decoder):
            bias = stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight
            bias.copy_(normal(bias.shape, 0.1))
        bias = model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        bias[1, :2] = 8.0  # one token back; the buckets of both directions share no row
        bias[2, 2] = 4.0  # two back
        bias[config.relative_attention_num_buckets // 2 + 1, 3] = 4.0  # one ahead
        first = model.encoder.block[0].layer[0].SelfAttention
        for head in (0, 1):
            for linear in (first.q, first.k):
                _rows(linear, head, size).mul_(0.1)
            _rows(first.v, head, size).copy_(p[head])
            first.o.weight[:, head * size : (head + 1) * size].copy_(back * p[head + 2].T)
        bias = model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        bias[1, 0] = 4.0

        _quoting(model.decoder.block[-1].layer[1].EncDecAttention, p, size, back, match, copy)


def writer(model, generator, marks, match=12.0, copy=3.0, back=1.5):
    """Prewires a T5 of six heads with `d_kv = d_model / 4` and an output table of its own, which quotes from its prompt.

    `marks` are pieces that begin a part of a prompt, each with the number of its kind, 0 to 2: a passage, the question, what
    was said so far. All layers of an encoder share one bias of positions, so a head has one use throughout: 0 and 1 look one token back
    and write what they see into frames 2 and 3; 2 looks for the mark that stands last to the left; 4 and 5 have no bias. In the
    second layer these look for equal pieces and equal pairs, in question and answer above all. The decoder's last layer begins as
    in `t5`, and looks besides for what the encoder flags as to be copied.

    Returns the directions of the encoder's flags, `[4, hidden]`: copied next, copied later, the answer, the begin of a copy.
    """
    config = model.config
    hidden, size, heads = config.d_model, config.d_kv, config.num_heads
    assert heads == 6 and size * 4 == hidden
    p = frames(hidden, generator)
    constant, mark, kinds = p[1][-1], p[1][-2], p[1][-5:-2]
    flags = p[1][-5:]
    part, equal, pair, told = p[3][-5:-2], p[3][-2], p[3][-1], p[3][-9:-5]

    def normal(shape, std):
        return torch.randn(shape, generator=generator) * std

    with torch.no_grad():
        _begin_at_random(model, size, normal)
        table = model.shared.weight
        # Seeded by their number: a model that goes on with more pieces must have no two rows alike.
        table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(len(table))))
        table.sub_(table @ flags.T @ flags)
        model.lm_head.mix.copy_(0.2 * (p[0].T @ p[2] + p[1].T @ p[3]))
        table.add_(3.0 * constant)
        for piece, kind in marks.items():
            table[piece] += 8.0 * mark + 6.0 * kinds[kind]

        for stack in (model.encoder, model.decoder):
            bias = stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight
            bias.copy_(normal(bias.shape, 0.1))
        half = config.relative_attention_num_buckets // 2
        bias = model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        bias[1, :2] = 8.0  # one token back
        bias[:half, 2] = -0.6 * torch.arange(half)  # the nearer, the better
        bias[half:, 2] = -16.0  # nothing to the right
        first = model.encoder.block[0].layer[0].SelfAttention
        for head in (0, 1):
            for linear in (first.q, first.k):
                _rows(linear, head, size).mul_(0.1)
            _rows(first.v, head, size).copy_(p[head])
            first.o.weight[:, head * size : (head + 1) * size].copy_(back * p[head + 2].T)
        _rows(first.v, 1, size)[-9:] = 0.0  # where flags will stand
        for linear in (first.q, first.k, first.v):
            _rows(linear, 2, size).mul_(0.1)
        _rows(first.q, 2, size)[0] = constant
        _rows(first.k, 2, size)[0] = 0.9 * mark
        _rows(first.v, 2, size)[:3] = kinds
        first.o.weight[:, 2 * size : 3 * size].mul_(0.1)
        first.o.weight[:, 2 * size : 2 * size + 3] = 0.6 * part.T

        second = model.encoder.block[1].layer[0].SelfAttention
        gain = 1.2 * (match / size) ** 0.5
        for head, what in ((4, p[0]), (5, torch.cat([p[0][: size // 2], p[2][: size // 2]]))):
            for linear in (second.q, second.k):
                _rows(linear, head, size).copy_(gain * what)
            # In place of one dimension: what stands in question or answer counts for more.
            _rows(second.q, head, size)[-1] = constant
            _rows(second.k, head, size)[-1] = 0.4 * (part[1] + part[2])
            _rows(second.v, head, size).mul_(0.3)
            _rows(second.v, head, size)[:3] = part
            second.o.weight[:, head * size] = equal if head == 4 else pair
        bias = model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        bias[1, 0] = 4.0
        cross = model.decoder.block[-1].layer[1].EncDecAttention
        _quoting(cross, p, size, back, 9.0, copy)
        for head in (0, 1):
            # In place of two dimensions of the match: what is to be copied counts from the start; the begin of a copy is
            # offered to both heads, which learn when to look for it.
            _rows(cross.q, head, size)[-2:] = torch.stack([1.5 * constant, 0.0 * constant])
            _rows(cross.k, head, size)[-2:] = torch.stack([told[:3].sum(dim=0), told[3]])
    return told.clone()


def _quoting(cross, p, size, back, match, copy):
    """Heads 0 and 1 look for a place whose previous token is the current one, and write what stands there into frames 2 and 3."""
    seen = (1 + back**2 / 2) ** -0.5  # what the last norm of the encoder makes of a state
    gain = (match / (size * back * seen)) ** 0.5
    for head in (0, 1):
        _rows(cross.q, head, size).copy_(gain * p[head])
        _rows(cross.k, head, size).copy_(gain * p[head + 2])
        _rows(cross.v, head, size).copy_(p[head])
        cross.o.weight[:, head * size : (head + 1) * size].copy_(copy * p[head + 2].T)


def deberta(backbone, generator, cls, marks, match=9.0, back=1.0):
    """Prewires a DeBERTa-v2 backbone of four heads, three layers or more, `pos_att_type` c2p and no shared key.

    First layer: head 0 looks one token back; head 1 looks left for [CLS] and for `marks` ([SEP], or what else begins a second
    text), and so knows which text a token is of. Second layer: heads 0 and 1 look for equal pieces, head 2 for equal pairs, and all three ask which
    text those are of: a token then knows whether it stands in both.
    """
    config = backbone.config
    hidden, heads = config.hidden_size, config.num_attention_heads
    size = hidden // heads
    assert heads == 4 and config.pos_att_type == ["c2p"] and not config.share_att_key
    p = frames(hidden, generator)
    special, side, both, pair = p[3][-1], p[3][-2], p[3][-3], p[3][-4]
    flags = p[3][-4:]
    scale = (2 * size) ** 0.5
    span = config.position_buckets

    def normal(shape, std):
        return torch.randn(shape, generator=generator) * std

    with torch.no_grad():
        for module in backbone.modules():
            if isinstance(module, nn.Linear):
                module.weight.copy_(normal(module.weight.shape, 0.5 * module.weight.shape[1] ** -0.5))
                if module.bias is not None:
                    module.bias.zero_()
        table = backbone.embeddings.word_embeddings.weight
        table.copy_(normal(table.shape, 1.0))
        table.sub_(table @ flags.T @ flags)
        table[cls] = 0.5 * table[cls] + 6.0 * special + 7.0 * side
        for mark in marks:
            table[mark] = 0.5 * table[mark] + 9.0 * special - 7.0 * side
        table[config.pad_token_id].zero_()
        positions = backbone.encoder.rel_embeddings.weight
        positions.copy_(normal(positions.shape, 0.3))
        one_back, to_the_right = p[0][0], p[1][0]
        positions[span + 1] += 8.0 * one_back  # query minus key is 1
        positions[:span] += 8.0 * to_the_right  # query minus key is below 0

        first = backbone.encoder.layer[0].attention
        own = first.self
        for linear in (own.query_proj, own.key_proj, own.pos_key_proj):
            _rows(linear, 0, size).mul_(0.1)
            _rows(linear, 1, size).mul_(0.1)
        # q . r / scale: 8 for one back, -16 for what is to the right, about 10 and 15 for [CLS] and [SEP].
        own.query_proj.bias[0] = scale
        own.pos_key_proj.weight[0] = one_back
        own.query_proj.bias[size] = scale
        own.pos_key_proj.weight[size] = -2.0 * to_the_right
        own.query_proj.bias[size + 1] = scale
        own.key_proj.weight[size + 1] = 1.8 * special
        _rows(own.value_proj, 0, size).copy_(p[0])
        first.output.dense.weight[:, :size].copy_(back * p[2].T)
        own.value_proj.weight[size] = side
        first.output.dense.weight[:, size : 2 * size].mul_(0.1)
        first.output.dense.weight[:, size].copy_(1.0 * side)

        second = backbone.encoder.layer[1].attention
        own = second.self
        gain = (match * scale / size) ** 0.5 / 0.8
        for head in (0, 1):
            for linear in (own.query_proj, own.key_proj):
                _rows(linear, head, size).copy_(gain * p[head])
        mixed = torch.cat([p[0][: size // 2], p[2][: size // 2]])
        for linear in (own.query_proj, own.key_proj):
            _rows(linear, 2, size).copy_(gain * mixed)
        for head in (0, 1, 2):
            _rows(own.pos_key_proj, head, size).mul_(0.1)
            own.value_proj.weight[head * size] = side
            second.output.dense.weight[:, head * size : (head + 1) * size].mul_(0.1)
            second.output.dense.weight[:, head * size].copy_(1.0 * (pair if head == 2 else both))
