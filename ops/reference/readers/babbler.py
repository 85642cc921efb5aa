"""A server that babbles: no model, but texts that a model might write on a bad day, to try what readers of texts do.

Each text is a function of the request's body, of the times that it was sent before, and of the passages that the
server was given: sentences of these passages, answers in many forms, JSON that is broken in many ways, actions of
ReAct that exist or do not. It shows that two programs read the same texts in the same way, and nothing about models.
It keeps every body that it was sent.
"""

import collections
import json
import random
import pathlib
import re
import sys
import threading

import blake3

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

import module_babble  # noqa: E402
from post_server import PostServer  # noqa: E402

ENDINGS = ["So the answer is: {a}.", "So the answer is: {a}", "The answer is {a}.", "Thus, the answer is: {a}. ",
           "So the answer is: {a}. So the final answer is: {b}.", "The answer is:{a}", "So the answer is: ",
            "answer is: {a}",
           "So the answer is: {a}.. ", "So the answer is: the {a} (\"{b}\")."]
CONCLUDING = ["Thus, {s}", "So {s}", "That is, {s}", "Therefore, {s}", "Hence {s}", "1990 - 1950 = 40.",
              "The difference is 12 + 30 = 42 years.", "thus {s}", "Soon {s}", "{s}"]


class Babbler(PostServer):
    def __init__(self, titles, texts):
        self.titles, self.texts, self.sent, self.times = titles, texts, collections.Counter(), collections.Counter()
        self.lock = threading.Lock()
        super().__init__(self.reply)

    def reply(self, body, path, headers):
        with self.lock:
            number = self.times[body]
            self.times[body] += 1
            self.sent[body] += 1
        return json.dumps(self.answer(body, number, path)).encode()

    def answer(self, body, number, path):
        fields = json.loads(body)
        chat = path.endswith("/chat/completions")
        # Earlier messages of a chat are no part of what is asked for.
        prompt = fields["messages"][-1]["content"] if chat else fields["prompt"]
        choices = [self.choice(body, number + index, index, prompt, fields, chat)
                   for index in range(fields.get("n", 1))]
        return {"id": "babble", "object": "chat.completion" if chat else "text_completion", "created": 0,
                "model": fields["model"], "choices": choices,
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}

    def choice(self, body, number, index, prompt, fields, chat):
        text = Draw(self, int.from_bytes(blake3.blake3(body).digest()[:8]) + number).text(prompt)
        for stop in fields.get("stop", []):
            text = text.split(stop)[0]
        return {"index": index, "finish_reason": "stop",
                **({"message": {"role": "assistant", "content": text}} if chat else {"text": text})}


