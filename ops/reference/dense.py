"""Exact dense retrieval by transformers, one text at a time: the inner product of pooled states."""

import inputs
import torch
import transformers


class Encoder:
    def __init__(self, folder, settings):
        self.tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        positions = self.model.config.max_position_embeddings
        self.most, self.pooling = min(settings.get("max_tokens", 512), positions), settings.get("pooling", "mean")
        self.normalize = settings.get("normalize", False)
        self.prefixes = settings.get("query_prefix", ""), settings.get("passage_prefix", "")

    def vector(self, text, passage):
        encoded = self.tokenizer(self.prefixes[passage] + text, truncation=True, max_length=self.most, return_tensors="pt")
        with torch.no_grad():
            states = self.model(**encoded).last_hidden_state[0].double()
        vector = states[0] if self.pooling == "cls" else states.mean(dim=0)
        return vector / vector.norm().clamp(min=1e-12) if self.normalize else vector


class Dense:
    """All passages, best first, of equal ones the earlier."""

    def __init__(self, encoder, texts):
        self.encoder = encoder
        self.vectors = torch.stack([encoder.vector(text, True) for text in texts])

    def search(self, query, k):
        scores = (self.vectors @ self.encoder.vector(query, False)).tolist()
        return sorted(enumerate(scores), key=lambda pair: (-pair[1], pair[0]))[:k]


def retriever(run, settings, corpus, folders):
    """The retriever of a job's service of kind `dense` over a corpus."""
    name = settings["encoder"]
    encoder = run.services[name]
    between = settings.get("between", " ")
    whole = settings.get("fields", "title+text") == "title+text"
    texts = [title + between + text if whole else text for title, text in zip(corpus.titles, corpus.texts)]
    return Dense(Encoder(inputs.model_folder((name, encoder), folders), encoder), texts)
