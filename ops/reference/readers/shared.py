"""What the references of the reading methods share: the server, retrieval, sentences, JSON in replies, few-shot
prompts.

Written from the papers, from what is known of their authors' code, and from hopeval's documentation
(`ops/docs/jobs.md`, `ops/docs/endpoints.md`); not from the Rust of the methods. One text at a time, and no
cleverness. Where paper and documentation leave something open, a function says so in its comment.

Needed: `blake3` (the order of passages in hopeval's demonstrations) and `rapidfuzz` (near duplicates in IRCoT's
code).
"""

import dataclasses
import http.client
import json
import pathlib
import re
import sys
import urllib.parse

import blake3
import rapidfuzz.fuzz

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import sparse  # noqa: E402

PROMPTS = pathlib.Path(__file__).resolve().parents[3] / "jobs" / "methods" / "prompts"


@dataclasses.dataclass
class Question:
    id: str
    text: str
    context: dict = None
    """The text that belongs to the question (IIRC): `title`, `text`, and `passage`, its number in the corpus if any."""
    candidates: list = ()
    """The given passages, as numbers in the corpus."""


@dataclasses.dataclass
class Outcome:
    answer: str = None
    ranked: list = dataclasses.field(default_factory=list)
    paths: list = dataclasses.field(default_factory=list)
    status: str = "ok"
    supporting: list = None
    """Pairs of passage and sentence; nothing is compared where it is none. The same holds for all that follows."""
    named: list = None
    """Support that is in no passage: pairs of title and sentence in the model's words."""
    evidences: list = None
    iterations: int = None
    format: bool = None
    repairs: int = None
    notes: list = None
    """Pairs of name and text."""


class Server:
    """A server of language models with OpenAI's interface. An equal request is sent once, as hopeval does."""

    def __init__(self, url, key, api, seed, model="simulated-llm"):
        self.place, self.key, self.api, self.model = urllib.parse.urlsplit(url), key, api, model
        self.seed = seed
        self.connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=120)
        self.answers, self.sent, self.asking = {}, [], None

    def body(self, system, user, own, max_tokens, temperature, stop, json_object, draw):
        """The body's bytes, in the order of fields that hopeval has. `own` is the model's own text, which it continues;
        only plain text can be continued."""
        fields = {"model": self.model}
        if self.api == "completions":
            fields["prompt"] = (system or "") + user + own
        else:
            if own:
                raise ValueError("a chat does not continue a text here")
            messages = [{"role": "system", "content": system}] if system else []
            fields["messages"] = messages + [{"role": "user", "content": user}]
        # OpenAI's chat has another name for the bound.
        fields["max_tokens" if self.api == "completions" else "max_completion_tokens"] = max_tokens
        if stop:
            fields["stop"] = list(stop)
        if temperature != "server":
            fields["temperature"] = float(temperature)
        if json_object:
            fields["response_format"] = {"type": "json_object"}
        if temperature != "server" and temperature > 0:
            fields["seed"] = self.seed + draw
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

    def write(self, user, max_tokens, temperature=0, stop=(), system=None, own="", draw=0, json_object=False):
        """The text that the model writes. `temperature="server"` sends nothing about sampling."""
        body = self.body(system, user, own, max_tokens, temperature, stop, json_object, draw)
        if (body, draw) not in self.answers:
            self.answers[body, draw] = self.ask(body)
            self.sent.append((self.asking, body, self.answers[body, draw]))
        return self.answers[body, draw]

    def drawn(self, messages, max_tokens, sampling, count=1, first=0, json_object=False):
        """`count` texts of one chat, whose draws are numbered from `first` on: a body for each that is not there yet.

        `messages` are pairs of role and text; `sampling` are the fields about sampling in the order of the body, with
        `seed` if draws have seeds.
        """
        fields = {"model": self.model, "messages": [{"role": role, "content": text} for role, text in messages],
                  "max_tokens": max_tokens}
        fields |= {key: value for key, value in sampling.items() if key != "seed"}
        if json_object:
            fields["response_format"] = {"type": "json_object"}
        payload, texts = json.dumps(fields), []
        for draw in range(first, first + count):
            if (payload, draw) not in self.answers:
                body = fields | ({"seed": self.seed + draw} if "seed" in sampling else {})
                body = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
                document = self.document(body, "/chat/completions")
                self.answers[payload, draw] = document["choices"][0]["message"]["content"]
                self.sent.append((self.asking, body, self.answers[payload, draw]))
            texts.append(self.answers[payload, draw])
        return texts

    def document(self, body, path):
        """The server's answer to a body."""
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.key}"}
        self.connection.request("POST", self.place.path + path, body, headers)
        answer = self.connection.getresponse()
        document = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"the server answered {answer.status}: {document}")
        return document

    def ask(self, body):
        choice = self.document(body, "/completions" if self.api == "completions" else "/chat/completions")["choices"][0]
        return choice["text"] if self.api == "completions" else choice["message"]["content"]


