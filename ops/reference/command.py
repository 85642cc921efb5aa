"""The command line that the references share: which run and configuration, which questions, where to."""

import argparse
import json

import inputs
import torch


def write_answers(description, kind, made):
    """Answers the questions of a run as its configuration of the method `kind` would, a JSON line each.

    `made(run, corpus, parameters, folders)` gives what answers a question's text with a dictionary.
    """
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--run", required=True)
    parser.add_argument("--configuration", required=True)
    parser.add_argument("--corpus", required=True, help="the folder of the corpus that the run was made over")
    parser.add_argument("--model", action="append", metavar="SERVICE=DIR", help="where a service's model lies, if not where the job says")
    parser.add_argument("--questions", type=int, help="the first so many")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    run, corpus = inputs.Run(arguments.run), inputs.Corpus(arguments.corpus)
    parameters = run.parameters(arguments.configuration, kind)
    answer = made(run, corpus, parameters, inputs.pairs(arguments.model))
    with open(arguments.out, "w", encoding="utf-8") as out:
        for id, text in run.questions[: arguments.questions]:
            out.write(json.dumps({"question": id, **answer(text)}) + "\n")
            out.flush()
