#!/usr/bin/env python3
"""EfficientRAG's own program beside hopeval's `as = "code"`: corpus, inputs, loop, kept chunks, prompt, correctness.

Why: `../efficientrag.py` restates the method. A restatement has its author's reading; the program of the paper's
authors has none.

What: the checkout of NIL-zhuang/EfficientRAG-official (47c38cf) is imported, not copied, and answers the same questions
over the same chunks with the same models of random weights:

* `multihop_data_extrator` makes the chunks of the questions' contexts, `Embedder` and `Retriever` (Faiss) embed and
  find them;
* `efficientrag_retrieve.efficient_rag` retrieves, labels and filters; its inputs are kept;
* `EfficientRAG_QA.extract_chunks`, its prompt, `evaluation/retrieve.py` and `evaluation/correctness.py` do the rest;
* `language_models/llama.py` gives the prompt to a client that keeps what would be sent;
* hopeval runs a job with the same, and its transcripts say what was asked.

Compared are each iteration's query, chunks, tags, information and next query; the logits that hopeval finds on *their*
ids of the labeler's input (`hopeval lm label`) with those that its run recorded, which are the same to the last bit
only if the same tokens were read; the filter's input as text, and its tokens; kept chunks with repeats; the generator's
prompt and the message of the system, byte for byte; recall, K, EM and F1.

Words are hopeval's (`re.findall`) in place of spaCy's, and a chunk's title is whole, where the program cuts it at its
first colon: then all must be equal, once with and once without `clean_up_tokenization_spaces`, whose default changed
with transformers 4.45. The program with spaCy's words and cut titles is compared, too: what differs there is counted.

    efficientrag.py --authors DIR --hopeval PROGRAM --data ../shared/data/hotpotqa [--questions 300] [--some 100]
                    [--few 20] [--plain-punctuation] [--work DIR] [--out FILE]

`DIR/efficientrag` is the checkout. `--few` questions are asked of a generator, whose prompt is compared, and
`--some` (100) are answered by the program as it stands.

Stood in for: language_models but for its `llama`, openai (no server is asked), tenacity, `cuda` and `half` (the CPU,
float32), the model en_core_web_sm (a blank English pipeline has the same tokenizer; lemmas matter for the comma alone).

Needs torch, transformers 4.44, spacy, faiss-cpu, rich, tokenizers, sentencepiece, pyarrow. Exits with 1 on a difference
that is not listed in `EXPECTED`.
"""

import collections
import itertools
import json
import logging
import pickle
import re
import subprocess
import types
import warnings

import beside
import numpy
import stand_ins
import torch
import transformers

# What differs in the program as it stands, for reasons that the results file gives.
OUTER = "to the last space"
EXPECTED = ("as it stands", OUTER)
CHUNKS = 10

JOB = """
name = "authors-efficientrag"
[dataset]
format = "hotpotqa"
questions = "asked.json"
gold = "title"
limit = {limit}
[corpus]
source = "chunks.jsonl"
[service.encoder]
kind = "lm"
model = "{models}/bert-imported"
pooling = "mean"
[service.dense]
kind = "dense"
encoder = "encoder"
fields = "title+title+text"
between = ": "
{punctuation}
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
batch_tokens = 32768
{methods}
[measures]
profile = "efficientrag"
recall_at = [10]
chunk_recall = true
chunks_with_repeats = true
[run]
allowed_failed = {failed}
"""

METHOD = """
[service.labeler_{name}]
kind = "lm"
model = "{models}/labeler-{name}"
label_scope = "sequence"
[service.filter_{name}]
kind = "lm"
model = "{models}/filter-{name}"
[method.{name}]
kind = "efficientrag"
as = "code"
retriever = "dense"
labeler = "labeler_{name}"
filter = "filter_{name}"
{more}
"""


class KeepingClient:
    """In the place of OpenAI's client: keeps what would be sent, and answers with an empty object."""

    def __init__(self, **_):
        self.sent = []
        self.chat = types.SimpleNamespace(completions=self)

    def create(self, **body):
        self.sent.append(body)
        message = types.SimpleNamespace(content="{}")
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)])


