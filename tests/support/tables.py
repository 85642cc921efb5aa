"""Runs every query of the tables' documentation in a store, as it stands, and prints the results as JSON.

    tables.py ops/docs/tables.md STORE

The fenced blocks `sql` (DuckDB) and `python` (Polars) hold one query on each line. The result is a list of
{"query", "columns", "rows"}; numbers that JSON does not know become strings.
"""

import json
import os
import sys


def queries(path):
    language = None
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("```"):
            language = line[3:] if language is None else None
        elif language in ("sql", "python") and line:
            yield language, line


def main():
    import duckdb
    import polars

    documentation = os.path.abspath(sys.argv[1])
    os.chdir(sys.argv[2])
    results = []
    for language, query in queries(documentation):
        if language == "sql":
            found = duckdb.sql(query)
            columns, rows = found.columns, found.fetchall()
        else:
            found = eval(query, {"polars": polars})
            columns, rows = found.columns, found.rows()
        results.append({"query": query, "columns": columns, "rows": rows})
    print(json.dumps(results, default=str))


main()
