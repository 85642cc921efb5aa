#!/usr/bin/env python3
"""Transformers' side of the comparison on a GPU: padded batches in arrival order, and a sorted variant.

`padded N` builds a batch of N requests as they arrive, one-hop paths of a question before its two-hop ones, padded to
the longest, and takes the full logits. For encoders `padded to the limit` pads to 384 or 128 tokens, as
EfficientRAG's code does. `sorted` is the better loop that is still transformers: requests by length, batches under a
budget of padded tokens, the head at targets alone. No gradients, no cache, attention by
`scaled_dot_product_attention` where the model has it. Log-probabilities are taken in float32 on the device and copied
to the host once a pass. A pass is timed from lists of token ids to lists of numbers; one pass before the first is
not.

Usage: transformers_loop.py MODEL KIND DEVICE; KIND is t5, gpt2, label or filter. It imports, says so, and then
answers lines of JSON on its input, of which each names a deed:

* `load`: reads the model into the memory of the host. Up to here the device is not touched.
* `measure` (`workloads`: [name, file] in order of value, `rounds`, `seconds`): one line a workload and variant, in
  bfloat16. What does not fit into the seconds is left out and told.
* `scores` (`lines`, `to`, `dtype`): the numbers of each line by itself, in bfloat16 or, from then on, in float32.

The last line of an answer is `{"done": DEED, "seconds": S}`, with `error` where it failed.
"""

import json
import pathlib
import sys
import time
import traceback

BEGUN = time.perf_counter()

import torch
import torch.nn.functional as F
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lm"))

SORTED_TOKENS = 16384
"""Padded tokens of a sorted batch."""
LIMITS = {"label": 384, "filter": 128}
PADDED = {"t5": (16, 50), "gpt2": (16, 50), "label": (10, 50), "filter": (10, 50)}


def model_class(kind):
    """The class that opens a checkpoint."""
    if kind == "label":
        from efficientrag import DebertaForSequenceTokenClassification

        return DebertaForSequenceTokenClassification
    names = {"t5": "T5ForConditionalGeneration", "gpt2": "GPT2LMHeadModel", "filter": "DebertaV2ForTokenClassification"}
    # Only now is the code of this architecture imported.
    return getattr(transformers, names[kind])


def opened(folder, kind, model_type):
    """The model in bfloat16 in the host's memory, with the attention that is fastest in transformers itself."""
    try:
        model = model_type.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa")
    except (ValueError, ImportError):
        model = model_type.from_pretrained(folder, dtype=torch.bfloat16)
    if kind == "t5" and torch.equal(model.lm_head.weight, model.shared.weight):
        raise RuntimeError("transformers tied T5's head")
    return model.eval()


def arrival(lines, size):
    """Batches of indices in order; a batch ends with the stage (a question's one-hop paths, say) that its ids name."""
    batch, stage = [], None
    for i, line in enumerate(lines):
        of = line["id"].rsplit("-", 1)[0]
        if batch and (len(batch) == size or of != stage):
            yield batch
            batch = []
        batch, stage = batch + [i], of
    yield batch


def by_length(lines, length):
    """Batches of indices, the longest first, of at most SORTED_TOKENS padded tokens."""
    order, batch = sorted(range(len(lines)), key=lambda i: (-length(lines[i]), i)), []
    for i in order:
        if batch and (len(batch) + 1) * length(lines[batch[0]]) > SORTED_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    yield batch


class Loop:
    """What the kinds have in common."""

    def __init__(self, model, kind, device):
        self.model, self.kind, self.device = model, kind, device

    def padded(self, sequences, length=None):
        """Ids and mask on the device."""
        length = length or max(map(len, sequences))
        ids = torch.tensor([sequence + [0] * (length - len(sequence)) for sequence in sequences])
        mask = torch.tensor([[1] * len(sequence) + [0] * (length - len(sequence)) for sequence in sequences])
        return ids.to(self.device), mask.to(self.device)

    def at(self, positions):
        """Indices of the pairs (row, position) of a padded batch, on the device."""
        rows = torch.tensor([row for row, places in enumerate(positions) for _ in places])
        return rows.to(self.device), torch.tensor([place for places in positions for place in places]).to(self.device)

    def variants(self):
        """How a workload can be run, by name: the first two are measured first."""
        small, large = PADDED[self.kind]
        return {
            f"padded {small}": lambda lines: self.run(lines, arrival(lines, small)),
            "sorted": lambda lines: self.run(lines, by_length(lines, self.length), best=True),
            f"padded {large}": lambda lines: self.run(lines, arrival(lines, large)),
        }

    def run(self, lines, batches, **how):
        """Lists of numbers, one a line, in the lines' order."""
        order, found = [], []
        for batch in batches:
            order += batch
            found.append(self.answer([lines[i] for i in batch], **how))
        numbers, out, begin = torch.cat(found).cpu().tolist(), [None] * len(lines), 0
        for i in order:
            count = self.count(lines[i])
            out[i], begin = numbers[begin : begin + count], begin + count
        return out


