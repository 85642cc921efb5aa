"""Damages every stored file of a finished and of interrupted runs, one at a time, and tells what became of it.

Four specimens are made once, in `--folder`: a job of eight questions or so over a small generated world, with
retrieval, a dense index, PromptRank over the binary's small models, a selection and an edit of gold.

| specimen   | a run that                                                                       |
| ---------- | -------------------------------------------------------------------------------- |
| finished   | has ended; then gold was edited, so that its tables were written twice           |
| unfinished | was killed after some commits; then gold was edited                              |
| committed  | was killed when all outcomes were committed and no final tables were in the log  |
| making     | was killed while it was being made: its order is stored, its record is not       |

The state of each is asserted from its commit log when it is made, and its files are compared with their digests before
each session, so no finished run passes for an unfinished one. Every damage is done to a copy made of hard links: one
flipped bit, a truncation, a block of zeroes, or appended bytes, with the time of the file kept, as bit rot would. Then
every command that reads such a store is run, and each answer is compared with that over the sound copy:

| class    | every command gave                                                                          |
| -------- | ------------------------------------------------------------------------------------------- |
| found    | the right bytes, or one error that names the file, with exit code 2; at least one error     |
| told     | the right bytes, or an answer with a warning that names the file; no errors                 |
| harmless | the right bytes: exit code, output and tables                                               |
| silent   | some command gave other bytes and did not say so                                            |
| panic    | some command panicked or was ended by a signal                                              |
| hang     | some command did not end in `--deadline` seconds, twice                                     |
| obscure  | some command ended with an error that does not name the file, or with another exit code     |

The last four are failures, and the exit code is 1 if there is one. Results are JSON Lines; damages that are in the file
are not tried again. `--report` prints the table of a file of results.

    python3 ops/chaos/damage.py --binary target/release/hopeval --folder DIR [--results FILE] [--jobs N] [--per-file N]
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import stored_runs
from stored_runs import FolderStore, RunState, environment, figures

JOB = """
name = "damage"
[dataset.world]
questions = 14
passages = 400
seed = 7
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[service.links]
kind = "link_tfidf"
[service.encoder]
kind = "lm"
model = "hopeval:encoder"
threads = 1
[service.dense]
kind = "dense"
encoder = "encoder"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
[service.reader]
kind = "lm"
model = "hopeval:reader"
threads = 1
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.bm25.sweep]
k = [5, 20]
[method.dense]
kind = "one_step"
retriever = "dense"
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "scorer"
pool = 4
first_hops = 2
reader = "reader"
read_paths = 2
temperature = { selection = "temperature" }
[method.oracle]
kind = "oracle"
[tune]
sample = 4
seed = 3
[[tune.select]]
name = "temperature"
method = "promptrank"
parameter = "temperature"
candidates = [1.0, 1.4]
[run]
chunk = 2
in_flight = 1
"""
QUESTIONS, CONFIGURATIONS = 10, 5
PLACES = ["--store", "store", "--cache", "cache"]
# A resumed run's tables that do not depend on its times and generations. The table `errors` is made with the run, and
# no command reads it: its damage is for `store verify` to find.
TABLES = [*stored_runs.FIGURES, "passages", "configurations"]
FAILURES = ["silent", "panic", "hang", "obscure"]
CLASSES = ["found", "told", "harmless", *FAILURES]
WAYS = ["bit", "bit", "bit", "truncation", "zeroes", "appended"]
KINDS = [
    (r"store/runs/.*/log/", "log record"), (r"store/runs/.*/outcomes/", "outcome part"),
    (r"store/runs/.*/tables/", "final table"), (r"store/runs/.*/final/", "copy in final/"),
    (r"store/runs/.*/gold/", "gold edit"), (r"store/runs/.*/questions", "questions"),
    (r"store/runs/.*/run.json", "run record"), (r"store/runs/.*/making.json", "order to make a run"),
    (r"store/runs/.*/live.json", "live table"), (r"store/.*journal/", "journal segment"),
    (r"store/selections/", "selection"), (r"cache/corpora/", "corpus"), (r"cache/indexes/", "index"),
    (r"cache/models/", "unpacked model"), (r"cache/worlds/", "generated world"),
    (r"cache/checks/", "mark of a compared file"),
]


def kind_of(name):
    return next(kind for pattern, kind in KINDS if re.match(pattern, name))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Commands:
    """Runs hopeval in a folder that has `store`, `cache` and `job.toml`."""

    def __init__(self, binary, deadline):
        self.binary, self.deadline = binary, deadline

    def start(self, folder, *arguments):
        command = [self.binary, *arguments, *PLACES]
        return subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def run(self, folder, *arguments, patience=1):
        """Exit code (`None`: it did not end), output, errors; the folder's own name is taken out of both."""
        command = [self.binary, *arguments, *PLACES]
        for _ in range(patience):
            try:
                done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True,
                                      timeout=self.deadline)
            except subprocess.TimeoutExpired:
                continue
            told = [text.decode(errors="replace").replace(str(folder), "FOLDER") for text in (done.stdout, done.stderr)]
            return done.returncode, *told
        return None, "", ""

    def succeed(self, folder, *arguments):
        code, out, said = self.run(folder, *arguments)
        if code != 0:
            sys.exit(f"{arguments} ended with {code} over a sound store: {said}")
        return out


