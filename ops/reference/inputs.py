"""What the references read: a run of hopeval with its settings and questions, and the corpus that it was made over.

Nothing here computes anything: passages are numbered as in the corpus, parameters are those that the run recorded, every
default filled in.
"""

import json
import pathlib

import pyarrow.ipc
import pyarrow.parquet


class Corpus:
    """A corpus that hopeval built: titles, texts and links by passage number."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        passages = pyarrow.ipc.open_file(folder / "passages.arrow").read_all()
        self.ids = passages["id"].to_pylist()
        self.titles = passages["title"].to_pylist()
        self.texts = passages["text"].to_pylist()
        rows = pyarrow.ipc.open_file(folder / "links.arrow").read_all()["links"].to_pylist()
        # Each target once, where the text first links to it.
        self.outgoing = [list(dict.fromkeys(link["target"] for link in row)) for row in rows]
        self.incoming = [[] for _ in rows]
        for source, targets in enumerate(self.outgoing):
            for target in targets:
                self.incoming[target].append(source)

    def __len__(self):
        return len(self.ids)


class Run:
    """A finished run: `services` by name, `questions` as (id, text), configurations by name."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        settings = json.loads(pyarrow.parquet.read_table(self.folder / "final/runs.parquet")["settings"][0].as_py())
        self.services = settings["job"]["service"]
        # What the corpus is kept under in the cache; none where the job names a built corpus.
        self.corpus_key = settings.get("corpus_key")
        rows = pyarrow.parquet.read_table(self.folder / "questions.parquet", columns=["index", "id", "text"]).to_pylist()
        self.questions = [(row["id"], row["text"]) for row in sorted(rows, key=lambda row: row["index"])]
        table = pyarrow.parquet.read_table(self.folder / "final/configurations.parquet").to_pylist()
        self.configurations = {row["configuration"]: row for row in table}

    def parameters(self, configuration, kind):
        """The parameters of a configuration, which must be of the method `kind`."""
        if configuration not in self.configurations:
            raise SystemExit(f"no configuration {configuration!r}; the run has {', '.join(self.configurations)}")
        row = self.configurations[configuration]
        if row["method"] != kind:
            raise SystemExit(f"{configuration} is {row['method']}, not {kind}")
        return json.loads(row["parameters"])

    def outcomes(self, configuration):
        """The outcomes of a configuration, by question."""
        path = self.folder / "final/outcomes.parquet"
        rows = pyarrow.parquet.read_table(path, filters=[("configuration", "=", configuration)]).to_pylist()
        return {row["question"]: row for row in rows}


def own_models(run, cache):
    """The folders into which a run's own models (`hopeval:NAME`) were unpacked, by service."""
    folders = {}
    for name, settings in run.services.items():
        model = settings.get("model", "")
        if model.startswith("hopeval:"):
            # One folder for each digest; several mean that programs with other models have used this cache.
            found = sorted(pathlib.Path(cache, "models").glob(model.removeprefix("hopeval:") + "-*"))
            if len(found) != 1:
                raise SystemExit(f"{cache} has {len(found)} models called {model}; one is needed: take another cache")
            folders[name] = str(found[0])
    return folders


def model_folder(service, given):
    """Where the model of a service lies: as `--model NAME=FOLDER` says, or as the job does."""
    name, settings = service
    return pathlib.Path(given.get(name, settings["model"]))


def pairs(arguments):
    """`NAME=VALUE` arguments as a dictionary."""
    return dict(argument.split("=", 1) for argument in arguments or [])
