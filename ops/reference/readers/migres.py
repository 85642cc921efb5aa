"""MIGRES (Wang et al., 2024, section 3): statements are drawn from passages, what is missing is named and asked for.

A round: retrieve with each query, rank by a cross-encoder, filter passages and sentences, draw statements from them
(leaf), keep those that a cited passage entails. Then the main module answers or says what is missing, and the query
module asks for that; after the last round the final prompt answers. `as = "code"`: the authors' repository.
"""

import dataclasses

import module_replies
import ranking
import shared
import votes

DEFAULTS = {
    "retriever": "bm25", "mixture": None, "entailer": None, "retrieved": 50, "retrieved_in_mixture": 50,
    "mixture_retrieved": 50, "retry_prefix": "", "threshold": 3.0, "passages": 5, "rerank_separator": " </s> ",
    "passage_score": "best", "knowledge": "sentences", "glue_fragments": False, "drop_query_sentences": False,
    "irrelevant": "begins", "most_compressed": 10, "forward": True, "forward_when": "nothing_left",
    "forward_queries": "first", "forward_title": "omitted", "refused_words": [], "leaf_question": "shown",
    "citations": "shown", "most_infos": 20, "entailed_at": 0.5, "most_shown": 2, "shortest_passage": 0,
    "history": "all", "iterations": 5, "most_queries": 3, "shortest_query": 0, "shortest_missing": 1,
    "skip_main": False, "barren_end": "final", "task": "open", "kinship": False, "draws": 1, "least_confidence": 4,
    "clusters": 3, "clusters_kept": 2, "parser": "tolerant", "json": False, "sampling": "greedy", "temperature": 1,
    "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "max_tokens": 512, "context_tokens": None,
    "count_knowledge": False, "demonstrations": "none", "demonstration_texts": {}, "prompts": {}, "system": "",
}
CODE = {
    "retrieved_in_mixture": 20, "mixture_retrieved": 30, "retry_prefix": "Find information about ",
    "passage_score": "last", "knowledge": "whole", "glue_fragments": True, "drop_query_sentences": True,
    "irrelevant": "contains", "forward_when": "nothing_relevant", "forward_title": "none",
    "refused_words": ["sorry", "2022"], "citations": "unfiltered", "shortest_passage": 5, "history": "shown",
    "shortest_query": 10, "shortest_missing": 10, "skip_main": True, "barren_end": "lose", "kinship": True,
    "parser": "code", "sampling": "code",
}
COMPRESSION = {"summ": "alce/summary.txt", "snippet": "alce/snippet.txt"}


@dataclasses.dataclass
class Knowledge:
    """One passage that may be shown, or a text of the generator."""
    query: str
    text: str
    title: str = None
    passage: int = None
    score: float = 0.0

    def line(self):
        return f"(Title: {self.title}) {self.text}" if self.title is not None else self.text