class Tools:
    """What a method has: the corpus, retrievers by name, and the server."""

    def __init__(self, corpus, services, server):
        self.corpus, self.server = corpus, server
        self.retrievers = {name: corpus.retriever(settings) for name, settings in services.items()
                           if settings["kind"] == "bm25"}

    def search(self, name, query, k, within=None):
        """The numbers of the best `k` passages, of those in `within` if it is given."""
        if within is None:
            return self.retrievers[name](query, k)
        return [passage for passage in self.retrievers[name](query, len(self.corpus)) if passage in within][:k]


def retriever(settings, corpus):
    if settings.get("fields") == "title":
        return sparse.Bm25(corpus.titles, settings)
    return sparse.retriever(settings, corpus.titles, corpus.texts)


# Sentences, by the rules in the documentation of hopeval's splitter.

MARKS = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s|$)|[。！？][\"'”’»)\]]*")
BEFORE_WORDS = set(
    """mr mrs ms messrs dr prof rev fr hon st ste mt ft gen col capt lt maj sgt cpl cmdr adm gov sen rep pres supt insp
    vs v cf e.g i.e viz al ca lit fl det drs trans aka feat approx dist univ""".split())
BEFORE_NUMBERS = set("no nos vol vols p pp ch chap sec fig art op nr c b d r pt ed".split())
MONTHS = set("jan feb mar apr jun jul aug sep sept oct nov dec".split())
AT_ENDS = set("inc corp ltd co bros llc jr sr esq etc ave blvd dept est".split())
BEGINNINGS = set(
    """the a an he she it they we his her its their this that these those in on at as after before during since when
    while from with for by there however although and but also who what so""".split())


def goes_on(sentence, mark, behind):
    """Whether a sentence goes on behind the text `sentence` with `mark` at its end and `behind` after it."""
    if behind.lstrip()[:1].islower():
        return True
    following = behind.lstrip()
    if mark != ".":
        return False
    # A hyphen and a slash begin a word (`Minneapolis-St.`), a colon does not; the documentation leaves this open.
    word = re.search(r"[^\s/–-]*$", sentence).group().lstrip("\"'“‘«([")
    small = word.lower()
    if sentence.strip() == word and re.fullmatch(r"\d+", word):
        return True
    if small in BEFORE_WORDS:
        return bool(following)
    if small in BEFORE_NUMBERS | MONTHS and following[:1].isdigit():
        return True
    initial = re.fullmatch(r"[^\W\d_]", word) and word.isupper()
    dotted = re.fullmatch(r"[^\W\d_]{1,2}(\.[^\W\d_]{1,2})+", word)
    if initial or dotted or small in AT_ENDS | MONTHS:
        first = re.match(r"[^\W\d_]+", following)
        return bool(following) and not (first and first.group().lower() in BEGINNINGS)
    return False


def sentences(text):
    """The sentences of a text, without the white space around them."""
    found = []
    for line in text.split("\n"):
        begin = 0
        for match in MARKS.finditer(line):
            end = match.end()
            if match.start() < begin or goes_on(line[begin:match.start()], match.group(), line[end:]):
                continue
            found.append(line[begin:end].strip())
            begin = end
        found.append(line[begin:].strip())
    return [sentence for sentence in found if sentence]


# Replies.

