#!/usr/bin/env python3
"""Writes the Parquet files of `parquet.rs` as pyarrow does, which the Hugging Face hub's tools use.

Why: hopeval must read files of another writer, and the codecs of others. Run it by `python3 make.py` in this folder,
with pyarrow; the files that are here came from version 26.0.1.
"""

import datetime

import pyarrow as pa
import pyarrow.parquet as pq

SENTENCES = ["The chapel has a ceiling.", " It is high."]
ROWS = [
    {
        "qid": 1,
        "query": "Who painted the ceiling?",
        "golds": ["Michelangelo", "Buonarroti"],
        "positives": {"title": ["Chapel", "Painter"], "text": ["The chapel has a ceiling.", "He painted it."]},
        "meta": {"hops": 2, "domain": "art"},
        "passages": [{"name": "Chapel", "sents": SENTENCES}, {"name": "Painter", "sents": ["He painted it."]}],
        "score": 0.5,
        "made": datetime.datetime(2026, 1, 2),
    },
    {
        "qid": 2,
        "query": "Wer malte das Bild, ü?",
        "golds": [],
        "positives": {"title": ["Bild"], "text": ["x"]},
        "meta": {"hops": None, "domain": "Kunst"},
        "passages": [],
        "score": None,
        "made": None,
    },
    {
        "qid": 3,
        "query": "Is there a third question?",
        "golds": ["yes"],
        "positives": {"title": [], "text": []},
        "meta": None,
        "passages": None,
        "score": 1.5,
        "made": None,
    },
]
TEXTS = pa.list_(pa.string())
SCHEMA = pa.schema(
    [
        ("qid", pa.int64()),
        ("query", pa.string()),
        ("golds", TEXTS),
        ("positives", pa.struct([("title", TEXTS), ("text", TEXTS)])),
        ("meta", pa.struct([("hops", pa.int32()), ("domain", pa.dictionary(pa.int32(), pa.string()))])),
        ("passages", pa.list_(pa.struct([("name", pa.large_string()), ("sents", TEXTS)]))),
        ("score", pa.float64()),
        ("made", pa.timestamp("us")),
    ]
)

table = pa.Table.from_pylist(ROWS, schema=SCHEMA)
for codec in ["none", "snappy", "gzip", "zstd", "lz4"]:
    pq.write_table(table, f"{codec}.parquet", compression=codec)
pq.write_table(table, "pages-2.parquet", compression="snappy", data_page_version="2.0", use_dictionary=False)
deltas = {
    "qid": "DELTA_BINARY_PACKED",
    "query": "DELTA_BYTE_ARRAY",
    "golds.list.element": "DELTA_LENGTH_BYTE_ARRAY",
    "positives.title.list.element": "DELTA_BYTE_ARRAY",
    "positives.text.list.element": "DELTA_LENGTH_BYTE_ARRAY",
    "meta.hops": "DELTA_BINARY_PACKED",
    "passages.list.element.name": "DELTA_BYTE_ARRAY",
}
pq.write_table(table, "deltas.parquet", compression="snappy", use_dictionary=False, column_encoding=deltas)
pq.write_table(table, "checksums.parquet", compression="snappy", row_group_size=1, write_page_checksum=True)