def imported(arguments):
    """The modules of the checkout."""
    root = beside.checkout(arguments, "efficientrag", "src", "src/evaluation", "src/retrievers")
    own = [str(root / "src/language_models")]
    beside.stand_in("language_models", LanguageModel=object, get_model=None, AOAI=object, __path__=own)
    beside.stand_in("openai", OpenAI=KeepingClient)
    undecorated = lambda *_, **__: lambda function: function
    beside.stand_in("tenacity", retry=undecorated, stop_after_attempt=lambda _: None)
    torch.Tensor.cuda = torch.nn.Module.cuda = torch.nn.Module.half = lambda self, *_, **__: self
    warnings.simplefilter("ignore")
    import correctness
    import efficientrag_qa
    import efficientrag_retrieve
    import multihop_data_extrator
    import retrieve
    from data_module import HotpotQADataset
    from language_models.llama import LlamaServer
    from retrievers import Retriever
    from retrievers.embeddings import embedder

    efficientrag_retrieve.tqdm_rich = embedder.tqdm_rich = lambda things, **_: things
    multihop_data_extrator.tqdm = lambda things: things
    return types.SimpleNamespace(
        loop=efficientrag_retrieve, qa=efficientrag_qa, chunks=multihop_data_extrator, dataset=HotpotQADataset,
        retriever=Retriever, embedder=embedder.Embedder, recall=retrieve.recall, correctness=correctness,
        llama=LlamaServer(),
    )  # fmt: skip


Word = collections.namedtuple("Word", ["text", "lemma_"])


def rule_words(text):
    """hopeval's words, in the place of a spaCy pipeline."""
    return [Word(word, word) for word in re.findall(r"\w+|[^\w\s]", text)]


class SpacyWords:
    """spaCy's words; the lemma of a comma is a comma, and no other word has that one."""

    def __init__(self):
        import spacy

        self.pipeline = spacy.blank("en")

    def __call__(self, text):
        return [Word(word.text, word.text) for word in self.pipeline(text)]


def hub_form(question):
    """A question in the form that their dataset reads."""
    title, sentence = zip(*question["supporting_facts"])
    titles, sentences = zip(*question["context"])
    facts = {"title": list(title), "sent_id": list(sentence)}
    context = {"title": list(titles), "sentences": list(sentences)}
    return {**question, "id": question["_id"], "supporting_facts": facts, "context": context}


def chunked(theirs, work, questions):
    """Their chunks of the questions' contexts, whole titles by chunk, and hopeval's file of the same."""
    (work / "valid.json").write_text(json.dumps([hub_form(question) for question in questions]), encoding="utf-8")
    (work / "asked.json").write_text(json.dumps(questions), encoding="utf-8")
    dataset = theirs.dataset(str(work / "valid.json"))
    chunks = theirs.chunks.merge_chunks(list(theirs.chunks.parse_chunks(dataset)))
    titles = {f"{q['_id']}-{at:02d}": title for q in questions for at, (title, _) in enumerate(q["context"])}
    whole = {chunk["id"]: titles[chunk["id"].split("//")[0]] for chunk in chunks}
    with open(work / "chunks.jsonl", "w", encoding="utf-8") as file:
        for chunk in chunks:
            title = whole[chunk["id"]]
            assert chunk["text"].startswith(f"{title}: "), chunk
            file.write(
                json.dumps({"id": chunk["id"], "title": title, "text": chunk["text"].removeprefix(f"{title}: ")}) + "\n"
            )
    return chunks, whole


def retriever(theirs, work, name, chunks, encoder, normal):
    """Their retriever over chunks, which are embedded in the way of their script."""
    folder = work / f"authors-{name}"
    folder.mkdir(exist_ok=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps(chunk) + "\n" for chunk in chunks), encoding="utf-8")
    embedder = theirs.embedder("contriever", str(encoder), 64, text_normalize=normal)
    for part, found in embedder.embed_passages(chunks):
        (folder / f"passages_{part:02d}").write_bytes(pickle.dumps(found))
    width = transformers.AutoConfig.from_pretrained(encoder).hidden_size
    return theirs.retriever(
        str(folder / "corpus.jsonl"), str(folder), model_type="contriever", model_path=str(encoder),
        save_or_load_index=False, embed_vector_dim=width,
    )  # fmt: skip


