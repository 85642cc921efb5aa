#!/usr/bin/env python3
"""EfficientRAG, slowly and obviously: every chunk is labelled alone by transformers, as the paper says (section 3.1).

Why: hopeval's machine asks in rounds, its engine packs, shares and batches; what comes out must be this. What: for each
question of a run, every iteration with its query, its chunks, their tags, logits and information, the filtered query, and the
ranked passages, by the parameters that the run recorded, as one JSON line. `compare.py` holds both side by side.

    efficientrag.py --run STORE/runs/RUN --configuration NAME --corpus DIR [--model SERVICE=DIR] --out FILE

Not here: readers and generators.

Needs torch, transformers, safetensors, pyarrow, regex and scikit-learn.
"""

import re

import command
import dense
import inputs
import safetensors.torch
import sparse
import torch
import transformers

CONTINUE, TERMINATE = 0, 1
KEEP = 1


class Words:
    """Words and marks, each tokenised on its own."""

    def __init__(self, folder, settings):
        self.tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        self.encode = lambda word: backend.encode(word, add_special_tokens=False).ids
        ids = backend.token_to_id
        self.cls, self.sep = ids(self.tokenizer.cls_token or "[CLS]"), ids(self.tokenizer.sep_token or "[SEP]")
        self.drop_commas = settings.get("drop_commas", True)

    def pieces(self, text):
        words = re.findall(r"\w+|[^\w\s]", text)
        return [id for word in words if not (self.drop_commas and word == ",") for id in self.encode(word)]

    def text(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=True)


class Labeler:
    """DeBERTa with a tag for the sequence and a label for each token."""

    def __init__(self, folder, settings):
        self.words = Words(folder, settings)
        self.most, self.scope = settings.get("label_tokens", 384), settings.get("label_scope", "chunk")
        config = transformers.AutoConfig.from_pretrained(folder)
        tensors = {name: t.float() for name, t in safetensors.torch.load_file(folder / "model.safetensors").items()}
        self.deberta = transformers.DebertaV2Model(config).eval()
        backbone = {name.removeprefix("deberta."): t for name, t in tensors.items() if name.startswith("deberta.")}
        self.deberta.load_state_dict(backbone)
        self.heads = tensors
        projected = "pooler.dense.weight" in tensors
        self.pooling = getattr(config, "classifier_pooling", None) or ("cls" if projected else "mean")
        self.activation = transformers.activations.ACT2FN[config.pooler_hidden_act] if projected else None

    def linear(self, name, x):
        return x @ self.heads[f"{name}.weight"].T + self.heads[f"{name}.bias"]

    def label(self, query, chunk):
        """The logits of the chunk's tags, and the information found in it."""
        first, second = self.words.pieces(query), self.words.pieces(chunk)
        ids = [self.words.cls, *first, self.words.sep, *second, self.words.sep]
        chunk_at = range(len(first) + 2, len(first) + 2 + len(second))
        ids = ids[: self.most]
        with torch.no_grad():
            states = self.deberta(torch.tensor([ids])).last_hidden_state[0]
            pooled = states[0] if self.pooling == "cls" else states.mean(dim=0)
            if self.activation is not None:
                pooled = self.activation(self.linear("pooler.dense", pooled))
            tags = self.linear("sequence_classifier", pooled).tolist()
            labels = self.linear("token_classifier", states).argmax(dim=-1).tolist()
        counts = lambda at: self.scope == "sequence" or at in chunk_at
        kept = [id for at, (id, label) in enumerate(zip(ids, labels)) if label == KEEP and counts(at)]
        return tags, self.words.text(kept)


class Filter:
    """DeBERTa with a label for each token: those that are kept are the next query."""

    def __init__(self, folder, settings):
        self.words, self.most = Words(folder, settings), settings.get("filter_tokens", 128)
        kind = transformers.AutoModelForTokenClassification
        self.model = kind.from_pretrained(folder, dtype=torch.float32).eval()

    def next_query(self, query, information):
        found = "; ".join(f"Info: {text}" for text in information if text.strip())
        ids = [self.words.cls, *self.words.pieces(f"Query: {query} {found}"), self.words.sep][: self.most]
        with torch.no_grad():
            labels = self.model(torch.tensor([ids])).logits[0].argmax(dim=-1).tolist()
        return self.words.text([id for id, label in zip(ids, labels) if label == KEEP])


class EfficientRag:
    def __init__(self, run, corpus, parameters, folders):
        self.corpus, self.parameters = corpus, parameters

        def opened(kind, parameter):
            name = parameters[parameter]
            settings = run.services[name]
            return kind(inputs.model_folder((name, settings), folders), settings)

        settings = run.services[parameters["retriever"]]
        if settings["kind"] == "dense":
            self.retriever = dense.retriever(run, settings, corpus, folders)
        else:
            self.retriever = sparse.retriever(settings, corpus.titles, corpus.texts)
        self.labeler, self.filter = opened(Labeler, "labeler"), opened(Filter, "filter")

    def chunk(self, passage):
        text = self.corpus.texts[passage]
        if self.parameters["chunk"] == "title+text":
            return self.corpus.titles[passage] + self.parameters["title_separator"] + text
        return text

    def retrieve(self, query, seen):
        parameters = self.parameters
        passed_over = seen if parameters["exclude_seen"] else set()
        hits = self.retriever.search(query, parameters["k"] + len(passed_over))
        return [hit for hit in hits if hit[0] not in passed_over][: parameters["k"]]

    def answer(self, question):
        parameters = self.parameters
        query, asked, seen, iterations = question, set(), set(), []
        while True:
            asked.add(query.strip())
            hits = self.retrieve(query, seen)
            iteration = {"query": query, "hits": hits, "chunks": [], "next": None}
            iterations.append(iteration)
            shown = {"current": query, "original": question}
            for passage, _ in hits:
                logits, information = self.labeler.label(shown[parameters["label_query"]], self.chunk(passage))
                tag = max(range(len(logits)), key=lambda at: (logits[at], -at))
                chunk = {"passage": passage, "tag": tag, "logits": logits, "information": information}
                iteration["chunks"].append(chunk)
            seen |= {chunk["passage"] for chunk in iteration["chunks"]}
            found = [chunk["information"] for chunk in iteration["chunks"] if chunk["tag"] == CONTINUE]
            if not found or len(iterations) == parameters["max_iterations"]:
                break
            query = self.filter.next_query(shown[parameters["filter_query"]], found)
            iteration["next"] = query
            if not query.strip() and parameters["empty_query"] == "stop":
                break
            if parameters["stop_on_repeated_query"] and query.strip() in asked:
                break
        return {"iterations": iterations, "ranked": self.ranked(iterations)}

    def ranked(self, iterations):
        """The chunks that are not terminated, each passage once."""
        chunks = [chunk for iteration in iterations for chunk in iteration["chunks"]]
        kept = [chunk for chunk in chunks if chunk["tag"] != TERMINATE]
        if self.parameters["pool"] == "all":
            kept += [chunk for chunk in chunks if chunk["tag"] == TERMINATE]
        if self.parameters["order"] == "tag":
            others = lambda logits: max(logit for tag, logit in enumerate(logits) if tag != TERMINATE)
            margin = lambda chunk: others(chunk["logits"]) - chunk["logits"][TERMINATE]
            kept.sort(key=lambda chunk: (-margin(chunk), chunk["passage"]))
        return list(dict.fromkeys(chunk["passage"] for chunk in kept))


if __name__ == "__main__":
    command.write_answers(__doc__, "efficientrag", lambda *given: EfficientRag(*given).answer)
