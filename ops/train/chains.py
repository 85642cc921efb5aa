"""Chains of thought over a world's questions: what a writer is shown at a step, and what it should write.

A chain quotes: each sentence is a passage's title, a colon and one sentence of that passage, so it can be copied, names
and relations that training never saw included. Where the passages do not hold the next fact, the next sentence is the
question that asks about it. A chain ends with `So the answer is: ANSWER.`

States are those of IRCoT with a nearly perfect writer: passages found by BM25 for the question and for each sentence,
in the order of their arrival, and the chain so far. A quarter of the sentences have a quotation beside the point
before them, as a writer that errs would have. So training meets what the method will show. Three more kinds of states
ask for a whole answer in one text, as a reader does, and for single facts.

| task | what the prompt ends with | what is to be written |
| --- | --- | --- |
| `fact` | `NEXT`, question, chain | the quotation of the next fact |
| `ask` | the same, its passage is not there | `What about NAME?`, the name as question or chain have it |
| `give_up` | the same, after it was asked in vain | `So the answer is: unknown.` |
| `end` | the same, chain is whole | `So the answer is: ANSWER.` |
| `chain` | question | quotations of all facts that are there, and the answer |
| `direct` | `DIRECT`, question | the answer |

An answer that the passages do not give is a guess, yes or no or one of the question's alternatives, else `unknown`.
"""

import random
import re
from dataclasses import dataclass

import torch
from retrieval import Bm25
from worlds import World

# The instructions before a question: `instruction` of `ircot`, `one_step_qa`, `no_retrieval`. A whole chain has none.
NEXT = "Write the next step. "
DIRECT = "Answer in a few words. "
UNKNOWN = "unknown"
ABOUT = "What about {}?"
BESIDE = 0.25  # of sentences have a quotation beside the point before them
MOST_PASSAGES = 15
DECISION = 4.0  # how much a piece counts where the writer decides
REPEATED = 0.04  # of copies
LONGEST_RUN = 24  # pieces that are copied together from one place
FLAGS = 4  # of a prompt's pieces: copied next, copied later, the answer, the begin of a copy


@dataclass
class Fact:
    """What one passage says, and the question that it answers."""

    passage: int
    place: int  # of its sentence in the passage
    sentence: str
    asked: str  # its question; earlier facts' answers are in it
    answer: str  # as the sentence has it
    needs: list  # earlier facts
    # If its question quotes the lesson's:
    phrase: str = ""  # what stands for its answer there
    side: str = ""  # what it is asked of, where two are compared


class Lesson:
    """A question with its facts."""

    quotes = False  # whether the facts' questions quote the lesson's

    def __init__(self, reading, row):
        self.id, self.question, self.kind = row["id"], row["text"], row["kind"]
        self.facts, self.steps = [], [step["question"] for step in row["decomposition"]]
        for (title, _, _), (_, place), step in zip(row["evidences"], row["supporting_facts"], row["decomposition"]):
            passage = reading.world.by_title[title]
            sentence = reading.sentences[passage][place]
            needs = [int(n) - 1 for n in re.findall(r"#(\d+)", step["question"])]
            asked = step["question"]
            for n in needs:
                asked = asked.replace(f"#{n + 1}", self.facts[n].answer)
            self.facts.append(Fact(passage, place, sentence, asked, form(step["answer"], sentence), needs))
        texts = (self.facts[-1].sentence, self.question) if self.kind == "bridge" else (self.question,)
        forms = sorted(row["answers"], key=len, reverse=True)
        found = [a for text in texts for a in forms if a in text]
        self.answer = found[0] if found else min(row["answers"], key=len)

    def ready(self, done):
        """Facts that may come next."""
        return [n for n, fact in enumerate(self.facts) if n not in done and all(need in done for need in fact.needs)]

    def single(self, n):
        """One fact as a question of its own."""
        made = object.__new__(Lesson)
        fact = self.facts[n]
        made.id, made.question, made.kind, made.answer = f"{self.id}-{n}", fact.asked, "bridge", fact.answer
        made.steps = [fact.asked]
        made.facts = [Fact(fact.passage, fact.place, fact.sentence, fact.asked, fact.answer, [])]
        return made