class Loop:
    """Their loop over questions, with what it gave its models."""

    def __init__(self, theirs, models, tokenizer, words):
        self.theirs, self.models, self.tokenizer = theirs, models, tokenizer
        theirs.loop.spacy = types.SimpleNamespace(load=lambda _: words, Language=object)
        self.inputs = []
        for name in ("build_labeler_input", "build_filter_input"):
            self.keep(name, getattr(theirs.loop, name))

    def keep(self, name, build):
        original = getattr(build, "original", build)

        def kept(*given):
            found = original(*given)
            lengths = found["attention_mask"].sum(dim=1).tolist()
            self.inputs.append((name, [ids[:n].tolist() for ids, n in zip(found["input_ids"], lengths)]))
            return found

        kept.original = original
        setattr(self.theirs.loop, name, kept)

    def answers(self, retriever, samples):
        """Each question's iterations, as written to their file, and the inputs of their models."""
        for sample in samples:
            self.inputs = []
            (found,) = self.theirs.loop.efficient_rag(*self.models, retriever, self.tokenizer, [sample], CHUNKS)
            yield json.loads(json.dumps(found)), list(self.inputs)


def sample_of(question):
    """A question with its gold chunks, as their data has it."""
    titles = [title for title, _ in question["context"]]
    gold = sorted({titles.index(title) for title, _ in question["supporting_facts"]})
    parts = {str(n): {"positive_paragraph_idx": at, "positive_paragraph": titles[at]} for n, at in enumerate(gold)}
    return {
        "id": question["_id"],
        "question": question["question"],
        "answer": question["answer"],
        "decomposed_questions": parts,
    }


def iterations(transcript):
    """What a transcript says of each iteration: query, chunks with tag and information, the filter's part."""
    found = []
    for step in transcript["rounds"]:
        for request, response in zip(step["requests"], step["responses"]):
            ask, result = request["ask"], response["result"].get("Ok")
            if "Retrieve" in ask:
                found.append({"query": ask["Retrieve"]["query"], "chunks": [], "filter": None})
            elif "Label" in ask:
                passage = ask["Label"]["chunk"]["Passage"]["passage"]
                found[-1]["chunks"].append((passage, result["Label"], response["prompt"]["tokens"]))
            elif "Filter" in ask:
                found[-1]["filter"] = (ask["Filter"], result["Filter"], response["prompt"]["tokens"])
    return found


def tag_of(logits):
    return ["<CONTINUE>", "<TERMINATE>", "<FINISH>"][max(range(len(logits)), key=lambda at: (logits[at], -at))]


def filter_text(asked):
    """The filter's input as hopeval writes it."""
    return f"Query: {asked['query']} " + "; ".join(f"Info: {text}" for text in asked["information"] if text.strip())


def noted_text(tally, what, found, wanted):
    """Notes whether texts have the same words; another row has them to the last byte."""
    tally.note(f"{what}, {OUTER}", found == wanted)
    return tally.note(f"{what}, in words", rule_words(found) == rule_words(wanted), (found, wanted))


def compared_question(tally, label, corpus, mine, theirs, inputs):
    """One question: each iteration beside theirs. Gives pairs of their labeler's ids and hopeval's logits."""
    rounds = [theirs[str(at)] for at in range(4) if str(at) in theirs]
    tally.note(f"{label}: iterations", len(mine) == len(rounds), (len(mine), len(rounds)))
    labelled = [ids for name, ids in inputs if name == "build_labeler_input"]
    filtered = [ids for name, ids in inputs if name == "build_filter_input"]
    pairs = []
    for at, (own, other) in enumerate(zip(mine, rounds)):
        if not noted_text(tally, f"{label}: queries", own["query"], other["query"]):
            break
        chunks, docs = own["chunks"], other["docs"]
        same = tally.note(
            f"{label}: chunks in order", [corpus.ids[p] for p, *_ in chunks] == [doc["id"] for doc in docs]
        )
        by_id = {doc["id"]: (doc, ids) for doc, ids in zip(docs, labelled[at])}
        for passage, labels, tokens in chunks:
            if corpus.ids[passage] not in by_id:
                continue
            doc, ids = by_id[corpus.ids[passage]]
            tally.note(f"{label}: tokens of the labeler's input", len(ids) == tokens)
            tally.note(f"{label}: tags", tag_of(labels["tag_logits"]) == doc["label"])
            noted_text(tally, f"{label}: information", labels["information"], doc["info"])
            pairs.append((ids, labels["tag_logits"]))
        if own["filter"] is not None and at + 1 < len(rounds):
            asked, next_query, tokens = own["filter"]
            text = rounds[at + 1]["filter_input"]
            noted_text(tally, f"{label}: the filter's input", filter_text(asked), text)
            tally.note(f"{label}: tokens of the filter's input", len(filtered[at][0]) == tokens)
            noted_text(tally, f"{label}: next queries", next_query, rounds[at + 1]["query"])
        if not same:
            break
    return pairs


