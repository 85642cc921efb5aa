"""ALCE's readers (Gao et al., 2023a, section 3) with the re-ranking of MIGRES (section 4.2).

The passages found for the question are ranked by a cross-encoder. The best ones are read whole, as their relevant
sentences, or as the generator sums them up or copies from them; the answer cites documents. RERANK draws several
answers and takes the one with the largest share of sentences that are entailed by what they cite.
"""

import re

import ranking
import shared

DEFAULTS = {
    "variant": "vanilla", "retriever": "bm25", "retrieved": 50, "passages": 5, "rerank_separator": " </s> ",
    "threshold": 3.0, "glue_fragments": False, "drop_query_sentences": False, "most_compressed": 10,
    "irrelevant": "begins", "summary_tokens": 100, "summary_temperature": 0.7, "draws": 4, "premise": "cited",
    "unsupported": "first", "entailed_at": 0.5, "most_sentences": 20, "temperature": 0.5, "max_tokens": 300,
    "context_tokens": None, "task": "open", "demonstrations": "none", "prompt": None, "compression_prompt": None,
}
CODE = {"irrelevant": "contains", "premise": "all", "unsupported": "empty"}
CITATION = re.compile(r"\[(\d+)\]")


def compressed(question, tools, parameters, passages):
    """Passages with what the generator made of them, until there are enough; the others do not help."""
    file = {"summ": "alce/summary.txt", "snippet": "alce/snippet.txt"}[parameters["variant"]]
    template, made, asked = shared.template(parameters, "compression_prompt", file), [], 0
    passages = passages[:parameters["most_compressed"]]
    while len(made) < parameters["passages"] and asked < len(passages):
        for passage in passages[asked:asked + parameters["passages"] - len(made)]:
            asked += 1
            shown = f"(Title: {tools.corpus.titles[passage]}) {tools.corpus.texts[passage]}"
            prompt = shared.filled(template, passage=shown, question=question)
            text = tools.server.drawn([("user", prompt)], parameters["summary_tokens"],
                                      {"temperature": float(parameters["summary_temperature"]), "seed": True})[0]
            if text.strip() and not ranking.irrelevant(text, parameters):
                made.append((passage, text.strip()))
    return made


def documents(question, tools, parameters):
    """What the reader sees: pairs of passage and text."""
    found = ranking.texts_once(tools.corpus, tools.search(parameters["retriever"], question, parameters["retrieved"]))
    texts = [ranking.pair_text(tools.corpus, passage, parameters) for passage in found]
    scores = dict(zip(found, tools.scorer.relevances(question, texts)))
    ranked = sorted(found, key=lambda passage: -scores[passage])
    if parameters["variant"] in ("summ", "snippet"):
        return compressed(question, tools, parameters, ranked)
    best = ranked[:parameters["passages"]]
    if parameters["variant"] == "sentences":
        return [(passage, ranking.relevant_text(tools, parameters, question, passage, scores[passage]))
                for passage in best]
    return [(passage, tools.corpus.texts[passage]) for passage in best]


def cited_sentences(answer):
    """Pairs of a sentence with a word and the numbers that it cites. Citations that stand behind its full stop are its
    own, with a full stop behind them, too."""
    found = []
    for sentence in shared.sentences(answer):
        text, numbers = without_citations(sentence), [int(number) for number in CITATION.findall(sentence)]
        if shared.has_word(text):
            found.append((text, numbers))
        elif found:
            found[-1][1].extend(numbers)
    return found


def share_entailed(answer, shown, tools, parameters):
    """The share of an answer's sentences that their documents entail; one without a citation counts as not entailed."""
    sentences = cited_sentences(answer)[:parameters["most_sentences"]]
    entailed = 0
    for sentence, numbers in sentences:
        cited = [number for number in dict.fromkeys(numbers) if 1 <= number <= len(shown)]
        if not cited:
            continue
        premised = cited if parameters["premise"] == "cited" else range(1, len(shown) + 1)
        premise = "\n".join(f"(Title: {tools.corpus.titles[shown[number - 1][0]]}): {shown[number - 1][1]}"
                            for number in premised)
        entailed += tools.scorer.entails(premise, sentence) >= parameters["entailed_at"]
    return entailed / len(sentences) if sentences else 0.0


def without_citations(text):
    return re.sub(r"\s*\[\d+\]", "", text).strip()


def best_answer(texts, shown, tools, parameters):
    shares = [share_entailed(text, shown, tools, parameters) for text in texts]
    if max(shares) == 0:
        return texts[0] if parameters["unsupported"] == "first" else ""
    return texts[shares.index(max(shares))]


def answer(question, tools, parameters):
    shown = documents(question.text, tools, parameters)
    lines = [f"Document [{number}](Title: {tools.corpus.titles[passage]}): {text}"
             for number, (passage, text) in enumerate(shown, 1)]
    template = shared.template(parameters, "prompt",
                               "alce/reader_yes_no.txt" if parameters["task"] == "yes_no" else "alce/reader.txt")
    shots = ""
    if parameters["demonstrations"] != "none":
        shots = shared.module_demonstrations("alce")[parameters["task"]] + "\n\n"
    prompt = shared.filled(template, demonstrations=shots, question=question.text, documents="\n".join(lines))
    draws = parameters["draws"] if parameters["variant"] == "rerank" else 1
    texts = tools.server.drawn([("user", prompt)], parameters["max_tokens"],
                               {"temperature": float(parameters["temperature"]), "seed": True}, count=draws)
    # Only the first line is the answer.
    texts = [text.strip().split("\n")[0] for text in texts]
    text = best_answer(texts, shown, tools, parameters) if parameters["variant"] == "rerank" else texts[0]
    return shared.Outcome(without_citations(text), [passage for passage, _ in shown])
