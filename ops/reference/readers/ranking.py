"""What MIGRES and ALCE's readers share: passages ranked by a cross-encoder, sentences, entailment, compression."""

import json


class Scorer:
    """Asks the servers of relevances and of entailment; an equal request is sent once."""

    def __init__(self, server):
        self.server, self.known = server, {}

    def asked(self, fields, path):
        body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
        if (body, path) not in self.known:
            self.known[body, path] = self.server.document(body, path)
            self.server.sent.append((self.server.asking, body, None))
        return self.known[body, path]

    def relevances(self, query, texts, model="ranker"):
        """A raw logit for each text: vLLM gives a sigmoid if it is not asked for it (`ops/docs/endpoints.md`)."""
        if not texts:
            return []
        fields = {"model": model, "query": query, "documents": list(texts), "use_activation": False}
        document = self.asked(fields, "/rerank")
        scores = {row["index"]: row["relevance_score"] for row in document["results"]}
        return [scores[at] for at in range(len(texts))]

    def entails(self, premise, hypothesis):
        """The probability, which is 1 or 0 here: whether `1` is written."""
        fields = {"model": "entailer", "prompt": f"premise: {premise} hypothesis: {hypothesis}", "max_tokens": 4,
                  "temperature": 0.0}
        return float(self.asked(fields, "/completions")["choices"][0]["text"].strip() == "1")


def texts_once(corpus, passages):
    """Each text once, under the first title that was found with it."""
    first = {}
    for passage in passages:
        first.setdefault(corpus.texts[passage], passage)
    return list(first.values())


def pair_text(corpus, passage, parameters):
    """A passage as the cross-encoder reads it."""
    return corpus.titles[passage] + parameters["rerank_separator"] + corpus.texts[passage]


def glued(sentences):
    """A sentence that does not begin with a capital letter belongs to the one before it."""
    whole = []
    for sentence in sentences:
        if whole and not sentence[:1].isupper():
            whole[-1] += " " + sentence
        else:
            whole.append(sentence)
    return whole


def relevant_text(tools, parameters, query, passage, relevance):
    """The passage's relevant sentences; the whole text if the passage is more relevant than each of them."""
    text, sentences = tools.corpus.texts[passage], tools.corpus.sentences(passage)
    if parameters["glue_fragments"]:
        sentences = glued(sentences)
    if parameters["drop_query_sentences"]:
        sentences = [sentence for sentence in sentences if sentence not in query]
    if not sentences:
        return text
    scores = tools.scorer.relevances(query, sentences)
    if max(scores) < relevance:
        return text
    kept = [sentence for sentence, score in zip(sentences, scores) if score >= parameters["threshold"]]
    return " ".join(kept) if kept else text


def irrelevant(reply, parameters):
    """Whether a reply says that the passage does not help."""
    small = reply.strip().lower()
    return small.startswith("irrelevant") if parameters["irrelevant"] == "begins" else "irrelevant" in small