def logits_of(arguments, folder, inputs):
    """The logits of tags that hopeval's labeler has on ids, by the command that takes ids."""
    distinct = {tuple(ids): None for ids in inputs}
    lines = "".join(json.dumps({"id": str(at), "ids": ids}) + "\n" for at, ids in enumerate(distinct))
    command = [str(arguments.hopeval), "lm", "label", "--model", str(folder)]
    shown = subprocess.run(command, input=lines, check=True, stdout=subprocess.PIPE, text=True).stdout
    for ids, line in zip(distinct, shown.splitlines()):
        distinct[ids] = json.loads(line)["sequence_logits"]
    return [distinct[tuple(ids)] for ids in inputs]


def compared_run(arguments, work, tally, tables, theirs, finished, name, label, loop, found_in, questions):
    """A configuration beside their loop over `questions`, the first of the run, and their evaluation on both lists of
    chunks."""
    asked = finished.run.questions[: len(questions)]
    corpus, outcomes, transcripts = finished.corpus, finished.run.outcomes(name), finished.transcripts(name)
    extract = theirs.qa.EfficientRAG_QA.extract_chunks
    pairs, lists = [], collections.defaultdict(list)
    samples = [sample_of(questions[id]) for id, _ in asked]
    for (id, _), (answer, inputs) in zip(asked, loop.answers(found_in, samples)):
        pairs += compared_question(tally, label, corpus, iterations(transcripts[id]), answer, inputs)
        kept = [chunk["id"] for chunk in extract(None, answer)]
        own = [corpus.ids[passage] for path in outcomes[id]["paths"] for passage in path["passages"]]
        tally.note(f"{label}: kept chunks with repeats", own == kept)
        lists["theirs"].append((answer["oracle"], kept))
        lists["hopeval"].append((answer["oracle"], own))
    if label == name:
        logits = logits_of(arguments, work / f"models/labeler-{name}", [ids for ids, _ in pairs])
        for (_, own), other in zip(pairs, logits):
            tally.numbers(f"{label}: logits of their ids, to the last bit", own, other, bound=0.0)
    figures = {}
    for side, rows in lists.items():
        figures[side] = (numpy.mean([theirs.recall(*row) for row in rows]), numpy.mean([len(kept) for _, kept in rows]))
        tables.append(f"| {label}, {side} | {100 * figures[side][0]:.2f} | {figures[side][1]:.3f} |")
    if len(asked) < len(finished.run.questions):
        return
    measures = finished.measures(name)
    tally.numbers(
        f"{label}: recall by their function on hopeval's chunks",
        [measures["chunk_recall"]],
        [figures["hopeval"][0]],
        bound=1e-9,
    )
    tally.numbers(
        f"{label}: K by their function on hopeval's chunks",
        [measures["chunks_with_repeats"]],
        [figures["hopeval"][1]],
        bound=1e-9,
    )


def sent(theirs, prompt):
    """What their client sends for a prompt of their readers, message by message."""
    theirs.qa.ask_model(theirs.llama, prompt, type="json", mode="chat", sleep=False)
    (body,) = theirs.llama.client.sent
    theirs.llama.client.sent.clear()
    return [(message["role"], message["content"]) for message in body["messages"]]


def compared_prompts(tally, theirs, few, name, samples):
    """The generator's messages, from the transcript, beside theirs from the same chunks."""
    template, corpus = theirs.qa.PROMPT_MAPPING["hotpotQA"], few.corpus
    for id, transcript in few.transcripts(name).items():
        (asked, *_) = [
            r["ask"]["Generate"] for step in transcript["rounds"] for r in step["requests"] if "Generate" in r["ask"]
        ]
        words = lambda content: content["Text"] if "Text" in content else "{}: {}".format(
            corpus.titles[content["Passage"]["passage"]], corpus.texts[content["Passage"]["passage"]])  # fmt: skip
        by_role = itertools.groupby(asked["prompt"]["parts"], key=lambda part: part["role"])
        mine = [(role, "".join(words(part["content"]) for part in parts)) for role, parts in by_role]
        kept = [
            (p, *_)
            for step in iterations(transcript)
            for p, labels, *_ in step["chunks"]
            if tag_of(labels["tag_logits"]) != "<TERMINATE>"
        ]
        knowledge = "\n".join(f"{corpus.titles[p]}: {corpus.texts[p]}" for p, *_ in kept)
        wanted = sent(theirs, template.format(question=samples[id]["question"], knowledge=knowledge))
        tally.note("the generator's prompt, byte for byte", mine[-1] == wanted[-1])
        others = (mine[:-1], wanted[:-1])
        tally.note("the message of the system, byte for byte", others[0] == others[1], others)


