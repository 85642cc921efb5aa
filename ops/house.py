#!/usr/bin/env python3
"""Measures how the Rust tree reads: files, functions, circles of imports, service kinds, names, English of comments.

Why: "the code became clearer" is an opinion. A reading of the tree took these figures by hand, and changes of structure
promise to improve them. One script takes them of any tree, always in the same way.

What: a Markdown table of one tree, or of two side by side. Test code is left out unless a row says otherwise: every
file below a folder `tests`, `benches` or `examples`, every `tests.rs`, every module that is declared under
`#[cfg(test)]`, and every item under that attribute.

* A function is one `fn` with a body, nested ones too. Its length counts from the line of `fn` to its closing brace. The
  percentile p of n sorted numbers is the one at floor(p * n).
* A module is a file: `foo.rs` and `foo/bar.rs` are two, a parent like any other; `lib.rs` and `main.rs` are none. An
  import is a path that begins with `crate::`, `super::` or `self::`, in a `use` or in the code, or a `use` whose path
  begins with a module that the file itself declares. It leads to the longest prefix that is a module. A circle is a
  strongly connected component. The number after the semicolon also counts paths in the code that begin with a module
  that the file itself declares.
* A service variant is named on each line that has `Service::Variant` or `Engine::Variant`, in any file.
* A kind of service is named outside its files on each line of `jobs/src` and `cluster/src` that has its string
  ("bm25"), a path through its module (`bm25::..`, also in a `use`; in `cluster/src`, whose commands have the same
  names, `services::bm25`), or one of the variants above, in files other than its own (KINDS below). Lines
  `bm25 => Type(..)` of the registry (REGISTRY below) are counted by themselves.
* A doc comment is a run of `///` lines or of `//!` lines. It opens with a question word if its first word is What,
  Where, Who, Whom, Whose or Which.
* A participle type is a type whose name is one word that ends in -ed, or one of the irregular ones of PARTICIPLES.
* Arguments are counted without `self`.
* A line of a document is one of a Markdown file, without tables, code blocks and lines of a single word or link.

Arguments:
  TREE                  a folder; without one, the repository that this file is in
  --against REV-or-FOLDER
                        a tree to put before it: a folder, or a revision of TREE's repository, read by `git archive`
  --list                also functions over 50 lines, files over 500, circles, and each place that names a kind
  --check               exits with 1 if a figure is beyond its bound (BOUNDS and CIRCLE_BOUNDS below), and says which

Only the standard library is used.
"""

import argparse
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

# Kind of service: its files, below jobs/src/services, besides KIND.rs and KIND/. Three kinds once shared a file.
KINDS = {
    "bm25": ["sparse.rs"],
    "tfidf": ["sparse.rs"],
    "link_tfidf": ["sparse.rs"],
    "shuffled_links": ["links.rs"],
    "dense": [],
    "lm": [],
}
# The one place that lists all kinds, and what a line of it looks like.
REGISTRY = "jobs/src/services.rs"
REGISTERED = re.compile(r"^\s*(\w+) => [A-Z]\w*[({]")

PARTICIPLES = """
Asked Begun Bought Bound Broken Brought Built Caught Chosen Done Drawn Driven Fallen Fed Felt Found Frozen
Given Gone Grown Heard Held Hidden Kept Known Laid Learnt Led Left Lent Lost Made Meant Met Paid Risen Said
Seen Sent Shown Sold Spent Spoken Stolen Struck Swept Taken Taught Thought Thrown Told Took Torn Understood
Won Worn Woven Written
""".split()

# Figure: (its bound, whether a larger figure is better). A change that must exceed one changes it here, with a reason in its commit.
BOUNDS = {
    "median letters of a type's name": (8, True),
    "one-word functions, %": (60.0, False),
    "participle types": (10, False),
    "doc comments that open with a question word, %": (3.0, False),
    "relative words in 100 words of comments": (2.5, False),
    "code lines over 120 columns": (0, False),
    "comment lines over 120 columns": (0, False),
    "document lines over 120 columns": (0, False),
}
# Largest import circle of each crate; a crate that is not listed has none.
CIRCLE_BOUNDS = {
    "cluster": 5,
    "engine/checkpoint": 2,
    "engine/corpus": 2,
    "engine/cuda": 4,
    "engine/cuda/emulator": 2,
    "engine/device": 4,
    "engine/index": 4,
    "engine/lm": 10,
    "jobs/datasets": 14,
    "jobs/methods": 5,
    "jobs/world": 2,
    "results": 8,
    "results/measures": 3,
}