class Scores(Loop):
    """Log-probabilities of targets."""

    def length(self, line):
        return len(line["prompt_ids"]) + (len(line["target_ids"]) if self.kind == "gpt2" else 0)

    def count(self, line):
        return len(line["target_ids"])

    def answer(self, lines, best=False):
        logits = self.t5(lines) if self.kind == "t5" else self.gpt2(lines, best)
        wanted = torch.tensor([token for line in lines for token in line["target_ids"]]).to(self.device)
        return -F.cross_entropy(logits.float(), wanted, reduction="none")

    def t5(self, lines):
        ids, mask = self.padded([line["prompt_ids"] for line in lines])
        inputs, _ = self.padded([[0, *line["target_ids"][:-1]] for line in lines])
        logits = self.model(input_ids=ids, attention_mask=mask, decoder_input_ids=inputs, use_cache=False).logits
        return logits[self.at([range(len(line["target_ids"])) for line in lines])]

    def gpt2(self, lines, best):
        ids, mask = self.padded([line["prompt_ids"] + line["target_ids"] for line in lines])
        at = self.at([range(len(l["prompt_ids"]) - 1, len(l["prompt_ids"]) + len(l["target_ids"]) - 1) for l in lines])
        if best:
            states = self.model.transformer(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            return self.model.lm_head(states[at])
        return self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits[at]


class Labels(Loop):
    """Logits of token labels."""

    def variants(self):
        small, limit = PADDED[self.kind][0], LIMITS[self.kind]
        fixed = {"padded to the limit": lambda lines: self.run(lines, arrival(lines, small), length=limit)}
        return super().variants() | fixed

    def length(self, line):
        return len(line["ids"])

    def count(self, line):
        return 2 * len(line["ids"])

    def answer(self, lines, length=None, best=False):
        ids, mask = self.padded([line["ids"] for line in lines], length)
        output = self.model(input_ids=ids, attention_mask=mask)
        logits = output.token_logits if self.kind == "label" else output.logits
        return logits[self.at([range(len(line["ids"])) for line in lines])].float().flatten()


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def synchronise(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def measure(loop, variant, lines, rounds, until):
    """Seconds of each pass after a warm-up."""
    run, walls = loop.variants()[variant], []
    for number in range(rounds + 1):
        synchronise(loop.device)
        begun = time.perf_counter()
        run(lines)
        synchronise(loop.device)
        if number:
            walls.append(time.perf_counter() - begun)
        if walls and time.monotonic() > until:
            break
    return walls


class Server:
    """A model, and the deeds that are asked of it."""

    def __init__(self, folder, kind, device):
        self.folder, self.kind, self.device, self.loop = folder, kind, device, None
        self.model_type = model_class(kind)

    def load(self):
        self.model = opened(self.folder, self.kind, self.model_type)
        print(
            json.dumps({"attention": self.model.config._attn_implementation, "dtype": str(self.model.dtype)}),
            flush=True,
        )

    def on_device(self):
        """The loop, whose model is brought to the device once."""
        if self.loop is None:
            self.loop = (Labels if self.kind in LIMITS else Scores)(self.model.to(self.device), self.kind, self.device)
        return self.loop

    def measure(self, workloads, rounds, seconds):
        loop, read_lines = self.on_device(), {name: read(path) for name, path in workloads}
        if loop.model.dtype != torch.bfloat16:
            raise RuntimeError("the model is in float32 already")
        until = time.monotonic() + seconds
        first, last = list(loop.variants())[:2], list(loop.variants())[2:]
        for variant, name in [(variant, name) for some in (first, last) for name in read_lines for variant in some]:
            result = {"workload": name, "variant": variant, "requests": len(read_lines[name])}
            if time.monotonic() > until:
                print(json.dumps(result | {"left_out": True}), flush=True)
                continue
            try:
                result["wall_s"] = measure(loop, variant, read_lines[name], rounds, until)
            except torch.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                result["error"] = str(error).splitlines()[0]
            print(json.dumps(result), flush=True)

    def scores(self, lines, to, dtype):
        loop, lines = self.on_device(), read(lines)
        if dtype == "float32":
            # The stored weights are bfloat16: as float32 they are the same numbers.
            loop.model.float()
        if str(loop.model.dtype) != f"torch.{dtype}":
            raise RuntimeError(f"the model is in {loop.model.dtype} already")
        # One by one: no padding changes a number.
        pathlib.Path(to).write_text(json.dumps(loop.run(lines, [[i] for i in range(len(lines))])))


def main():
    folder, kind, device = sys.argv[1:]
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    server = Server(folder, kind, device)
    deeds = {"load": server.load, "measure": server.measure, "scores": server.scores}
    print(json.dumps({"done": "import", "seconds": time.perf_counter() - BEGUN}), flush=True)
    for line in sys.stdin:
        asked, begun, error = json.loads(line), time.perf_counter(), {}
        deed = asked.pop("deed")
        try:
            deeds[deed](**asked)
        except Exception as failure:
            traceback.print_exc()
            error = {"error": f"{type(failure).__name__}: {failure}"}
        if torch.cuda.is_initialized():
            # What PyTorch keeps for itself is others' until the next deed.
            torch.cuda.empty_cache()
        print(json.dumps({"done": deed, "seconds": time.perf_counter() - begun} | error), flush=True)


if __name__ == "__main__":
    main()
