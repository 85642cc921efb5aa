"""What MIGRES and FSM ask of a language model over a world's questions: prompts, and what should be written.

The prompts are the files of `jobs/methods/prompts`, filled as the methods fill them, without demonstrations; replies
have the forms that the prompts ask for, though not always in their order. A statement (`info`) quotes, as the sentences
of `chains.py` do. `main` and `final` explain first, and answer last: they go through the steps of the question, single
questions with their answers, up to the first that no statement answers, which is what is missing. What is missing, a
query and a sub-question are single questions. They quote the whole question where it can be parted: of `Who leads the
city where A was born?` the first is `What is the city where A was born?`, and with its answer `Who leads B?` is left. A
question that compares has what was found behind it, in parentheses. Other single questions are those of the world's
decompositions.

| task | prompt | state |
| --- | --- | --- |
| `leaf` | `migres/leaf.txt` | passages; the question, or a single one |
| `main`, `query`, `final` | `migres/main.txt`, `query.txt`, `final.txt` | statements, some needed, some not |
| `direct` | `migres/direct.txt` | passages |
| `entail` | `premise: (Title: TITLE) TEXT hypothesis: TITLE: SENTENCE` | a passage; what it says, or does not |
| `decompose`, `judge`, `revise` | `fsm/*.txt` | the question with none, or some, of its steps done |
| `search`, `check` | `fsm/search.txt`, `check.txt` | paragraphs; a single question |
| `review`, `normal` | `fsm/review.txt`, `normal.txt` | found paragraphs and steps; all paragraphs |
"""

import random
import re
from dataclasses import dataclass, field
from pathlib import Path

from chains import UNKNOWN, Example, Lesson, some_passages, some_sentences
from retelling import Retelling, instead

PROMPTS = Path(__file__).resolve().parents[2] / "jobs/methods/prompts"
STATED = ("main", "query", "final")  # tasks whose prompts have statements
TASKS = "leaf entail main query final direct decompose judge revise search check review normal".split()
# How often a task comes: less where it is learned soon, more where it is hard.
SHARES = {
    "judge": 0.3,
    "check": 0.3,
    "query": 0.5,
    "main": 1.5,
    "leaf": 1.7,
    "search": 1.7,
    "decompose": 1.2,
    "revise": 1.2,
}
MOST_FOUND, ALL_GIVEN = (3, 5, 6, 8, 10), (2, 4, 6, 10)  # passages of a round; paragraphs that come with a question
SINGLE = 0.75  # of a leaf's questions are single ones: all but those of a question's first round
NEARLY = 0.5  # of the prompts of `main` lack one fact or none: where it takes the last but one for the answer
SAME = 0.3  # of the sub-questions that are judged are the question itself
RIVALLED = 0.5  # of the prompts with statements have those of rivals, too
ANSWER_WORDS, FINAL_WORDS = "5", "10"  # the defaults of `fsm`


def quotes(text, closing):
    """The tokenizer's quotes for straight ones; `closing` if a word stands before the text."""
    made = re.sub(r'(?<![^\s{\[(])"', "“", text)
    if closing and made.startswith("“"):
        made = "”" + made[1:]
    return made.replace('"', "”")


def template(name):
    """A prompt's text between its fields: [literal, field, literal, ...]."""
    text = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").strip().replace("{demonstrations}", "")
    parts = re.split(r"\{([a-z]+)\}", text)
    return [quotes(part, n > 0) if n % 2 == 0 else part for n, part in enumerate(parts)]


TEMPLATES = {name: template(name) for name in (
    *(f"migres/{n}" for n in ("leaf", "main", "query", "final", "direct")),
    *(f"fsm/{n}" for n in ("decompose", "judge", "revise", "search", "check", "review", "normal")),
)}  # fmt: skip


@dataclass
class Exercise:
    """A task over a question's state."""

    lesson: Lesson
    task: str
    passages: list = field(default_factory=list)
    done: list = field(default_factory=list)  # facts that are known
    near: list = field(default_factory=list)  # passages for statements that do not help
    rivals: list = field(default_factory=list)  # of their sentences those that say of others what the facts say


