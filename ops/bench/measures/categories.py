#!/usr/bin/env python3
"""Writes results/measures/src/has_answer/categories.rs: Unicode categories that CPython knows and Rust's std does not.

Usage: python3.11 ops/bench/measures/categories.py > results/measures/src/has_answer/categories.rs
CPython 3.11 has Unicode 14, the version of `hopeval-pytext`'s tables.
"""
import sys
import unicodedata


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


def rows(items, per_line):
    for i in range(0, len(items), per_line):
        print("    " + " ".join(items[i : i + per_line]))


print("//! Unicode categories as code point tables. Written by `ops/bench/measures/categories.py`; do not edit.")
print()
marks = ranges(lambda c: unicodedata.category(c)[0] in "PS")
print("/// Punctuation and symbols (`P*`, `S*`): inclusive ranges.")
print("#[rustfmt::skip]")
print(f"pub(crate) const PUNCTUATION_OR_SYMBOL: [(u32, u32); {len(marks)}] = [")
rows([f"(0x{a:x}, 0x{b:x})," for a, b in marks], 5)
print("];")
print()
zeros = [c for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) == "Nd" and unicodedata.digit(chr(c)) == 0]
print("/// The zero of each run of ten decimal digits (`Nd`).")
print("#[rustfmt::skip]")
print(f"pub(crate) const DECIMAL_ZEROS: [u32; {len(zeros)}] = [")
rows([f"0x{c:x}," for c in zeros], 12)
print("];")
