#!/usr/bin/env python3
"""Reading methods of hopeval beside independent references: request bodies, answers, ranked passages.

What: for each method, setting and dataset hopeval runs a job of one configuration against its simulated server of
language models; then the reference of this folder answers the same questions by a second such server. Both servers
log the BLAKE3 of each request's body. The multisets of bodies must be the same, and so must status, answer, ranked
passages, paths and traces of each question; a trace is here support, evidences, iterations, format and repairs, where
the reference says them. MIGRES and ALCE also ask a server of relevances and entailment (`scorers.py`), one on each
side, whose bodies count like the others. The servers are simulations, on real text too: what counts is that equal
bodies were sent.

Retrieval is not what is checked: the references search by `../sparse.py`, over the passages that hopeval's corpus
holds.

    conform.py --hopeval PROGRAM --work DIR [--data DIR] [--datasets world,hotpotqa,...] [--questions N]
               [--model simulated|babbling] [--control] [--only TEXT] [--explain N] [--out FILE]

`--data` holds the folders hotpotqa, 2wikimultihopqa, musique and iirc. `--model babbling` has `babbler.py` in place of
the simulated servers: texts that try the readers of replies, on any data. `--control` gives the reference another
parameter, so that bodies must differ. Exits with 1 if anything differs. Of the first `--explain` questions that
differ, hopeval's transcript and the reference's bodies are left in the work folder. Needed: pyarrow, regex, blake3,
rapidfuzz.
"""

import argparse
import collections
import dataclasses
import datetime
import functools
import gzip
import importlib
import json
import pathlib
import subprocess
import sys
import time

import blake3
import pyarrow.ipc
import pyarrow.parquet

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "endpoint")]

import babbler  # noqa: E402
import inputs  # noqa: E402
import loose_json  # noqa: E402
import module_settings  # noqa: E402
import ranking  # noqa: E402
import scorers  # noqa: E402
import shared  # noqa: E402
import simulated_runs  # noqa: E402

# Method, name of the setting, what the job sets. `as` is taken by both sides; the rest goes to both, too.
SETTINGS = [
    ("no_retrieval", "CoT", {}),
    ("no_retrieval", "Direct", {"style": "direct"}),
    ("one_step_qa", "OneR QA, CoT", {}),
    ("one_step_qa", "Direct-R, direct", {"style": "direct"}),
    ("one_step_qa", "code", {"as": "code", "k": 15}),
    ("one_step_qa", "code, 4,000 tokens", {"as": "code", "context_tokens": 4000}),
    ("ircot", "paper", {}),
    ("ircot", "code", {"as": "code"}),
    ("ircot", "direct reader, K 2, M 1", {"read": "direct", "k": 2, "distractors": 1}),
    ("ircot", "no reader", {"read": "none"}),
    ("ircot", "code, 6,000 tokens", {"as": "code", "k": 8, "context_tokens": 6000}),
    ("ircot", "code, 3,000 tokens, each", {"as": "code", "context_tokens": 3000, "packing": "each"}),
    ("ircot", "3,000 tokens", {"context_tokens": 3000}),
    ("decompose", "parallel", {}),
    ("decompose", "parallel, code", {"as": "code"}),
    ("decompose", "sequential", {"mode": "sequential"}),
    ("decompose", "sequential, code", {"as": "code", "mode": "sequential"}),
    ("decompose", "sequential, sampled", {"mode": "sequential", "temperature": 0.7}),
    ("iter_retgen", "paper", {}),
    ("iter_retgen", "code", {"as": "code"}),
    ("self_ask", "snippet", {}),
    ("self_ask", "documents", {"evidence": "documents"}),
    ("self_ask", "documents, first retrieval, newest", {"evidence": "documents", "first_retrieval": True,
                                                       "shown": "newest"}),
    ("self_ask", "reader", {"evidence": "reader"}),
    ("self_ask", "code", {"as": "code"}),
    ("react", "paper", {}),
    ("react", "code", {"as": "code"}),
    *module_settings.SETTINGS,
]
# Of samples: each draw has the next one.
SEED = 7
# They continue their own text, which OpenAI's chat cannot.
CONTINUING = {"self_ask", "react"}
# Methods with demonstrations; questions with a text of their own get demonstrations of that kind.
SHOWN = {"no_retrieval", "one_step_qa", "ircot"}
TITLED = {"one_step_qa", "ircot"}
# Methods over the given paragraphs, and those with a cross-encoder and perhaps an entailer.
GIVEN = {"fsm", "fsm_baseline"}
RANKED = {"migres", "alce"}
REAL = {"hotpotqa": "dev*.json.gz", "2wikimultihopqa": "train*.json.gz", "musique": "train*.jsonl.gz",
        "iirc": "dev*.jsonl.gz"}


