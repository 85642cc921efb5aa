"""Reads runs of a store beside hopeval: listings, commit logs, the state of a run. The scripts of this folder share it.

The rules are those of `results/src/layout.rs` and of "Why a run can be killed at any time" in ARCHITECTURE.md: a record
of a lower generation than the last fence before it is void; the last `Final` record behind the last edit of gold is
the end of a run.
"""

import hashlib
import json
import os
import pathlib
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

# The tables that must not depend on workers, crashes and restarts.
FIGURES = ["outcomes", "scores", "measures"]


def environment(**more):
    """This process's, without settings of hopeval and of AWS."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("HOPEVAL_", "AWS_", "RUST_LOG"))}
    return kept | {"NO_COLOR": "1"} | more


class FolderStore:
    """A store in a folder."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.uri = str(root)

    def list(self, prefix=""):
        """Names below a folder with their sizes, staging files too."""
        found = {}
        folders = [self.root / prefix]
        while folders:
            try:
                entries = list(os.scandir(folders.pop()))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                try:
                    if entry.is_dir():
                        folders.append(entry.path)
                    else:
                        found[os.path.relpath(entry.path, self.root)] = entry.stat().st_size
                except FileNotFoundError:
                    pass  # It was renamed or removed meanwhile.
        return found

    def get(self, name):
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None


# Test servers look for a key, and check no signature.
UNSIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"}


def ask(url, method="GET"):
    """An open answer of a test server."""
    body = None if method == "GET" else b""
    return urllib.request.urlopen(urllib.request.Request(url, method=method, data=body, headers=UNSIGNED),
                                  timeout=60)


class BucketStore:
    """A store in a bucket of a test server."""

    def __init__(self, url, bucket, prefix):
        self.url, self.bucket, self.prefix = url, bucket, prefix
        self.uri = f"s3://{bucket}/{prefix}"

    def list(self, prefix=""):
        whole = f"{self.prefix}/{prefix}"
        found, token = {}, None
        while True:
            query = {"list-type": "2", "prefix": whole} | ({"continuation-token": token} if token else {})
            with ask(f"{self.url}/{self.bucket}?{urllib.parse.urlencode(query)}") as answer:
                document = xml.etree.ElementTree.fromstring(answer.read())
            space = document.tag.partition("}")[0] + "}" if document.tag.startswith("{") else ""
            for entry in document.iter(f"{space}Contents"):
                name = entry.find(f"{space}Key").text.removeprefix(f"{self.prefix}/")
                found[name] = int(entry.find(f"{space}Size").text)
            following = document.find(f"{space}NextContinuationToken")
            token = following.text if following is not None else None
            if not token:
                return found

    def get(self, name):
        try:
            with ask(f"{self.url}/{self.bucket}/{self.prefix}/{name}") as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise


class RunState:
    """What the store says about a run. `records` may be shared between looks, so that each record is read once."""

    def __init__(self, store, run, names=None, records=None):
        folder = f"runs/{run}/"
        names = store.list(folder) if names is None else names
        self.run = run
        self.ordered = f"{folder}making.json" in names
        self.made = f"{folder}run.json" in names
        self.parts = sum(name.startswith(f"{folder}outcomes/") and "#" not in name for name in names)
        self.tables = {name for name in names if name.startswith(f"{folder}tables/")}
        self.copies = sum(name.startswith(f"{folder}final/") and "#" not in name for name in names)
        self.generation, self.records, self.golds = 0, 0, 0
        self.chunks, self.commits, self.commits_of, self.finished = {}, 0, {}, False
        records = {} if records is None else records
        for name in sorted(name for name in names if name.startswith(f"{folder}log/") and "#" not in name):
            if name not in records:
                records[name] = json.loads(store.get(name))
            self.add(records[name])

    def add(self, record):
        self.records += 1
        body, generation = record["body"], record["generation"]
        if body["kind"] == "fence":
            self.generation = max(self.generation, generation)
            return
        if body["kind"] != "gold" and generation < self.generation:
            return
        if body["kind"] == "commit":
            self.commits += 1
            self.commits_of[generation] = self.commits_of.get(generation, 0) + 1
            self.chunks |= {chunk["chunk"]: chunk["outcomes"] for chunk in body["chunks"]}
        elif body["kind"] == "gold":
            self.golds += 1
            self.finished = False
        elif body["kind"] == "final":
            self.finished = True

    @property
    def outcomes(self):
        return sum(self.chunks.values())


def runs(store):
    """Ids of a store's runs, made or ordered, oldest first."""
    return sorted({name.split("/")[1] for name in store.list("runs/")})


def figures(store, run, tables=FIGURES):
    """Digests of final tables by their name; `None` for one that is not there."""
    found = {}
    for table in tables:
        content = store.get(f"runs/{run}/final/{table}.parquet")
        found[table] = None if content is None else hashlib.sha256(content).hexdigest()
    return found
