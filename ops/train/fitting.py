"""The loop that all models are trained with: seeds, schedule, clipping, a log of JSON Lines.

A model trains for a number of steps or for a number of seconds of the process's own time (on a GPU, of the wall),
whichever ends first; the learning rate follows the larger share of the two, so that a run on a busy machine still ends
with a learning rate of nothing.
"""

import json
import math
import os
import random
import time

import numpy as np
import torch


def determine(seed, threads):
    """Everything that is drawn follows from the seed; one thread sums in one order."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return torch.Generator().manual_seed(seed)


class Log:
    """A file of JSON Lines, written as it grows. It takes the place of one that is there with its first line: a training that
    fails before that leaves a model's log as it was."""

    def __init__(self, path, silent=False):
        self.path, self.file, self.silent = path, None, silent

    def write(self, **fields):
        if self.silent:
            return
        if self.file is None:
            self.file = open(self.path, "w", encoding="utf-8")
        self.file.write(json.dumps(fields) + "\n")
        self.file.flush()
        print(json.dumps(fields), flush=True)


def rate(step, progress, options):
    """The share of the learning rate at a step, counted from 0, after `progress` of the training.

    The warm-up is a share of the training, `warm_up`, or a number of steps, `warm_up_steps`: the linear schedule is then that of
    transformers (`get_linear_schedule_with_warmup`), whose first step has a rate of 0.
    """
    if options.warm_up_steps:
        if step < options.warm_up_steps:
            return step / options.warm_up_steps
        warm_up = options.warm_up_steps / options.steps
    else:
        progress, warm_up = max(progress, 0.5 / options.steps), options.warm_up
        if progress < warm_up:
            return progress / warm_up
    rest = (progress - warm_up) / max(1e-9, 1 - warm_up)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, rest))) if options.schedule == "cosine" else max(0.0, 1 - rest)


def groups(model, options):
    """Matrices decay, vectors do not. Tables, of pieces and of positions, decay if `decaying_tables`, as transformers' Trainer has
    it; those of pieces, and what is `wired`, learn at `tables` times the rate."""
    matrices, vectors, of_pieces = [], [], []
    for name, parameter in model.named_parameters():
        vector = parameter.ndim < 2 or "bias" in name
        if options.decaying_tables:
            (vectors if vector else matrices).append(parameter)
        elif any(table in name for table in ("shared", "lm_head", "word_embeddings", *options.wired)):
            of_pieces.append(parameter)
        else:
            (vectors if vector or "embedding" in name else matrices).append(parameter)
    return [
        {"params": matrices, "weight_decay": options.weight_decay, "share": 1.0},
        {"params": vectors, "weight_decay": 0.0, "share": 1.0},
        {"params": of_pieces, "weight_decay": 0.0, "share": options.tables},
    ]


class Processes:
    """The processes of one training, as `torchrun` starts them: each has batches of its own, and all make the same steps."""

    def __init__(self):
        self.count, self.number = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        if self.count > 1:
            torch.distributed.init_process_group("gloo")

    def mean(self, tensor):
        if self.count > 1:
            torch.distributed.all_reduce(tensor)
            tensor /= self.count
        return tensor

    def average_gradients(self, model):
        if self.count > 1:
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            means = self.mean(torch.cat([g.ravel() for g in gradients])).split([g.numel() for g in gradients])
            for gradient, mean in zip(gradients, means):
                gradient.copy_(mean.view_as(gradient))


def fit(model, batches, loss, options, log, evaluate=None, processes=None):
    """Trains `model`: `batches()` yields for ever, `loss(batch)` gives a tensor and a dictionary of numbers for the log.

    `options` has steps, seconds, by_wall (if it has that), learning_rate, tables (the tables' share of it),
    wired (names of what learns as slowly), weight_decay, decaying_tables, warm_up (share of the training) or warm_up_steps,
    schedule, betas, clip, log_every and evaluate_every (steps; 0 for never). Of several `processes` the first one's log and
    evaluation count.
    """
    processes = processes or Processes()
    optimizer = torch.optim.AdamW(groups(model, options), lr=options.learning_rate, betas=options.betas, eps=1e-8)
    started, wall = time.process_time(), time.time()
    clock = time.time if getattr(options, "by_wall", False) else time.process_time
    begun = clock()
    sums, count, step, progress = {}, 0, 0, 0.0
    model.train()
    for batch in batches():
        spent = clock() - begun
        progress = max(step / options.steps, spent / options.seconds if options.seconds else 0.0)
        progress = float(processes.mean(torch.tensor(progress, dtype=torch.float64)))
        if progress >= 1.0:
            break
        share = rate(step, progress, options)
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * share * group["share"]
        optimizer.zero_grad(set_to_none=True)
        value, numbers = loss(batch)
        value.backward()
        processes.average_gradients(model)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        step += 1
        for name, number in {"loss": float(value.detach()), "gradient": float(norm), **numbers}.items():
            sums[name] = sums.get(name, 0.0) + number
        count += 1
        if step % options.log_every == 0:
            means = {name: round(total / count, 5) for name, total in sums.items()} | {"rate": options.learning_rate * share}
            seconds = round(time.process_time() - started, 1)
            log.write(step=step, progress=round(progress, 4), cpu_seconds=seconds, wall_seconds=round(time.time() - wall, 1), **means)
            sums, count = {}, 0
        if evaluate and options.evaluate_every and step % options.evaluate_every == 0:
            model.eval()
            with torch.no_grad():
                log.write(step=step, **evaluate())
            model.train()
    model.eval()
    final = {"steps": step, "cpu_seconds": round(time.process_time() - started, 1), "wall_seconds": round(time.time() - wall, 1)}
    if evaluate:
        with torch.no_grad():
            final |= evaluate()
    log.write(finished=True, **final)
    return final


def padded(rows, length=0, pad=0):
    """Lists of ids as a matrix `[rows, longest]`, and its mask; at least `length` wide."""
    longest = max(length, *(len(row) for row in rows))
    ids = torch.full((len(rows), longest), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for n, row in enumerate(rows):
        ids[n, : len(row)] = row if torch.is_tensor(row) else torch.tensor(row)
        mask[n, : len(row)] = 1
    return ids, mask


def shuffled(count, size, lengths, generator, window=32):
    """Batches of positions for ever: each pass in a new order, of like length within a window of batches."""
    if not count:
        raise SystemExit("there is no row to train on")
    while True:
        order = torch.randperm(count, generator=generator).tolist()
        for start in range(0, count, size * window):
            part = sorted(order[start : start + size * window], key=lambda n: lengths[n])
            cut = [part[n : n + size] for n in range(0, len(part), size)]
            for n in torch.randperm(len(cut), generator=generator).tolist():
                yield cut[n]
