#!/usr/bin/env python3
"""The input and the answers of MDR's reader: its authors' program beside hopeval's `read_form = "mdr"`.

Why: PromptRank's answers (tables 2 and 3) are those of MDR's reader, whose weights know one form of context alone.

What: hopeval reads the best paths of HotpotQA's questions, whose sentences are those of the dataset. For each path that
it read, the checkout of facebookresearch/multihop_dense_retrieval makes the input: `qa_dataset.QAEvalDataset` with
`BertTokenizer` of transformers 2.11, which its requirements name. A reader of random weights, `QAModel`, is opened by
both. Compared are

* the number of tokens;
* hopeval's score and rank of the best span on *their* ids (`hopeval lm read`) with those that its run recorded: the
  same to the last bit only if the same tokens were read;
* their model's logits of spans and rank with hopeval's, to 1e-4;
* the text of the best span (`get_final_text`), and the answer to each question by `eval_final` (weight 0.8 of the
  rank).

    mdr_input.py --authors DIR --hopeval PROGRAM --data ../shared/data/hotpotqa --transformers-2 DIR
                 [--questions 100] [--work DIR] [--out FILE]

`DIR/mdr` is the checkout. `--questions` are read ten paths each. `--transformers-2` is where
`pip install --no-deps --target DIR transformers==2.11.0` has put it; just its tokenizer is used.

Stood in for: tensorboard, ujson (json). `eval_final` is given `time`, which it uses and does not import.

Needs torch, transformers 4.44, tokenizers, sentencepiece, safetensors, six, regex, pyarrow. Exits with 1 on a
difference.
"""

import argparse
import copy
import functools
import importlib
import json
import logging
import subprocess
import time
import types

import beside
import safetensors.torch
import stand_ins
import torch
import transformers

PATHS, SEQUENCE, QUESTION, SPAN, WEIGHT = 10, 512, 64, 30, 0.8

JOB = """
name = "authors-mdr"
[dataset]
format = "hotpotqa"
questions = "questions.json"
gold = "title"
limit = {limit}
[corpus]
source = "contexts"
links = "mentions"
[service.tfidf]
kind = "tfidf"
fields = "text"
normalisation = "none"
[service.link_tfidf]
kind = "link_tfidf"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
[service.reader]
kind = "lm"
model = "{reader}"
read_tokens = 512
question_tokens = 64
[method.read]
kind = "promptrank"
as = "code"
retriever = "tfidf"
link_ranker = "link_tfidf"
scorer = "scorer"
pool = 10
reader = "reader"
read_paths = {paths}
lambda_on = "rank"
lambda = {weight}
[measures]
recall_at = [2]
"""


def imported(arguments):
    """The modules of the checkout, and the tokenizer of transformers 2."""
    beside.checkout(arguments, "mdr", "scripts", ".")
    beside.stand_in("torch.utils.tensorboard", SummaryWriter=None)
    beside.stand_in("ujson", load=json.load, loads=json.loads, dump=json.dump, dumps=json.dumps)
    old = beside.stand_in("transformers_2", __version__="2.11.0")
    # Under a name of its own, beside the transformers of today; the package's own first file imports all models.
    old.__path__ = [str(arguments.transformers_2.resolve() / "transformers")]
    tokenization = importlib.import_module("transformers_2.tokenization_bert")
    import train_qa
    from mdr.qa import qa_dataset, qa_model

    train_qa.time, train_qa.tqdm = time, functools.partial(train_qa.tqdm, disable=True)
    return types.SimpleNamespace(
        tokenizer=tokenization.BertTokenizer, dataset=qa_dataset.QAEvalDataset, collate=qa_dataset.qa_collate,
        model=qa_model.QAModel, evaluate=train_qa.eval_final,
    )  # fmt: skip


def reader(theirs, arguments, work, texts):
    """Their reader with random weights, and the folder in which hopeval opens it."""
    encoder, folder = stand_ins.made(work / "models/electra", stand_ins.electra, texts), work / "models/reader"
    config = transformers.AutoConfig.from_pretrained(encoder)
    # Their pooler is told by the name of the model.
    model = stand_ins.randomise(
        theirs.model(config, argparse.Namespace(model_name=str(encoder), sp_weight=0, sp_pred=False)), 4
    )
    if not folder.is_dir():
        whole = work / "models/reader-weights"
        whole.mkdir(exist_ok=True)
        named = lambda name: "electra." + name.removeprefix("encoder.") if name.startswith("encoder.") else name
        state = {named(name): tensor.contiguous() for name, tensor in model.state_dict().items()}
        safetensors.torch.save_file(state, whole / "model.safetensors", metadata={"format": "pt"})
        settings = {**config.to_dict(), "architectures": ["ElectraForQuestionAnswering"]}
        (whole / "config.json").write_text(json.dumps(settings), encoding="utf-8")
        for name in ("vocab.txt", "tokenizer_config.json"):
            (whole / name).write_bytes((encoder / name).read_bytes())
        subprocess.run([str(arguments.hopeval), "model", "import", "--out", str(folder), str(whole)], check=True)
    return model, folder, encoder


def reads(transcript):
    """The paths that were read, as (passages, tokens, span)."""
    for step in transcript["rounds"]:
        for request, response in zip(step["requests"], step["responses"]):
            if "Read" in request["ask"]:
                parts = [part["content"] for part in request["ask"]["Read"]["context"]["parts"]]
                passages = [part["Passage"]["passage"] for part in parts if "Passage" in part]
                yield passages, response["prompt"]["tokens"], response["result"]["Ok"]["Read"][0]


