"""What the comparisons with the authors' programs share: hopeval's runs, checkouts as modules, counts and tables.

The checkouts lie in one folder, under the names of `FOLDERS`. Their files are imported as they are. Packages that they
import and do not need here are stood in for by empty modules; each script says which.
"""

import argparse
import collections
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import types
from math import inf, isnan

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import inputs  # noqa: E402

FOLDERS = {"promptrank": "promptrank", "mdr": "mdr", "efficientrag": "efficientrag", "ircot": "ircot"}
SCORE_BOUND = 1e-4


def arguments_of(description, questions):
    """The command line of all comparisons."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--authors", required=True, type=pathlib.Path, help="the folder of the checkouts")
    parser.add_argument("--hopeval", required=True, type=pathlib.Path, help="the program")
    parser.add_argument(
        "--data", required=True, type=pathlib.Path, help="a folder with dev_1267.json.gz and corpus.jsonl.gz"
    )
    parser.add_argument("--questions", type=int, default=questions)
    parser.add_argument("--work", type=pathlib.Path, help="where runs and models lie; a new folder by default")
    parser.add_argument("--out", type=pathlib.Path, help="the file of the tables")
    return parser


def work_folder(arguments):
    """The folder of runs and models, absolute."""
    work = arguments.work or pathlib.Path(tempfile.mkdtemp(prefix="authors-"))
    work.mkdir(parents=True, exist_ok=True)
    return work.resolve()


def checkout(arguments, name, *folders):
    """The checkout of a repository; its folders come first among those that modules are imported from."""
    root = (arguments.authors / FOLDERS[name]).resolve()
    if not root.is_dir():
        raise SystemExit(f"{root} does not exist: --authors has the folders {', '.join(FOLDERS.values())}")
    sys.path[:0] = [str(root / folder) for folder in folders]
    return root


def stand_in(name, **members):
    """An empty module in place of a package that is not installed or does not matter."""
    module = types.ModuleType(name)
    for member, value in members.items():
        setattr(module, member, value)
    sys.modules[name] = module
    return module


def hopeval(arguments, work, *words):
    """What a command of hopeval prints."""
    places = ["--store", work / "store", "--cache", work / "cache"]
    command = [arguments.hopeval, *words, *places]
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout


def unpacked(arguments, work):
    """HotpotQA's questions as a list; both files lie in the work folder afterwards, for jobs."""
    for source, target in [("dev_1267.json.gz", "questions.json"), ("corpus.jsonl.gz", "passages.jsonl")]:
        (work / target).write_bytes(gzip.decompress((arguments.data / source).read_bytes()))
    return json.loads((work / "questions.json").read_text(encoding="utf-8"))


class FinishedRun:
    """A run of a job, with its corpus and its figures."""

    def __init__(self, arguments, work, name, job):
        file = work / f"{name}.toml"
        file.write_text(job, encoding="utf-8")
        self.arguments, self.work = arguments, work
        self.id = json.loads(hopeval(arguments, work, "run", file, "--json").splitlines()[-1])["run"]
        self.run = inputs.Run(work / "store/runs" / self.id)
        self.corpus = inputs.Corpus(work / "cache/corpora" / self.run.corpus_key)

    def transcripts(self, configuration):
        """The transcript of each question, by its id."""
        asked = [word for id, _ in self.run.questions for word in ("--question", id)]
        shown = hopeval(self.arguments, self.work, "show", self.id, *asked, "--configuration", configuration, "--json")
        entries = map(json.loads, shown.splitlines())
        return {entry["question"]["id"]: entry for entry in entries}

    def measures(self, configuration):
        """Figures over all questions, by measure."""
        rows = json.loads(hopeval(self.arguments, self.work, "show", self.id, "--json"))["measures"]
        return {
            row["measure"]: row["value"]
            for row in rows
            if (row["configuration"], row["stratum"]) == (configuration, "all")
        }

    def model(self, service):
        """The folder of a service's model."""
        own = inputs.own_models(self.run, self.work / "cache")
        return pathlib.Path(own.get(service) or self.run.services[service]["model"])


class Tally:
    """Counts of what is alike, and the greatest difference of numbers."""

    def __init__(self):
        self.seen, self.same = collections.Counter(), collections.Counter()
        self.greatest = collections.defaultdict(float)
        self.examples = collections.defaultdict(list)

    def note(self, what, same, example=None):
        """One more of `what`; the first examples of what differs are kept."""
        self.seen[what] += 1
        self.same[what] += bool(same)
        if not same and example is not None and len(self.examples[what]) < 3:
            self.examples[what].append(example)
        return bool(same)

    def numbers(self, what, found, wanted, bound=SCORE_BOUND):
        """Pairs of numbers, which differ by no more than `bound`."""
        # What is no number is infinitely far from every number.
        offs = [inf if isnan(a - b) else abs(a - b) for a, b in zip(found, wanted)]
        off = max(offs, default=0.0)
        self.greatest[what] = max(self.greatest[what], off)
        return self.note(what, len(found) == len(wanted) and off <= bound, off)

    def rows(self):
        for what, seen in self.seen.items():
            off = f"{self.greatest[what]:.1e}" if what in self.greatest else ""
            yield f"| {what} | {self.same[what]:,} | {seen:,} | {off} |"

    def differ(self, *but):
        """Names of what is not alike everywhere, except those named."""
        return [what for what, seen in self.seen.items() if self.same[what] < seen and what not in but]


HEADINGS = ["| | alike | of | greatest difference |", "| --- | ---: | ---: | ---: |"]


def finish(arguments, lines, wrong):
    """Prints the tables, writes them where they are wanted, and ends with 1 if anything unexpected differs."""
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    for what in wrong:
        print(f"differs: {what}", file=sys.stderr)
    raise SystemExit(1 if wrong else 0)
