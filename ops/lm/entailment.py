#!/usr/bin/env python3
"""Entailment by a T5 (`true_nli`): by score, by generation and through an endpoint, beside transformers.

Why: TRUE's T5 writes `1` or `0` after `premise: P hypothesis: H`. A service answers with the probability of the `1`, an
endpoint that has no probabilities with what was written; both must decide alike, and the probability must be the
model's.

What: a tiny T5 with random weights is made on the spot. Its head is turned so that it writes one of `1` and `0`, as the
published one does, and then ends; other pieces have next to no probability. MIGRES reads a world twice: its entailer is
the T5 as a service (by score), and the same T5 by transformers behind an HTTP endpoint (by generation). Then:

* both runs have the same outcomes, and an entailment is decided alike in both;
* each answer by score is transformers' P("1") of the body that the endpoint got, to 1e-4;
* `hopeval lm score` and `hopeval lm generate` over the distinct prompts: the same P to 1e-4, the same texts, and the
  same decision.

    entailment.py --hopeval PROGRAM --work DIR [--questions N]

Exits with 1 if one of them does not hold. Needed: torch, transformers, tokenizers, pyarrow, blake3.
"""

import argparse
import json
import math
import pathlib
import string
import subprocess
import sys
import threading
import time

import pyarrow.parquet

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "ops" / folder) for folder in ("endpoint", "reference", "reference/readers")]

import post_server  # noqa: E402
import scorers  # noqa: E402
import simulated_runs  # noqa: E402

SPECIALS = ["<pad>", "</s>", "<unk>"]
TOLERANCE = 1e-4