# Results of a day are kept as they were written.
DATED = re.compile(r"20\d\d-\d\d-\d\d")

QUESTION_WORDS = {"what", "where", "who", "whom", "whose", "which"}
RELATIVE_WORDS = {"what", "which", "that", "who", "whom", "whose", "whoever", "whatever"}

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<raw>\b(?:b|c)?r(?P<fence>\#*)".*?"(?P=fence))
      | (?P<string>\b[bc]?"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*")
      | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\\n])')""",
    re.VERBOSE | re.DOTALL,
)
TEST_ATTRIBUTE = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]")
MODULE_AFTER_ATTRIBUTES = re.compile(
    r"(?:\s*#\[[^\]]*\])*\s*(?:pub(?:\([^)]*\))?\s+)?(?:mod\s+(\w+)\s*;)?"
)
SELF = re.compile(r"&?\s*('\w+\s+)?(mut\s+)?self(\s*:.*)?", re.DOTALL)
FUNCTION = re.compile(r"\bfn\s+(\w+)")
TYPE = re.compile(r"^(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|union|trait|type)\s+(\w+)", re.MULTILINE)
USE = re.compile(r"\buse\s+([^;]+);")
INLINE_PATH = re.compile(r"(?<![\w:])(?:crate|super|self)(?:::\w+)+")
VISIBILITY = re.compile(r"\bpub\(in [^)]*\)")
DECLARED = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", re.MULTILINE)
RELATIVE_PATH = re.compile(r"(?<![\w:])([a-z]\w*)(?:::\w+)+")
VARIANT = re.compile(r"\b(?:Service|ServiceEntry|Engine)::([A-Z]\w*)")
# A table declares its files by a macro: `file::Type,` or `file => Type(..),`.
TABLE = re.compile(r"\$\(\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+\$\w+\s*;")
TABLE_LINE = re.compile(r"^\s+(\w+)\s*(?:::\s*\w+|=>\s*\w+.*),$", re.MULTILINE)


def blank(text: str) -> str:
    """Spaces in place of `text`, with its line ends."""
    return "".join(c if c == "\n" else " " for c in text)


@dataclass
class Function:
    """A function with a body."""

    name: str
    path: str
    line: int
    lines: int
    arguments: int