class Draw:
    """One text."""

    def __init__(self, babbler, seed):
        self.from_, self.random = babbler, random.Random(seed)

    def one(self, *choices):
        return self.random.choice(choices)

    def chance(self, share):
        return self.random.random() < share

    def title(self):
        return self.random.choice(self.from_.titles)

    def sentence(self):
        """A piece of a passage that begins and ends like a sentence, or just any piece."""
        text = self.random.choice(self.from_.texts)
        pieces = re.split(r"(?<=[.!?]) +", text) if self.chance(0.8) else [text]
        piece = self.random.choice(pieces).strip()
        return piece[:self.random.randrange(20, 300)] if self.chance(0.1) else piece

    def short(self):
        return self.one(self.title(), "yes", "no", "1,234", "U.S.", "12 May 1870", "Robert Downey Jr.", "",
                        "St. John's",
                        self.title().lower(), 'the "Tower"', "É. Zola", "3.5%")

    def ending(self):
        return self.one(*ENDINGS).format(a=self.short(), b=self.short())

    def text(self, prompt):
        modules = module_babble.text(self, prompt)
        if modules is not None:
            return modules
        if "Action 1:" in prompt:
            return self.act(prompt)
        if "Are follow up questions needed here:" in prompt:
            return self.follow_up(prompt)
        if '"decomposed_questions"' in prompt:
            return self.framed(self.questions())
        if '"thought"' in prompt:
            return self.framed(self.keys(thought=self.chain(), answer=self.value()))
        if '"answer"' in prompt:
            return self.framed(self.keys(answer=self.value()))
        if re.search(r"name \d+ Wikipedia pages", prompt.rsplit("\nQ:", 1)[-1]):
            return self.titles()
        return self.chain()

    def chain(self):
        """Sentences of a chain of thought, perhaps with an answer; on several lines once in a while."""
        if self.chance(0.04):
            return self.one("", " ", "\n", ".", "...")
        lines = [self.one(*CONCLUDING).format(s=self.sentence()) for _ in range(self.random.randrange(0, 4))]
        if self.chance(0.35) or not lines:
            lines.append(self.ending())
        if self.chance(0.1):
            self.random.shuffle(lines)
        joined = self.one("", " ", "  ") + self.one(" ", " ", " ", "  ", "\n").join(lines)
        return joined + self.one("", "", " ", "\n\nQ: ?")

    def titles(self):
        count = self.random.randrange(0, 6)
        names = [self.one(self.title(), self.title().lower(), self.sentence()[:40]) for _ in range(count)]
        listed = json.dumps(names, ensure_ascii=self.chance(0.5))
        return self.one(" " + listed, listed, "The pages are " + listed + ".", ", ".join(f'"{name}"' for name in names),
                        str(names), ", ".join(names), listed[:-1], "")

    def value(self):
        return self.one(self.short(), " " + self.short() + " ", self.short(), 12, 1.5, -3, True, False, None, ["a"],
                        {"x": 1}, "a {b} c", "}", "a \"b\" \\ c", "line\nbreak", 1234567890123,
                        self.short() + ".", "é\u2028x")

    def questions(self):
        count = self.one(0, 1, 2, 2, 3, 3, 4, 12)
        asked = [self.one(f"Who is {self.title()}?", self.sentence(), "Where was #1 born?",
                          f"When did #{count} and <1> meet?",
                          "Is #2 older than #1 or <10>?", "#0 and #11?", " What of # 1? ") for _ in range(count)]
        listed = self.one(asked, asked, asked, asked, asked, asked + [3], "none", None, [""])
        return self.keys(decomposed_questions=listed)

    def keys(self, **fields):
        if self.chance(0.1):
            fields.pop(self.random.choice(list(fields)))
        if self.chance(0.2):
            fields = {"note": self.one("n", {"inner": {"answer": "in"}}, ["{"], 3), **fields}
        return fields

    def framed(self, value):
        """The object as models write it: alone, in a fence, behind words, behind another object, broken."""
        text = json.dumps(value, ensure_ascii=self.chance(0.3), indent=self.one(None, None, None, 2))
        return self.one(text, text, text, "```json\n" + text + "\n```", "Answer: " + text + " Done.",
                        '{"other": 1} ' + text, text + " " + json.dumps(self.keys(answer="second", thought="t")),
                        "{not json} " + text, text[:-1], text.replace('"', "'"), "no object at all", "[" + text + "]",
                        "{" + text + "}", text.replace("}", ",}", 1))

    def follow_up(self, prompt):
        """Lines of Self-Ask in an order of their own."""
        if prompt.rstrip().endswith("So the final answer is:"):
            begin = self.one(" ", "", "\n") + self.short()
            return begin + self.one(".", "", "\n", "\nQuestion: more", "..", ": " + self.short())
        lines = []
        if prompt.endswith("Intermediate answer:"):
            lines.append(" " + self.one(self.sentence(), self.short(), ""))
        elif prompt.endswith("needed here:"):
            lines.append(self.one(" Yes.", " No.", "", " Yes"))
        for _ in range(self.one(0, 1, 1, 1, 2)):
            lines.append(self.one("Follow up: ", "Follow up:", "follow up: ", "Follow up: Title: ", " Follow up:  ") +
                         self.one(f"Who is {self.title()}?", self.sentence(), "", "When: at noon?"))
        lines += self.one(["Intermediate answer: " + self.short()], ["Intermediate answer:", "x"], [],
                          ["So the final answer is: " + self.short()],
                          ["So the final answer is: " + self.short() + ".", "", "Question: " + self.title()])
        if self.chance(0.05):
            self.random.shuffle(lines)
        return self.one("\n", "\n", "\n", "\n\n").join(lines)

    def act(self, prompt):
        """A thought with an action of the step that the prompt ends with, or less, or more."""
        step = re.findall(r"(?:Thought|Action) (\d+):", prompt)[-1]
        title = self.title()
        inside = self.one(title, title.lower(), title.replace(" ", "_"), title + "x", " " + title, self.sentence()[:20],
                          title.upper(), "")
        word = self.one("the", "born", "in", "xyzzy", self.sentence()[:6], "")
        action = self.one(f"Search[{inside}]", f"Search[{inside}]", f"Search[{inside}]", f"Lookup[{word}]",
                          f"Lookup[{word}]",
                          f"lookup[{word}]", f"Finish[{self.short()}]", "Think[well]", "think[well]", f"search[{title}",
                          f"Search {title}", f"SEARCH[{title}]", f"Search[{title}] now", "", f"Finish[{self.short()}]]")
        if re.search(r"Action \d+:$", prompt):
            return self.one(" ", "", "  ") + action + self.one("", "\n", "\nObservation")
        thought = self.one(self.sentence(), "I look.", "", "Two.\nLines.")
        return self.one(f" {thought}\nAction {step}: {action}", f" {thought}\nAction {step}: {action}",
                        f" {thought}\nAction {step}: {action}", f" {thought}\nAction {step}:{action}", f" {thought}",
                        f" {thought}\nAction {step}: {action}\n",
                        f"{thought}\nAction {step}: {action}\nAction {step}: {action}",
                        f" {thought}\n\nAction {step}: {action}\nObservation {step}: it is.", "")
