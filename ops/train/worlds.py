"""Reads the two files of a generated world, and cuts texts into words as hopeval does.

`hopeval world --out DIR` writes `questions.jsonl` and `corpus.jsonl`; their fields are those of `jobs/world/src/record.rs`.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

WORD = re.compile(r"\w+|[^\w\s]")


def words(text, drop_commas=True):
    """The words of a text as EfficientRAG's labeler and filter read them, each tokenised on its own."""
    return [w for w in WORD.findall(text) if not (drop_commas and w == ",")]


@dataclass
class Passage:
    id: str
    title: str
    text: str
    links: list  # titles, in the order of the text
    ends: list = field(default_factory=list)  # where each sentence of the text ends

    @property
    def name(self):
        """The title without what tells namesakes apart."""
        return self.title.split(" (")[0].split(", ")[0]

    @property
    def sentences(self):
        """The text's sentences, trimmed."""
        return [self.text[start:end].strip() for start, end in zip([0, *self.ends], self.ends)]

    @property
    def chunk(self):
        """Title and text, as the dense index and the labeler read a passage."""
        return f"{self.title}: {self.text}"


@dataclass
class World:
    passages: list
    questions: list
    by_title: dict = field(default_factory=dict)  # title -> position
    by_id: dict = field(default_factory=dict)  # id -> position

    @classmethod
    def read(cls, folder):
        folder = Path(folder)
        passages = []
        with open(folder / "corpus.jsonl", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                links = [link["title"] for link in row["links"]]
                passages.append(Passage(row["id"], row["title"], row["text"], links, row["sentences"]))
        questions = []
        with open(folder / "questions.jsonl", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                row.pop("candidates", None)
                questions.append(row)
        world = cls(passages, questions)
        world.by_title = {p.title: n for n, p in enumerate(passages)}
        world.by_id = {p.id: n for n, p in enumerate(passages)}
        return world

    def linked(self, passage):
        """Positions of the passages that a passage links to, each once, in the order of the text, itself left out."""
        targets = dict.fromkeys(self.by_title[t] for t in self.passages[passage].links if t in self.by_title)
        return [n for n in targets if n != passage]

    def gold(self, question):
        """Positions of a question's gold passages in path order."""
        return [self.by_id[g["id"]] for g in question["gold"]]