@dataclass
class Source:
    """A file of Rust, taken apart."""

    path: str
    text: str
    # Without comments; without comments and strings. Both have the text's length, and neither has the items of tests.
    code: str = ""
    bare: str = ""
    comments: list[tuple[int, str]] = field(default_factory=list)
    test_modules: list[str] = field(default_factory=list)

    def __post_init__(self):
        code, bare, at = [], [], 0
        for token in TOKEN.finditer(self.text):
            between, found = self.text[at : token.start()], token.group()
            spaces = blank(found)
            code += [between, spaces if token.lastgroup == "comment" else found]
            bare += [between, spaces]
            if token.lastgroup == "comment":
                self.comments.append((token.start(), found))
            at = token.end()
        self.code = "".join(code) + self.text[at:]
        self.bare = "".join(bare) + self.text[at:]
        self.starts = [0] + [match.end() for match in re.finditer("\n", self.text)]
        self.leave_out_tests()

    def leave_out_tests(self):
        """Blanks items under `#[cfg(test)]`, and notes the modules that are declared so."""
        for attribute in reversed(list(TEST_ATTRIBUTE.finditer(self.bare))):
            rest = MODULE_AFTER_ATTRIBUTES.match(self.bare[attribute.end() :])
            end = attribute.end() + rest.end()
            if rest.group(1):
                self.test_modules.append(rest.group(1))
            else:
                opening = self.body(end)
                end = self.closing(opening) + 1 if opening is not None else self.bare.find(";", end) + 1
            self.comments = [(at, text) for at, text in self.comments if not attribute.start() <= at < end]
            for name in ("code", "bare"):
                text = getattr(self, name)
                setattr(self, name, text[: attribute.start()] + blank(text[attribute.start() : end]) + text[end:])

    def line(self, at: int) -> int:
        return bisect_right(self.starts, at)

    def body(self, at: int) -> int | None:
        """The brace that opens the body of the item whose head goes on at `at`; None where `;` ends it."""
        depth = 0
        for match in re.compile(r"[()\[\]{;]").finditer(self.bare, at):
            found = match.group()
            if found in "([":
                depth += 1
            elif found in ")]":
                depth -= 1
            elif depth == 0:
                return match.start() if found == "{" else None
        return None

    def closing(self, opening: int) -> int:
        """The brace that closes the one at `opening`."""
        depth = 0
        for match in re.compile(r"[{}]").finditer(self.bare, opening):
            depth += 1 if match.group() == "{" else -1
            if depth == 0:
                return match.start()
        raise ValueError(f"{self.path}:{self.line(opening)}: a brace that nothing closes")

    def functions(self):
        for match in FUNCTION.finditer(self.bare):
            opening = self.body(match.end())
            if opening is None:
                continue
            first, last = self.line(match.start()), self.line(self.closing(opening))
            yield Function(match.group(1), self.path, first, last - first + 1, self.arguments(match.end()))

    def arguments(self, at: int) -> int:
        """Arguments of the function whose name ends at `at`, without `self`."""
        at = self.bare.index("(", at) if self.bare[at] != "<" else self.bare.index("(", self.angle(at))
        depth, parts, start = 0, [], at + 1
        for match in re.compile(r"->|=>|[()\[\]{}<>,]").finditer(self.bare, at):
            found = match.group()
            if found in "([{<":
                depth += 1
            elif found in ")]}>":
                depth -= 1
            if depth == 0 or (found == "," and depth == 1):
                parts.append(self.bare[start : match.start()].strip())
                start = match.end()
            if depth == 0:
                break
        return sum(bool(part) and not SELF.fullmatch(part) for part in parts)

    def angle(self, at: int) -> int:
        """The end of the generics that begin at `at`."""
        depth = 0
        for match in re.compile(r"->|[<>]").finditer(self.bare, at):
            depth += {"<": 1, ">": -1}.get(match.group(), 0)
            if depth == 0:
                return match.end()
        raise ValueError(f"{self.path}:{self.line(at)}: generics that nothing closes")

    def docs(self):
        """The doc comments: (line, text)."""
        block, kind, next_line = [], None, 0
        for at, text in self.comments + [(len(self.text), "")]:
            line, found = self.line(at), text[:3] if text[:3] in ("///", "//!") and text[:4] != "////" else None
            if block and (found != kind or line != next_line):
                yield start, "\n".join(block)
                block = []
            if found:
                start = start if block else line
                block.append(text[3:].strip())
                kind, next_line = found, line + 1


def is_test_file(path: Path) -> bool:
    return bool({"tests", "benches", "examples"} & set(path.parts[:-1])) or path.name == "tests.rs"


def listed_files(tree: Path, pattern: str) -> list[Path]:
    """The files that git tracks or would track; in a folder that git does not know, all but build outputs."""
    command = ["git", "-C", str(tree), "ls-files", "--cached", "--others", "--exclude-standard", pattern]
    listed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, text=True)
    if listed.returncode == 0:
        return sorted({Path(line) for line in listed.stdout.splitlines() if (tree / line).is_file()})
    relative = (path.relative_to(tree) for path in tree.rglob(pattern))
    return sorted(path for path in relative if "target" not in path.parts)


def documents(tree: Path) -> list[Path]:
    """All Markdown files of a tree that git tracks, without dated results, two generated tables, and the cards of models."""
    return [
        path
        for path in listed_files(tree, "*.md")
        if not DATED.search(path.name) and path.name not in ("registers.md", "tables.md") and "files" not in path.parts
    ]