def states(reading, seed):
    """For each question of a world some tasks, with passages as BM25 finds them, or with the question's candidates."""
    rng, found, retelling = random.Random(seed), [], Retelling(frozenset())
    for row in reading.world.questions:
        lesson = retelling.quoting(Lesson(reading, row))
        wide = reading.index.search(lesson.question, max(ALL_GIVEN))
        gold = [fact.passage for fact in lesson.facts]
        for task in rng.choices(TASKS, [SHARES.get(t, 1.0) for t in TASKS], k=6):
            n = rng.randrange(len(lesson.facts) + 1)
            if task == "main" and rng.random() < NEARLY:
                n = len(lesson.facts) - rng.randrange(2)
            done = order_of(lesson, rng if task in STATED else None)[:n]
            most = rng.choice(ALL_GIVEN if task in ("search", "normal") else MOST_FOUND)
            passages = list(wide[:most])
            what = lesson
            if task in ("search", "check") or (task == "leaf" and rng.random() < SINGLE):
                fact = rng.randrange(len(lesson.facts))
                what = lesson.single(fact)
                passages = reading.index.search(what.question, most)
                if task == "search" or rng.random() < 0.7:
                    passages = with_all(passages, [gold[fact]], rng)
            elif task in ("review", "normal") or rng.random() < 0.4:
                passages = with_all(passages, gold, rng)
            if task == "revise":
                done = order_of(lesson)[: rng.randrange(max(1, len(lesson.facts) - 1))]
            rivals = rivals_of(reading, lesson, wide, retelling) if task in STATED else []
            found.append(Exercise(what, task, passages, done, wide, rivals))
    return found


def rivals_of(reading, lesson, passages, retelling):
    """Sentences of passages, (passage, place), that say of something else what one of the facts says: a leaf module
    that errs states such."""
    told = {(fact.passage, fact.place) for fact in lesson.facts}
    relations = {retelling.relation(reading, *place) for place in told} - {None}
    places = ((passage, n) for passage in passages for n in range(len(reading.sentences[passage])))
    return [place for place in places if place not in told and retelling.relation(reading, *place) in relations]


def order_of(lesson, rng=None):
    """Facts in an order in which they can be found: the first of what can be found next, or by `rng` any."""
    done = []
    while len(done) < len(lesson.facts):
        ready = lesson.ready(done)
        done.append(rng.choice(ready) if rng else ready[0])
    return done


def connected(lesson, present):
    """The facts whose needed facts are among them, too: of `Who leads the city where A was born?` a passage on another
    mayor looks like that of the right one, until it is known where A was born."""
    found = []
    for n in order_of(lesson):
        if n in present and all(need in found for need in lesson.facts[n].needs):
            found.append(n)
    return found


def with_all(passages, gold, rng):
    made = [p for p in passages if p not in gold] + list(dict.fromkeys(gold))
    rng.shuffle(made)
    return made


def open_question(lesson, done):
    """What is still open, as one question: the last single one by itself; inner questions of a bridge in parentheses;
    behind a question that compares, what was found."""
    left = [n for n in order_of(lesson) if n not in done]
    if not done:
        return lesson.question
    if len(left) == 1:
        return lesson.facts[left[0]].asked
    if lesson.quotes or lesson.kind != "bridge":
        return reduced(lesson, done)

    def asked(n):
        text = lesson.steps[n]
        for need in lesson.facts[n].needs:
            inner = lesson.facts[need].answer if need in done else f"({asked(need)})"
            text = text.replace(f"#{need + 1}", inner)
        return text

    return asked(left[-1])


def next_question(lesson, done):
    """The single question of the fact that comes next."""
    return lesson.facts[lesson.ready(done)[0]].asked


def plan(lesson):
    """All facts as `main` goes through them: the answers that stand in the question as phrases, then what is asked."""
    order = order_of(lesson)
    inner = {need for fact in lesson.facts for need in fact.needs}
    return sorted(order, key=lambda n: n not in inner) if lesson.kind != "bridge" else order


