#!/usr/bin/env python3
"""Computes the Pareto fronts of a report's run anew, in Polars from its tables, and compares them with the page.

Why: a front decides which configurations a reader looks at. Here it is computed by other means: means from the Parquet
tables, and the front by its definition, each point against each other one.

What: a finished run with its page (`hopeval report RUN --out PAGE`, one run alone). For every table of the page that
shows a front, the mean cost and the measure of each configuration are computed from `costs`, `measures`, `latencies`
and `configurations`. The page must have the same configurations, figures (to a relative 1e-12) and front. Controls and
unknown costs are on no front. Cost of latency is checked for runs of the mode `throughput`.

    python3 ops/report/front.py STORE/runs/RUN PAGE

Needs Polars. Exits with 1 if the page differs, 2 if it shows no front.
"""

import json
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import polars

TOKENS = polars.sum_horizontal("prompt_tokens", "completion_tokens", "scored_tokens")


class PageTables(HTMLParser):
    """Tables of a page by their ids: rows of cells, a cell as its text and its exact numbers."""

    def __init__(self, page: str):
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, list[float]]]]] = {}
        self._rows = None
        self._is_cell = False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "table":
            self._rows = self.tables.setdefault(attributes["id"], [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append(("", []))
            self._is_cell = True
        elif tag == "data" and self._is_cell:
            self._rows[-1][-1][1].append(float(attributes["value"]))

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._is_cell = False

    def handle_data(self, data):
        if self._is_cell:
            text, numbers = self._rows[-1].pop()
            self._rows[-1].append((text + data, numbers))


def known_sum(column: polars.Expr) -> polars.Expr:
    """The sum of a group; null without rows, or with an unknown part."""
    return polars.when((column.len() > 0) & (column.null_count() == 0)).then(column.sum())


def mean_costs(final: Path) -> polars.DataFrame:
    """The mean cost of a question by configuration, a column for each kind of cost."""
    table = lambda name: polars.read_parquet(final / f"{name}.parquet")  # noqa: E731
    outcomes = table("outcomes").group_by("configuration").agg(n=polars.len())
    costs = table("costs").filter(polars.col("configuration").is_not_null())
    computed = costs.filter(~polars.col("kind").is_in(["passages", "links"]))
    of_models = costs.filter(TOKENS > 0)
    parts = [
        costs.group_by("configuration").agg(tokens=TOKENS.sum()),
        computed.group_by("configuration").agg(known_sum(polars.col("service_s")).alias("service-seconds")),
        of_models.group_by("configuration").agg(
            known_sum(polars.col("device_s")).alias("device-seconds"),
            known_sum(polars.col("energy_j")).alias("joules"),
            known_sum(polars.col("money")).alias("money"),
        ),
    ]
    found = table("configurations").select("configuration", "control", "context_mode")
    found = found.join(outcomes, on="configuration")
    for part in parts:
        found = found.join(part, on="configuration", how="left")
    names = ["tokens", "service-seconds", "device-seconds", "joules", "money"]
    found = found.with_columns(polars.col("tokens").fill_null(0)).with_columns(polars.col(names) / polars.col("n"))
    latencies = table("latencies")
    if latencies["mode"].eq("throughput").all():
        walls = latencies.group_by("configuration").agg(latency=polars.col("wall_s").mean())
        found = found.join(walls, on="configuration", how="left")
    return found


def with_front(points: polars.DataFrame) -> polars.DataFrame:
    """Adds `front`: no other point costs at most as much and is at least as good, and better in one of the two."""
    ranked = points.filter(polars.col("control").is_null() & polars.col("cost").is_not_null())
    pairs = ranked.join(ranked, how="cross", suffix="_other")
    is_beaten = (
        (polars.col("cost_other") <= polars.col("cost"))
        & (polars.col("quality_other") >= polars.col("quality"))
        & ((polars.col("cost_other") < polars.col("cost")) | (polars.col("quality_other") > polars.col("quality")))
    )
    beaten = pairs.filter(is_beaten)["configuration"].unique()
    names = ranked["configuration"].filter(~ranked["configuration"].is_in(beaten.implode()))
    return points.with_columns(front=polars.col("configuration").is_in(names.implode()))


def differences(name: str, shown: list, expected: polars.DataFrame) -> list[str]:
    """What a table of the page says otherwise."""
    rows = {row["configuration"]: row for row in expected.iter_rows(named=True)}
    found = []
    names = [cells[0][0].removesuffix(" (control)") for cells in shown]
    if sorted(names) != sorted(rows):
        return [f"{name}: other configurations: {names}, {sorted(rows)}"]
    for configuration, (_, cost, quality, front) in zip(names, shown, strict=True):
        row = rows[configuration]
        is_same = cost[1] == [] if row["cost"] is None else math.isclose(cost[1][0], row["cost"], rel_tol=1e-12)
        if not is_same:
            found.append(f"{name}: cost of {configuration}: {cost}, {row['cost']}")
        if quality[1][0] != row["quality"]:
            found.append(f"{name}: quality of {configuration}: {quality}, {row['quality']}")
        if (front[0] == "yes") != row["front"]:
            found.append(f"{name}: front of {configuration}: {front[0]}, {row['front']}")
    return found


def main() -> int:
    run, page = Path(sys.argv[1]), Path(sys.argv[2]).read_text(encoding="utf-8")
    tables = PageTables(page).tables
    costs = mean_costs(run / "final")
    measures = polars.read_parquet(run / "final/measures.parquet").filter(polars.col("stratum") == "all")
    found, counts = [], {"fronts": 0, "points": 0, "on a front": 0, "ties on a front": 0, "unknown costs": 0}
    for name, shown in tables.items():
        matched = re.fullmatch(r"front-([a-z-]+?)-([a-z_]+(?:@\d+)?)-(open|given|oracle|mixed|closed)", name)
        if not matched or matched[1] not in costs.columns:
            continue
        axis, measure, mode = matched.groups()
        quality = measures.filter((polars.col("measure") == measure) & polars.col("value").is_not_null())
        quality = quality.select("configuration", quality="value")
        points = costs.filter(polars.col("context_mode") == mode).join(quality, on="configuration")
        points = with_front(points.select("configuration", "control", "quality", cost=axis))
        found += differences(name, shown[1:], points)
        on_front = points.filter("front")
        counts["fronts"] += 1
        counts["points"] += len(points)
        counts["on a front"] += len(on_front)
        counts["ties on a front"] += int(on_front.select("cost", "quality").is_duplicated().sum())
        counts["unknown costs"] += points["cost"].null_count()
    for line in found:
        print(line)
    print(json.dumps({**counts, "differences": len(found)}))
    return 2 if not counts["fronts"] else int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
