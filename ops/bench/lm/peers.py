#!/usr/bin/env python3
"""PyTorch's side of the speed comparison, in a process that keeps one model.

Why: a ratio needs the peer as people run it (transformers, padded batches in arrival order) and the peer at its best, so
that what the engine owes to an idea (no padding, the head at targets only, shared work done once) is told from what it owes
to its kernels.

What: reads names of variants from standard input, answers each with one JSON line of seconds and scores. `padded` variants are
transformers itself; `packed` ones run transformers' weights over packed tokens with one product a layer for all sequences
and attention for each. Scores are the mean log-probability of the target, token logits, or mean-pooled states.

Knobs: the task, the model's folder, the requests, the number of threads.
"""

import json
import os
import sys
import time

TASK, MODEL, REQUESTS, THREADS = sys.argv[1:]
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = THREADS
# Threads that wait do not count.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import torch
import torch.nn.functional as F
import transformers

BATCH = 16
PACK = 2048
"""Tokens of a packed batch."""
SHARED = 8
"""Tokens that sequences must have in common to be worth a pass of their own."""


def batches(items, size):
    return [items[i : i + size] for i in range(0, len(items), size)]


def stages(lines):
    """Indices of lines that may share a padded batch: PromptRank scores one-hop paths first and then two-hop ones, each
    under one instruction after another. An id is `one` or `two`, a number, and the instruction's number if there are several."""
    groups = {}
    for i, line in enumerate(lines):
        hop, _, *instruction = line["id"].split("-")
        groups.setdefault((hop, *instruction), []).append(i)
    return list(groups.values())


def packs(items, tokens):
    """Batches of up to PACK tokens, in order."""
    batch, full = [], 0
    for item in items:
        if batch and full + tokens(item) > PACK:
            yield batch
            batch, full = [], 0
        batch.append(item)
        full += tokens(item)
    yield batch


def bounds(sizes):
    return list(zip(torch.tensor([0, *sizes]).cumsum(0).tolist(), torch.tensor(sizes).cumsum(0).tolist()))


def pad(sequences, filler, length=None):
    length = length or max(map(len, sequences))
    ids = torch.full((len(sequences), length), filler)
    mask = torch.zeros(len(sequences), length, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(sequence)] = 1
    return ids, mask


def split_heads(x, heads):
    """`[rows, heads * d]` to `[1, heads, rows, d]`."""
    return x.view(1, len(x), heads, -1).transpose(1, 2)


def join_heads(x):
    return x[0].transpose(0, 1).flatten(1)


def mean_log_probability(logits, target):
    return -F.cross_entropy(logits, torch.tensor(target)).item()


