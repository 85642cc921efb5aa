#!/usr/bin/env python3
"""Compares hopeval's own embeddings and relevances with those that vLLM gives for the same weights, in f32 on the CPU.

    encoders.py --hopeval BINARY --python PYTHON --folder DIR --data HOTPOTQA [--questions 50]
                [--check embed --check rerank]

Why: an encoder behind an endpoint must rank as the same encoder in hopeval does.

What: two BERTs with random weights, and the tokenizer of `hopeval:encoder`. Each check starts one behind vLLM.

* `embed`: the vectors of `--texts` texts by `hopeval lm embed` and by `/embeddings`. A dense index has an encoder of
  `kind = "lm"` alone, so there is no run.
* `rerank`: the relevance of `--texts` pairs by `hopeval lm rerank` and by `/rerank`; then ALCE's reader over the five
  best of 20 passages, ranked by the engine and by the server, as two configurations of one run.

Vectors and relevances must be the same within 1e-3, and so must the first five passages of 99.5 % of the questions.
vLLM puts relevances through a sigmoid unless a body says `use_activation = false`, which the job does. Run it with
PYTHON, an interpreter as for `servers.py`. Prints one JSON document, and exits with 1 if a check fails.
"""

import argparse
import gzip
import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from servers import ServerCheck, post  # noqa: E402

CHECKS = ["embed", "rerank"]
TOKENIZER = Path(__file__).resolve().parents[2] / "jobs" / "models" / "files" / "encoder"
HEAD = """
name = "encoders"
[dataset]
format = "hotpotqa"
questions = "{data}/dev_1267.json.gz"
limit = {questions}
[corpus]
source = "contexts"
[service.engine]
kind = "lm"
model = "{model}"
threads = 1
pair_tokens = 2048
[service.server]
kind = "endpoint"
model = "{name}"
base_url = "{url}"
dialect = "vllm"
answers = ["{kind}"]
concurrency = 16
patience_s = 60
[run]
allowed_failed = 1.0
"""
JOB = """
[service.server.body]
use_activation = false
[service.bm25]
kind = "bm25"
[service.writer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
batch_tokens = 8192
[method.native]
kind = "alce"
retriever = "bm25"
reranker = "engine"
generator = "writer"
retrieved = 20
max_tokens = 1
temperature = 0
[method.behind]
kind = "alce"
retriever = "bm25"
reranker = "server"
generator = "writer"
retrieved = 20
max_tokens = 1
temperature = 0
"""