def tokenizer():
    """Letters, and `1` and `0` as words, as in T5's vocabulary."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, processors

    letters = ["▁", *string.ascii_letters, *string.digits, *string.punctuation]
    vocabulary = [(special, 0.0) for special in SPECIALS] + [("▁1", -2.0), ("▁0", -2.0)]
    vocabulary += [(letter, -4.0) for letter in letters]
    made = tokenizers.Tokenizer(models.Unigram(vocabulary, 2, False))
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    made.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    made.add_special_tokens(SPECIALS)
    return made, len(vocabulary)


def first_state(model, made, text):
    """What the head reads for the first token of the answer."""
    import torch

    ids = torch.tensor([made.encode(text).ids])
    return model(input_ids=ids, decoder_input_ids=torch.tensor([[0]]), output_hidden_states=True
                 ).decoder_hidden_states[-1][0, 0]


def make_model(folder):
    """The folder with the model, as transformers saves it."""
    import torch
    import transformers

    # Small products are slower on many threads, most of all where others use the cores.
    torch.set_num_threads(1)
    torch.manual_seed(5)
    made, size = tokenizer()
    config = transformers.T5Config(
        vocab_size=size, d_model=32, d_kv=8, d_ff=48, num_layers=3, num_decoder_layers=2, num_heads=4,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0, dropout_rate=0.0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, tensor in sorted(model.named_parameters()):
            values = torch.randn(tensor.shape, generator=draw)
            if tensor.dim() == 1:
                values = 1 + 0.1 * values
            elif "relative_attention_bias" not in name and "shared" not in name:
                values = values / tensor.shape[1] ** 0.5
            tensor.copy_(values)
        ends = torch.nn.functional.normalize(torch.randn(32, generator=draw), dim=0)
        start = model.shared.weight[0]
        start -= (start @ ends) * ends
        # As many pairs are entailed as not, and few for certain: by the states of some texts.
        states = torch.stack([first_state(model, made, f"premise: {word * 9}. hypothesis: The {word} of {word}.")
                              for word in ("Arlen", "city", "1,776", "river mayor", "born", "Zola", "prize")])
        apart = torch.linalg.svd(states - states.mean(0)).Vh[0]
        common = torch.nn.functional.normalize(states.mean(0) - (states.mean(0) @ ends) * ends, dim=0)
        for other in (ends, common):
            apart -= (apart @ other) * other
        decides = apart * 4 / (states @ apart).std()
        # What all first states share speaks for both, so that no third piece has a probability to speak of.
        either = common * 20 / (states @ common).mean()
        model.shared.weight[3:5] = 20 * ends
        head = model.lm_head.weight
        head *= 0.1
        head[3], head[4], head[1] = either + decides, either - decides, 8 * ends
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    made.save(str(folder / "tokenizer.json"))
    # As the published files say it; transformers 5 would write that the head is tied.
    config = json.loads((folder / "config.json").read_text())
    config.pop("scale_decoder_outputs", None)
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}, indent=2) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}) + "\n")
    return model, made


class Entailer:
    """The model by transformers behind an endpoint: it writes. What it was asked is kept with P("1")."""

    def __init__(self, model, made):
        self.model, self.tokenizer, self.known, self.lock = model, made, {}, threading.Lock()
        self.server = post_server.PostServer(self.reply)
        self.url = self.server.url

    def reply(self, body, *_):
        fields = json.loads(body)
        choice = {"index": 0, "finish_reason": "stop", "text": self.answer(fields["prompt"])[1]}
        return json.dumps({"id": "entail", "object": "text_completion", "created": 0, "model": fields["model"],
                           "choices": [choice],
                           "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()

    def answer(self, prompt):
        """P("1") and the greedy text of at most four tokens."""
        import torch

        with self.lock:
            if prompt not in self.known:
                ids = torch.tensor([self.tokenizer.encode(prompt).ids])
                first, written = None, [0]
                with torch.inference_mode():
                    states = self.model.encoder(input_ids=ids)
                    while len(written) < 5 and written[-1] != 1:
                        found = self.model(encoder_outputs=states, decoder_input_ids=torch.tensor([written]))
                        first = found.logits[0, 0] if first is None else first
                        written.append(int(found.logits[0, -1].argmax()))
                share = torch.log_softmax(first.double(), -1)[3].exp().item()
                self.known[prompt] = (share, self.tokenizer.decode(written, skip_special_tokens=True))
            return self.known[prompt]


def job_text(arguments, generator, ranker, entailer):
    endpoint = lambda name, url, more: (  # noqa: E731
        f'[service.{name}]\nkind = "endpoint"\nbase_url = "{url}"\nkey_env = "SIMULATED_KEY"\nidentity = "{name}"\n'
        f'patience_s = 20\n{more}\n')
    return f"""