# The parameter that is one more in a control.
CONTROLS = {"no_retrieval": "max_tokens", "react": "max_tokens", "fsm": "answer_words", "fsm_baseline": "max_tokens",
            "alce": "passages", "migres": "passages"}


class Corpus(inputs.Corpus):
    """With sentences and titles."""

    def __init__(self, folder):
        super().__init__(folder)
        self.ends = pyarrow.ipc.open_file(pathlib.Path(folder) / "passages.arrow").read_all()["sentences"].to_pylist()
        self.by_title, self.folded, self.retrievers = {}, {}, {}
        for passage, title in enumerate(self.titles):
            self.by_title.setdefault(title, []).append(passage)

    def retriever(self, settings):
        """Finds the numbers of the best passages for a query; what was found is kept."""
        name = json.dumps(settings, sort_keys=True)
        if name not in self.retrievers:
            search = shared.retriever(settings, self).search
            self.retrievers[name] = functools.cache(lambda query, k: [passage for passage, _ in search(query, k)])
        return self.retrievers[name]

    def numbered_sentences(self, passage):
        """The dataset's sentences, empty ones too, as the dataset numbers them; else those of the splitter."""
        if not self.ends[passage]:
            return shared.sentences(self.texts[passage])
        text, begins = self.texts[passage].encode(), [0, *self.ends[passage]]
        return [text[begin:end].decode().strip() for begin, end in zip(begins, self.ends[passage])]

    def sentences(self, passage):
        """Those that are not empty."""
        return [sentence for sentence in self.numbered_sentences(passage) if sentence]

    def by_folded_title(self, fold):
        if not self.folded:
            for title in self.by_title:
                self.folded.setdefault(fold(title), title)
        return self.folded


def iirc_corpus(rows, path):
    """What the rows of IIRC hold: introductory paragraphs, and the snippets of linked pages by their titles."""
    with gzip.open(rows, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    passages = {}
    for row in rows:
        for name in ("gold_link_name_sent_list", "predicted_link_name_sent_list"):
            for snippet in row["context_retrieval"][name] or []:
                passages[snippet["title"], snippet["sent"].strip()] = None
    with open(path, "w", encoding="utf-8") as out:
        for number, (title, text) in enumerate(passages):
            out.write(json.dumps({"id": f"s{number}", "title": title, "text": text}, ensure_ascii=False) + "\n")


def dataset(name, arguments, method=None):
    """The job's lines about questions and corpus. Only the dataset itself has the sentences of given paragraphs."""
    if name == "world":
        return f"[dataset.world]\nquestions = {arguments.questions}\npassages = {arguments.passages}\nseed = 22\n"
    folder = pathlib.Path(arguments.data).resolve() / name
    questions = sorted(folder.glob(REAL[name]))[0]
    corpus = folder / "corpus.jsonl.gz"
    if name == "iirc":
        corpus = arguments.work / "iirc.jsonl"
        iirc_corpus(questions, corpus)
    gold = 'gold = "title"\n' if name == "iirc" else ""
    return (f"[dataset]\nformat = {json.dumps(name)}\nquestions = {json.dumps(str(questions))}\n{gold}"
            f"limit = {arguments.questions}\n[corpus]\n"
            f"source = {json.dumps('contexts' if method in GIVEN else str(corpus))}\nlinks = \"none\"\n")


def settings_of(data, method, settings):
    """What the job sets, with what a dataset needs."""
    more = {"demonstrations": "hopeval:grounded"} if data == "iirc" and method in SHOWN else {}
    more |= {"title_retriever": "titles"} if data == "iirc" and method in TITLED else {}
    return more | settings


def job_text(data, method, settings, servers, arguments):
    retriever = {} if method in GIVEN | {"no_retrieval"} else {"retriever": "bm25"}
    ranker = {"reranker": "ranker"} if method in RANKED else {}
    lines = "\n".join(f"{key} = {simulated_runs.toml_value(value)}" for key, value in
                      ({"kind": method, "generator": "llm"} | retriever | ranker | settings).items())
    return f"""
name = "reference"
{dataset(data, arguments, method)}
[service.bm25]
kind = "bm25"
[service.titles]
kind = "bm25"
fields = "title"
{endpoint("llm", servers.url, api_of(method), dialect_of(method))}
model = "simulated-llm"
seed = {SEED}
{endpoint("ranker", servers.scorers.url, "chat", "vllm")}
model = "ranker"
answers = ["rerank"]
{endpoint("nli", servers.scorers.url, "completions", "vllm")}
model = "entailer"
answers = ["entail"]
entail_by = "generate"
[method.m]
{lines}
[measures]
recall_at = [5]
[run]
allowed_failed = 1.0
"""


def endpoint(name, url, api, dialect):
    return f"""[service.{name}]
kind = "endpoint"
base_url = "{url}"
api = "{api}"
dialect = "{dialect}"
key_env = "SIMULATED_KEY"
identity = "the simulated {name}\""""


def api_of(method):
    return "completions" if method in CONTINUING else "chat"


def dialect_of(method):
    """Of servers that know `n`, hopeval asks for several draws at once or one by one, as they come to wait together:
    those that a method votes on, and those of two questions that asked for the same text to be written again. Here
    llama.cpp's does not know it, so that bodies are always the same; it has a repetition penalty, too."""
    return "llama_cpp" if method in GIVEN | RANKED else "openai"


@dataclasses.dataclass
class Row:
    """One line of the table."""
    method: str
    setting: str
    data: str
    questions: int = 0
    bodies: tuple = (0, 0)
    answers: int = 0
    rankings: int = 0
    paths: int = 0
    traces: int = 0
    statuses: int = 0
    ours: collections.Counter = None
    differ: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)

    def whole(self):
        counts = {self.answers, self.rankings, self.paths, self.statuses, self.traces}
        alike = self.bodies[0] == self.bodies[1] and counts == {self.questions}
        return self.questions > 0 and alike and not self.notes


