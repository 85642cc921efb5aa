"""Self-Ask (Press et al., 2023, section 3, and its public demonstration), and as a baseline of EfficientRAG.

The model continues its own text. Where the last line of what it wrote has `Follow up:`, the question behind it is
retrieved with, and the intermediate answer is a snippet of the best passage, or the model's own with the passages in
front of the question, or a reader's. Otherwise it has the final answer, or the ending is forced.
"""

import shared

DEFAULTS = {
    "retriever": "bm25", "evidence": "snippet", "k": 10, "most_follow_ups": 10, "snippet_sentences": 2,
    "first_retrieval": False, "shown": "all", "stops": "sent", "extraction": "marker", "last_text": "kept",
    "final_marker": "\nSo the final answer is:", "chunk": "title+text", "title_separator": ": ", "context_tokens": None,
    "prompt": None, "system": None, "reader_prompt": None, "max_tokens": 256, "reader_tokens": 256, "temperature": 0,
    "attempts": 3, "answer_json": "object",
}
CODE = {
    "evidence": "reader", "most_follow_ups": 5, "max_tokens": 100, "temperature": "server", "stops": "cut",
    "extraction": "last_colon", "last_text": "dropped", "final_marker": "So the final answer is:",
    "system": "You are a helpful assistant.", "answer_json": "braces",
}
OPENING = "Are follow up questions needed here:"
FOLLOW_UP = "Follow up:"
INTERMEDIATE = "\nIntermediate answer:"
FINAL = "So the final answer is:"


class Episode:
    def __init__(self, question, tools, parameters):
        self.question, self.tools, self.p = question, tools, parameters
        self.own, self.shown, self.paths = OPENING, [], []

    def user(self):
        text = shared.template(self.p, "prompt", "self_ask/prompt.txt")
        examples, marker, question = text.rpartition("Question: ")
        # Documents stand right before the last question; no line of theirs where there are none.
        lines = shared.passage_lines(self.tools.corpus, self.shown, self.p) if self.p["evidence"] == "documents" else ""
        lines += "\n" if lines else ""
        return examples + lines + shared.filled(marker + question, question=self.question.text) + "\n"

    def write(self, stops, needed):
        """The model's next words, up to a stop. With `cut` no stop is sent, and a text without one of `needed` is drawn
        again, at last empty (EfficientRAG's code, which strips a text before it looks for the stop, and after)."""
        request = {"user": self.user(), "own": self.own, "max_tokens": self.p["max_tokens"],
                   "temperature": self.p["temperature"]}
        if self.p["stops"] == "sent":
            return self.tools.server.write(stop=stops, **request)
        for draw in range(shared.attempts(self.p)):
            text = self.tools.server.write(draw=draw, **request)
            if any(stop in text for stop in needed):
                text = text.strip()
                places = [text.find(stop) for stop in needed if stop in text]
                return text[:min(places, default=len(text))].strip()
        return ""

    def next_text(self):
        return self.write([INTERMEDIATE], [INTERMEDIATE, FINAL])

    def follow_up(self, text):
        """The question in the last line; none without one."""
        last = text.rstrip().split("\n")[-1]
        if FOLLOW_UP not in last:
            return None
        behind = text.rsplit(":", 1)[1] if self.p["extraction"] == "last_colon" else last.split(FOLLOW_UP, 1)[1]
        return behind.strip() or None

    def retrieve(self, query):
        found = self.tools.search(self.p["retriever"], query, self.p["k"])
        self.paths.append(found)
        newest_first = [found] + ([self.shown] if self.p["shown"] == "all" else [])
        self.shown = shared.union(newest_first)
        return found

    def evidence(self, query):
        """Appends the intermediate answer, or what lets the model write it."""
        found = self.retrieve(query)
        if self.p["evidence"] == "documents":
            self.own += INTERMEDIATE
        elif self.p["evidence"] == "snippet":
            lines = self.tools.corpus.sentences(found[0])[:self.p["snippet_sentences"]] if found else []
            snippet = " ".join(lines).strip()
            self.own += INTERMEDIATE
            if snippet:
                self.own += " " + snippet.removesuffix(".") + "."
            else:
                self.own += self.write(["\n" + FOLLOW_UP, "\n" + FINAL], ["\n" + FOLLOW_UP, "\n" + FINAL])
        else:
            short = self.read(query, found)
            self.own += f"{INTERMEDIATE} {short}."

    def read(self, query, found):
        knowledge = shared.passage_lines(self.tools.corpus, found, self.p)
        reader = shared.template(self.p, "reader_prompt", "efficientrag/reader.txt")
        prompt = shared.filled(reader, knowledge=knowledge, question=query)
        read = lambda value: shared.short_text(value.get("answer"))  # noqa: E731
        short = shared.drawn_object(self.tools, self.p, read, user=prompt, system=self.p["system"],
                                    max_tokens=self.p["reader_tokens"])
        return "unknown" if short is None else short

    def final(self, text):
        """The answer behind the final marker of a text; none without one."""
        if FINAL not in text:
            return None
        return self.short(text.rsplit(FINAL, 1)[1])

    def short(self, text):
        line = text.strip().split("\n")[0]
        if self.p["extraction"] == "last_colon":
            line = text.rsplit(":", 1)[-1]
        return line.strip().removesuffix(".")

    def answer(self):
        if self.p["evidence"] == "documents" and self.p["first_retrieval"]:
            self.retrieve(self.question.text)
        text, asked = self.next_text(), 0
        while self.follow_up(text) is not None and asked < self.p["most_follow_ups"]:
            asked += 1
            self.own += text
            self.evidence(self.follow_up(text))
            text = self.next_text()
        answer = self.final(text)
        if answer is None:
            if self.p["last_text"] == "kept":
                self.own += text
            self.own += self.p["final_marker"]
            answer = self.short(self.write(["\n"], ["\n"]))
        return shared.Outcome(answer, shared.union(self.paths), self.paths)


def answer(question, tools, parameters):
    return Episode(question, tools, parameters).answer()
