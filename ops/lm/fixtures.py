#!/usr/bin/env python3
"""Tiny seeded models of every architecture and head, and what transformers computes with them.

Why: the engine must give what Hugging Face transformers gives. These models are small enough to lie in the repository, so
that every test run compares the two; odd sizes (heads of 8, a vocabulary that is no multiple of anything, an attention
wider than the hidden state) meet the tails of every kernel.

What: for each fixture a folder under engine/lm/tests/fixtures with the model as transformers saves it, the configuration as
transformers 4 wrote it where that differs, for some a tokenizer, and the expected outputs in float32 (eager attention, one
thread, deterministic algorithms): see README.md there, which this script writes, too. Weights are drawn by NumPy and wide
enough that greedy generations wander. Where a decision hangs on less than 1e-3 (the best two logits of a generation step,
the best two spans) the next seed is tried, so that honest rounding never flips an answer. The same versions give the same
bytes; on another kind of processor the last bits of expected.safetensors may differ.

Knobs: names of fixtures (default all), --out.

Needs Python 3.11 with torch 2.11.0, transformers 5.17.0, tokenizers, safetensors and numpy.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import sys

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import efficientrag
import fixture_text
import fixture_models

HERE = pathlib.Path(__file__).resolve()
OUT = HERE.parents[2] / "engine/lm/tests/fixtures"
PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")

MARGIN = 1e-3
GENERATED = 64
LONGEST_ANSWER = 30
TEMPERATURES = ("1.0", "1.4")
SEEDS = 200
GAIN = 2.5


class NearTie(Exception):
    """A decision of this seed hangs on too little."""


def randomise(model, seed):
    """Weights wide enough to matter; norms and biases are not trivial."""
    random = np.random.default_rng(seed)
    # A tied head repeats its input unless the layers drown it; T5 v1.0 scales the head's input down, too.
    loud = getattr(model.config, "scale_decoder_outputs", False)
    for name, tensor in sorted(model.named_parameters()):
        shape = tuple(tensor.shape)
        draw = random.standard_normal(shape).astype(np.float32)
        if len(shape) == 1:
            draw *= 0.2
            if ("norm" in name.lower() or "ln_" in name) and name.endswith("weight"):
                draw += 1
        elif "relative_attention_bias" in name:
            draw *= 4 if loud else 2
        elif "embed" in name or "wte" in name or "wpe" in name or name.startswith("shared"):
            draw *= 0.8 if loud else 0.45
        else:
            # GPT-2 stores [into, out]; all others [out, into].
            into = shape[0] if ".c_" in name else shape[1]
            draw *= GAIN / np.sqrt(into)
            if name.endswith("Attention.q.weight"):
                draw /= np.sqrt(model.config.d_kv)
            if loud and name.endswith("o.weight"):
                draw *= 4
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(draw))


def untie(model, seed):
    """Gives T5 a head of its own; transformers 5 ties it at construction whatever the configuration says."""
    head = np.random.default_rng(seed + 10_000).standard_normal(tuple(model.lm_head.weight.shape))
    model.lm_head.weight = torch.nn.Parameter(torch.from_numpy((head * 0.45).astype(np.float32)))


def build(spec, folder, seed):
    """Writes the model and reads it again: expectations are of the files, not of what was in memory."""
    model = spec.model(spec.config(), **spec.options)
    model.eval()
    randomise(model, seed)
    if spec.untied:
        untie(model, seed)
    model.to(spec.dtype)
    model.config._attn_implementation = None
    model.save_pretrained(folder, max_shard_size=spec.shard or "1GB")
    # As a model that generates is saved; its content is that of config.json.
    (folder / "generation_config.json").unlink(missing_ok=True)
    if spec.rename:
        (file,) = folder.glob("*.safetensors")
        state = spec.rename(load_file(file))
        save_file(state, file, metadata={"format": "pt"})
    loaded = load(spec, folder)
    if spec.untied and torch.equal(loaded.lm_head.weight, loaded.shared.weight):
        raise SystemExit(f"{folder.name}: transformers tied the head again")
    return loaded


def load(spec, folder):
    model, report = spec.model.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **spec.options
    )
    if report["missing_keys"] or report["mismatched_keys"]:
        raise SystemExit(f"{folder.name}: transformers found no {report['missing_keys']}{report['mismatched_keys']}")
    return model.eval()


def check_transformers_4(spec, folder, model, ids):
    """The older configuration must describe the same model."""
    older = folder / "config.transformers4.json"
    older.write_text(json.dumps(spec.transformers_4(json.loads((folder / "config.json").read_text())), indent=2) + "\n")
    newer = (folder / "config.json").read_text()
    shutil.copy(older, folder / "config.json")
    again = load(spec, folder)
    (folder / "config.json").write_text(newer)
    batch = {"input_ids": torch.tensor([ids])}
    if spec.kind == "encoder_decoder":
        batch["decoder_input_ids"] = batch["input_ids"]
    first, second = model(**batch)[0], again(**batch)[0]
    if not torch.equal(first, second):
        raise SystemExit(f"{folder.name}: config.transformers4.json is of another model, {(first - second).abs().max()}")


def draw(random, length, spec):
    return random.integers(spec.lowest, spec.vocabulary, length).tolist()


def as_text(value):
    """Indented JSON, but lists of numbers on one line."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return re.sub(r"\[[-+.e\d,\s]*\]", lambda numbers: re.sub(r"\s+", "", numbers[0]), text) + "\n"