def form(answer, sentence):
    """An answer as a sentence has it."""
    forms = (answer, answer.split(" (")[0], answer.split(", ")[0])
    return next((f for f in forms if f in sentence), forms[1])


@dataclass
class State:
    """What a writer is shown: passages in their order, and the chain, whose sentences are ("fact", n), ("ask", n), or
    ("beside", (passage, place))."""

    lesson: Lesson
    passages: list
    chain: list
    task: str
    fact: int = 0  # of the tasks `fact` and `ask`


class Reading:
    """A world with its sentences and its index."""

    def __init__(self, folder):
        self.world = World.read(folder)
        self.sentences = [p.sentences for p in self.world.passages]
        self.index = Bm25([f"{p.title} {p.text}" for p in self.world.passages])

    def quoted(self, passage, place):
        return f"{self.world.passages[passage].title}: {self.sentences[passage][place]}"

    def quotation(self, fact):
        return self.quoted(fact.passage, fact.place)

    def sentence_beside(self, lesson, passage, rng):
        """A passage and the place of one of its sentences that says no fact of the lesson; None if it has none."""
        told = {(fact.passage, fact.place) for fact in lesson.facts}
        places = [place for place in range(len(self.sentences[passage])) if (passage, place) not in told]
        return (passage, rng.choice(places)) if places else None

    def named(self, fact, said):
        """The name of the fact's passage as the question or the chain so far has it; None if neither does."""
        passage = self.world.passages[fact.passage]
        forms = (passage.title, passage.title.split(", ")[0], passage.name)
        return next((form for form in sorted(forms, key=len, reverse=True) if form in said), None)

    def asking(self, fact, said):
        """What is written where the fact's passage is not there."""
        name = self.named(fact, said)
        return ABOUT.format(name) if name else fact.asked

    def sentences_of(self, lesson, chain):
        """The texts of a chain's sentences."""
        texts = []
        for kind, what in chain:
            if kind == "fact":
                texts.append(self.quotation(lesson.facts[what]))
            elif kind == "beside":
                texts.append(self.quoted(*what))
            else:
                texts.append(self.asking(lesson.facts[what], " ".join([lesson.question, *texts])))
        return texts

    def said(self, lesson, chain):
        """The question and the chain so far."""
        return " ".join([lesson.question, *self.sentences_of(lesson, chain)])


def states(reading, seed):
    """The states of all questions, and those of their single facts."""
    rng, found = random.Random(seed), []
    for row in reading.world.questions:
        lesson = Lesson(reading, row)
        states = walk(reading, lesson, rng.choice([2, 3, 4, 4, 6]), rng)
        found += states
        wide, last = reading.index.search(lesson.question, MOST_PASSAGES), states[-1].passages
        for passages in (wide, last):
            found.append(State(lesson, passages, [], rng.choice(["chain", "direct"])))
        for n in range(len(lesson.facts)):
            alone = lesson.single(n)
            passages = reading.index.search(alone.question, 6)
            if alone.facts[0].passage not in passages:
                passages = passages[:-1] + [alone.facts[0].passage]
            task = rng.choice(["fact", "fact", "end", "chain", "direct"])
            found.append(State(alone, passages, [("fact", 0)] if task == "end" else [], task))
    return found


def walk(reading, lesson, k, rng=None):
    """The states of IRCoT with k passages a step and a writer that is perfect, but for the quotations beside the point
    that `rng` puts into its chain."""
    states, chain, done, vain = [], [], [], set()
    got = reading.index.search(lesson.question, k)

    def retrieve(query):
        for passage in reading.index.search(query, k):
            if passage not in got and len(got) < MOST_PASSAGES:
                got.append(passage)

    def following():
        """The next fact, and whether its passage is there."""
        ready = lesson.ready(done)
        here = [n for n in ready if lesson.facts[n].passage in got]
        return (here or [n for n in ready if n not in vain] or ready)[0], bool(here)

    while len(done) < len(lesson.facts):
        n, here = following()
        if not here and n in vain:
            states.append(State(lesson, list(got), list(chain), "give_up"))
            # It is put in, as by a luckier search, or the walk would not go on.
            got = got[: MOST_PASSAGES - 1] + [lesson.facts[n].passage]
            chain.remove(("ask", n))
            vain.remove(n)
            continue
        if rng and rng.random() < BESIDE:
            passage = lesson.facts[n].passage if here and rng.random() < 0.6 else rng.choice(got)
            if beside := reading.sentence_beside(lesson, passage, rng):
                chain.append(("beside", beside))
                retrieve(reading.quoted(*beside))
                n, here = following()  # it may have found what was not there
        fact = lesson.facts[n]
        states.append(State(lesson, list(got), list(chain), "fact" if here else "ask", n))
        chain.append((states[-1].task, n))
        if here:
            done.append(n)
        else:
            vain.add(n)
        retrieve(reading.quotation(fact) if here else reading.asking(fact, reading.said(lesson, chain[:-1])))
    return [*states, State(lesson, list(got), list(chain), "end")]


