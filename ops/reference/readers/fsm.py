"""FSM (arXiv 2407.02964, section 2.2 and appendix B): a question taken apart over the paragraphs given with it.

A round decomposes the question, judges whether its sub-question is the question itself, searches the paragraphs for
the sub-question's answer, checks that answer, and revises the question. FSM1 ends with the last answer, FSM2 with a
review of what was found. A reply that breaks its form is rewritten by the model, then the round is drawn again.
"""

import replies
import shared

DEFAULTS = {
    "variant": "fsm2", "setting": 1, "most_rounds": 4, "repairs": 1, "backtracks": 1, "judge": True,
    "check_answers": True, "answer_words": 5, "limit_words": True, "final_words": 10, "history": 4,
    "reading": "tolerant", "titles": "exact", "sentence_numbers": True, "keep_first_answer": True, "prompts": {},
    "temperature": 0.8, "top_p": 0.8, "repetition_penalty": 1.1, "max_tokens": 500, "json": False, "draw": 0,
}
CODE = {"history": 0, "reading": "strict", "sentence_numbers": False, "keep_first_answer": False, "backtracks": 0}


class Broken(Exception):
    """A reply that stays unreadable."""


def paragraph_text(corpus, passage, parameters):
    title = corpus.titles[passage]
    if parameters["setting"] == 2 and parameters["sentence_numbers"]:
        lines = [f"[{number}] {sentence}" for number, sentence in enumerate(corpus.numbered_sentences(passage))]
        return f"Title: {title}\n" + "\n".join(lines)
    return f"Title: {title}\n{corpus.texts[passage]}"


def paragraphs_text(corpus, passages, parameters):
    return "\n\n".join(paragraph_text(corpus, passage, parameters) for passage in passages)


def sampling(parameters):
    """The fields of a body, the penalty by llama.cpp's name."""
    if parameters["temperature"] == 0:
        return {"temperature": 0.0}
    return {"temperature": float(parameters["temperature"]), "top_p": float(parameters["top_p"]),
            "repeat_penalty": float(parameters["repetition_penalty"]), "seed": True}