class Simulated(simulated_runs.SimulatedServer):
    """hopeval's simulated server; its log tells the bodies."""

    def bodies(self):
        """Digests of all bodies so far. An entry is written when its call has ended."""
        entries = self.entries()
        wrong = [entry for entry in entries if entry["outcome"] != "answered"]
        if wrong:
            raise RuntimeError(f"the server did not answer: {wrong[0]}")
        return collections.Counter(entry["body"] for entry in entries)


class Babbling(babbler.Babbler):
    """The server of this folder."""

    def bodies(self):
        return collections.Counter({blake3.blake3(body).hexdigest(): count for body, count in self.sent.items()})


@dataclasses.dataclass
class Servers:
    """What one side asks: the language model, and what ranks texts."""
    model: object
    scorers: object

    @property
    def url(self):
        return self.model.url

    def bodies(self):
        return self.model.bodies() + self.scorers.bodies()

    def known(self, digest):
        """A body by its digest; none of the simulated server, whose log has digests alone."""
        sent = [*getattr(self.model, "sent", ()), *self.scorers.sent]
        return next((body.decode() for body in sent if blake3.blake3(body).hexdigest() == digest), None)

    def stop(self):
        self.model.stop()
        self.scorers.stop()


def servers_of(data, arguments):
    """One for hopeval, one for the reference."""
    return [Servers(model, scorers.Scorers()) for model in models_of(data, arguments)]


def models_of(data, arguments):
    if arguments.model == "simulated":
        return [Simulated(arguments.hopeval, arguments.work, {}, f"{name}-{time.time_ns():x}")
                for name in ("hopeval", "reference")]
    method = '[service.bm25]\nkind = "bm25"\n[method.m]\nkind = "one_step"\nretriever = "bm25"\nk = 10\n'
    job = f'name = "passages"\n{dataset(data, arguments)}{method}'
    place = simulated_runs.RunFolder(arguments.hopeval, arguments.work / f"{data}-passages", job,
                                     arguments.work / "cache", store=f"store-{time.time_ns():x}")
    place.run()
    corpus = corpus_of(inputs.Run(place.store.root / "runs" / place.id()), arguments)
    return [Babbling(corpus.titles, corpus.texts) for _ in range(2)]


def questions_of(run):
    columns = ["index", "id", "text", "candidates", "record"]
    rows = pyarrow.parquet.read_table(run.folder / "questions.parquet", columns=columns)
    found = []
    for row in sorted(rows.to_pylist(), key=lambda row: row["index"]):
        found.append(shared.Question(row["id"], row["text"], json.loads(row["record"]).get("context"),
                                     row["candidates"]))
    return found