class Example:
    """Ids of a prompt and of what is to be written after it; for each written id the places that it is copied from, and
    how much it counts. Pieces where the writer decides count more: the first one of each text that is written, where a
    copy begins, and what follows a copy. All others follow from the one before, and are many. Some copies are there
    twice, by `rng`: the second one is shown and not taught, so that a writer that repeats itself comes to an end."""

    def __init__(self, pieces, rng=None):
        self.pieces, self.rng = pieces, rng
        self.prompt, self.target, self.sources, self.labels, self.begins = [], [], [], {}, set()
        self.decided, self.untaught = set(), set()

    def show(self, text):
        """Appends a text to the prompt; its place."""
        start = len(self.prompt)
        self.prompt += self.pieces.text(text)
        return start

    def write(self, text, places=(), label=0):
        """Appends a text to the target, which is copied from where a copy of it begins in the prompt. `label` says what
        for: 1 next, 2 later, 3 the answer. The begin of what is copied next, or as the answer, is flagged besides."""
        start = len(self.target)
        self.decided.add(start)
        for offset, piece in enumerate(self.pieces.text(text)):
            spots = [place + offset for place in places]
            self.target.append(piece)
            self.sources.append(spots)
            if label:
                self.labels.update(dict.fromkeys(spots, label))
                if offset == 0 and label != 2:
                    self.begins.update(spots)
        if places:
            self.repeat(start)

    def repeat(self, start):
        """Sometimes: what was written from `start` on, again, and not taught."""
        if self.rng and self.rng.random() < REPEATED:
            end = len(self.target)
            self.target += self.target[start:end]
            self.sources += self.sources[start:end]
            self.untaught.update(range(end, len(self.target)))

    def mark(self, text, place, label):
        """Flags a text of the prompt that is read and not written, with its begin."""
        spots = range(place, place + len(self.pieces.text(text)))
        self.labels.update(dict.fromkeys(spots, label))
        self.begins.update(spots[:1])

    def places(self, text, start=0, end=None):
        """Where a text stands in a part of the prompt."""
        part = self.pieces.text(text)
        last = (len(self.prompt) if end is None else end) - len(part)
        return [n for n in range(start, last + 1) if self.prompt[n : n + len(part)] == part]

    def write_names(self, text, start):
        """Appends a text of the writer's own; its longest runs of two pieces or more are copied from behind `start`."""
        ids, n = self.pieces.text(text), 0
        while n < len(ids):
            size, spots = self.run(ids[n:], start)
            # In `What is the city where` the run is not `is the`, which stands anywhere.
            if size > 1 and n + 1 < len(ids) and self.run(ids[n + 1 :], start)[0] > size:
                size, spots = 1, []
            self.decided.add(len(self.target))
            for offset in range(size):
                self.target.append(ids[n + offset])
                self.sources.append([s + offset for s in spots])
            n += size

    def run(self, ids, start):
        """The longest begin of `ids` that stands in the prompt behind `start`, of two pieces at least, and where; one
        piece without a place if none does."""
        best, spots = 1, []
        for spot in range(start, len(self.prompt)):
            if self.prompt[spot] != ids[0]:
                continue
            size = 1
            for shown, written in zip(self.prompt[spot + 1 : spot + LONGEST_RUN], ids[1:]):
                if shown != written:
                    break
                size += 1
            if size > best:
                best, spots = size, []
            if size == best > 1:
                spots.append(spot)
        return best, spots

    def counts(self, n):
        """How much a written piece counts."""
        if n in self.untaught:
            return 0.0
        here, before = self.sources[n], self.sources[n - 1] if n else []
        follows = any(spot - 1 in before for spot in here)
        return DECISION if n in self.decided or (here or before) and not follows else 1.0

    def finish(self):
        end = self.pieces.id("</s>")
        self.prompt.append(end)
        self.decided.add(len(self.target))
        self.target.append(end)
        self.sources.append([])
        labels = torch.zeros(len(self.prompt), FLAGS, dtype=torch.bool)
        for place, label in self.labels.items():
            labels[place, label - 1] = True
        for place in self.begins:
            labels[place, 3] = True
        return self.prompt, self.target, self.sources, labels, [self.counts(n) for n in range(len(self.target))]