# Specimens


class Specimen:
    """A folder with a store, a cache and a job, and the run in it."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        about = json.loads((folder / "about.json").read_text())
        self.run, self.question = about["run"], about["question"]
        self.files, self.state = about["files"], about["state"]

    def check(self):
        """Asserts that nothing of it has changed, and that its run is in the state of its name."""
        found = {name: digest(self.folder / name) for name in listed(self.folder)}
        if found != self.files:
            changed = sorted(set(found.items()) ^ set(self.files.items()))
            sys.exit(f"the specimen in {self.folder} has changed: {changed[:4]}")
        assert_state(self.name, FolderStore(self.folder / "store"), self.run)


def listed(folder):
    return sorted(f"{top}/{name}" for top in ("store", "cache") for name in FolderStore(folder / top).list())


def assert_state(name, store, run):
    """Exits unless the run is in the state that the specimen's name says, by its log and files. Returns it in words."""
    state = RunState(store, run)
    whole = QUESTIONS * CONFIGURATIONS
    right = {
        "finished": state.made and state.finished and state.outcomes == whole and state.golds == 1,
        "unfinished": state.made and not state.finished and 0 < state.outcomes < whole and not state.tables
        and state.golds == 1,
        "committed": state.made and not state.finished and state.outcomes == whole and state.golds == 0,
        "making": state.ordered and not state.made and state.records == 0,
    }[name]
    words = (f"made {state.made}, records {state.records}, outcomes {state.outcomes} of {whole}, gold edits "
             f"{state.golds}, final {state.finished}")
    if not right:
        sys.exit(f"the run {run} is not {name}: {words}")
    return words


def make_specimens(commands, folder):
    base = folder / "specimens"
    ready = base / "ready"
    names = ["finished", "unfinished", "committed", "making"]
    if not ready.exists():
        shutil.rmtree(base, ignore_errors=True)
        sound = base / "sound"
        sound.mkdir(parents=True)
        (sound / "job.toml").write_text(JOB)
        commands.succeed(sound, "tune", "job.toml")
        world = next(sound.glob("cache/worlds/*/questions.jsonl")).read_text().splitlines()
        for name in names:
            print(f"making the specimen `{name}`", flush=True)
            place = base / name
            question = make(commands, name, sound, place, world)
            store = FolderStore(place / "store")
            run = stored_runs.runs(store)[-1]
            about = {"run": run, "question": question, "state": assert_state(name, store, run),
                     "files": {name: digest(place / name) for name in listed(place)}}
            (place / "about.json").write_text(json.dumps(about))
        ready.write_text("")
    specimens = [Specimen(name, base / name) for name in names]
    for specimen in specimens:
        specimen.check()
    return specimens


def edited(world, questions):
    """Two of the run's questions, one with another answer, one with the other's gold passages."""
    rows = [json.loads(line) for line in world]
    rows = [row for row in rows if row["id"] in questions][:2]
    rows[0]["answers"] = ["Nobody Inparticular"]
    rows[1]["gold"] = rows[1]["candidates"][-2:]
    rows[1]["gold"] = [{"id": passage["id"], "title": passage["title"]} for passage in rows[1]["gold"]]
    return "".join(json.dumps(row) + "\n" for row in rows)