def stated_answer(text):
    """The words behind the last `answer is` (IRCoT's code: `.* answer is:? (.*)\\.?`); none if it is not there."""
    found = re.match(r".* answer is:? (.*)\.?", text)
    return found and found.group(1).strip().removesuffix(".")


def read_answer(text):
    """The stated answer, else the whole text, without one full stop at its end."""
    stated = stated_answer(text)
    return text.strip().removesuffix(".") if stated is None else stated


def json_values(text, place):
    """Candidates for the JSON object in a reply, in order."""
    if place == "braces":
        found = re.search(r"\{.*?\}", text, re.DOTALL)
        pieces = [found.group()] if found else []
        decode = json.loads
    else:
        pieces = [text[match.start():] for match in re.finditer(r"\{", text)]
        decode = lambda piece: json.JSONDecoder().raw_decode(piece)[0]  # noqa: E731
    for piece in pieces:
        try:
            value = decode(piece)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def short_text(value):
    """A string without the spaces around it, or a number or boolean as JSON writes it; else nothing."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return None


def attempts(parameters):
    """A greedy text is drawn once: it would be the same again."""
    return 1 if parameters["temperature"] == 0 else parameters["attempts"]


def drawn_object(tools, parameters, read, **request):
    """What `read` makes of the first JSON object that it accepts, over the draws; none if there is none.

    Papers and authors' code leave it to the prompt; with `json` the server is asked for a JSON object, too.
    """
    for draw in range(attempts(parameters)):
        json_object = parameters.get("json", False)
        request |= {"temperature": parameters["temperature"], "draw": draw, "json_object": json_object}
        text = tools.server.write(**request)
        for value in json_values(text, parameters["answer_json"]):
            made = read(value)
            if made is not None:
                return made
    return None


def filled(template, **fields):
    """The template with its fields, each of which stands in it once. What is filled in is not looked at again."""
    names = "|".join(map(re.escape, fields))
    return re.sub(r"\{(" + names + r")\}", lambda match: fields[match.group(1)], template)


def template(parameters, key, file):
    """A text of the job, or the project's own, without the line break at its end."""
    given = parameters.get(key)
    return given if given else (PROMPTS / file).read_text(encoding="utf-8").removesuffix("\n")


def module_demonstrations(method):
    """The examples of MIGRES's modules and of ALCE's reader, by kind of question."""
    return json.loads((PROMPTS / method / "demonstrations.json").read_text(encoding="utf-8"))


def passage_lines(corpus, passages, parameters):
    """Passages in the prompts of EfficientRAG's readers: a line each."""
    if parameters["chunk"] == "text":
        return "\n".join(corpus.texts[passage] for passage in passages)
    between = parameters["title_separator"]
    return "\n".join(f"{corpus.titles[passage]}{between}{corpus.texts[passage]}" for passage in passages)


def union(lists):
    """Members of the lists in order, each once."""
    return list(dict.fromkeys(member for members in lists for member in members))


# Few-shot prompts in IRCoT's layout.

def first_words(text, parameters):
    """The first `shown_words` of a text. IRCoT's code counts the pieces between single spaces, so that two spaces make
    an empty word."""
    most = parameters.get("shown_words")
    return text if most is None else " ".join(text.split(" ")[:most])