def some_passages(facts, passages, most, rng):
    """At most so many passages, in their order; those of the facts stay."""
    needed = {fact.passage for fact in facts if fact.passage in passages}
    rest = [p for p in passages if p not in needed]
    kept = needed | set(rng.sample(rest, min(len(rest), max(0, most - len(needed)))))
    return [p for p in passages if p in kept]


def some_sentences(facts, passage, count, most, rng):
    """The places of at most so many of a passage's sentences, of all for 0; those of the facts stay."""
    if not most:
        return range(count)
    must = {fact.place for fact in facts if fact.passage == passage}
    rest = [n for n in range(count) if n not in must]
    kept = must | set(rng.sample(rest, min(len(rest), max(0, rng.randint(1, most) - len(must)))))
    return sorted(kept)


def example(reading, pieces, state, rng, passages=MOST_PASSAGES, sentences=0, repeats=False):
    """An example of a state, with at most so many passages, and at most so many sentences of each (0 for all). What is
    needed stays. With `repeats` some copies are there twice."""
    lesson, facts = state.lesson, state.lesson.facts
    shown = some_passages(facts, state.passages, passages, rng)
    made, titles, places = Example(pieces, rng if repeats else None), {}, {}
    for passage in shown:
        made.show("Wikipedia Title:")
        titles[passage] = made.show(reading.world.passages[passage].title)
        made.show("\n")
        texts = reading.sentences[passage]
        for n in some_sentences(facts, passage, len(texts), sentences, rng):
            places[passage, n] = made.show(texts[n])
        made.show("\n\n")
    question = made.show("Q:")
    made.show({"chain": "", "direct": DIRECT}.get(state.task, NEXT) + lesson.question)
    made.show("\nA:")
    for sentence in reading.sentences_of(lesson, state.chain):
        made.show(sentence)

    def quote(fact, label):
        made.write(reading.world.passages[fact.passage].title, [titles[fact.passage]], label)
        made.write(":")
        made.write(fact.sentence, [places[fact.passage, fact.place]], label)

    def answer():
        last, text = facts[-1], lesson.answer
        if text not in ("yes", "no") and text not in lesson.question and last.passage not in shown:
            return UNKNOWN, []
        if text in ("yes", "no"):
            return text, []
        spots = made.places(text, question)
        if lesson.kind == "bridge" and last.passage in shown:
            start = places[last.passage, last.place]
            spots += made.places(text, start, start + len(pieces.text(last.sentence)))
        return text, spots

    if state.task == "fact":
        quote(facts[state.fact], 1)
    elif state.task == "ask":
        fact = facts[state.fact]
        name = reading.named(fact, reading.said(lesson, state.chain))
        if name:
            before, behind = ABOUT.split("{}")
            made.write(before.strip())
            made.write(name, made.places(name, question), 1)
            made.write(behind)
        else:
            made.write_names(fact.asked, question)
    elif state.task == "give_up":
        made.write("So the answer is:")
        made.write(UNKNOWN)
        made.write(".")
    elif state.task == "direct":
        made.write(*answer(), 3)
    else:
        if state.task == "chain":
            for order, fact in enumerate(f for f in facts if f.passage in shown):
                quote(fact, 1 if order == 0 else 2)
        made.write("So the answer is:")
        made.write(*answer(), 3)
        made.write(".")
    return made.finish()