def changed(answer, other, way):
    """An answer that is right, partly right, or wrong in some way."""
    words = answer.split()
    ways = [
        answer, answer.upper() + ".", f"the {answer}", words[0], " ".join(words[1:]), "", other, f"{answer} {other}",
        "yes", "No", "noanswer", answer.replace(" ", "-"), " ".join(reversed(words)), f"{answer}, {answer}",
        answer[:-1], "a",
    ]  # fmt: skip
    return ways[way % len(ways)]


def compared_correctness(arguments, work, tally, tables, theirs, questions):
    """EM and F1 of made-up answers, question by question by their functions, and as means by hopeval."""
    (work / "all.json").write_text(json.dumps(questions), encoding="utf-8")
    for way in range(16):
        given = {q["_id"]: changed(q["answer"], questions[at - 1]["answer"], way) for at, q in enumerate(questions)}
        lines = "".join(json.dumps({"id": id, "answer": answer}) + "\n" for id, answer in given.items())
        (work / "answers.jsonl").write_text(lines, encoding="utf-8")
        words = [
            "score",
            "--profile",
            "efficientrag",
            "--predictions",
            work / "answers.jsonl",
            "--gold",
            work / "all.json",
            "--json",
        ]
        rows = json.loads(beside.hopeval(arguments, work, *words))["measures"]
        mine = {row["measure"]: row["value"] for row in rows if row["stratum"] == "all"}
        em = numpy.mean([theirs.correctness.exact_match(given[q["_id"]], q["answer"]) for q in questions])
        f1 = numpy.mean([theirs.correctness.f1_score(given[q["_id"]], q["answer"])[0] for q in questions])
        tally.numbers("means of EM by correctness.py", [mine["em"]], [em], bound=1e-9)
        tally.numbers("means of F1 by correctness.py", [mine["f1"]], [f1], bound=1e-9)


def words_apart(chunks, spacy_words, pieces):
    """How many chunks and words of them spaCy cuts otherwise, commas apart."""
    counts = collections.Counter()
    for chunk in chunks:
        rule = [word.text for word in rule_words(chunk["text"]) if word.text != ","]
        other = [word.text for word in spacy_words(chunk["text"]) if word.text != ","]
        counts["chunks"] += 1
        counts["chunks cut otherwise"] += rule != other
        alike = collections.Counter(rule) & collections.Counter(other)
        counts["words of spaCy"] += len(other)
        counts["words that hopeval lacks"] += len(other) - alike.total()
        counts["of these, white space"] += sum(not word.strip() for word in other)
        counts["pieces of white space"] += sum(len(pieces(word)) for word in other if not word.strip())
    return counts