def make(commands, name, sound, place, world):
    """Makes the store of a specimen in `place`. Returns a question of its run."""
    moments = {
        "unfinished": lambda state: state.commits >= 2,
        "committed": lambda state: state.outcomes == QUESTIONS * CONFIGURATIONS,
        "making": lambda state: state.ordered,
    }
    for _ in range(400):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(sound, place)
        store = FolderStore(place / "store")
        before = stored_runs.runs(store)
        if name == "finished":
            commands.succeed(place, "run", "job.toml")
        elif not kill_at(commands, store, place, before, moments[name]):
            continue
        run = next(run for run in stored_runs.runs(store) if run not in before)
        if name == "making":
            state = RunState(store, run)
            if state.ordered and not state.made:
                return None
            continue
        exported = commands.succeed(place, "export", run, "--format", "qrels")
        questions = list(dict.fromkeys(line.split()[0] for line in exported.splitlines()))
        if name != "committed":
            (place / "edited.jsonl").write_text(edited(world, questions))
            commands.succeed(place, "gold", "apply", run, "edited.jsonl")
        state = RunState(store, run)
        if name == "finished" or not state.finished and (name == "unfinished") == (state.outcomes < 50):
            # Staging files of the kill would be cleared by the resumed run.
            for staged in [staged for staged in store.list() if "#" in staged]:
                (place / "store" / staged).unlink()
            return questions[0]
    sys.exit(f"400 kills did not make the specimen `{name}`")


def kill_at(commands, store, place, before, reached):
    """Starts the job, stops it at the moment, and kills it. Whether the moment came."""
    child = commands.start(place, "run", "job.toml", "--workers", "1")
    records, run = {}, None
    try:
        while child.poll() is None:
            run = run or next((run for run in os.listdir(place / "store/runs") if run not in before), None)
            if run and reached(RunState(store, run, records=records)):
                child.send_signal(signal.SIGSTOP)
                return True
        return False
    finally:
        child.kill()
        child.communicate()


# Damages