def floats(tensor):
    return [float(x) for x in tensor]


def log_probabilities(logits, targets, temperature):
    rows = torch.log_softmax(logits / temperature, -1)
    return floats(rows[torch.arange(len(targets)), torch.tensor(targets)])


def margin_of(values):
    best = torch.topk(values, 2).values
    return float(best[0] - best[1])


def expect_scores(score, spec, random):
    """`score(prompt, target)` gives the logits that predict the target."""
    pairs = []
    for prompt, target in ((1, 1), (1, 7), (11, 1), (9, 12), (26, 5)):
        prompt, target = draw(random, prompt, spec), draw(random, target, spec)
        if spec.kind == "encoder_decoder":
            prompt, target = prompt + [1], target + [1]
        logits = score(prompt, target)
        by_temperature = {t: log_probabilities(logits, target, float(t)) for t in TEMPERATURES}
        pairs.append({"prompt_ids": prompt, "target_ids": target, "logprobs": by_temperature})
    return pairs


def expect_generations(model, spec, random):
    """Greedy, never stopping. `margin` is the least distance between the best two logits of a step."""
    out = []
    for length in (4, 9, 17) if spec.kind == "encoder_decoder" else (1, 6, 17):
        prompt = draw(random, length, spec) + ([1] if spec.kind == "encoder_decoder" else [])
        ids = torch.tensor([prompt])
        result = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=transformers.GenerationConfig(
                max_new_tokens=GENERATED,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
                decoder_start_token_id=0 if spec.kind == "encoder_decoder" else None,
                output_logits=True,
                return_dict_in_generate=True,
            ),
        )
        made = result.sequences[0, -GENERATED:].tolist()
        logits = torch.stack([step[0] for step in result.logits])
        margin = min(margin_of(row) for row in logits)
        if len(result.logits) != GENERATED or margin < MARGIN or len(set(made)) < 10:
            raise NearTie
        again = full_logits(model, spec, prompt, made)
        if again.argmax(-1).tolist() != made:
            raise NearTie
        out.append(
            {"prompt_ids": prompt, "ids": made, "logprobs": log_probabilities(again, made, 1.0), "margin": margin}
        )
    return out


def full_logits(model, spec, prompt, target):
    """Without a cache: the logits that predict each token of `target`."""
    if spec.kind == "encoder_decoder":
        inputs = torch.tensor([[0] + target[:-1]])
        return model(input_ids=torch.tensor([prompt]), decoder_input_ids=inputs, use_cache=False).logits[0]
    ids = torch.tensor([prompt + target])
    return model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]