def models(arguments, theirs, work, texts):
    """Their models, and in the work folder hopeval's, with and without `clean_up_tokenization_spaces`."""
    folder = work / "models"
    bert = stand_ins.made(folder / "bert", stand_ins.bert, texts)
    labeler_of, filter_of = (
        theirs.loop.DebertaForSequenceTokenClassification,
        theirs.loop.DebertaV2ForTokenClassification,
    )
    two = {"token_labels": 2, "sequence_labels": 2}
    made = {
        "labeler": stand_ins.made(
            folder / "labeler", lambda at, of: stand_ins.deberta(at, of, labeler_of, two, 6), texts
        ),
        "filter": stand_ins.made(folder / "filter", lambda at, of: stand_ins.deberta(at, of, filter_of, {}, 7), texts),
    }
    for source, target, clean in [
        (bert, "bert-imported", None),
        *[(at, f"{name}-{way}", way == "cleaned") for name, at in made.items() for way in ("kept", "cleaned")],
    ]:
        if not (folder / target).is_dir():
            subprocess.run(
                [str(arguments.hopeval), "model", "import", "--out", str(folder / target), str(source)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            if clean is not None:
                file = folder / target / "tokenizer_config.json"
                settings = json.loads(file.read_text(encoding="utf-8"))
                file.write_text(json.dumps({**settings, "clean_up_tokenization_spaces": clean}), encoding="utf-8")
    opened = (
        labeler_of.from_pretrained(made["labeler"], **two).eval(),
        filter_of.from_pretrained(made["filter"]).eval(),
    )
    tokenizer = lambda clean: transformers.DebertaV2Tokenizer.from_pretrained(
        made["labeler"], clean_up_tokenization_spaces=clean
    )
    return bert, opened, tokenizer


def main():
    parser = beside.arguments_of(__doc__, 300)
    parser.add_argument("--few", type=int, default=20)
    parser.add_argument("--some", type=int, default=100)
    parser.add_argument(
        "--plain-punctuation", action="store_true", help="embed passages with their punctuation, on both sides"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    logging.disable(logging.WARNING)
    work = beside.work_folder(arguments)
    theirs = imported(arguments)
    whole = beside.unpacked(arguments, work)
    questions = whole[: arguments.questions]
    chunks, titles = chunked(theirs, work, questions)
    texts = ["".join(sentences) for question in whole for _, sentences in question["context"]]
    bert, opened, tokenizer = models(arguments, theirs, work, texts[::3])

    template = theirs.qa.PROMPT_MAPPING["hotpotQA"].format(question="{question}", knowledge="{knowledge}")
    (work / "reader.txt").write_text(template + "\n", encoding="utf-8")
    of = lambda name, more="": METHOD.format(name=name, models=work / "models", more=more)
    normal = not arguments.plain_punctuation
    ascii_only = 'punctuation = "ascii"' if normal else ""
    shared = {"models": work / "models", "punctuation": ascii_only}
    job = lambda methods, limit, failed: JOB.format(methods=methods, limit=limit, failed=failed, **shared)
    run = beside.FinishedRun(arguments, work, "efficientrag", job(of("kept") + of("cleaned"), len(questions), 0.0))
    # A T5 takes any length; what it writes has no JSON, which fails after the prompt was sent.
    reading = 'generator = "scorer"\nprompt = { file = "reader.txt" }\ntemperature = 0\nattempts = 1\nmax_tokens = 1'
    few = beside.FinishedRun(arguments, work, "efficientrag-read", job(of("kept", reading), arguments.few, 1.0))

    by_id = {question["_id"]: question for question in questions}
    first = dict(list(by_id.items())[: arguments.some])
    tally, tables, spacy_words = beside.Tally(), [], SpacyWords()
    titled = [{**chunk, "title": titles[chunk["id"]]} for chunk in chunks]
    alike = retriever(theirs, work, "alike", titled, bert, normal)

    def compared(name, label, words, found_in, of_questions):
        loop = Loop(theirs, opened, tokenizer(name == "cleaned"), words)
        compared_run(arguments, work, tally, tables, theirs, run, name, label, loop, found_in, of_questions)

    compared("kept", "kept", rule_words, alike, by_id)
    compared("cleaned", "cleaned", rule_words, alike, first)
    compared(
        "cleaned",
        "titles cut at a colon, as it stands",
        rule_words,
        retriever(theirs, work, "titles", chunks, bert, normal),
        first,
    )
    if not normal:
        ascii_found = retriever(theirs, work, "ascii", titled, bert, True)
        compared("cleaned", "punctuation of ASCII, as it stands", rule_words, ascii_found, first)
    compared("cleaned", "spaCy's words, as it stands", spacy_words, alike, first)
    compared_prompts(tally, theirs, few, "kept", by_id)
    compared_correctness(arguments, work, tally, tables, theirs, whole)

    counts = words_apart(chunks, spacy_words, tokenizer(True).tokenize)
    cut = sum(chunk["title"] != titles[chunk["id"]] for chunk in chunks)
    lines = [
        f"# EfficientRAG beside its authors' program, {len(questions)} questions, {len(chunks):,} chunks",
        "",
        *beside.HEADINGS,
        *tally.rows(),
        "",
    ]
    lines += ["| `evaluation/retrieve.py` on the chunks of | recall | K |", "| --- | ---: | ---: |", *tables, ""]
    lines += [
        "| of the chunks' words | |",
        "| --- | ---: |",
        *[f"| {what} | {count:,} |" for what, count in counts.items()],
    ]
    lines += [f"| titles cut at a colon | {cut:,} |"]
    for what, examples in tally.examples.items():
        if "as it stands" not in what:
            lines += ["", f"{what}: " + "; ".join(map(repr, examples))]
    wrong = [what for what in tally.differ() if not any(expected in what for expected in EXPECTED)]
    beside.finish(arguments, lines, wrong)


if __name__ == "__main__":
    main()
