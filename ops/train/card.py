"""Writes a model's card from its training log and what was measured.

    card.py --model NAME --folder DIR --note FILE --command TEXT

The card says what the model is, what it was trained on and by which command, for how long, with which losses, how well it does
(the note), and where it falls short (the note). `DIR` holds the model's files and its log.
"""

import argparse
import json
from pathlib import Path

WHAT = {
    "scorer": "A T5 that says how likely a question is after a path of passages (PromptRank), and that generates.",
    "labeler": "EfficientRAG's labeler: which words of a chunk to keep, and whether the chunk is of use. DeBERTa-v2, two tags.",
    "filter": "EfficientRAG's filter: which words of the query and of what was found make the next query. DeBERTa-v2.",
    "reader": "An extractive reader with yes and no as spans and a rank head, as MDR's. DeBERTa-v2.",
    "encoder": "The encoder of dense retrieval: a BERT whose mean state is the vector, compared by inner product.",
    "writer": "A T5 that quotes passages, reasons in steps and answers (IRCoT, MIGRES, FSM, one-step reading).",
    "reranker": "A cross-encoder: one logit, above 0 where a text holds a fact that a query asks for. DeBERTa-v2.",
}


def described(stage):
    first, steps = stage[0], [line for line in stage if "loss" in line]
    last = next((line for line in stage if line.get("finished")), steps[-1])
    settings = ", ".join(f"{name} {value}" for name, value in first["settings"].items() if value not in ([], 0.0))
    shown = steps[:: max(1, len(steps) // 6)]
    shown += [] if shown[-1] is steps[-1] else [steps[-1]]
    counted = next(name for name in ("rows", "questions", "states") if name in first)
    processes = first.get("processes", 1)
    threads = "one thread" if processes == 1 else f"{processes} processes of one thread"
    return [
        f"{first[counted]:,} {counted}, seed {first['seed']}, {threads}, {last.get('steps', last.get('step')):,} steps,"
        f" {last['cpu_seconds']:.0f} processor seconds{'' if processes == 1 else ' of each'}. Settings: {settings}.",
        "",
        "| step | loss | processor seconds |",
        "| ---: | ---: | ---: |",
        *(f"| {line['step']} | {line['loss']:.3f} | {line['cpu_seconds']:.0f} |" for line in shown),
        "",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, choices=WHAT)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--note", required=True, type=Path, help="Markdown: figures and limits")
    parser.add_argument("--command", required=True)
    options = parser.parse_args()
    lines = [json.loads(line) for line in (options.folder / "training.jsonl").read_text().splitlines()]
    stages = []
    for line in lines:
        # A folder that was trained on (`--resume`) has the logs of all its stages, one after the other.
        stages += [[]] if "settings" in line else []
        stages[-1].append(line)
    last = stages[-1][0]
    size = (options.folder / "model.safetensors").stat().st_size
    text = [
        f"# {options.model}",
        "",
        WHAT[options.model],
        "",
        f"{last['parameters']:,} parameters, f16, {size:,} bytes. Trained on generated worlds (`--split train`) only: it"
        " proves plumbing and",
        "algorithms, and says nothing about real text.",
        "",
        "## Training",
        "",
        "```sh",
        options.command,
        "```",
        "",
        *(line for stage in stages for line in described(stage)),
        "The whole log is `training.jsonl`. `ops/train/README.md` has the commands for worlds, tokenizer and rows.",
        "",
        options.note.read_text().strip(),
        "",
    ]
    (options.folder / "README.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
