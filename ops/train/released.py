"""Reads training rows as EfficientRAG's authors release them: JSON Lines, plain or gzip.

A labeler's row has question, chunk, matched, chunk_tokens, labels and tag, a filter's query_info_tokens and query_info_labels.
Neither says which question it was made of, though rows of one question must be on one side of what is held out. So rows that
share a question's text, or of a filter the query before "Info", are of one question.
"""

import gzip
import json
import zlib

TAGS = ("<CONTINUE>", "<FINISH>", "<TERMINATE>")
WORDS = {"chunk_tokens": "labels", "query_info_tokens": "query_info_labels"}


def file_of(path):
    """The file of released rows in the place of `path`, a Parquet file; `None` if there is none."""
    found = (path.with_suffix(ending) for ending in (".jsonl", ".jsonl.gz"))
    return next((file for file in found if file.is_file()), None)


def read(path, columns):
    """The rows of a file, checked, with a `question_id`."""
    opened = gzip.open if path.suffix == ".gz" else open
    rows = []
    try:
        with opened(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    rows.append(checked(line, f"{path}:{number}", columns))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise SystemExit(f"{path}: cannot be read: {error}") from error
    if not rows:
        raise SystemExit(f"{path}: no rows")
    return rows


def checked(line, place, columns):
    """The wanted columns of one row."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise SystemExit(f"{place}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise SystemExit(f"{place}: {type(row).__name__}; allowed: an object")
    row = {"question_id": question_of(row)} | row
    missing = [name for name in columns if row.get(name) is None]
    if missing:
        raise SystemExit(f"{place}: lacks {', '.join(missing)}; it has {', '.join(sorted(row))}")
    for words, labels in WORDS.items():
        if words in columns:
            check_words(row[words], row[labels], f"{place}: {words}, {labels}")
    if "tag" in columns and row["tag"] not in TAGS:
        raise SystemExit(f"{place}: tag: {row['tag']!r}; allowed: {', '.join(TAGS)}")
    return {name: row[name] for name in columns}


def check_words(words, labels, place):
    """Each word has one label."""
    lists = isinstance(words, list) and isinstance(labels, list)
    if not lists or not all(isinstance(word, str) for word in words) or any(label not in (0, 1) for label in labels):
        raise SystemExit(f"{place}: allowed: a list of words, and one of true and false")
    if len(words) != len(labels):
        raise SystemExit(f"{place}: {len(words)} words and {len(labels)} labels; allowed: as many")


def question_of(row):
    """What tells the questions of rows apart."""
    if isinstance(row.get("question"), str):
        return row["question"]
    words = row.get("query_info_tokens")
    if not isinstance(words, list):
        return None
    words = [str(word) for word in words]
    return " ".join(words[: words.index("Info")] if "Info" in words else words)