name = "entailment"
[dataset.world]
questions = {arguments.questions}
passages = 800
seed = 22
[service.bm25]
kind = "bm25"
{endpoint("llm", generator, 'model = "simulated-llm"')}
{endpoint("ranker", ranker, 'model = "ranker"' + chr(10) + 'dialect = "vllm"' + chr(10) + 'answers = ["rerank"]')}
{entailer(endpoint)}
[method.m]
kind = "migres"
retriever = "bm25"
reranker = "ranker"
generator = "llm"
entailer = "nli"
[run]
allowed_failed = 1.0
"""


def outcomes(place):
    rows = pyarrow.parquet.read_table(place.store.root / "runs" / place.id() / "final/outcomes.parquet").to_pylist()
    return {row["question"]: (row["status"], row["answer"], row["ranked"], row["iterations"]) for row in rows}


def entailments(place, question):
    """The entailments of a question in their order: hypothesis and answer."""
    document = json.loads(place.tell("show", place.id(), "--question", question, "--json").splitlines()[0])
    found = []
    for around in document["rounds"]:
        for request, response in zip(around["requests"], around["responses"]):
            if "Entail" in request["ask"]:
                found.append((request["ask"]["Entail"]["hypothesis"], response["result"]["Ok"]["Entail"]))
    return found


def engine(arguments, folder, command, lines):
    done = subprocess.run([arguments.hopeval, "lm", *command, "--model", str(folder)],
                          input="\n".join(map(json.dumps, lines)), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:] + done.stdout[-500:])
    return [json.loads(line) for line in done.stdout.splitlines()]


def written(text):
    """1 if the first word is `1`."""
    return (text.split() or [""])[0].strip(".\"'") == "1"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--questions", type=int, default=60)
    arguments = parser.parse_args()
    arguments.work = arguments.work.resolve()
    folder = arguments.work / "t5"
    model, made = make_model(folder)
    entailer, ranker = Entailer(model, made), scorers.Scorers()
    generator = simulated_runs.SimulatedServer(arguments.hopeval, arguments.work, {}, f"server-{time.time_ns():x}")
    ways = {
        "score": lambda endpoint: f'[service.nli]\nkind = "lm"\nmodel = {json.dumps(str(folder))}\nentail = "true_nli"\n'
                                  "threads = 1\nbatch_tokens = 8192\n",
        "generation": lambda endpoint: endpoint("nli", entailer.url, 'model = "t5"\napi = "completions"\n'
                                                'dialect = "vllm"\nanswers = ["entail"]\nentail_by = "generate"'),
    }
    places = {}
    for name, way in ways.items():
        job = job_text(arguments, generator.url, ranker.url, way)
        places[name] = simulated_runs.RunFolder(arguments.hopeval, arguments.work / name, job,
                                                arguments.work / "cache", store=f"store-{time.time_ns():x}")
        places[name].run()
    by_score, by_generation = (outcomes(places[name]) for name in ways)
    # Hypotheses and answers of both, as far as a question goes the same way.
    compared = apart = wrong = 0
    furthest, shares = 0.0, []
    by_hypothesis = {}
    for prompt, known in entailer.known.items():
        by_hypothesis.setdefault(prompt.split(" hypothesis: ", 1)[1], []).append(known[0])
    for question in by_score:
        scored, generated = (entailments(places[name], question) for name in ways)
        for (hypothesis, score), (other, said) in zip(scored, generated):
            if hypothesis != other:
                break
            compared += 1
            shares.append(score)
            # Of several premises of one statement the nearest.
            distance = min(abs(score - share) for share in by_hypothesis[hypothesis])
            furthest = max(furthest, distance)
            apart += distance > TOLERANCE
            wrong += (score >= 0.5) != (said == 1)
    same = sum(by_score[question] == by_generation[question] for question in by_score)
    print(f"runs: {len(by_score)} questions, outcomes equal {same}; entailments in both {compared}; P(\"1\") from "
          f"{min(shares):.4f} to {max(shares):.4f}, at least half {sum(share >= 0.5 for share in shares)}; furthest from "
          f"transformers {furthest:.2e}, beyond {TOLERANCE:g}: {apart}; decided otherwise {wrong}", flush=True)

    prompts = sorted(entailer.known)
    lines = [{"id": number, "prompt": prompt, "target": "1"} for number, prompt in enumerate(prompts)]
    scored = engine(arguments, folder, ["score", "--no-target-eos", "--temperatures", "1.0"], lines)
    asked = [{"id": number, "prompt": prompt} for number, prompt in enumerate(prompts)]
    generated = engine(arguments, folder, ["generate", "--max-tokens", "4", "--temperature", "0"], asked)
    most, texts, decided = 0.0, 0, 0
    for prompt, score, text in zip(prompts, scored, generated):
        share, said = entailer.known[prompt]
        logprobs = score["logprobs"]
        logprobs = next(iter(logprobs.values())) if isinstance(logprobs, dict) else logprobs
        own = math.exp(sum(logprobs))
        most = max(most, abs(own - share))
        texts += text["text"].strip() == said.strip()
        decided += (own >= 0.5) == written(text["text"])
    print(f"engine: {len(prompts)} prompts; P(\"1\") at most {most:.2e} from transformers'; texts equal {texts}; score and "
          f"generation decide alike {decided}")
    generator.stop()
    held = not apart and not wrong and same == len(by_score) and most <= TOLERANCE
    return 0 if held and texts == decided == len(prompts) else 1


if __name__ == "__main__":
    sys.exit(main())