def make_models(folder):
    """Weights far from zero, so that texts differ by more than the bound."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    torch.manual_seed(5)
    vocabulary = len(json.loads((TOKENIZER / "tokenizer.json").read_text())["model"]["vocab"])
    config = {
        "vocab_size": vocabulary, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 2048, "initializer_range": 0.3,
    }  # fmt: skip
    models = {
        "embed": BertModel(BertConfig(**config), add_pooling_layer=False),
        "rerank": BertForSequenceClassification(BertConfig(**config, num_labels=1)),
    }
    for name, model in models.items():
        model.eval().float().save_pretrained(str(folder / name), safe_serialization=True)
        shutil.copy(TOKENIZER / "tokenizer.json", folder / name)
        settings = json.loads((TOKENIZER / "tokenizer_config.json").read_text())
        # transformers 5 gives a pair no types unless a tokenizer asks for them, as that of BERT does.
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
        (folder / name / "tokenizer_config.json").write_text(json.dumps(settings))


class EncoderCheck(ServerCheck):
    def __init__(self, options, kind):
        options.model, self.kind = options.folder / kind, kind
        super().__init__(options)

    def lines(self, command, rows):
        path = self.folder / f"{self.kind}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, out, said = self.hopeval("lm", command, "--model", str(self.options.model), "--input", str(path))
        if code != 0:
            raise SystemExit(f"hopeval lm {command} ended with {code}: {said}")
        return [json.loads(line) for line in out.splitlines()]

    def texts(self):
        """(question, paragraph), in the dataset's order."""
        with gzip.open(self.options.data / "dev_1267.json.gz", "rt", encoding="utf-8") as file:
            questions = json.load(file)
        pairs = [
            (question["question"], f"{title} {''.join(sentences)}"[:1000])
            for question in questions
            for title, sentences in question["context"]
        ]
        return pairs[: self.options.texts]

    def embed(self):
        texts = [text for _, text in self.texts()]
        ours = self.lines("embed", [{"id": place, "text": text} for place, text in enumerate(texts)])
        largest, scale = 0.0, 0.0
        for begin in range(0, len(texts), 32):
            body = {"model": self.name, "input": texts[begin : begin + 32], "encoding_format": "float"}
            for row in post(self.url + "/embeddings", body)["data"]:
                one = ours[begin + row["index"]]["embedding"]
                largest = max([largest, *(abs(a - b) for a, b in zip(one, row["embedding"], strict=True))])
                scale = max([scale, *map(abs, one)])
        return {"texts": len(texts), "largest_difference": largest, "largest_number": scale}

    def rerank(self):
        pairs = self.texts()
        rows = [{"id": place, "text": one, "text_pair": two} for place, (one, two) in enumerate(pairs)]
        ours = [line["score"] for line in self.lines("rerank", rows)]
        largest, activated = 0.0, 0.0
        for (question, text), score in zip(pairs, ours, strict=True):
            body = {"model": self.name, "query": question, "documents": [text], "use_activation": False}
            found = post(self.url + "/rerank", body)["results"][0]["relevance_score"]
            largest = max(largest, abs(found - score))
        for (question, text), score in list(zip(pairs, ours))[:20]:
            body = {"model": self.name, "query": question, "documents": [text]}
            found = post(self.url + "/rerank", body)["results"][0]["relevance_score"]
            activated = max(activated, abs(found - score))
        told = {"pairs": len(pairs), "largest_difference": largest, "scores": [min(ours), max(ours)]}
        return told | {"largest_difference_without_use_activation": activated} | self.run(5)

    def run(self, first):
        import pyarrow.parquet

        values = {"data": self.options.data, "questions": self.options.questions, "model": self.options.model}
        job = HEAD.format(name=self.name, url=self.url, kind=self.kind, **values) + JOB
        (self.folder / f"{self.kind}.toml").write_text(job)
        store = f"store-{self.kind}"
        code, out, said = self.hopeval("run", f"{self.kind}.toml", "--store", store, "--cache", "cache", "--json")
        if code != 0:
            return {"questions": 0, "run": f"hopeval run ended with {code}: {said[:300]}"}
        final = self.folder / store / "runs" / json.loads(out)["run"] / "final"
        by = {}
        for row in pyarrow.parquet.read_table(final / "outcomes.parquet").to_pylist():
            by.setdefault(row["index"], {})[row["configuration"]] = row
        same, largest, failed, different = 0, 0.0, 0, []
        for index, rows in sorted(by.items()):
            one, other = rows["native"], rows["behind"]
            failed += (one["status"] != "ok") + (other["status"] != "ok")
            equal = one["ranked_ids"][:first] == other["ranked_ids"][:first]
            same += equal
            theirs = dict(zip(other["ranked_ids"], other["scores"]))
            pairs = [(score, theirs[name]) for name, score in zip(one["ranked_ids"], one["scores"]) if name in theirs]
            # ALCE's scores are reciprocal ranks, so they say nothing where the order differs.
            largest = max([largest, *(abs(a - b) / max(1.0, abs(a)) for a, b in pairs)])
            if not equal:
                different.append(index)
        return {
            "questions": len(by), "first": first, "same_first": same, "failed": failed, "different": different,
            "largest_relative_score_difference": largest,
        }  # fmt: skip

    def passed(self, found):
        if found["largest_difference"] > 1e-3 or "run" in found:
            return False
        # `embed` has no questions.
        return found.get("same_first", 0) >= 0.995 * found.get("questions", 0) and not found.get("failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--hopeval", "--folder", "--data"):
        parser.add_argument(name, required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--python", required=True, type=lambda text: Path(text).absolute())
    parser.add_argument("--check", action="append", choices=CHECKS)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--port", type=int, default=18092)
    parser.add_argument("--threads", type=int, default=1, help="the server's threads")
    options = parser.parse_args()
    options.server, options.running = "vllm", False
    options.folder.mkdir(parents=True, exist_ok=True)
    make_models(options.folder)
    found = {}
    for kind in options.check or CHECKS:
        # The engine's vectors are means as they are; the server's would be those of [CLS], of length 1.
        options.more = ["--runner", "pooling"]
        if kind == "embed":
            options.more += ["--pooler-config", json.dumps({"pooling_type": "MEAN", "use_activation": False})]
        check = EncoderCheck(options, kind)
        check.start()
        try:
            found[kind] = getattr(check, kind)()
        finally:
            check.stop()
        found[kind]["passed"] = check.passed(found[kind])
        print(json.dumps({kind: found[kind]}), file=sys.stderr, flush=True)
    print(json.dumps(found, indent=1))
    sys.exit(0 if all(entry["passed"] for entry in found.values()) else 1)


if __name__ == "__main__":
    main()