def reduced(lesson, done):
    """A question with answers in place of the phrases that stand for them, and behind it what is known of the sides. At
    least one fact is known."""
    facts = [lesson.facts[n] for n in order_of(lesson) if n in done]
    if not lesson.quotes:
        found = ", ".join(f"{fact.asked} {fact.answer}" for fact in facts)
        return f"{lesson.question} ({found})"
    text = lesson.question
    for fact in facts:
        text = instead(text, fact.phrase, fact.answer) if fact.phrase else text
    told = ", ".join(f"{fact.side}: {fact.answer}" for fact in facts if fact.side)
    return f"{text} ({told})" if told else text


class Page:
    """A prompt that is being filled, and places of what stands in it."""

    def __init__(self, reading, pieces, rng, sentences, repeats=False):
        self.reading, self.rng, self.most = reading, rng, sentences
        self.made = Example(pieces, rng if repeats else None)
        self.titles, self.places, self.numbers = {}, {}, {}

    def passage(self, passage, facts):
        """The sentences of a passage, those of `facts` always."""
        texts = self.reading.sentences[passage]
        for n in some_sentences(facts, passage, len(texts), self.most, self.rng):
            self.places[passage, n] = self.made.show(texts[n])

    def numbered(self, passages, facts):
        """Passages as MIGRES lists them."""
        for n, passage in enumerate(passages):
            self.made.show(("\n" if n else "") + "Passage")
            self.numbers[passage] = self.made.show(str(n))
            self.made.show(":")
            self.piece(passage, facts)

    def piece(self, passage, facts):
        """A passage behind its title in parentheses."""
        self.made.show("(Title:")
        self.titles[passage] = self.made.show(self.reading.world.passages[passage].title)
        self.made.show(")")
        self.passage(passage, facts)

    def titled(self, passages, facts):
        """Paragraphs as FSM lists them."""
        for n, passage in enumerate(passages):
            self.made.show(("\n\n" if n else "") + "Title:")
            self.titles[passage] = self.made.show(self.reading.world.passages[passage].title)
            self.made.show("\n")
            self.passage(passage, facts)

    def fill(self, name, **fields):
        """A template with its fields: texts, or functions that show them."""
        for n, part in enumerate(TEMPLATES[name]):
            if n % 2 == 0:
                self.made.show(part)
            elif callable(fields[part]):
                fields[part]()
            else:
                self.made.show(fields[part])

    def write(self, text, places=(), label=0):
        self.made.write(text, places, label)

    def write_steps(self, lesson, done):
        """The steps of a question with their answers, up to the first that is not known: its number, or None. Of what
        compares the last steps are its sides, `NAME: ANSWER`. Steps have numbers, and the last one of a chain has a
        mark: without them a writer does not know how far it has come, and repeats a step."""
        for number, n in enumerate(plan(lesson), 1):
            fact = lesson.facts[n]
            last = n == len(lesson.facts) - 1 and lesson.kind == "bridge"
            self.write(f"{number}.")
            if last:
                self.write("So:")
            self.made.write_names(f"{fact.side}:" if fact.side else fact.asked, 0)
            if n not in done:
                self.write("unknown.")
                return n
            statement = self.reading.quotation(fact)
            length = len(self.made.pieces.text(statement))
            told = ((start, start + length) for start in self.made.places(statement))
            spots = [spot for start, end in told for spot in self.made.places(fact.answer, start, end)]
            self.write(fact.answer, spots, 3 if last else 1)
            self.write(".")
        return None

    def write_sides(self, lesson):
        """The sides of what compares, `NAME: ANSWER`. Without them a writer answers before it has looked at both."""
        sides = [fact for fact in lesson.facts if fact.side]
        if not sides:
            self.write("The steps say it.")
        for fact in sides:
            self.made.write_names(f"{fact.side}:", 0)
            self.write(fact.answer, self.made.places(fact.answer)[:40], 1)
            self.write(".")

    def write_answer(self, text):
        """The answer: a copy of where it stands, in the facts' sentences first."""
        spots = [] if text.lower() in ("yes", "no", UNKNOWN, "unanswerable") else self.made.places(text)
        self.write(text, spots[:40], 3)