class Gpt2:
    HEADS = 12

    def __init__(self, lines):
        self.model = transformers.GPT2LMHeadModel.from_pretrained(MODEL).eval()
        self.lines = [(line["prompt_ids"], line["target_ids"]) for line in lines]
        self.stages = stages(lines)
        self.variants = {
            "transformers, padded 16": lambda: self.padded(False),
            "transformers, padded 16, head at targets": lambda: self.padded(True),
            "PyTorch, packed, head at targets": self.packed,
            "PyTorch, packed, prefixes shared": self.shared,
        }

    def warm(self):
        self.score([(self.lines[0][0][:40], self.lines[0][1], None)])

    def padded(self, at_targets):
        out = [None] * len(self.lines)
        for batch in (batch for stage in self.stages for batch in batches(stage, BATCH)):
            ids, mask = pad([self.lines[i][0] + self.lines[i][1] for i in batch], 50256)
            if at_targets:
                rows = self.model.transformer(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            else:
                rows = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            for row, i in enumerate(batch):
                prompt, target = self.lines[i]
                picked = rows[row, len(prompt) - 1 : len(prompt) + len(target) - 1]
                out[i] = mean_log_probability(self.model.lm_head(picked) if at_targets else picked, target)
        return out

    def blocks(self, items, keep=False):
        """States before the last norm of `(ids, prefix)` items, and with `keep` every layer's keys and values."""
        body, sizes = self.model.transformer, [len(ids) for ids, _ in items]
        ends, kept = bounds(sizes), [[] for _ in items]
        starts = [prefix[0][0].shape[2] if prefix else 0 for _, prefix in items]
        places = torch.cat([torch.arange(start, start + size) for start, size in zip(starts, sizes)])
        x = body.wte.weight[torch.tensor([t for ids, _ in items for t in ids])] + body.wpe.weight[places]
        # One mask for all suffixes of a length on a prefix of a length.
        masks = {}
        for layer, block in enumerate(body.h):
            h = block.ln_1(x)
            queries, keys, values = torch.addmm(block.attn.c_attn.bias, h, block.attn.c_attn.weight).split(768, 1)
            mixed = torch.empty_like(x)
            for i, ((first, last), (_, prefix)) in enumerate(zip(ends, items)):
                q, k, v = (split_heads(part[first:last], self.HEADS) for part in (queries, keys, values))
                if keep:
                    kept[i].append((k.contiguous(), v.contiguous()))
                if prefix:
                    k, v = torch.cat([prefix[layer][0], k], 2), torch.cat([prefix[layer][1], v], 2)
                    new, all_ = last - first, k.shape[2]
                    if (new, all_) not in masks:
                        masks[new, all_] = torch.ones(new, all_, dtype=torch.bool).tril(all_ - new)
                    o = F.scaled_dot_product_attention(q, k, v, attn_mask=masks[new, all_])
                else:
                    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                mixed[first:last] = join_heads(o)
            if keep and layer + 1 == len(body.h):
                break
            x = x + torch.addmm(block.attn.c_proj.bias, mixed, block.attn.c_proj.weight)
            h = F.gelu(torch.addmm(block.mlp.c_fc.bias, block.ln_2(x), block.mlp.c_fc.weight), approximate="tanh")
            x = x + torch.addmm(block.mlp.c_proj.bias, h, block.mlp.c_proj.weight)
        return x, ends, kept

    def score(self, items):
        """`(prompt ids after the prefix, target, prefix)` items."""
        x, ends, _ = self.blocks([(prompt + target[:-1], prefix) for prompt, target, prefix in items])
        at = torch.cat([torch.arange(last - len(item[1]), last) for (_, last), item in zip(ends, items)])
        logits = self.model.lm_head(self.model.transformer.ln_f(x[at]))
        wanted = torch.tensor([token for _, target, _ in items for token in target])
        each = F.cross_entropy(logits, wanted, reduction="none").split([len(target) for _, target, _ in items])
        return [-part.mean().item() for part in each]

    def packed(self):
        items = [(prompt, target, None) for prompt, target in self.lines]
        batches_ = packs(items, lambda item: len(item[0]) + len(item[1]))
        return [score for batch in batches_ for score in self.score(batch)]

    def shared(self):
        """Groups whose sequences begin alike: the beginning in one pass, what follows in another."""
        out, groups = [None] * len(self.lines), []
        for i in sorted(range(len(self.lines)), key=lambda i: self.lines[i][0]):
            prompt = self.lines[i][0]
            common = len(os.path.commonprefix([groups[-1][0], prompt])) if groups else 0
            if common >= SHARED:
                groups[-1] = (groups[-1][0][:common], groups[-1][1] + [i])
            else:
                groups.append((prompt, [i]))
        alone = [i for _, members in groups if len(members) == 1 for i in members]
        todo = [(i, 0, None) for i in alone]
        several = [group for group in groups if len(group[1]) > 1]
        for batch in packs(several, lambda group: len(group[0])) if several else []:
            _, _, kept = self.blocks([(prefix, None) for prefix, _ in batch], keep=True)
            todo += [(i, len(prefix), kv) for (prefix, members), kv in zip(batch, kept) for i in members]
        for batch in packs(todo, lambda item: len(self.lines[item[0]][0]) - item[1] + 20):
            items = [(self.lines[i][0][begin:], self.lines[i][1], prefix) for i, begin, prefix in batch]
            for (i, _, _), score in zip(batch, self.score(items)):
                out[i] = score
        return out


class T5:
    HEADS = 12

    def __init__(self, lines):
        self.model = transformers.T5ForConditionalGeneration.from_pretrained(MODEL).eval()
        if torch.equal(self.model.lm_head.weight, self.model.shared.weight):
            raise SystemExit("transformers tied T5's head")
        self.lines = [(line["prompt_ids"], line["target_ids"]) for line in lines]
        self.stages = stages(lines)
        # One question: the decoders' self-attention runs as a rectangle.
        (self.size,) = {len(target) for _, target in self.lines}
        self.kept = None
        self.variants = {
            "transformers, padded 16": self.padded,
            "PyTorch, packed": lambda: [s for batch in self.packs() for s in self.decode(batch, *self.encode(batch))],
            "PyTorch, packed, states kept": self.from_kept,
        }

    def warm(self):
        batch = [(prompt[:30], target) for prompt, target in self.lines[:1]]
        self.decode(batch, *self.encode(batch))
        self.kept = [(batch, self.encode(batch)) for batch in self.packs()]

    def packs(self):
        return packs(self.lines, lambda line: len(line[0]))

    def padded(self):
        out = [None] * len(self.lines)
        for batch in (batch for stage in self.stages for batch in batches(stage, BATCH)):
            ids, mask = pad([self.lines[i][0] for i in batch], 0)
            labels = torch.tensor([self.lines[i][1] for i in batch])
            logits = self.model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).logits
            for row, i in enumerate(batch):
                out[i] = mean_log_probability(logits[row], self.lines[i][1])
        return out

    @staticmethod
    def feed_forward(x, layer):
        inner, h = layer.DenseReluDense, layer.layer_norm(x)
        return x + inner.wo(F.gelu(inner.wi_0(h), approximate="tanh") * inner.wi_1(h))

    def encode(self, batch):
        stack, ends = self.model.encoder, bounds([len(prompt) for prompt, _ in batch])
        longest = max(last - first for first, last in ends)
        bias = stack.block[0].layer[0].SelfAttention.compute_bias(longest, longest)
        x = self.model.shared.weight[torch.tensor([t for prompt, _ in batch for t in prompt])]
        for block in stack.block:
            attention, h = block.layer[0].SelfAttention, block.layer[0].layer_norm(x)
            queries, keys, values = attention.q(h), attention.k(h), attention.v(h)
            mixed = torch.empty_like(x)
            for first, last in ends:
                q, k, v = (split_heads(part[first:last], self.HEADS) for part in (queries, keys, values))
                near = bias[:, :, : last - first, : last - first]
                mixed[first:last] = join_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=near, scale=1.0))
            x = self.feed_forward(x + attention.o(mixed), block.layer[1])
        return stack.final_layer_norm(x), ends

    def decode(self, batch, states, ends):
        stack, count, size = self.model.decoder, len(batch), self.size
        inputs = torch.tensor([[0, *target[:-1]] for _, target in batch])
        y = self.model.shared.weight[inputs].flatten(0, 1)
        bias = stack.block[0].layer[0].SelfAttention.compute_bias(size, size)
        bias = bias + torch.full((size, size), float("-inf")).triu(1)
        rectangle = lambda x: x.view(count, size, self.HEADS, -1).transpose(1, 2)
        for block in stack.block:
            own, cross = block.layer[0].SelfAttention, block.layer[1].EncDecAttention
            h = block.layer[0].layer_norm(y)
            q, k, v = rectangle(own.q(h)), rectangle(own.k(h)), rectangle(own.v(h))
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
            y = y + own.o(mixed.transpose(1, 2).reshape(count * size, -1))
            queries, keys, values = cross.q(block.layer[1].layer_norm(y)), cross.k(states), cross.v(states)
            mixed = torch.empty_like(y)
            for i, (first, last) in enumerate(ends):
                q = split_heads(queries[i * size : (i + 1) * size], self.HEADS)
                k, v = split_heads(keys[first:last], self.HEADS), split_heads(values[first:last], self.HEADS)
                mixed[i * size : (i + 1) * size] = join_heads(F.scaled_dot_product_attention(q, k, v, scale=1.0))
            y = self.feed_forward(y + cross.o(mixed), block.layer[2])
        logits = self.model.lm_head(stack.final_layer_norm(y))
        wanted = torch.tensor([token for _, target in batch for token in target])
        return (-F.cross_entropy(logits, wanted, reduction="none").view(count, size).mean(1)).tolist()

    def from_kept(self):
        return [score for batch, (states, ends) in self.kept for score in self.decode(batch, states, ends)]