def damages(specimen, per_file, seed):
    """Each with a key that does not depend on the session."""
    for name in sorted(specimen.files):
        size = (specimen.folder / name).stat().st_size
        # Runs of the search are read by nobody: their segments and the selection are.
        if name.startswith("store/runs/") and f"/{specimen.run}/" not in name or size == 0:
            continue
        # Each specimen has the same cache.
        for number in range(per_file if name.startswith("store/") else -(-per_file // 3)):
            choice = random.Random(f"{seed} {specimen.name} {kind_of(name)} {name} {number}")
            way = choice.choice(WAYS)
            yield {"specimen": specimen.name, "file": name, "number": number, "seed": seed} | \
                {"way": way} | choose(choice, way, size)


def choose(choice, way, size):
    if way == "bit":
        return {"at": choice.randrange(size), "bit": choice.randrange(8)}
    if way == "truncation":
        return {"bytes": choice.choice([0, size // 2, size - 1, choice.randrange(size)])}
    if way == "zeroes":
        length = choice.choice([16, 64, 512])
        return {"at": choice.randrange(max(1, size - length)), "bytes": length}
    return {"bytes": choice.choice([1, 8, 64, 4096]), "zero": choice.random() < 0.3, "of": choice.randrange(1 << 30)}


def damaged(content, damage):
    """The damaged bytes; `None` where the damage would change nothing."""
    changed = bytearray(content)
    way = damage["way"]
    if way == "bit":
        changed[damage["at"]] ^= 1 << damage["bit"]
    elif way == "truncation":
        del changed[damage["bytes"]:]
    elif way == "zeroes":
        end = min(damage["at"] + damage["bytes"], len(changed))
        changed[damage["at"]:end] = bytes(end - damage["at"])
    elif damage["zero"]:
        changed += bytes(damage["bytes"])
    else:
        changed += random.Random(damage["of"]).randbytes(damage["bytes"])
    return None if changed == content else bytes(changed)


def copy_with(specimen, place, damage):
    """A copy of hard links, with the one damaged file. Whether the damage changed something."""
    shutil.rmtree(place, ignore_errors=True)
    for name in specimen.files:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(specimen.folder / name, place / name)
    (place / "job.toml").write_text(JOB)
    if damage is None:
        return True
    path, whole = place / damage["file"], specimen.folder / damage["file"]
    changed = damaged(whole.read_bytes(), damage)
    if changed is None:
        return False
    path.unlink()
    path.write_bytes(changed)
    about = whole.stat()
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    return True


def readings(specimen):
    """The commands that read a store, by name."""
    run, made = specimen.run, specimen.name != "making"
    yield "ls", ["ls", "--json"]
    if made:
        yield "show", ["show", run, "--json"]
        yield "show --interval", ["show", run, "--interval"]
        yield "rescore", ["rescore", run, "--json"]
        yield "export qrels", ["export", run, "--format", "qrels"]
        yield "show --question", ["show", run, "--question", specimen.question, "--json"]
    if specimen.name == "finished":
        yield "show --against", ["show", run, "--against", "bm25{k=20}"]
        yield "costs", ["costs", run, "--json"]
        yield "export trec", ["export", run, "--format", "trec", "--configuration", "bm25{k=20}"]
        yield "export csv", ["export", run, "--format", "csv", "--configuration", "promptrank"]


def observe(commands, specimen, place):
    """The results of all commands over a copy: for each name, (code, what is compared, errors)."""
    found = {}
    for name, arguments in readings(specimen):
        found[name] = commands.run(place, *arguments, patience=2)
    store = FolderStore(place / "store")
    code, out, said = commands.run(place, "store", "verify", "--json", patience=2)
    found["store verify"] = (code, "", said) if code is None or code not in (0, 2) else (code, out, said)
    # These two write: they come last.
    code, _, said = commands.run(place, "resume", specimen.run, "--json", patience=2)
    found["resume"] = code, figures(store, specimen.run, TABLES) if code == 0 else {}, said
    before = stored_runs.runs(store)
    code, _, said = commands.run(place, "run", "job.toml", "--json", patience=2)
    new = [run for run in stored_runs.runs(store) if run not in before]
    found["run"] = code, figures(store, new[-1], TABLES) if code == 0 and new else {}, said
    return found


def judge(sound, found, name):
    """The class of one command's answer, and whether the file was named."""
    code, answer, said = found
    whole_code, whole, _ = sound
    # The last parts of the name: stores and caches are named in full or not, and one file of a folder stands for it.
    tail = name.split("/", 1)[1]
    stem = pathlib.PurePath(tail)
    names = [tail, stem.name] + ([stem.parent.name] if name.startswith("cache/") else [])
    # Damage to the name of a seal makes its document look like one of an earlier version, and `store verify` says so.
    named = any(text in said or text in str(answer) for text in names) or "carry no checks" in said
    if code is None:
        return "hang"
    if code < 0 or code == 101 or code >= 128 or "panicked at" in said:
        return "panic"
    if code == whole_code and answer == whole:
        return "told" if said and named else "harmless"
    if code == 0:
        return "told" if named else "silent"
    return "found" if code == 2 and named else "obscure"


def classify(verdicts):
    for failure in ("panic", "hang", "silent", "obscure"):
        if failure in verdicts:
            return failure
    return next((kind for kind in ("found", "told") if kind in verdicts), "harmless")


def attempt(commands, specimen, sound, place, damage):
    if not copy_with(specimen, place, damage):
        return damage | {"kind": kind_of(damage["file"]), "class": "unchanged"}
    begun = time.monotonic()
    found = observe(commands, specimen, place)
    verdicts = {name: judge(sound[name], found[name], damage["file"]) for name in found}
    row = damage | {"kind": kind_of(damage["file"]), "class": classify(verdicts.values()),
                    "verify": verdicts.pop("store verify"), "seconds": round(time.monotonic() - begun, 2),
                    "verdicts": {name: verdict for name, verdict in verdicts.items() if verdict != "harmless"}}
    if row["class"] in FAILURES:
        bad = [name for name in found if judge(sound[name], found[name], damage["file"]) in FAILURES]
        row["said"] = {name: [found[name][0], found[name][2][:600]] for name in bad}
    return row


def references(commands, specimens, folder):
    """What all commands say over sound copies: twice, since only what is reproducible can be compared."""
    whole = {}
    for specimen in specimens:
        twice = []
        for _ in range(2):
            place = folder / "work" / f"sound-{specimen.name}"
            copy_with(specimen, place, None)
            twice.append(observe(commands, specimen, place))
            shutil.rmtree(place)
        for name, (code, answer, said) in twice[0].items():
            if twice[1][name][:2] != (code, answer) or code != 0:
                sys.exit(f"{name} over a sound copy of `{specimen.name}`: {code}, or not reproducible: {said}")
        whole[specimen.name] = twice[0]
    # A run that was interrupted ends as one that was not, with the same edit.
    ends = [tuple(whole[name]["resume"][1][table] for table in TABLES) for name in ("finished", "unfinished")]
    ends += [tuple(whole[name]["run"][1][table] for table in TABLES) for name in whole]
    ends += [tuple(whole[name]["resume"][1][table] for table in TABLES) for name in ("committed", "making")]
    if len(set(ends[:2])) != 1 or len(set(ends[2:])) != 1 or None in ends[0] + ends[2]:
        sys.exit(f"sound runs differ: {ends}")
    return whole


def report(rows):
    """A Markdown table: classes by kind of file; what `store verify` missed among the files of the store."""
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        if row["class"] == "unchanged":
            continue
        for kind in (row["kind"], "all"):
            counts[kind]["tried"] += 1
            counts[kind][row["class"]] += 1
            # It reads stores, not caches.
            counts[kind]["verified"] += row["file"].startswith("store/") and row["verify"] == "found"
            counts[kind]["of"] += row["file"].startswith("store/")
    print(f"| file | tried | {' | '.join(CLASSES)} | found by `store verify` |")
    print("| --- |" + " ---: |" * (len(CLASSES) + 2))
    for kind in [kind for _, kind in KINDS] + ["all"]:
        count = counts[kind]
        if count:
            figures = " | ".join(str(count[name]) for name in CLASSES)
            verified = f"{count['verified']} of {count['of']}" if count["of"] else "–"
            print(f"| {kind} | {count['tried']} | {figures} | {verified} |")
    ways = collections.Counter(row["way"] for row in rows if row["class"] != "unchanged")
    print(f"\nby damage: {', '.join(f'{way} {count}' for way, count in sorted(ways.items()))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, help="for specimens and copies, on one file system")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("damage.jsonl"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--per-file", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, help="so many damages in this session")
    parser.add_argument("--only", default="", help="specimens, kinds and files with this text in `SPECIMEN KIND FILE`")
    parser.add_argument("--deadline", type=float, default=60)
    parser.add_argument("--report", action="store_true", help="only print the table of the results")
    arguments = parser.parse_args()
    old = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    rows = [json.loads(line) for line in old]
    if not arguments.report:
        if not arguments.binary or not arguments.folder:
            parser.error("--binary and --folder are needed")
        session(arguments, rows)
    report(rows)
    failed = [row for row in rows if row["class"] in FAILURES]
    sys.exit(1 if failed else 0)


def session(arguments, rows):
    commands = Commands(arguments.binary.resolve(), arguments.deadline)
    folder = arguments.folder.resolve()
    specimens = {specimen.name: specimen for specimen in make_specimens(commands, folder)}
    for specimen in specimens.values():
        print(f"{specimen.name}: {len(specimen.files)} files; {specimen.state}", flush=True)
    sound = references(commands, list(specimens.values()), folder)
    done = {(row["specimen"], row["file"], row["number"], row["seed"]) for row in rows}
    plan = [damage for specimen in specimens.values()
            for damage in damages(specimen, arguments.per_file, arguments.seed)
            if (damage["specimen"], damage["file"], damage["number"], damage["seed"]) not in done
            and arguments.only in f"{damage['specimen']} {kind_of(damage['file'])} {damage['file']}"]
    # In an order that has every kind early.
    random.Random(arguments.seed).shuffle(plan)
    plan = plan[:arguments.limit]
    writing = threading.Lock()
    places = collections.deque(folder / "work" / str(number) for number in range(arguments.jobs))
    begun = time.monotonic()
    with arguments.results.open("a") as out, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        def one(damage):
            place = places.popleft()
            try:
                row = attempt(commands, specimens[damage["specimen"]], sound[damage["specimen"]], place, damage)
            finally:
                places.append(place)
            with writing:
                rows.append(row)
                print(json.dumps(row), file=out, flush=True)
                if row["class"] in FAILURES:
                    print(f"{row['class']}: {row['specimen']} {row['file']} {row['way']} {row['verdicts']}", flush=True)
                if len(rows) % 250 == 0:
                    print(f"{len(rows)} damages, {time.monotonic() - begun:.0f} s", flush=True)
        for done in concurrent.futures.as_completed([pool.submit(one, damage) for damage in plan]):
            done.result()
    for specimen in specimens.values():
        specimen.check()
    shutil.rmtree(folder / "work", ignore_errors=True)


if __name__ == "__main__":
    main()