def expect_decoder(model, spec, random, tensors):
    sequences = [draw(random, n, spec) for n in spec.lengths]
    for i, ids in enumerate(sequences):
        tensors[f"logits.{i}"] = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    return {
        "sequences": [{"ids": ids} for ids in sequences],
        "scores": expect_scores(lambda p, t: full_logits(model, spec, p, t), spec, random),
        "generations": expect_generations(model, spec, random),
    }


def expect_encoder_decoder(model, spec, random, tensors):
    sequences = []
    for i, n in enumerate(spec.lengths):
        ids = draw(random, n, spec)
        inputs = [0] + draw(random, spec.lengths[-1 - i], spec)
        output = model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([inputs]), use_cache=False)
        tensors[f"hidden.{i}"] = output.encoder_last_hidden_state[0]
        tensors[f"logits.{i}"] = output.logits[0]
        sequences.append({"ids": ids, "decoder_ids": inputs})
    return {
        "sequences": sequences,
        "scores": expect_scores(lambda p, t: full_logits(model, spec, p, t), spec, random),
        "generations": expect_generations(model, spec, random),
    }


def best_span(start, end, first, last):
    """The best `start + end` with first <= start <= end <= last; the earlier start, then the earlier end on a tie."""
    sums = {
        (i, j): float(start[i] + end[j])
        for i in range(first, last + 1)
        for j in range(i, min(i + LONGEST_ANSWER, last + 1))
    }
    ranked = sorted(sums, key=lambda span: (-sums[span], span))
    if len(ranked) > 1 and sums[ranked[0]] - sums[ranked[1]] < MARGIN:
        raise NearTie
    return list(ranked[0])


def encode_case(model, spec, ids, types):
    """One sequence through an encoder: tensors by name, and what is decided from them."""
    batch = {"input_ids": torch.tensor([ids])}
    if types is not None:
        batch["token_type_ids"] = torch.tensor([types])
    output = model(**batch, output_hidden_states=True)
    tensors, case = {"hidden": output.hidden_states[-1][0]}, {"ids": ids}
    if types is not None:
        case["token_type_ids"] = types
    hidden = tensors["hidden"]
    if "embed" in spec.heads:
        pooled = {"mean": hidden.mean(0), "cls": hidden[0]}
        for name, vector in pooled.items():
            tensors[f"embedding.{name}"] = vector
            tensors[f"embedding.{name}.normalized"] = vector / vector.norm()
    if "token" in spec.heads:
        tensors["token_logits"] = spec.token_logits(output)[0]
        best = torch.topk(tensors["token_logits"], 2).values
        if float((best[:, 0] - best[:, 1]).min()) < MARGIN:
            raise NearTie
        case["token_labels"] = tensors["token_logits"].argmax(-1).tolist()
    if "sequence" in spec.heads:
        tensors["sequence_logits"] = spec.sequence_logits(output)[0]
        case["sequence_logits"] = floats(tensors["sequence_logits"])
        if len(case["sequence_logits"]) > 1:
            if margin_of(tensors["sequence_logits"]) < MARGIN:
                raise NearTie
            case["label"] = int(tensors["sequence_logits"].argmax())
    if "span" in spec.heads:
        tensors["start_logits"], tensors["end_logits"] = output.start_logits[0], output.end_logits[0]
        if types is not None and 1 in types:
            last = len(ids) - 2
            case["span"] = best_span(output.start_logits[0], output.end_logits[0], types.index(1), last)
    return tensors, case


def expect_encoder(model, spec, random, tensors):
    cases = []
    for n in spec.lengths:
        cases.append((draw(random, n, spec), None))
    if spec.types:
        for first, second in ((1, 2), (6, 9), (12, 21)):
            cases.append((draw(random, first + second, spec), [0] * first + [1] * second))
    out = []
    for i, (ids, types) in enumerate(cases):
        made, case = encode_case(model, spec, ids, types)
        tensors.update({f"{name}.{i}": tensor for name, tensor in made.items()})
        out.append(case)
    return {"sequences": out}