class Encoder:
    """What DeBERTa and BERT have in common."""

    HEADS = 12

    def warm(self):
        self.run([self.lines[0][:32]])

    def padded(self, size, length=None):
        out = []
        for batch in batches(self.lines, size):
            ids, mask = pad(batch, 0, length)
            rows = self.forward(ids, mask)
            out += [self.score(row[: len(line)]) for row, line in zip(rows, batch)]
        return out

    def packed(self):
        return [score for batch in packs(self.lines, len) for score in self.run(batch)]

    def run(self, batch):
        ends = bounds(list(map(len, batch)))
        x = self.embed(batch)
        for number, layer in enumerate(self.layers):
            own, out = layer.attention.self, layer.attention.output
            mixed = self.attend(number, own, x, ends)
            x = out.LayerNorm(out.dense(mixed) + x)
            x = layer.output.LayerNorm(layer.output.dense(F.gelu(layer.intermediate.dense(x))) + x)
        return [self.score(rows) for rows in self.finish(x).split([last - first for first, last in ends])]


class Deberta(Encoder):
    def __init__(self, lines):
        from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

        self.model = transformers.DebertaV2ForTokenClassification.from_pretrained(MODEL).eval()
        self.lines = [line["ids"] for line in lines]
        self.variants = {
            "transformers, padded 16": lambda: self.padded(BATCH),
            "transformers, padded to 384, batches of 10": lambda: self.padded(10, 384),
            "PyTorch, packed": self.packed,
        }
        body = self.model.deberta
        self.layers, self.span = body.encoder.layer, body.config.position_buckets
        near = torch.arange(512)
        self.buckets = make_log_bucket_position(near[:, None] - near[None], self.span, 512).long()
        relative = body.encoder.LayerNorm(body.encoder.rel_embeddings.weight)
        # Constant in the weights.
        self.positions = [
            [split_heads(f(relative), self.HEADS)[0] for f in (layer.attention.self.key_proj, layer.attention.self.query_proj)]
            for layer in self.layers
        ]

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask).logits

    def embed(self, batch):
        embeddings = self.model.deberta.embeddings
        ids = torch.tensor([token for line in batch for token in line])
        return embeddings.LayerNorm(embeddings.word_embeddings.weight[ids])

    def attend(self, number, own, x, ends):
        queries, keys, values = own.query_proj(x), own.key_proj(x), own.value_proj(x)
        mixed, scale = torch.empty_like(x), (3 * 64) ** -0.5
        position_keys, position_queries = self.positions[number]
        for first, last in ends:
            size = last - first
            q, k, v = (split_heads(part[first:last], self.HEADS)[0] for part in (queries, keys, values))
            bucket = self.buckets[:size, :size]
            # Only distances that this length reaches; they are symmetric about 0.
            far = int(bucket.max())
            reached = slice(self.span - far, self.span + far + 1)
            forth, back = (bucket + far).expand(self.HEADS, -1, -1), (far - bucket).expand(self.HEADS, -1, -1)
            scores = q @ k.transpose(1, 2)
            scores += (q @ position_keys[:, reached].transpose(1, 2)).gather(2, forth)
            scores += (k @ position_queries[:, reached].transpose(1, 2)).gather(2, back).transpose(1, 2)
            mixed[first:last] = ((scores * scale).softmax(-1) @ v).transpose(0, 1).flatten(1)
        return mixed

    def finish(self, x):
        return self.model.classifier(x)

    def score(self, rows):
        return rows.flatten().tolist()