class FewShot:
    """Demonstrations, passages, question and chain of thought."""

    def __init__(self, parameters, style, passages=True, instruction=None):
        self.p, self.style, self.passages = parameters, style, passages
        self.instruction = parameters["instruction"] if instruction is None else instruction
        self.rows = demonstrations(parameters)

    def block(self, title, text):
        return f"{self.p['title_label']}{title}\n{text}\n\n"

    def shown(self, row):
        """The passages of a demonstration. Distractors are mixed among them by a hash of question and title."""
        main = [row["main"]] if row.get("main") else []
        if not self.passages:
            return main
        others, distractors = row.get("passages", []), row.get("distractors", [])[:self.p["distractors"]]
        if distractors:
            mixed = f"{row['question']}\n"
            others = sorted(others + distractors,
                            key=lambda passage: blake3.blake3((mixed + passage["title"]).encode()).digest())
        return main + others

    def shot(self, row):
        blocks = "".join(self.block(passage["title"], passage["text"]) for passage in self.shown(row))
        answer = row["reasoning"] if self.style == "cot" else row["answer"]
        return f"{blocks}Q: {self.instruction}{row['question']}\nA: {answer}\n\n\n"

    def prompt(self, question, passages, chain=(), pinned=0):
        """The prompt's text; `passages` are pairs of title and text, of which the first `pinned` always stay."""
        shots = [self.shot(row) for row in self.rows]
        blocks = [self.block(title, first_words(text, self.p)) for title, text in passages]
        end = f"Q: {self.instruction}{question}\nA: {' '.join(chain)}".rstrip()
        if self.p.get("packing", "whole") != "whole" and self.p.get("context_tokens"):
            # The rest is cut only by the model's own limit, which these servers do not have.
            return "".join(self.packed(shots, "".join(blocks) + end) + blocks) + end
        while not self.fits("".join(shots + blocks) + end):
            if shots:
                shots = shots[1:]
            elif len(blocks) > pinned:
                del blocks[pinned]
            else:
                raise OverflowError("the prompt is longer than its budget")
        return "".join(shots + blocks) + end

    def packed(self, shots, rest):
        """The demonstrations that IRCoT's code keeps (methods.md, B.3), each counted alone."""
        context, answer = self.p["context_tokens"], self.p["max_tokens"]
        size = lambda shown: sum(tokens(shot.strip()) for shot in shown)
        if self.p["packing"] == "each_and_one_more" and len(shots) > 1:
            while shots and size(shots) + max(tokens(shot.strip()) for shot in shots) + answer > context:
                shots = shots[:-1]
        while shots and size(shots) + tokens(rest.strip()) + answer >= context:
            shots = shots[1:]
        return shots

    def fits(self, text):
        budget = self.p.get("context_tokens")
        return budget is None or tokens(text) + self.p["max_tokens"] <= budget


def tokens(text):
    """Without a tokenizer three bytes count as a token."""
    return -(-len(text.encode()) // 3)


def demonstrations(parameters):
    rows = parameters["demonstrations"]
    if isinstance(rows, str):
        file = PROMPTS / "demonstrations" / f"{rows.removeprefix('hopeval:')}.jsonl"
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if "origin" not in row]
    chosen = parameters.get("demonstration_ids")
    if not chosen:
        return rows
    by_id = {row["id"]: row for row in rows}
    return [by_id[id] for id in chosen]


# Collected passages, as IRCoT has them.

ASKING = {"who", "what", "when", "where", "why", "which", "how", "does", "is"}


def query_text(text, words):
    """A query of a text; in the code without the words that stand alone and only ask."""
    if words == "without_question_words":
        return " ".join(word for word in text.split() if word.lower() not in ASKING)
    return text.strip()


def has_word(text):
    return re.search(r"\w", text) is not None


class Collection:
    """Passages in the order of their arrival, each once, under the rules of IRCoT's code where a job has them."""

    def __init__(self, corpus, parameters, most=None):
        self.corpus, self.p, self.most = corpus, parameters, most
        self.numbers, self.texts = [], []

    def full(self):
        return self.most is not None and len(self.texts) >= self.most

    def pin(self, context):
        self.numbers.append(context.get("passage"))
        self.texts.append((context["title"], context["text"]))

    def add(self, passages):
        for passage in passages:
            title, text = self.corpus.titles[passage], self.corpus.texts[passage]
            longest = self.p.get("longest_passage")
            if self.full() or passage in self.numbers or (longest and len(text.split(" ")) > longest):
                continue
            if not self.near(title, text):
                self.numbers.append(passage)
                self.texts.append((title, text))

    def near(self, title, text):
        ratio = self.p.get("near_duplicates")
        if ratio is None:
            return False
        alike = rapidfuzz.fuzz.ratio
        # The code looks for title and text apart.
        if title in [other for other, _ in self.texts] and text in [words for _, words in self.texts]:
            return True
        return any(alike(title, other) >= ratio and alike(text, words) >= ratio for other, words in self.texts)

    def ranked(self):
        return [number for number in self.numbers if number is not None]