def expect_texts(model, spec, folder, tensors):
    """What the commands say of texts: ids by the fixture's own tokenizer, special tokens as it adds them."""
    tokenizer = fixture_text.write(spec.tokenizer, spec.vocabulary, folder)
    out = []
    for i, (text, pair) in enumerate(fixture_text.texts(spec)):
        encoded = tokenizer.encode(text, pair) if pair else tokenizer.encode(text)
        if max(encoded.ids) >= spec.vocabulary:
            raise SystemExit(f"{folder.name}: the tokenizer has more tokens than the model")
        case = {"text": text, "ids": encoded.ids}
        if pair:
            case |= {"text_pair": pair, "token_type_ids": encoded.type_ids}
        if "span" in spec.heads:
            made, decided = encode_case(model, spec, encoded.ids, encoded.type_ids)
            (first, last) = decided["span"]
            start, end = encoded.offsets[first][0], encoded.offsets[last][1]
            case |= {"span": [first, last], "offsets": [start, end], "answer": pair[start:end]}
        elif spec.kind == "encoder":
            types = encoded.type_ids if pair and spec.types else None
            made, decided = encode_case(model, spec, encoded.ids, types)
            tensors.update({f"texts.{name}.{i}": made[name] for name in made if name != "hidden"})
            case |= {key: decided[key] for key in ("token_labels", "label", "sequence_logits") if key in decided}
        out.append(case)
    return out


def expect_text_scores(model, spec, folder):
    """Prompts with the tokenizer's special tokens, targets with none but the end of sequence of encoder-decoders."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    out = []
    for prompt, target in fixture_text.PROMPTS:
        prompt_ids = tokenizer.encode(prompt).ids
        target_ids = tokenizer.encode(target, add_special_tokens=False).ids
        if spec.kind == "encoder_decoder":
            target_ids = target_ids + [1]
        logits = full_logits(model, spec, prompt_ids, target_ids)
        out.append(
            {
                "prompt": prompt,
                "target": target,
                "prompt_ids": prompt_ids,
                "target_ids": target_ids,
                "logprobs": {t: log_probabilities(logits, target_ids, float(t)) for t in TEMPERATURES},
            }
        )
    return out


EXPECT = {"decoder": expect_decoder, "encoder_decoder": expect_encoder_decoder, "encoder": expect_encoder}


def make(name, spec, out):
    """Tries seeds until no decision of the fixture is a near tie."""
    folder = out / name
    for seed in range(spec.seed, spec.seed + SEEDS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        model = build(spec, folder, seed)
        random, tensors = np.random.default_rng(seed), {}
        try:
            expected = EXPECT[spec.kind](model, spec, random, tensors)
            if spec.tokenizer:
                expected["texts"] = expect_texts(model, spec, folder, tensors)
                if spec.kind != "encoder":
                    expected["text_scores"] = expect_text_scores(model, spec, folder)
        except NearTie:
            continue
        if spec.transformers_4:
            check_transformers_4(spec, folder, model, expected["sequences"][-1]["ids"])
        break
    else:
        raise SystemExit(f"{name}: no seed of {SEEDS} is free of near ties")
    if "span" in spec.heads:
        expected["longest_answer"] = LONGEST_ANSWER
    expected = {"about": spec.about, "kind": spec.kind, "heads": list(spec.heads), "seed": seed} | expected
    expected["versions"] = {package: importlib.metadata.version(package) for package in PACKAGES}
    (folder / "expected.json").write_text(as_text(expected))
    save_file({key: value.contiguous().clone() for key, value in sorted(tensors.items())}, folder / "expected.safetensors")
    size = sum(file.stat().st_size for file in folder.iterdir())
    spread = max(float(t.std()) for key, t in tensors.items() if "logits" in key or "hidden" in key)
    print(f"{name:32} seed {seed:5}  {size / 1000:6.0f} kB  spread of outputs {spread:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="fixtures to make; all by default")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("highest")
    specs = fixture_models.SPECS
    unknown = [name for name in options.names if name not in specs]
    if unknown:
        sys.exit(f"no fixture {', '.join(unknown)}; there are {', '.join(specs)}")
    for name in options.names or specs:
        make(name, specs[name], options.out)
    (options.out / "README.md").write_text(fixture_models.readme(specs))


if __name__ == "__main__":
    main()