class Machine:
    def __init__(self, question, tools, parameters):
        self.question, self.tools, self.p = question.text, tools, parameters
        self.infos, self.asked, self.shown_queries = [], [question.text], []
        self.times, self.order, self.cited = {}, [], []
        self.iterations = 0

    # Requests of the generator.

    def prompt(self, module, **fields):
        file = module
        if self.p["task"] == "yes_no" and module in ("main", "final", "direct"):
            file += "_yes_no"
        text = self.p["prompts"].get(module) or shared.template({}, "", f"migres/{file}.txt")
        if module != "forward":
            shots = self.p["demonstration_texts"].get(module)
            if not shots and self.p["demonstrations"] != "none":
                shots = shared.module_demonstrations("migres")[self.p["demonstrations"]][module]
            fields["demonstrations"] = shots + "\n\n" if shots else ""
        return shared.filled(text, **fields)

    def sampling(self):
        kind = self.p["sampling"]
        if kind == "greedy":
            return {"temperature": 0.0}
        if kind == "server" or (kind == "code" and self.p["draws"] == 1):
            return {}
        if kind == "code":
            return {"temperature": 1.0, "top_p": 0.9, "presence_penalty": 1.0, "frequency_penalty": 1.0, "seed": True}
        fields = {"temperature": float(self.p["temperature"])}
        fields |= {key: float(self.p[key]) for key, none in
                   (("top_p", 1), ("presence_penalty", 0), ("frequency_penalty", 0)) if self.p[key] != none}
        return fields | {"seed": True}

    def write(self, prompt, draws=1, json_object=False):
        system = [("system", self.p["system"])] if self.p["system"] else []
        return self.tools.server.drawn(system + [("user", prompt)], self.p["max_tokens"], self.sampling(), draws,
                                       json_object=json_object)

    def information(self):
        return "; ".join(self.infos) if self.infos else "None"

    # The knowledge of a round.

    def retrieved(self, query):
        if self.p["mixture"]:
            found = self.tools.search(self.p["retriever"], query, self.p["retrieved_in_mixture"])
            return shared.union([found, self.tools.search(self.p["mixture"], query, self.p["mixture_retrieved"])])
        found = self.tools.search(self.p["retriever"], query, self.p["retrieved"])
        if len(found) < self.p["retrieved"] and self.p["retry_prefix"]:
            found = self.tools.search(self.p["retriever"], self.p["retry_prefix"] + query, self.p["retrieved"])
        return found

    def ranked(self, queries):
        """The relevant passages, best first."""
        corpus, best = self.tools.corpus, {}
        passages = ranking.texts_once(corpus, shared.union([self.retrieved(query) for query in queries]))
        texts = [ranking.pair_text(corpus, passage, self.p) for passage in passages]
        for query in queries:
            for passage, score in zip(passages, self.tools.scorer.relevances(query, texts)):
                if score < self.p["threshold"]:
                    continue
                known = best.get(passage)
                if known is None or self.p["passage_score"] == "last" or score > known.score:
                    best[passage] = Knowledge(query, corpus.texts[passage], corpus.titles[passage], passage, score)
        # Of equal passages the earlier one in the order of retrieval.
        found = [best[passage] for passage in passages if passage in best]
        return sorted(found, key=lambda knowledge: -knowledge.score)

    def allowed(self, knowledge):
        """By the memory and the length."""
        often = self.p["most_shown"] and self.times.get(knowledge.passage, 0) >= self.p["most_shown"]
        return not often and len(knowledge.text.split()) >= self.p["shortest_passage"]

    def compressed(self, found):
        if self.p["knowledge"] == "whole":
            return found[:self.p["passages"]]
        if self.p["knowledge"] == "sentences":
            kept = found[:self.p["passages"]]
            for knowledge in kept:
                knowledge.text = ranking.relevant_text(self.tools, self.p, knowledge.query, knowledge.passage,
                                                       knowledge.score)
            return kept
        found, kept, at = found[:self.p["most_compressed"]], [], 0
        template = self.p["prompts"].get("compression") or shared.template({}, "", COMPRESSION[self.p["knowledge"]])
        while len(kept) < self.p["passages"] and at < len(found):
            batch = found[at:at + self.p["passages"] - len(kept)]
            at += len(batch)
            for knowledge in batch:
                text = self.write(shared.filled(template, passage=knowledge.line(), question=knowledge.query))[0]
                if text.strip() and not ranking.irrelevant(text, self.p):
                    knowledge.text = text.strip()
                    kept.append(knowledge)
        return kept

    def forward(self, queries):
        made = []
        for query in queries if self.p["forward_queries"] == "each" else queries[:1]:
            text = self.write(self.prompt("forward", question=query))[0].strip()
            if text and not any(word in text for word in self.p["refused_words"]):
                made.append(Knowledge(query, text, "None" if self.p["forward_title"] == "none" else None))
        return made

    def knowledge(self, queries):
        """What is shown, and the list that citations count in."""
        # The best ones are taken first, then those that were shown often enough are left out, and no others come in
        # their place (the authors' code filters what it has ranked; the paper does not say).
        relevant = self.ranked(queries)
        if self.p["knowledge"] in COMPRESSION:
            # Here they are left out first, so that others come in their place. Nothing tells why it differs.
            relevant = [knowledge for knowledge in relevant if self.allowed(knowledge)]
        relevant = self.compressed(relevant)
        shown = [knowledge for knowledge in relevant if self.allowed(knowledge)]
        nothing = not shown if self.p["forward_when"] == "nothing_left" else not relevant
        if nothing and self.p["forward"]:
            shown = relevant = self.forward(queries)
        for knowledge in shown:
            if knowledge.passage is not None:
                self.times[knowledge.passage] = self.times.get(knowledge.passage, 0) + 1
                if knowledge.passage not in self.order:
                    self.order.append(knowledge.passage)
        return shown, relevant

    # The modules.

    def leaf(self, queries, shown, unfiltered):
        """Adds new statements; says whether there are any."""
        behind = [query for query in queries if any(knowledge.query == query for knowledge in shown)]
        asked = behind if self.p["leaf_question"] == "shown" else queries
        self.shown_queries = shared.union([self.shown_queries, [knowledge.query for knowledge in shown]])
        lines = "\n".join(f"Passage {number}: {knowledge.line()}" for number, knowledge in enumerate(shown))
        prompt = self.prompt("leaf", passages=lines, question=" ".join(asked))
        listed = shown if self.p["citations"] == "shown" else unfiltered
        found = [pair for reply in self.write(prompt, self.p["draws"], self.p["json"])
                 for pair in module_replies.statements(reply, self.p["parser"])[:self.p["most_infos"]]]
        if self.p["draws"] > 1:
            infos = [info for info, _ in found]
            found = [found[at] for at in votes.middle(infos, self.p["clusters"], self.p["clusters_kept"])]
        # All pairs of a statement and a passage are asked about before any of them counts, known statements included.
        read, entailed = [], []
        for info, numbers in found:
            named = [listed[number] for number in dict.fromkeys(numbers) if 0 <= number < len(listed)]
            if named:
                read.append((info, named))
                entailed.append(not self.p["entailer"] or any([
                    self.tools.scorer.entails(knowledge.line(), info) >= self.p["entailed_at"] for knowledge in named]))
        new, cited = 0, []
        for (info, named), holds in zip(read, entailed):
            if not holds or info in self.infos:
                continue
            self.infos.append(info)
            new += 1
            cited += [knowledge.passage for knowledge in named if knowledge.passage is not None]
        for passage in dict.fromkeys(cited):
            self.times[passage] = self.times.get(passage, 0) + 1
        self.cited = shared.union([self.cited, cited])
        return new > 0

    def queries(self, missing):
        history = self.asked if self.p["history"] == "all" else self.shown_queries
        prompt = self.prompt("query", question=self.question, history=" ".join(history) if history else "None",
                             information=self.information(), missing=missing or "None")
        new = module_replies.queries(self.write(prompt)[0], self.p["parser"], self.p["shortest_query"], history)
        new = new[:self.p["most_queries"]] or [self.question]
        self.asked += [query for query in new if query not in self.asked]
        return new

    def answer(self):
        if self.p["kinship"]:
            self.infos += module_replies.kinship(self.question)
        queries, missing = [self.question], ""
        if self.p["iterations"] == 0:
            return self.direct(queries)
        while True:
            shown, unfiltered = self.knowledge(queries)
            new = self.leaf(queries, shown, unfiltered) if shown else False
            if self.iterations == self.p["iterations"]:
                if not new and self.p["barren_end"] == "lose":
                    return self.outcome(None)
                return self.final()
            if new or not self.p["skip_main"] or self.iterations == 0:
                reply, answered = self.main()
                if reply is None:
                    return shared.Outcome(status="parse_failure", iterations=0)
                if answered:
                    return self.outcome(reply.answer)
                missing = reply.missing
                if len(missing) < self.p["shortest_missing"]:
                    missing = reply.explanation
            queries = self.queries(missing)
            self.iterations += 1

    def replies(self, prompt):
        """What the draws say that can be read."""
        made = [module_replies.verdict(text, self.p["parser"])
                for text in self.write(prompt, self.p["draws"], self.p["json"])]
        return [reply for reply in made if reply is not None]

    def main(self):
        """The verdict, and whether it is an answer."""
        replies = self.replies(self.prompt("main", information=self.information(), question=self.question))
        if not replies and self.p["parser"] == "code":
            # An exception of the code, after which the question is left out.
            return None, True
        if not replies:
            return module_replies.Verdict(""), False
        if self.p["draws"] > 1:
            return votes.verdict(replies, self.p["least_confidence"])
        return replies[0], "unanswerable" not in replies[0].answer.lower()

    def last(self, prompt):
        replies = self.replies(prompt)
        if not replies:
            return shared.Outcome(status="parse_failure", iterations=0)
        return self.outcome(votes.commonest(replies).answer)

    def final(self):
        return self.last(self.prompt("final", information=self.information(), question=self.question))

    def direct(self, queries):
        shown, _ = self.knowledge(queries)
        if not shown:
            # Nothing to read, and nothing known: the paper has no prompt for that. The final one can do without.
            return self.final()
        lines = "\n".join(f"Passage {number}: {knowledge.line()}" for number, knowledge in enumerate(shown))
        return self.last(self.prompt("direct", passages=lines, question=self.question))

    def outcome(self, answer):
        # Those that were shown, in that order, the cited ones first.
        ranked = sorted(self.order, key=lambda passage: passage not in self.cited)
        return shared.Outcome(answer, ranked, iterations=self.iterations + 1)


def answer(question, tools, parameters):
    return Machine(question, tools, parameters).answer()