class Bert(Encoder):
    def __init__(self, lines):
        self.model = transformers.BertModel.from_pretrained(MODEL, add_pooling_layer=False).eval()
        self.lines, self.layers = [line["ids"] for line in lines], self.model.encoder.layer
        self.variants = {
            "transformers, padded 16": lambda: self.padded(BATCH),
            "transformers, one by one": lambda: self.padded(1),
            "PyTorch, packed": self.packed,
        }

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    def embed(self, batch):
        embeddings = self.model.embeddings
        ids = torch.tensor([token for line in batch for token in line])
        places = torch.cat([torch.arange(len(line)) for line in batch])
        x = embeddings.word_embeddings.weight[ids] + embeddings.position_embeddings.weight[places]
        return embeddings.LayerNorm(x + embeddings.token_type_embeddings.weight[0])

    def attend(self, number, own, x, ends):
        queries, keys, values = own.query(x), own.key(x), own.value(x)
        mixed = torch.empty_like(x)
        for first, last in ends:
            q, k, v = (split_heads(part[first:last], self.HEADS) for part in (queries, keys, values))
            mixed[first:last] = join_heads(F.scaled_dot_product_attention(q, k, v))
        return mixed

    def finish(self, x):
        return x

    def score(self, rows):
        return rows.mean(0).tolist()


def main():
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(int(THREADS))
    torch.set_grad_enabled(False)
    with open(REQUESTS) as file:
        lines = [json.loads(line) for line in file]
    engine = {"gpt2": Gpt2, "gpt2-instructions": Gpt2, "t5": T5, "label": Deberta, "embed": Bert}[TASK](lines)
    engine.warm()
    print(json.dumps(list(engine.variants)), flush=True)
    for line in sys.stdin:
        run = engine.variants[line.strip()]
        wall, cpu = time.perf_counter(), time.process_time()
        scores = run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(json.dumps({"wall_s": wall, "cpu_s": cpu, "scores": scores}), flush=True)


if __name__ == "__main__":
    main()
