"""ReAct (Yao et al., 2023, sections 2 and 3), with the texts of its authors' environment over the corpus.

The model thinks and acts: `Search[title]` shows the first sentences of a page, or the titles of similar ones;
`Lookup[words]` shows the page's next sentence with the words; `Finish[answer]` ends. A text without an action is
asked for one by a second call. After `most_steps` the answer is empty.
"""

import shared

DEFAULTS = {
    "retriever": "bm25", "corpus": "corpus", "most_steps": 7, "titles": "folded", "sentences": 5,
    "sentences_by": "corpus", "similar": 5, "blank_line": False, "prompt": None, "max_tokens": 100, "temperature": 0,
}
CODE = {"sentences_by": "points", "blank_line": True}


def folded(title):
    return "".join(title.replace("_", " ").split()).casefold()


class Wiki:
    """The environment: pages by title, the current page, and the words looked up on it."""

    def __init__(self, tools, parameters):
        self.tools, self.corpus, self.p = tools, tools.corpus, parameters
        self.page, self.words, self.found, self.next, self.seen = None, None, [], 0, []

    def passages(self, title):
        """Every passage with the title searched for, else with the first title that is the same when folded."""
        exact = self.corpus.by_title.get(title)
        if exact or self.p["titles"] == "exact":
            return exact or []
        first = self.corpus.by_folded_title(folded).get(folded(title))
        return self.corpus.by_title[first] if first is not None else []

    def sentences(self, passages):
        if self.p["sentences_by"] == "corpus":
            return [sentence for passage in passages for sentence in self.corpus.sentences(passage)]
        lines = [line.strip() for passage in passages for line in self.corpus.texts[passage].split("\n")]
        pieces = [piece.strip() for line in lines for piece in line.split(". ")]
        return [piece + "." for piece in pieces if piece]

    def search(self, title):
        passages = self.passages(title)
        if not passages:
            hits = self.tools.search(self.p["retriever"], title, self.p["similar"])
            titles = shared.union([[self.corpus.titles[hit] for hit in hits]])
            return f"Could not find {title}. Similar: {titles}."
        self.seen.append(passages)
        self.page, self.words = self.sentences(passages), None
        return " ".join(self.page[:self.p["sentences"]])

    def lookup(self, words):
        if words != self.words:
            self.words, self.next = words, 0
            self.found = [sentence for sentence in self.page or [] if words.lower() in sentence.lower()]
        if self.next >= len(self.found):
            return "No more results." + ("\n" if self.p["blank_line"] else "")
        self.next += 1
        return f"(Result {self.next} / {len(self.found)}) {self.found[self.next - 1]}"

    def act(self, action):
        """What is observed, and the answer of a `Finish`."""
        action = (action[:1].lower() + action[1:]).strip()
        for name in ("search", "lookup", "finish", "think"):
            if action.startswith(name + "[") and action.endswith("]"):
                inside = action[len(name) + 1:-1]
                if name == "finish":
                    return "", inside
                acts = {"search": self.search, "lookup": self.lookup, "think": lambda _: "Nice thought."}
                return acts[name](inside), None
        return f"Invalid action: {action}", None


def answer(question, tools, parameters):
    wiki = Wiki(tools, parameters)
    user = shared.filled(shared.template(parameters, "prompt", "react/prompt.txt"), question=question.text) + "\n"
    limits = (parameters["max_tokens"], parameters["temperature"])
    write = lambda own, stop: tools.server.write(user, *limits, [stop], own=own)  # noqa: E731
    episode, answer = "", ""
    for step in range(1, parameters["most_steps"] + 1):
        text = write(f"{episode}Thought {step}:", f"\nObservation {step}:").strip()
        pieces = text.split(f"\nAction {step}: ")
        if len(pieces) == 2:
            thought, action = pieces
        else:
            thought = text.split("\n")[0]
            action = write(f"{episode}Thought {step}: {thought}\nAction {step}:", "\n").strip()
        observation, final = wiki.act(action)
        if final is not None:
            answer = final
            break
        episode += f"Thought {step}: {thought}\nAction {step}: {action}\nObservation {step}: {observation}\n"
    return shared.Outcome(answer, shared.union(wiki.seen))
