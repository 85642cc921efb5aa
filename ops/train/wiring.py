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


WIRING_SEED = 1  # of a writer: what is resumed has flags and meanings in the directions of its wiring


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


def writer(model, generator, marks, ends, meanings=None, match=12.0, copy=3.0):
    """Prewires a T5 of six heads with `d_kv = d_model / 4`, five encoder layers or more, and an output that mixes the
    input's table.

    `marks` are pieces that begin a part of a prompt, each with the number of its kind, 0 to 2: a passage, the question,
    what was said so far. `ends` are pieces that end a title or a sentence: what is known of a sentence gathers at the
    end before it. All layers of an encoder share one bias of positions, so a head has one use throughout:

    * 0 and 1 look one token back: in the first layer 0 writes what it sees into frame 2, in the second 1 into half of
      frame 3 what stands another one back.
    * 2 looks to the left for the nearest mark or end: which part is this (first layer), is this a title (second), what
      does the passage's mark know of its title (fourth), what does the end before a sentence know of it (fifth).
    * 3 looks over the next dozen tokens: marks gather what is known of their titles (third), ends their sentences
      (fourth).
    * 4 and 5 look for equal pairs (second layer) and for pieces of like meaning (third) in the question and in what was
      said. They see these parts alone, and the mark of the part where nothing is alike. So what a passage's tokens come
      to know depends on question and chain, not on how many passages stand beside it: short contexts teach long ones.

    `meanings` [pieces, 26], of `meanings.py`, fill frame 1 of the words that have one: a word is then near to words of
    like meaning there, and to itself alone in frame 0. Other pieces are near to none.

    The decoder's last layer begins nearly as in `t5`, by two pieces in place of one, and looks besides for what the
    encoder flags as to be copied.

    Returns the encoder's flags as directions, `[4, hidden]`: copied next, copied later, the answer, a copy's begin; and
    those of meanings, `[26, hidden]`.
    """
    config = model.config
    hidden, size, heads = config.d_model, config.d_kv, config.num_heads
    assert heads == 6 and size * 4 == hidden and config.num_layers >= 5
    p = frames(hidden, generator)
    constant, mark, kinds, end = p[1][-1], p[1][-2], p[1][-5:-2], p[1][-6]
    own, meaning = p[1][-6:], p[1][:-6]  # of a piece, not of its name; its name
    known, second = p[3][-20:], p[3][:-20]  # what the layers come to know of a token; the token but one before it
    part, title, told = known[:3], known[3], known[16:]
    # Each of question and chain.
    pair, alike, gathered, passage = known[4:6], known[6:8], known[8:10], known[10:12]
    told_behind, sentence = known[12:14], known[14:16]

    def normal(shape, std):
        return torch.randn(shape, generator=generator) * std

    with torch.no_grad():
        _begin_at_random(model, size, normal)
        table = model.shared.weight
        # Seeded by their number: a model that goes on with more pieces must have no two rows alike. Equal lengths in
        # frames 0 and 1, so that any piece is equal to itself by as much; little in 2 and 3, which are written to.
        table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(len(table))))
        table.sub_(table @ own.T @ own + table @ known.T @ known)
        table.sub_(0.7 * (table @ p[2].T @ p[2] + table @ p[3].T @ p[3]))
        for frame in p[:2]:
            length = (table @ frame.T).norm(dim=1, keepdim=True)
            free = size - (len(own) if frame is p[1] else 0)
            table.add_((free**0.5 / length - 1) * (table @ frame.T) @ frame)
        model.lm_head.mix.copy_(0.2 * (p[0].T @ p[2] + p[1].T @ p[3]))
        if meanings is not None:
            words = meanings.any(dim=1)
            table[words] += (len(meaning) ** 0.5 * meanings[words] - table[words] @ meaning.T) @ meaning
        table.add_(3.0 * constant)
        for piece, kind in marks.items():
            table[piece] += 8.0 * mark + 6.0 * kinds[kind]
        for piece in ends:
            table[piece] += 8.0 * end

        for stack in (model.encoder, model.decoder):
            bias = stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight
            bias.copy_(normal(bias.shape, 0.1))
        half = config.relative_attention_num_buckets // 2
        bias = model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        bias[1, :2] = 12.0  # one token back
        bias[:half, 2] = -1.2 * torch.arange(half)  # the nearer, the better
        bias[half:, 2] = -40.0  # nothing to the right
        bias[0, 3], bias[1:half, 3] = -4.0, -40.0
        bias[half:, 3] = -0.1 * torch.arange(half) - 2.0 * (torch.arange(half) - 13).clamp(min=0)  # what follows
        bias[:, 4:] = 0.0
        layers = [block.layer[0].SelfAttention for block in model.encoder.block]

        def quiet(layer, head, share, what=("q", "k")):
            for name in what:
                _rows(getattr(layers[layer], name), head, size).mul_(share)

        def write(layer, head, row, direction, share):
            layers[layer].o.weight[:, head * size + row] = share * direction

        for layer in range(len(layers)):
            for head in (0, 1, 2, 3):
                quiet(layer, head, 0.1)
            for weight in (layers[layer].o.weight, model.encoder.block[layer].layer[1].DenseReluDense.wo.weight):
                for kept in (known, own):
                    weight.sub_(kept.T @ (kept @ weight))
        # First: the token before, and the part; second: the token before that.
        _rows(layers[0].v, 0, size).copy_(p[0])
        layers[0].o.weight[:, :size].copy_(0.76 * p[2].T)
        _rows(layers[1].v, 1, size)[: len(second)] = p[2][: len(second)]
        for row, direction in enumerate(second):
            write(1, 1, row, direction, 1.0)
        _rows(layers[0].q, 2, size)[0] = constant
        _rows(layers[0].k, 2, size)[0] = 1.6 * mark
        _rows(layers[0].v, 2, size)[:3] = kinds
        layers[0].o.weight[:, 2 * size : 3 * size].mul_(0.1)
        for kind in range(3):
            write(0, 2, kind, part[kind], 0.5)
        # Second: a title stands behind a mark, and not behind an end.
        _rows(layers[1].q, 2, size)[0] = constant
        _rows(layers[1].k, 2, size)[0] = 2.5 * (mark + end)
        _rows(layers[1].v, 2, size)[0] = part[0] - 0.8 * end
        write(1, 2, 0, title, 0.8)
        # Third: a mark gathers from its title what is known of pairs; fourth: the passage reads it there, and an end
        # gathers what is known of the sentence behind it; fifth: the sentence reads it at that end.
        _rows(layers[2].q, 3, size)[0] = mark
        _rows(layers[2].k, 3, size)[0] = 0.4 * title
        _rows(layers[2].v, 3, size)[:2] = pair
        for layer, place in ((3, mark), (4, end)):
            _rows(layers[layer].q, 2, size)[0] = constant
            _rows(layers[layer].k, 2, size)[0] = 2.5 * place
        _rows(layers[3].v, 2, size)[:2] = gathered
        _rows(layers[3].v, 3, size)[:2] = alike
        _rows(layers[4].v, 2, size)[:2] = told_behind
        for n in range(2):
            write(2, 3, n, gathered[n], 1.6)
            write(3, 2, n, passage[n], 1.2)
            write(3, 3, n, told_behind[n], 1.6)
            write(4, 2, n, sentence[n], 1.2)
        # Second and third: equal pairs, and like meanings.
        for layer, what, gain in ((1, torch.cat([p[0][:15], p[2][:15]]), match), (2, meaning, 1.4 * match)):
            gain = (gain / len(what)) ** 0.5
            for n, head in enumerate((4, 5)):
                for linear in (layers[layer].q, layers[layer].k):
                    _rows(linear, head, size)[: len(what)] = gain * what
                _rows(layers[layer].q, head, size)[-2:] = constant
                _rows(layers[layer].k, head, size)[-2:] = torch.stack([2.6 * part[n + 1], 0.9 * mark])
                quiet(layer, head, 0.3, ["v"])
                _rows(layers[layer].v, head, size)[0] = part[n + 1] - 0.7 * mark
                write(layer, head, 0, (pair, alike)[layer - 1][n], 0.5)
        # Later layers go on looking into the question and the chain alone.
        for layer in range(3, len(layers)):
            for n, head in enumerate((4, 5)):
                _rows(layers[layer].q, head, size)[-1] = constant
                _rows(layers[layer].k, head, size)[-1] = 2.6 * part[n + 1]
        # The decoder knows the piece before the last one, as the encoder does, and quotes what stands behind both.
        bias = model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        bias[1, 0] = 12.0
        before = model.decoder.block[0].layer[0].SelfAttention
        for linear in (before.q, before.k):
            _rows(linear, 0, size).mul_(0.1)
        _rows(before.v, 0, size).copy_(p[0])
        before.o.weight[:, :size] = 0.0
        before.o.weight[:, : len(second)] = second.T
        cross = model.decoder.block[-1].layer[1].EncDecAttention
        last, earlier = 20, 10  # dimensions of each match
        for head in (0, 1):
            for linear, of_last in ((cross.q, p[0]), (cross.k, p[2])):
                rows = _rows(linear, head, size)
                rows[:last] = (match / last) ** 0.5 * of_last[:last]
                rows[last : last + earlier] = (0.4 * match / earlier) ** 0.5 * second[:earlier]
            _rows(cross.v, head, size).copy_(p[head])
            cross.o.weight[:, head * size : (head + 1) * size].copy_(copy * p[head + 2].T)
            # What is to be copied counts from the start; the begin of a copy is offered to both heads, which learn when
            # to look for it.
            _rows(cross.q, head, size)[-2:] = torch.stack([1.5 * constant, 0.0 * constant])
            _rows(cross.k, head, size)[-2:] = torch.stack([told[:3].sum(dim=0), told[3]])
    return told.clone(), meaning.clone()


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