class Machine:
    def __init__(self, question, tools, parameters):
        self.question, self.tools, self.p = question, tools, parameters
        self.passages = list(dict.fromkeys(question.candidates))
        self.titles = [tools.corpus.titles[passage] for passage in self.passages]
        self.history, self.steps, self.notes = [], [], []
        # Replicates share no draws: each has as many as it may need.
        self.draw, self.left = parameters["draw"] * (parameters["backtracks"] + 1), parameters["backtracks"]
        if parameters["temperature"] == 0:
            self.left = 0
        self.repairs, self.clean, self.iterations = 0, True, 0

    def prompt(self, step, **fields):
        name = step
        if self.p["setting"] == 2 and step in ("search", "review"):
            name += "_support"
        text = self.p["prompts"].get(step) or shared.template({}, "", f"fsm/{name}.txt")
        return shared.filled(text, **fields)

    def ask(self, step, form, history=True, **fields):
        """The object that a step's reply is, in its form."""
        prompt = self.prompt(step, **fields)
        before = self.history[-self.p["history"]:] if self.p["history"] and history else []
        text = self.write(before + [("user", prompt)])
        rewritten = repairs = 0
        for attempt in range(self.p["repairs"] + 1):
            try:
                made, repairs = form.read(text, self.p["reading"])
                break
            except replies.Unreadable as unreadable:
                if attempt == self.p["repairs"]:
                    self.repairs += rewritten
                    raise Broken(str(unreadable)) from None
                rewritten += 1
                prompt_again = self.prompt("rewrite", form=form.shape, problem=str(unreadable), text=text)
                text = self.write([("user", prompt_again)])
        self.repairs += rewritten + repairs
        if repairs:
            self.clean = False
        if history:
            # A rewritten text stands in place of the broken one.
            self.history += [("user", prompt), ("assistant", text)]
        return made

    def write(self, messages):
        return self.tools.server.drawn(messages, self.p["max_tokens"], sampling(self.p), first=self.draw,
                                       json_object=self.p["json"])[0]

    def shown(self, passages):
        return paragraphs_text(self.tools.corpus, passages, self.p)

    def search(self, asked):
        form = replies.Search(self.titles, self.p["answer_words"] if self.p["limit_words"] else None,
                              self.p["setting"] == 2)
        found = self.ask("search", form, paragraphs=self.shown(self.passages), question=asked,
                         words=str(self.p["answer_words"]))
        passage = self.passages[self.titles.index(found["title"])]
        answer = found["answer"]
        if self.p["check_answers"]:
            checked = self.ask("check", replies.Check(), subquestion=asked, answer=answer)
            answer = answer if checked["simple"] else checked["answer"]
        return {"question": asked, "passage": passage, "answer": answer, "support": found.get("support"),
                "evidences": found.get("evidences")}

    def round(self, asked):
        """The step of a round, and the question that is left; none if nothing is."""
        parts = self.ask("decompose", replies.Decompose(), question=asked)
        if parts["simple"]:
            return self.search(asked), None
        single = parts["subquestion"]
        if self.p["judge"] and self.ask("judge", replies.Judge(), question=asked, subquestion=single)["identical"]:
            return self.search(asked), None
        step = self.search(single)
        revised = self.ask("revise", replies.Revise(), question=asked, subquestion=single, answer=step["answer"])
        return step, revised["question"]

    def answer(self):
        asked = self.question.text
        while asked is not None and self.iterations < self.p["most_rounds"]:
            before = list(self.history)
            try:
                step, asked = self.round(asked)
            except Broken:
                self.history = before
                if not self.left and not self.steps:
                    return self.failed()
                if not self.left:
                    self.clean = False
                    break
                self.left -= 1
                self.draw += 1
                continue
            self.iterations += 1
            self.steps.append(step)
        if self.p["variant"] == "fsm1":
            return self.outcome(self.steps[-1]["answer"])
        return self.review()

    def review(self):
        # Those whose title was named, in the order in which they were given (the released code).
        found = [passage for passage in self.passages if passage in {step["passage"] for step in self.steps}]
        steps = "\n".join(f"{number}. {step['question']} {step['answer']} "
                          f"(from \"{self.tools.corpus.titles[step['passage']]}\")"
                          for number, step in enumerate(self.steps, 1))
        while True:
            try:
                made = self.ask("review", replies.Answer(self.p["setting"] == 2), history=False,
                                paragraphs=self.shown(found), steps=steps, question=self.question.text,
                                words=str(self.p["final_words"]))
                return self.outcome(made["answer"], review=made)
            except Broken:
                if self.left:
                    self.left -= 1
                    self.draw += 1
                    continue
                # The last reply broke its form, whatever is made of the question.
                self.clean = False
                if self.p["keep_first_answer"]:
                    return self.outcome(self.steps[-1]["answer"])
                return self.failed()

    def failed(self):
        self.clean, self.steps = False, []
        return self.outcome(None, "parse_failure")

    def outcome(self, answer, status="ok", review=None):
        made = shared.Outcome(answer, shared.union([[step["passage"] for step in self.steps]]), [], status)
        made.iterations, made.format, made.repairs = self.iterations, self.clean, self.repairs
        if self.p["setting"] == 2:
            sources = [review] if review else self.steps
            facts = [fact for source in sources for fact in source["support"] or []]
            made.supporting, made.named = resolved(facts, self.tools.corpus, self.passages, self.p)
            made.evidences = [triple for source in sources for triple in source["evidences"] or []]
        return made


def same_title(parameters):
    return (lambda own, named: own == named) if parameters["titles"] == "exact" else replies.folded_alike


def resolved(facts, corpus, passages, parameters):
    """Support in the paragraphs as pairs of passage and sentence, and what is in none, in the model's words; each once.
    A text names no sentence; a number with a fraction of zero does, since the official scripts compare it as equal."""
    supporting, named, same = [], [], same_title(parameters)
    for fact in facts:
        parts = fact if isinstance(fact, list) else [fact]
        title = replies.written(parts[0]) if parts else ""
        index = parts[1] if len(parts) > 1 else None
        is_number = isinstance(index, (int, float)) and not isinstance(index, bool) and index == int(index) >= 0
        named_so = [passage for passage in passages if is_number and same(corpus.titles[passage], title)]
        found = [(passage, int(index)) for passage in named_so if index < len(corpus.numbered_sentences(passage))]
        if found:
            supporting += [found[0]] if found[0] not in supporting else []
        else:
            words = (title, replies.written(index) if len(parts) > 1 else "")
            named += [words] if words not in named else []
    return supporting, named


def answer(question, tools, parameters):
    return Machine(question, tools, parameters).answer()
