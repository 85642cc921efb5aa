#!/usr/bin/env python3
"""Writes engine/index/src/tfidf/tables.rs: Unicode general categories as sorted code point ranges.

Usage: python3.11 engine/index/tables.py > engine/index/src/tfidf/tables.rs
"""
import sys
import unicodedata

# Longest line of a table.
COLUMNS = 120


def ranges(categories):
    found, start = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code))[0] in categories
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            found.append((start, code - 1))
            start = None
    return found


def table(name, doc, categories):
    rows = ranges(categories)
    print(f"\n/// {doc}: inclusive ranges.")
    print("#[rustfmt::skip]")
    print(f"pub(super) const {name}: [(u32, u32); {len(rows)}] = [")
    line = "   "
    for a, b in rows:
        pair = f" (0x{a:x}, 0x{b:x}),"
        if len(line + pair) > COLUMNS:
            print(line)
            line = "   "
        line += pair
    print(line)
    print("];")


print(f"//! Unicode {unicodedata.unidata_version} general categories. Written by `engine/index/tables.py`; do not edit.")
table("ALPHANUMERIC", "Letters, numbers and marks: `[\\p{L}\\p{N}\\p{M}]`", "LNM")
table("BLANK", "Separators and others: `[\\p{Z}\\p{C}]`", "ZC")
table("PUNCTUATION", "`\\p{P}`", "P")
