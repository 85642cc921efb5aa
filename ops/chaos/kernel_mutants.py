"""Changes the CUDA kernels at random places, one at a time, and tells whether the emulator's tests notice.

Why: the kernels are proven by tests on the CPU before a GPU is seen. A test that passes over a wrong kernel proves
nothing, and nobody knows which tests those are until wrong kernels are made.

A mutant is one change in one file of `engine/cuda/kernels`, drawn by `--seed` from all places of these kinds:

| kind       | change                                                                                     |
| ---------- | ------------------------------------------------------------------------------------------ |
| arithmetic | another of `+ - * / %`, also in `+=`                                                       |
| comparison | `<` and `<=`, `>` and `>=`, `==` and `!=`: the other one; or the direction turned           |
| logic      | `&&` and `||`                                                                              |
| index      | one more or one less within `[..]`                                                         |
| constant   | an integer one more or one less; a float twice as large, or 1 % larger                     |
| extreme    | `min` and `max`                                                                            |
| barrier    | `__syncthreads`, `__syncwarp`, a wait for copies, or the end of their group is left out     |

Comments, directives, the branch for NVRTC, the number of threads in `KERNEL(..)` and sizes of arrays are left alone.

The test binaries of `hopeval-cuda-emulator` that launch the changed kernels run over the changed files
(`EMULATED_KERNELS`), in three orders of threads, until one fails, crashes or does not end in time: then the mutant is
killed. One that does not compile is not counted; one with the same instructions as the original is equivalent; others
survive. Results are JSON Lines; mutants that are in the file are not tried again. `--report` prints the tables of a
file.

    python3 ops/chaos/kernel_mutants.py --folder DIR [--results FILE] [--seed N] [--mutants N] [--minutes N]
        [--sanitized]

With `--sanitized` the survivors in the file of results are tried again under the address sanitizer.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
KERNELS = REPOSITORY / "engine/cuda/kernels"
EMULATOR = REPOSITORY / "engine/cuda/emulator/cpp"

# Test binary and filter, for each file: the operations whose kernels include it.
ATTENTION = [("attention", []), ("conformance", ["bf16::attention"]), ("conformance", ["f32::attention"])]
AVERAGES = [("averages", [])]
PLAIN = ATTENTION[2:] + ATTENTION[:2]
OTHERS = [("conformance", ["--skip", "attention"]), ("log_probs", []), ("draws", [])]
TRIALS = {
    "activation.cu": [("conformance", ["gate", "linear", "project"])],
    "draw.cu": [("draws", []), ("conformance", ["next_tokens"])],
    "log_probs.cu": [("conformance", ["log_probs", "next_tokens"]), ("log_probs", [])],
    "norm.cu": [("conformance", ["norm"])],
    "pool.cu": [("conformance", ["average"]), *AVERAGES],
    "product.cu": [("conformance", ["linear", "project"]), ("conformance", ["log_probs"]), ("log_probs", [])],
    "rotary.cu": [("conformance", ["rotate"])],
    "rows.cu": [("conformance", ["embed", "gather", "scatter"]), *AVERAGES, *OTHERS],
    "attention.cu": ATTENTION,
    "attention_plain.cu": PLAIN,
    "attention.cuh": ATTENTION,
    "mma.cuh": [("attention", []), *OTHERS, *ATTENTION],
    "prelude.cuh": OTHERS + AVERAGES + ATTENTION,
    "vectors.cuh": OTHERS,
}
# Where a header changes nothing, its families need not be compiled to compare their instructions.
INCLUDERS = {"attention.cuh": ["attention", "attention_plain"], "mma.cuh": ["attention", "norm", "activation"],
             "vectors.cuh": ["norm", "activation"]}
# Flags of the emulator's own build that can change an instruction.
FLAGS = ("-std=c++17 -O2 -fPIC -fvisibility=hidden -fno-strict-aliasing -ffp-contract=off -fno-math-errno "
         "-DHOPEVAL_EMULATED -w").split()
# A crash of the allocator, or a loop that allocates, is not to take the machine with it.
MOST_MEMORY = 8 << 30

ARITHMETIC = re.compile(r"(?<=[\w)\]]) ([-+*/%]) (?=[\w(*-])|(?<= )([-+*])=(?= )")
COMPARISON = re.compile(r"(?<= )(<|<=|>|>=|==|!=)(?= )")
LOGIC = re.compile(r"(?<= )(&&|\|\|)(?= )")
INDEX = re.compile(r"[\w)\]>]\[([^\[\]]+)\]")
INTEGER = re.compile(r"(?<![\w.])(\d+)u?(?![\w.])")
HEXADECIMAL = re.compile(r"(?<!\w)0x[0-9a-f]+u?")
FLOAT = re.compile(r"(?<![\w.])(\d+\.\d+(?:e-\d+)?)(f?)(?!\w)")
EXTREME = re.compile(r"\b(min|max|fminf|fmaxf)\(")
BARRIER = re.compile(r"\b(__syncthreads\(\)|__syncwarp\(\)|copy_wait<0>\(\)|copy_commit\(\));")
# A declaration, whose brackets hold a size, and a template's arguments.
DECLARED = re.compile(r"\b(?:float|u32|u16|bool|bf16|T|O|Part|Several<T, V>)(?: \w+|\s\(&\w+\)|)"
                      r"\[[^\[\]]+\](?:\[[^\[\]]+\])*|SHARED\([^;]*;"
                      r"|\b\w+, \w+\[[^\]]+\](?=[;,])|<[\w, ]*>|KERNEL\(\d+\)")
OTHER_COMPARISON = {"<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="], "==": ["!="],
                    "!=": ["=="]}
OTHER_EXTREME = {"min": "max", "max": "min", "fminf": "fmaxf", "fmaxf": "fminf"}


def code_of(text):
    """The text with blanks in place of everything that is left alone, at the same offsets."""
    lines, skipped, depth = [], [], 0
    for line in text.splitlines(keepends=True):
        directive = line.lstrip().startswith("#") or (lines and lines[-1] is None and skipped[-1].endswith("\\\n"))
        word = line.strip()
        if word == "#ifndef HOPEVAL_EMULATED":
            depth = 1
        elif word == "#ifdef HOPEVAL_EMULATED":
            depth = 2
        elif word == "#else" and depth:
            depth = 3 - depth
        elif word == "#endif":
            depth = 0
        lines.append(None if directive or depth == 1 else line)
        skipped.append(line)
    kept = "".join(" " * (len(old) - 1) + "\n" if new is None else new for new, old in zip(lines, skipped))
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])
    kept = re.sub(r"//[^\n]*|\"[^\"\n]*\"", blank, kept)
    return DECLARED.sub(blank, kept)


def changes_of(text):
    """All changes: kind, offset, the characters there, and each of their replacements."""
    code = code_of(text)
    for found in ARITHMETIC.finditer(code):
        at = found.start(1) if found[1] else found.start(2)
        was = found[1] or found[2]
        yield "arithmetic", at, was, [sign for sign in ("+-*/%" if found[1] else "+-*") if sign != was]
    for found in COMPARISON.finditer(code):
        yield "comparison", found.start(), found[1], OTHER_COMPARISON[found[1]]
    for found in LOGIC.finditer(code):
        yield "logic", found.start(), found[1], ["||" if found[1] == "&&" else "&&"]
    for found in INDEX.finditer(code):
        whole = text[found.start(1):found.end(1)]
        yield "index", found.start(1), whole, [f"{whole} + 1", f"{whole} - 1"]
    for found in INTEGER.finditer(code):
        tail = found[0][len(found[1]):]
        more = [int(found[1]) + 1] + ([int(found[1]) - 1] if int(found[1]) else [])
        yield "constant", found.start(), found[0], [f"{number}{tail}" for number in more]
    for found in HEXADECIMAL.finditer(code):
        number = int(found[0].rstrip("u"), 16)
        yield "constant", found.start(), found[0], [f"{number ^ 1:#x}u", f"{number >> 1:#x}u"]
    for found in FLOAT.finditer(code):
        number = float(found[1])
        others = ["1.0"] if number == 0 else [repr(2 * number), repr(1.01 * number)]
        others = [other + found[2] for other in others]
        yield "constant", found.start(), found[0], others
    for found in EXTREME.finditer(code):
        yield "extreme", found.start(1), found[1], [OTHER_EXTREME[found[1]]]
    for found in BARRIER.finditer(code):
        yield "barrier", found.start(1), found[1], [""]


def mutants(seed):
    """Every mutant, in the order of this seed."""
    places = []
    for path in sorted(KERNELS.iterdir()):
        text = path.read_text()
        for kind, at, was, replacements in changes_of(text):
            places.append((path.name, kind, at, was, replacements))
    draw = random.Random(seed)
    draw.shuffle(places)
    for name, kind, at, was, replacements in places:
        text = (KERNELS / name).read_text()
        becomes = draw.choice(replacements)
        line = text.count("\n", 0, at)
        yield {"file": name, "line": line + 1, "column": at - text.rfind("\n", 0, at), "kind": kind, "was": was,
               "becomes": becomes, "text": text.splitlines()[line].strip(),
               "mutant": text[:at] + becomes + text[at + len(was):]}


class Workshop:
    """A folder with a copy of the kernels, what is built of them, and the test binaries."""

    def __init__(self, folder, target):
        self.folder, self.built = folder, folder / "built"
        self.built.mkdir(parents=True, exist_ok=True)
        for path in [*KERNELS.iterdir(), *EMULATOR.glob("*.h")]:
            shutil.copyfile(path, folder / path.name)
        # Copies, so that a build beside this does not change the judges.
        self.binaries = {}
        for name, path in test_binaries(target).items():
            self.binaries[name] = shutil.copy(path, folder / f"judge-{name}")
        for binary, arguments in ATTENTION + OTHERS + AVERAGES:
            outcome, how, seconds = self.trial(binary, arguments, 900)
            if outcome != "passed":
                sys.exit(f"the unchanged kernels fail {binary} {' '.join(arguments)}: {how}")
            print(f"unchanged: {binary} {' '.join(arguments)} passes in {seconds:.0f} s", flush=True)
        self.sound = {path.name for path in self.built.iterdir()}
        # Without the digests of their texts.
        self.units = {path.stem: re.sub(r"0x[0-9a-f]+u, ", "0, ", path.read_text())
                      for path in self.built.glob("*/*.cpp") if path.stem != "emulator"}
        self.families = sorted(self.units)
        self.instructions = {}

    def assembly(self, family):
        """The family's instructions; None if it does not compile."""
        source = self.folder / f"{family}.cpp"
        source.write_text(self.units[family])
        command = [os.environ.get("CXX", "c++"), *FLAGS, "-S", "-o", "-", source]
        ran = subprocess.run(command, capture_output=True, text=True)
        return ran.stdout if ran.returncode == 0 else None

    def is_equivalent(self, mutant):
        """Whether the compiler makes the same instructions of all families that read the changed file."""
        name = mutant["file"]
        families = [name[:-3]] if name.endswith(".cu") else INCLUDERS.get(name, self.families)
        changed = {}
        for family in families:
            changed[family] = self.assembly(family)
        shutil.copyfile(KERNELS / name, self.folder / name)
        for family in families:
            if family not in self.instructions:
                self.instructions[family] = self.assembly(family)
        return all(changed[family] == self.instructions[family] for family in families)

    def trial(self, binary, arguments, limit):
        environment = {**os.environ, "EMULATED_KERNELS": str(self.folder), "RUST_BACKTRACE": "0"}
        start = time.monotonic()
        child = subprocess.Popen(
            [self.binaries[binary], *arguments, "--test-threads=1"], env=environment, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            cwd=REPOSITORY / "engine/cuda/emulator", preexec_fn=None if binary == "sanitized" else
            lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY)))
        try:
            output, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return "killed", f"no end in {limit:.0f} s", time.monotonic() - start
        if child.returncode == 0:
            return "passed", "", time.monotonic() - start
        if child.returncode < 0:
            return "killed", f"signal {-child.returncode}", time.monotonic() - start
        if re.search(r"\bCompile \{", output):
            return "does not compile", (re.findall(r"error: [^\\]*", output) or [""])[0], time.monotonic() - start
        said = [line for line in output.splitlines()
                if re.search(r"panicked|Sanitizer|runtime error|other bits|differ|: kernel |Error", line)]
        after = [line for before, line in zip(output.splitlines(), output.splitlines()[1:]) if "panicked at" in before]
        return "killed", (after or said or output.splitlines()[-1:])[0][:300], time.monotonic() - start

    def judge(self, mutant):
        path = self.folder / mutant["file"]
        path.write_text(mutant["mutant"])
        try:
            return self.verdict(mutant)
        finally:
            shutil.copyfile(KERNELS / mutant["file"], path)
            for made in self.built.iterdir():
                if made.name not in self.sound:
                    shutil.rmtree(made) if made.is_dir() else made.unlink()

    def verdict(self, mutant):
        for binary, arguments in TRIALS[mutant["file"]]:
            outcome, how, seconds = self.trial(binary, arguments, 240)
            if outcome != "passed":
                by = f"{binary} {' '.join(arguments)}".strip()
                return {"outcome": outcome, "by": by, "how": how, "seconds": seconds}
        if self.is_equivalent(mutant):
            return {"outcome": "equivalent", "how": "same instructions"}
        return {"outcome": "survived", "how": ""}

    def judge_sanitized(self, mutant):
        path = self.folder / mutant["file"]
        path.write_text(mutant["mutant"])
        try:
            for test in ["bf16", "f32"]:
                outcome, how, seconds = self.trial("sanitized", ["--exact", test], 900)
                if outcome == "killed":
                    return {"outcome": "killed", "by": f"sanitized {test}", "how": how, "seconds": seconds}
            return {"outcome": "survived", "how": "", "sanitized": True}
        finally:
            shutil.copyfile(KERNELS / mutant["file"], path)
            for made in self.built.iterdir():
                if made.name not in self.sound:
                    shutil.rmtree(made) if made.is_dir() else made.unlink()