def on_their_ids(arguments, folder, items):
    """What hopeval's reader finds in their ids, by the command that takes ids."""
    lines = []
    for number, item in enumerate(items):
        ids, types_ = (
            item["encodings"]["input_ids"].view(-1).tolist(),
            item["encodings"]["token_type_ids"].view(-1).tolist(),
        )
        lines.append(json.dumps({"id": str(number), "ids": ids, "token_type_ids": types_}))
    command = [str(arguments.hopeval), "lm", "read", "--model", str(folder), "--max-answer-tokens", str(SPAN + 1)]
    shown = subprocess.run(command, input="\n".join(lines) + "\n", check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in shown.splitlines()]


def main():
    parser = beside.arguments_of(__doc__, 100)
    parser.add_argument("--transformers-2", required=True, type=beside.pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    logging.disable(logging.WARNING)
    work = beside.work_folder(arguments)
    theirs = imported(arguments)
    questions = {question["_id"]: question for question in beside.unpacked(arguments, work)}
    texts = ["".join(sentences) for question in questions.values() for _, sentences in question["context"]]
    model, folder, encoder = reader(theirs, arguments, work, texts[::3])
    run = beside.FinishedRun(
        arguments, work, "mdr", JOB.format(limit=arguments.questions, reader=folder, paths=PATHS, weight=WEIGHT)
    )
    sentences = {}
    for question in questions.values():
        sentences.update({(title, "".join(parts)): parts for title, parts in question["context"]})

    corpus, transcripts, outcomes = run.corpus, run.transcripts("read"), run.run.outcomes("read")
    found, asked = [], []
    for id, text in run.run.questions:
        of_question = list(reads(transcripts[id]))
        found += [(id, tokens, span) for _, tokens, span in of_question]
        passage = lambda p: {"title": corpus.titles[p], "sents": sentences[corpus.titles[p], corpus.texts[p]]}
        chains = [[passage(p) for p in passages] for passages, *_ in of_question]
        asked.append({"question": text, "_id": id, "candidate_chains": chains})
    tokenizer = theirs.tokenizer(str(encoder / "vocab.txt"))
    data = theirs.dataset(tokenizer, copy.deepcopy(asked), SEQUENCE, QUESTION)
    items = [data[number] for number in range(len(data))]

    tally = beside.Tally()
    for number, ((_, tokens, span), item, line) in enumerate(zip(found, items, on_their_ids(arguments, folder, items))):
        ids = item["encodings"]["input_ids"].view(-1)
        tally.note("tokens of the input", len(ids) == tokens, (len(ids), tokens))
        tally.numbers(
            "score and rank of their ids, to the last bit",
            [span["score"], span["rank"]],
            [line["score"], line["rank"]],
            bound=0.0,
        )
        types_, inside_paragraphs = item["encodings"]["token_type_ids"].view(1, -1), item["paragraph_mask"][None]
        batch = {"input_ids": ids[None], "attention_mask": torch.ones_like(ids)[None], "token_type_ids": types_}
        outputs = model({**batch, "paragraph_mask": inside_paragraphs})
        inside = item["paragraph_mask"].bool()
        for name in ("start_logits", "end_logits"):
            own = torch.tensor(line[name])[inside]
            tally.numbers("logits of their model", own.tolist(), outputs[name][0][inside].tolist())
        tally.numbers("rank of their model", [line["rank"]], outputs["rank_score"].view(-1).tolist())
    loader = lambda of: torch.utils.data.DataLoader(of, batch_size=8, collate_fn=theirs.collate)
    settings = argparse.Namespace(sp_pred=False, max_ans_len=SPAN, save_prediction="")
    # Each path by itself, then all of a question.
    alone = [
        {**row, "_id": f"{row['_id']} {at}", "candidate_chains": [chain]}
        for row in copy.deepcopy(asked)
        for at, chain in enumerate(row["candidate_chains"])
    ]
    spans = theirs.evaluate(
        settings, model, loader(theirs.dataset(tokenizer, alone, SEQUENCE, QUESTION)), weight=WEIGHT, gpu=False
    )["answer"]
    for row, (_, _, span) in zip(alone, found):
        tally.note(
            "text of the best span", spans[row["_id"]] == span["text"].strip(), (spans[row["_id"]], span["text"])
        )
    answers = theirs.evaluate(
        settings,
        model,
        loader(theirs.dataset(tokenizer, copy.deepcopy(asked), SEQUENCE, QUESTION)),
        weight=WEIGHT,
        gpu=False,
    )["answer"]
    for id, answer in answers.items():
        tally.note("answers of questions", answer == outcomes[id]["answer"].strip(), (answer, outcomes[id]["answer"]))
    cut = sum(len(item["context_processed"]["all_doc_tokens"]) > len(item["wp_tokens"]) for item in items)
    lines = [
        f"# MDR's reader beside its authors' program, {len(items):,} inputs",
        "",
        f"{cut:,} inputs are cut at {SEQUENCE} tokens.",
        "",
        *beside.HEADINGS,
        *tally.rows(),
    ]
    for what, examples in tally.examples.items():
        lines += ["", f"{what}: " + "; ".join(map(repr, examples))]
    beside.finish(arguments, lines, tally.differ())


if __name__ == "__main__":
    main()
