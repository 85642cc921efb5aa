#!/usr/bin/env python3
"""Writes engine/pytext/src/tables.rs: CPython's `str.isalnum` and `str.isspace` as sorted code point ranges.

Usage: python3.11 ops/pytext-tables.py > engine/pytext/src/tables.rs
The tables are CPython 3.11's (Unicode 14), the version the golden vectors were made with.
"""
import sys
import unicodedata

# Longest line of a table.
COLUMNS = 120


def ranges(test):
    found, start = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and test(chr(code))
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            found.append((start, code - 1))
            start = None
    return found


def table(name, doc, test):
    rows = ranges(test)
    print(f"/// {doc}")
    print("#[rustfmt::skip]")
    print(f"pub(crate) const {name}: [(u32, u32); {len(rows)}] = [")
    line = "   "
    for a, b in rows:
        pair = f" (0x{a:x}, 0x{b:x}),"
        if len(line + pair) > COLUMNS:
            print(line)
            line = "   "
        line += pair
    print(line)
    print("];")


print("//! Code point ranges of CPython's character classes. Written by `ops/pytext-tables.py`; do not edit.")
print()
print("/// The Unicode version of the tables.")
print(f'pub const UNICODE_VERSION: &str = "{unicodedata.unidata_version}";')
print()
table("ALNUM", "`str.isalnum`: inclusive ranges beyond ASCII and within.", str.isalnum)
print()
table("SPACE", "`str.isspace`: inclusive ranges.", str.isspace)