def test_binaries(target):
    command = ["cargo", "test", "--offline", "--locked", "-p", "hopeval-cuda-emulator", "--no-run",
               "--message-format=json"]
    environment = {**os.environ, **({"CARGO_TARGET_DIR": str(target)} if target else {})}
    ran = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    messages = [json.loads(line) for line in ran.stdout.splitlines()]
    return {message["target"]["name"]: message["executable"] for message in messages
            if message["reason"] == "compiler-artifact" and message.get("executable")
            and "test" in message["target"]["kind"]}


def key_of(mutant):
    return hashlib.sha256(f"{mutant['file']}\n{mutant['mutant']}".encode()).hexdigest()[:16]


def read_results(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(rows):
    latest = {row["key"]: row for row in rows}
    rows = list(latest.values())
    outcomes = ["killed", "survived", "equivalent", "does not compile"]
    for heading, of in [("kind", lambda row: row["kind"]), ("file", lambda row: row["file"])]:
        print(f"| {heading} | " + " | ".join(outcomes) + " |\n| --- |" + " ---: |" * len(outcomes))
        counts = collections.Counter((of(row), row["outcome"]) for row in rows)
        for group in sorted({of(row) for row in rows}):
            print(f"| {group} | " + " | ".join(str(counts[group, outcome]) for outcome in outcomes) + " |")
        total = collections.Counter(row["outcome"] for row in rows)
        print("| all | " + " | ".join(str(total[outcome]) for outcome in outcomes) + " |\n")
    print("| killed by | mutants |\n| --- | ---: |")
    for by, count in collections.Counter(row["by"] for row in rows if row["outcome"] == "killed").most_common():
        print(f"| {by} | {count} |")
    print("\n| survivor | line | was | becomes |\n| --- | --- | --- | --- |")
    cell = lambda text: f"`{text}`".replace("|", "\\|") if text else "nothing"
    survivors = (row for row in rows if row["outcome"] == "survived")
    for row in sorted(survivors, key=lambda row: (row["file"], row["line"])):
        place = f"{row['file']}:{row['line']}:{row['column']}"
        print(f"| {place} | {cell(row['text'])} | {cell(row['was'])} | {cell(row['becomes'])} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path,
                        help="a folder for the changed kernels and what is built of them")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("kernel-mutants.jsonl"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=200, help="how many that compile, equivalent ones too")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--target", type=pathlib.Path, help="cargo's target folder")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    rows = read_results(given.results)
    if given.report:
        return report(rows)
    if given.folder is None:
        parser.error("--folder is missing")
    workshop = Workshop(given.folder.resolve(), given.target)
    latest = {row["key"]: row for row in rows}
    counted = sum(row["outcome"] != "does not compile" for row in latest.values())
    end = time.monotonic() + 60 * given.minutes
    with given.results.open("a") as results:
        for mutant in mutants(given.seed):
            key = key_of(mutant)
            before = latest.get(key)
            if given.sanitized:
                if before is None or before["outcome"] != "survived" or before.get("sanitized"):
                    continue
            elif before is not None:
                continue
            if time.monotonic() > end or (counted >= given.mutants and not given.sanitized):
                break
            verdict = workshop.judge_sanitized(mutant) if given.sanitized else workshop.judge(mutant)
            row = {"key": key, "seed": given.seed, **{k: v for k, v in mutant.items() if k != "mutant"}, **verdict}
            results.write(json.dumps(row) + "\n")
            results.flush()
            latest[key] = row
            counted += row["outcome"] != "does not compile" and not given.sanitized
            print(f"{counted} {row['file']}:{row['line']} {row['kind']} {row['was']} -> {row['becomes']}: "
                  f"{row['outcome']} {row.get('by', '')} {row['how']}"[:200], flush=True)
    report(list(latest.values()))


if __name__ == "__main__":
    main()