def long_lines(tree: Path, path: Path) -> list[str]:
    """Lines of a document over 120 columns."""
    found, code = [], False
    for number, line in enumerate((tree / path).read_text(encoding="utf-8").split("\n"), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and len(line) > 120 and not line.lstrip().startswith(("|", "#")) and " " in line.strip(" *"):
            found.append(f"{path}:{number} ({len(line)})")
    return found


def read(tree: Path) -> tuple[list[Source], list[Source]]:
    """The sources of a tree: those of the program, and those of tests."""
    sources, tests = [], []
    for path in listed_files(tree, "*.rs"):
        source = Source(path.as_posix(), (tree / path).read_text(encoding="utf-8"))
        (tests if is_test_file(path) else sources).append(source)
    declared = set()
    for source in sources:
        path = Path(source.path)
        folder = path.parent if path.stem in ("lib", "main") else path.parent / path.stem
        declared |= {(folder / name).as_posix() for name in source.test_modules}

    def is_declared(source):
        path = Path(source.path).with_suffix("")
        return any(folder.as_posix() in declared for folder in (path, *path.parents))

    tests += [source for source in sources if is_declared(source)]
    return [source for source in sources if not is_declared(source)], tests


def use_paths(tree: str, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of a `use`, its braces multiplied out."""
    paths, part, depth = [], "", 0
    for c in tree + ",":
        depth += {"{": 1, "}": -1}.get(c, 0)
        if c != "," or depth:
            part += c
            continue
        head, brace, inner = part.strip().partition("{")
        segments = tuple(word.split()[0] for word in head.split("::") if word.strip())
        if brace:
            paths += use_paths(inner.rsplit("}", 1)[0], prefix + segments)
        elif segments:
            paths.append(prefix + segments)
        part = ""
    return paths


def imports(sources: list[Source], inline_children: bool) -> dict[str, dict[str, set[str]]]:
    """Of each crate, the modules that each module imports from."""
    crates = defaultdict(dict)
    for source in sources:
        folder, found, inside = source.path.partition("/src/")
        if found:
            module = tuple(Path(inside).with_suffix("").parts)
            crates[folder][() if module in (("lib",), ("main",)) else module] = source
    graphs = {}
    for folder, modules in crates.items():
        graph = {"::".join(module): set() for module in modules if module}
        for module, source in modules.items():
            if not module:
                continue
            paths = [path for use in USE.findall(source.bare) for path in use_paths(use)]
            # A visibility is no import.
            rest = VISIBILITY.sub("pub", USE.sub("", source.bare))
            paths += [tuple(path.split("::")) for path in INLINE_PATH.findall(rest)]
            if inline_children:
                paths += [tuple(match.group().split("::")) for match in RELATIVE_PATH.finditer(rest)]
            own = set(DECLARED.findall(source.bare))
            if inline_children and TABLE.search(source.bare):
                files = {file for file in TABLE_LINE.findall(source.bare) if module + (file,) in modules}
                own |= files
                paths += [(file,) for file in files]
            for path in paths:
                if path[0] == "crate":
                    at = path[1:]
                elif path[0] in ("self", "super"):
                    up = sum(1 for segment in path if segment == "super")
                    at = module[: len(module) - up] + tuple(s for s in path if s not in ("super", "self"))
                elif path[0] in own:
                    at = module + path
                else:
                    continue
                while at and at not in modules:
                    at = at[:-1]
                if at and at != module:
                    graph["::".join(module)].add("::".join(at))
        graphs[folder] = graph
    return graphs


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module, the largest first."""

    def reached(start, edges):
        found, queue = {start}, [start]
        for node in queue:
            for following in edges[node] - found:
                found.add(following)
                queue.append(following)
        return found

    back = {node: {other for other in graph if node in graph[other]} for node in graph}
    left, components = set(graph), []
    for node in sorted(graph):
        if node in left:
            component = reached(node, graph) & reached(node, back)
            left -= component
            if len(component) > 1:
                components.append(sorted(component))
    return sorted(components, key=lambda c: (-len(c), c))


def kind_of(variant: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", variant).lower()


def service_sites(sources: list[Source]):
    """Lines that name a variant; lines that name a kind outside its files; lines of the registry that name one."""
    variants, outside, registry = [], [], []
    services = "jobs/src/services/"
    strings = {kind: re.compile(rf'"{kind}"') for kind in KINDS}
    modules = {kind: re.compile(rf"(?<!\w){kind}::\w|::{kind}\b(?!::|\w|\()") for kind in KINDS}
    foreign = {kind: re.compile(rf"\bservices::{kind}\b") for kind in KINDS}
    for source in sources:
        here = source.path.startswith(("jobs/src/", "cluster/src/"))
        inside = source.path.removeprefix(services) if source.path.startswith(services) else ""
        for number, (code, bare) in enumerate(zip(source.code.split("\n"), source.bare.split("\n")), 1):
            named = {kind_of(variant) for variant in VARIANT.findall(bare)}
            if named:
                variants.append((source.path, number, sorted(named)))
            if not here:
                continue
            named |= {kind for kind, pattern in strings.items() if pattern.search(code)}
            paths = modules if source.path.startswith("jobs/src/") else foreign
            named |= {kind for kind, pattern in paths.items() if pattern.search(bare)}
            own = {k for k in named if inside in (f"{k}.rs", *KINDS.get(k, [])) or inside.startswith(f"{k}/")}
            registered = REGISTERED.match(bare) if source.path == REGISTRY else None
            if registered and registered.group(1) in KINDS:
                registry.append((source.path, number, [registered.group(1)]))
            elif named - own:
                outside.append((source.path, number, sorted(named - own)))
    return variants, outside, registry


def at(numbers: list[int], share: float) -> int:
    numbers = sorted(numbers)
    return numbers[min(len(numbers) - 1, int(share * len(numbers)))] if numbers else 0


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def in_files(sites) -> str:
    return f"{len(sites)} in {len({site[0] for site in sites})} files"


class House:
    """The figures of one tree."""

    def __init__(self, tree: Path):
        self.sources, self.tests = read(tree)
        self.lengths = {source.path: source.text.count("\n") for source in self.sources}
        self.test_lengths = {source.path: source.text.count("\n") for source in self.tests}
        self.functions = [function for source in self.sources for function in source.functions()]
        self.circles = {crate: circles(graph) for crate, graph in imports(self.sources, False).items()}
        self.wide_circles = {crate: circles(graph) for crate, graph in imports(self.sources, True).items()}
        self.modules = {crate: len(graph) for crate, graph in imports(self.sources, False).items()}
        self.variants, self.outside, self.registry = service_sites(self.sources)
        self.long_document_lines = [place for path in documents(tree) for place in long_lines(tree, path)]
        # Figures that have a bound, by its name; the methods below note them while they make their rows.
        self.bounded: dict[str, float] = {}

    def beyond_bounds(self) -> list[str]:
        """What exceeds its bound, one line each."""
        self.rows()
        found = []
        for name, (bound, larger_is_better) in BOUNDS.items():
            figure = self.bounded[name]
            if figure < bound if larger_is_better else figure > bound:
                limit = "at least" if larger_is_better else "at most"
                found.append(f"{name}: {figure:g}, allowed is {limit} {bound:g}")
        for crate, largest in self.circles.items():
            size = len(largest[0]) if largest else 0
            if size > CIRCLE_BOUNDS.get(crate, 0):
                members = ", ".join(largest[0])
                found.append(
                    f"largest import circle of {crate}: {size} files, allowed are {CIRCLE_BOUNDS.get(crate, 0)}: {members}"
                )
        return found

    def rows(self) -> list[tuple[str, str]]:
        parts = (self.sizes, self.circle_rows, self.service_rows, self.names, self.english, self.habits)
        return [row for part in parts for row in part()]

    def sizes(self):
        lengths, functions = list(self.lengths.values()), [function.lines for function in self.functions]
        tests = list(self.test_lengths.values())
        over = [length for length in functions if length > 50]
        yield "files", str(len(lengths))
        yield "lines: median / p90 / longest", f"{at(lengths, 0.5)} / {at(lengths, 0.9)} / {max(lengths)}"
        yield "files over 500 lines", str(sum(length > 500 for length in lengths))
        yield "files over 800 lines", str(sum(length > 800 for length in lengths))
        yield "test files; over 500; over 800 lines", "; ".join(
            str(number) for number in (len(tests), sum(n > 500 for n in tests), sum(n > 800 for n in tests))
        )
        percentiles = " / ".join(str(at(functions, share)) for share in (0.5, 0.9, 0.99))
        yield "functions; lines: median / p90 / p99 / longest", f"{len(functions)}; {percentiles} / {max(functions)}"
        yield "functions over 50 lines", f"{len(over)} ({percent(len(over), len(functions))})"
        arguments = [function.arguments for function in self.functions]
        yield "arguments: more than 5; more than 7", f"{sum(n > 5 for n in arguments)}; {sum(n > 7 for n in arguments)}"

    def circle_rows(self):
        for crate in sorted(self.modules):
            largest = [len(found[crate][0]) if found[crate] else 0 for found in (self.circles, self.wide_circles)]
            if largest[1] or crate == "jobs":
                name = f"largest circle in `{crate}/src`; with children's names in the code"
                yield name, f"{largest[0]} of {self.modules[crate]}; {largest[1]}"

    def service_rows(self):
        yield "service variants named", in_files(self.variants)
        yield "kinds named outside their files and the registry", in_files(self.outside)
        kinds = Counter(kind for _, _, named in self.outside for kind in named)
        yield "most of one kind", ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(1)) or "0"
        yield "lines of the registry that name a kind", str(len(self.registry))

    def names(self):
        types = [name for source in self.sources for name in TYPE.findall(source.bare)]
        functions = [function.name for function in self.functions]
        participles = [name for name in types if re.fullmatch(r"[A-Z][a-z]+[^e\W]ed", name) or name in PARTICIPLES]
        seen = Counter(types)
        median = at([len(name) for name in types], 0.5)
        self.bounded["median letters of a type's name"] = median
        self.bounded["participle types"] = len(participles)
        yield "types; median name, letters", f"{len(types)}; {median}"
        yield "participle types", str(len(participles))
        shared = sum(count for count in seen.values() if count > 1)
        yield "types that share their name with another", percent(shared, len(types))
        single = sum("_" not in name.strip("_") for name in functions)
        letters = at([len(name) for name in functions], 0.5)
        self.bounded["one-word functions, %"] = 100 * single / max(1, len(functions))
        yield "function names: median letters; one word", f"{letters}; {percent(single, len(functions))}"

    def english(self):
        docs = [text for source in self.sources for _, text in source.docs()]
        words = [re.findall(r"[A-Za-z][\w'-]*", text) for text in docs]
        opening = Counter(found[0].lower() for found in words if found)
        questions = sum(opening[word] for word in QUESTION_WORDS)
        share = percent(questions, len(docs))
        self.bounded["doc comments that open with a question word, %"] = 100 * questions / max(1, len(docs))
        yield "doc comments; opening with a question word", f"{len(docs)}; {questions} ({share})"
        yield "of these with What", str(opening["what"])
        yield "doc comments of 3 words or less", percent(sum(len(found) <= 3 for found in words), len(docs))
        comments = [text for source in self.sources for _, text in source.comments]
        every = [word.lower() for text in comments for word in re.findall(r"[A-Za-z][\w'-]*", text)]
        relative = sum(word in RELATIVE_WORDS for word in every)
        self.bounded["relative words in 100 words of comments"] = 100 * relative / max(1, len(every))
        yield "relative words in 100 words of comments", f"{100 * relative / max(1, len(every)):.1f}"
        code = over_100 = over_120 = comment_over_120 = 0
        for source in self.sources:
            for line, bare in zip(source.text.split("\n"), source.code.split("\n")):
                if bare.strip():
                    code += 1
                    over_100 += len(line) > 100
                    over_120 += len(line) > 120
                elif line.lstrip().startswith("//"):
                    comment_over_120 += len(line) > 120
        yield "code lines over 100 columns; over 120", f"{percent(over_100, code)}; {over_120}"
        yield "comment lines over 120 columns", str(comment_over_120)
        yield "document lines over 120 columns", str(len(self.long_document_lines))
        self.bounded["code lines over 120 columns"] = over_120
        self.bounded["comment lines over 120 columns"] = comment_over_120
        self.bounded["document lines over 120 columns"] = len(self.long_document_lines)

    def habits(self):
        code = "\n".join(source.bare for source in self.sources)
        unwraps = len(re.findall(r"[.]unwrap[(][)]", code))
        expects = sum(len(re.findall(r"[.]expect[(]\s*\"", source.code)) for source in self.sources)
        yield "`unwrap()` / `expect(\"..\")`", f"{unwraps} / {expects}"
        attributes = [len(re.findall(rf"#!?\[{word}\(", code)) for word in ("allow", "expect")]
        yield "`#[allow]`; `#[expect]`", f"{attributes[0]}; {attributes[1]}"
        yield "files whose first line is `//!`", str(sum(source.text.startswith("//!") for source in self.sources))
        notes = (text for source in self.sources for _, text in source.comments)
        yield "TODO, FIXME, XXX", str(sum(bool(re.search(r"\b(TODO|FIXME|XXX)\b", text)) for text in notes))

    def details(self) -> str:
        lines = ["", "Functions over 50 lines:", ""]
        long = sorted((f for f in self.functions if f.lines > 50), key=lambda f: (-f.lines, f.path, f.line))
        lines += [f"* {function.lines} {function.path}:{function.line} `{function.name}`" for function in long]
        lines += ["", "Files over 500 lines (tests in brackets):", ""]
        over = sorted(((n, path) for path, n in self.lengths.items() if n > 500), reverse=True)
        lines += [f"* {n} {path}" for n, path in over]
        over = sorted(((n, path) for path, n in self.test_lengths.items() if n > 500), reverse=True)
        lines += [f"* [{n} {path}]" for n, path in over]
        lines += ["", "Circles:", ""]
        for crate, found in sorted(self.circles.items()):
            lines += [f"* `{crate}/src`, {len(circle)}: {', '.join(circle)}" for circle in found]
        lines += ["", "Kinds named outside their files and the registry:", ""]
        lines += [f"* {path}:{number} {', '.join(named)}" for path, number, named in self.outside]
        lines += ["", "Document lines over 120 columns:", ""]
        lines += [f"* {place}" for place in self.long_document_lines]
        return "\n".join(lines)


def unpacked(revision: str, tree: Path, folder: Path) -> Path:
    """A revision of the repository of `tree`, in `folder`."""
    command = ["git", "-C", str(tree), "archive", revision]
    archive = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if archive.returncode != 0:
        sys.exit(f"{revision}: neither a folder nor a revision")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def table(columns: list[tuple[str, list[tuple[str, str]]]]) -> str:
    """The figures of each column side by side; a figure that a column lacks is a dash."""
    names = list(dict.fromkeys(name for _, rows in columns for name, _ in rows))
    figures = [dict(rows) for _, rows in columns]
    lines = ["| figure | " + " | ".join(title for title, _ in columns) + " |", "| --- |" + " ---: |" * len(columns)]
    lines += [f"| {name} | " + " | ".join(column.get(name, "–") for column in figures) + " |" for name in names]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog="The rules are at the head of this file."
    )
    parser.add_argument("tree", nargs="?", type=Path, default=REPOSITORY)
    parser.add_argument("--against", metavar="REV-or-FOLDER")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    after = House(arguments.tree)
    if arguments.check:
        beyond = after.beyond_bounds()
        print("\n".join(beyond), file=sys.stderr if beyond else sys.stdout)
        print(f"{len(beyond)} figures beyond their bounds (BOUNDS in ops/house.py)" if beyond else "all figures within their bounds")
        return 1 if beyond else 0
    columns = [("figures" if arguments.against is None else "after", after.rows())]
    if arguments.against is not None:
        with tempfile.TemporaryDirectory() as folder:
            other = Path(arguments.against)
            other = other if other.is_dir() else unpacked(arguments.against, arguments.tree, Path(folder))
            columns.insert(0, (f"before ({arguments.against})", House(other).rows()))
    print(table(columns))
    if arguments.list:
        print(after.details())
    return 0


if __name__ == "__main__":
    sys.exit(main())