TRACED = ("supporting", "named", "evidences", "iterations", "format", "repairs")


def traces_of(run):
    """The run's traces by question; it has none where its method leaves none."""
    path = run.folder / "final/traces.parquet"
    return {row["question"]: row for row in pyarrow.parquet.read_table(path).to_pylist()} if path.exists() else {}


def traced(found, trace):
    """What else an outcome holds, as the references write it."""
    trace = trace or {"named_support": [], "format": None, "repairs": 0}
    return {"supporting": [(row["passage"], row["sentence"]) for row in found["supporting"] or []],
            "named": [(row["title"], row["sentence"]) for row in trace["named_support"] or []],
            "evidences": [(row["subject"], row["relation"], row["object"]) for row in found["evidences"] or []],
            "iterations": found["iterations"], "format": trace["format"], "repairs": trace["repairs"]}


def parameters_of(module, settings, recorded, row):
    """The reference's parameters: its own defaults, the code's, what the job sets. Texts that stand in no file of
    prompts are taken from what the run recorded; everything else that the run recorded must be the same."""
    own = module.DEFAULTS | (module.CODE if settings.get("as") == "code" else {})
    own |= {key: value for key, value in settings.items() if key != "as"}
    # Of these methods the reference reads the file; what a run records is the template as it was put together.
    read = {"prompt"} if module.__name__ in CONTINUING else set()
    for key in {"system", "prompt", "reader_prompt", "decomposition_prompt", "title_prompt"} - read:
        if key in own and own[key] is None and isinstance(recorded.get(key), str):
            own[key] = recorded[key]
    for key, value in own.items():
        if key in recorded and key not in {"demonstrations", *read} and recorded[key] != value:
            row.notes.append(f"parameter {key}: {value!r} here, the run recorded {recorded[key]!r}")
    return own


def compare(data, method, setting, settings, servers, arguments):
    row = Row(method, setting, data)
    ours, theirs = servers
    settings = settings_of(data, method, settings)
    for side in servers:
        # A new run: what a babbler wrote to a body before does not count.
        for kept in (getattr(side.model, "times", {}), getattr(side.model, "sent", {}), side.scorers.sent):
            kept.clear()
    name = "".join(letter if letter.isalnum() else "-" for letter in f"{data}-{arguments.model}-{method}-{setting}")
    before = ours.bodies()
    job = job_text(data, method, settings, ours, arguments)
    place = simulated_runs.RunFolder(arguments.hopeval, arguments.work / name, job, arguments.work / "cache",
                                     store=f"store-{time.time_ns():x}")
    place.run()
    bodies = ours.bodies() - before
    run = inputs.Run(place.store.root / "runs" / place.id())
    outcomes, traces = run.outcomes("m"), traces_of(run)
    module = importlib.import_module(method)
    parameters = parameters_of(module, settings, json.loads(run.configurations["m"]["parameters"]), row)
    if arguments.control:
        key = CONTROLS.get(method, "k")
        parameters[key] += 1
        row.setting += f"; control: the reference's {key} is one more"
    corpus = corpus_of(run, arguments)
    server = shared.Server(theirs.url, simulated_runs.KEY, api_of(method), SEED)
    tools = shared.Tools(corpus, run.services, server)
    tools.scorer = ranking.Scorer(shared.Server(theirs.scorers.url, simulated_runs.KEY, "completions", SEED))
    before = theirs.bodies()
    questions = questions_of(run)
    row.questions = len(questions)
    for question in questions:
        server.asking = tools.scorer.server.asking = question.id
        try:
            wanted = module.answer(question, tools, parameters)
        except loose_json.Unread as unread:
            # A reply that `loose_json.py` does not know how to read: a difference.
            wanted = shared.Outcome(status=f"unread: {unread}")
        found = outcomes[question.id]
        told = {"status": found["status"] == wanted.status,
                "answer": found["answer"] == wanted.answer,
                "ranking": list(found["ranked"] or []) == wanted.ranked,
                "paths": [path["passages"] for path in found["paths"] or []] == [list(p) for p in wanted.paths if p]}
        found |= traced(found, traces.get(question.id))
        told |= {key: found[key] == value for key, value in vars(wanted).items() if key in TRACED and value is not None}
        row.statuses += told["status"]
        row.answers += told["answer"]
        row.rankings += told["ranking"]
        row.paths += told["paths"]
        row.traces += all(told[key] for key in TRACED if key in told)
        if not all(told.values()):
            row.differ.append((question.id, [key for key, same in told.items() if not same], found, wanted))
    sent = theirs.bodies() - before
    row.bodies = ((bodies & sent).total(), (bodies | sent).total())
    by_body = {blake3.blake3(body).hexdigest(): (id, body) for id, body, _ in server.sent + tools.scorer.server.sent}
    missing = [by_body[digest] for digest in (sent - bodies) if digest in by_body]
    explain(row, place, missing, server.sent + tools.scorer.server.sent, arguments)
    again = sum(count for digest, count in (bodies - sent).items() if digest in sent)
    if again:
        # Requests of two forms that make one body, such as a passage and the same text written out.
        print(f"   {again} bodies are hopeval's once more: the reference sent them, too")
    only_there = [ours.known(digest) for digest in bodies - sent]
    (place.folder / "bodies-of-hopeval-alone.jsonl").write_text("\n".join(body for body in only_there if body))
    return row