def example(reading, pieces, exercise, rng, passages=15, sentences=0, repeats=False):
    """An example of an exercise, with at most so many passages, and at most so many sentences of each (0 for all)."""
    lesson, facts, task = exercise.lesson, exercise.lesson.facts, exercise.task
    shown = some_passages(facts, exercise.passages, passages, rng)
    page = Page(reading, pieces, rng, sentences, repeats)
    made = page.made

    def cite(fact, n):
        page.write(("," if n else "") + "{“info”: “")
        page.write(reading.world.passages[fact.passage].title, [page.titles[fact.passage]], 1 if n == 0 else 2)
        page.write(":")
        page.write(fact.sentence, [page.places[fact.passage, fact.place]], 1 if n == 0 else 2)
        page.write("”, “support_passages”: [")
        page.write(str(shown.index(fact.passage)), [page.numbers[fact.passage]])
        page.write("]}")

    def known_statements(done):
        """Statements that are known, with others that do not help."""
        listed = [reading.quotation(facts[n]) for n in done]
        if exercise.rivals and rng.random() < RIVALLED:
            rivals = rng.sample(exercise.rivals, min(len(exercise.rivals), rng.randint(1, 2)))
            listed += [reading.quoted(*place) for place in rivals]
        for passage in exercise.near[: rng.randint(0, 2)]:
            texts = reading.sentences[passage]
            place = rng.randrange(len(texts))
            beside = reading.quoted(passage, place)
            if beside not in listed and all((fact.passage, fact.place) != (passage, place) for fact in facts):
                listed.append(beside)
        rng.shuffle(listed)
        return "; ".join(listed) if listed else "None"

    def guess(present):
        whole = len(facts) - 1 in present and (lesson.kind == "bridge" or len(present) == len(facts))
        known = whole or lesson.answer in ("yes", "no") or lesson.answer in lesson.question
        return lesson.answer if known else UNKNOWN

    present = [n for n, fact in enumerate(facts) if fact.passage in shown]
    if task == "leaf":
        page.fill("migres/leaf", passages=lambda: page.numbered(shown, facts), question=lesson.question)
        page.write("{“useful_information”: [")
        for n, fact in enumerate(facts[n] for n in connected(lesson, present)):
            cite(fact, n)
        page.write("]}")
    elif task == "entail":
        premise, other = rng.choice(shown), rng.choice(exercise.near)
        made.show("premise:")
        page.piece(premise, facts)
        said = [reading.sentences[premise][place] for _, place in page.places]
        sentence, foreign = rng.choice(said), rng.choice(reading.sentences[other])
        stated = [(premise, sentence)] * 3 + [(other, sentence), (premise, foreign), (other, foreign)]
        subject, sentence = rng.choice(stated)
        title = reading.world.passages[subject].title
        made.show(f"hypothesis: {title}: {sentence}")
        entailed = title == reading.world.passages[premise].title and sentence in said
        if entailed:
            made.mark(title, page.titles[premise], 1)
            for _, place in page.places:
                if reading.sentences[premise][place] == sentence:
                    made.mark(sentence, page.places[premise, place], 3)
        page.write(str(int(entailed)))
    elif task == "direct":
        page.fill("migres/direct", passages=lambda: page.numbered(shown, facts), question=lesson.question)
        page.write("{“answer”: {“text”: “")
        page.write_answer(guess(present))
        page.write("”, “confidence”: 4}")
        page.write(", “explanation”: “The passages say it.”, “support_passages”: [")
        for order, n in enumerate(present):
            page.write("," if order else "")
            page.write(str(shown.index(facts[n].passage)), [page.numbers[facts[n].passage]])
        page.write("]}")
    elif task in ("main", "final"):
        page.fill(f"migres/{task}", information=known_statements(exercise.done), question=lesson.question)
        # The forms have the answer first. Written last, it is that of what the explanation says.
        page.write("{“explanation”: “")
        lacking = page.write_steps(lesson, exercise.done)
        whole = lacking is None
        if task == "main":
            page.write("”, “missing_information”: “")
            if not whole:
                made.write_names(facts[lacking].asked, 0)
        page.write("”, “answer”: {“text”: “")
        page.write_answer(lesson.answer if whole else guess(exercise.done) if task == "final" else "unanswerable")
        page.write(f"”, “confidence”: {5 if whole else 2 if task == 'final' else 1}}}}}")
    elif task == "query":
        # It is asked because a fact lacks.
        done = exercise.done if len(exercise.done) < len(facts) else exercise.done[:-1]
        missing = facts[next(n for n in plan(lesson) if n not in done)].asked
        asked = [facts[n].asked for n in done if rng.random() < 0.7]
        page.fill(
            "migres/query",
            question=lesson.question,
            history=" ".join([lesson.question, *asked]),
            information=known_statements(done),
            missing=missing,
        )
        made.write_names(missing, 0)
    elif task == "search":
        page.fill(
            "fsm/search", paragraphs=lambda: page.titled(shown, facts), words=ANSWER_WORDS, question=lesson.question
        )
        # The form has the question first. FSM does not read it, and where it was copied the title was often wrong.
        page.write("{“paragraph title”: “")
        page.write(reading.world.passages[facts[0].passage].title, [page.titles[facts[0].passage]], 1)
        page.write("”, “answer”: “")
        start = page.places[facts[0].passage, facts[0].place]
        spots = made.places(lesson.answer, start, start + len(pieces.text(facts[0].sentence)))
        page.write(lesson.answer, spots, 3)
        page.write("”}")
    elif task == "check":
        page.fill("fsm/check", subquestion=lesson.question, answer=lesson.answer)
        page.write("{“simple”: true, “answer”: “")
        page.write_answer(lesson.answer)
        page.write("”}")
    elif task == "judge":
        done = exercise.done if len(exercise.done) < len(facts) else []
        question = open_question(lesson, done)
        sub = question if rng.random() < SAME else next_question(lesson, done)
        page.fill("fsm/judge", question=question, subquestion=sub)
        page.write("{“identical”:")
        page.write("true" if sub == question else "false")
        page.write("}")
    elif task == "decompose":
        done = exercise.done if len(exercise.done) < len(facts) else []
        question = open_question(lesson, done)
        left = [n for n in range(len(facts)) if n not in done]
        page.fill("fsm/decompose", question=question)
        page.write("{“simple”:")
        if len(left) == 1:
            page.write("true")
            page.write(", “subquestion”: null}")
        else:
            page.write("false")
            page.write(", “subquestion”: “")
            made.write_names(next_question(lesson, done), 0)
            page.write("”}")
    elif task == "revise":
        done, n = exercise.done, lesson.ready(exercise.done)[0]
        page.fill(
            "fsm/revise", question=open_question(lesson, done), subquestion=facts[n].asked, answer=facts[n].answer
        )
        page.write("{“question”: “")
        made.write_names(open_question(lesson, [*done, n]), 0)
        relation = "composition" if lesson.kind == "bridge" else "comparison"
        page.write("”, “relation”: “")
        page.write(relation)
        page.write("”}")
    elif task == "review":
        found = list(dict.fromkeys(fact.passage for fact in facts))
        steps = "\n".join(
            f"{n + 1}. {facts[k].asked} {facts[k].answer} (from “{reading.world.passages[facts[k].passage].title}”)"
            for n, k in enumerate(order_of(lesson))
        )
        order = [p for p in shown if p in found]
        page.fill(
            "fsm/review",
            paragraphs=lambda: page.titled(order, facts),
            steps=steps,
            question=lesson.question,
            words=FINAL_WORDS,
        )
        page.write("{“explain”: “")
        page.write_sides(lesson)
        page.write("”, “answer”: “")
        page.write_answer({"yes": "Yes", "no": "No"}.get(lesson.answer, lesson.answer))
        page.write("”}")
    else:
        page.fill("fsm/normal", paragraphs=lambda: page.titled(shown, facts), question=lesson.question)
        page.write("{“explain”: “The paragraphs say it.”, “answer”: “")
        page.write_answer(guess(present))
        page.write("”}")
    return made.finish()