CORPORA = {}


def corpus_of(run, arguments):
    if run.corpus_key not in CORPORA:
        CORPORA.clear()
        CORPORA[run.corpus_key] = Corpus(arguments.work / "cache" / "corpora" / run.corpus_key)
    return CORPORA[run.corpus_key]


def explain(row, place, missing, sent_all, arguments):
    """Prints the first differences."""
    print(f"{row.data:16} {row.method:12} {row.setting:36} n {row.questions:4}  bodies {row.bodies[0]}/{row.bodies[1]}"
          f"  status {row.statuses}  answers {row.answers}  rankings {row.rankings}  paths {row.paths}"
          f"  traces {row.traces}", flush=True)
    for note in row.notes:
        print("   note:", note)
    for id, what, found, wanted in row.differ[:arguments.explain]:
        print(f"   {id}: {', '.join(what)}: hopeval {found['status']} {found['answer']!r} {found['ranked']} "
              f"{found['message'] or ''}; here {wanted.status} {wanted.answer!r} {wanted.ranked}")
        for key in what:
            if key in TRACED:
                print(f"      {key}: {found[key]} and {getattr(wanted, key)}")
    ids = [id for id, _ in missing[:arguments.explain]] + [id for id, *_ in row.differ[:arguments.explain]]
    for id in dict.fromkeys(ids):
        transcript = place.tell("show", place.id(), "--question", id, "--json")
        (place.folder / f"transcript-{id}.json").write_text(transcript)
        own = [json.dumps({"body": json.loads(body), "text": text})
               for asking, body, text in sent_all if asking == id]
        (place.folder / f"reference-{id}.json").write_text("\n".join(own))
        print(f"   bodies of {id} differ: see {place.folder}/transcript-{id}.json and reference-{id}.json")


def table(rows, arguments, machine):
    lines = ["| method | setting | data | questions | bodies equal / total | status | answers | rankings | paths | "
             "traces |", "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        lines.append(f"| `{row.method}` | {row.setting} | {row.data} | {row.questions} | "
                     f"{row.bodies[0]} / {row.bodies[1]} | {row.statuses} | {row.answers} | {row.rankings} | "
                     f"{row.paths} | {row.traces} |")
    version = subprocess.run([arguments.hopeval, "--version"], capture_output=True, text=True).stdout.strip()
    head = (f"{datetime.date.today()}, {version}, {machine}. Bodies are those of both logs; total is the union of both "
            "multisets.\n\n")
    return head + "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--data")
    parser.add_argument("--datasets", default="world")
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--passages", type=int, default=5000)
    parser.add_argument("--only", default="", help="settings whose `METHOD SETTING` begins so; several with `|`")
    parser.add_argument("--explain", type=int, default=2)
    parser.add_argument("--model", choices=["simulated", "babbling"], default="simulated")
    parser.add_argument("--control", action="store_true", help="the reference has another parameter: must differ")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.work = arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for data in arguments.datasets.split(","):
        servers = servers_of(data, arguments)
        for method, setting, settings in SETTINGS:
            if data == "iirc" and method in GIVEN:
                continue
            if f"{method} {setting}".startswith(tuple(arguments.only.split("|"))):
                rows.append(compare(data, method, setting, settings, servers, arguments))
        for server in servers:
            server.stop()
    if arguments.out:
        arguments.out.write_text(table(rows, arguments, simulated_runs.load()), encoding="utf-8")
    return 0 if rows and all(row.whole() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
