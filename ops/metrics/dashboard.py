#!/usr/bin/env python3
"""Writes the Grafana dashboard of a run, and tries its queries against a Prometheus.

Why: a dashboard is a long JSON document, in which a misspelled metric is an empty panel that nobody notices. Here each
panel is a line, and each query can be shown to have data.

    python3 ops/metrics/dashboard.py > hopeval.json          # for Grafana: Dashboards, Import
    python3 ops/metrics/dashboard.py --prometheus http://127.0.0.1:9090

The second form prints each query with its number of series and its last value, and exits with 1 if one has no series.
Queries of GPUs have none where there is no GPU: they are said, and do not count.
"""

import argparse
import json
import sys
import urllib.parse
import urllib.request

# Title, unit, and queries with their legends. `$run` is the run that the reader chooses.
PANELS = [
    (
        "Outcomes done",
        "percentunit",
        [
            (
                "(max by (run) (hopeval_outcomes_before{run=~'$run'})"
                " + sum by (run) (hopeval_outcomes_total{run=~'$run'}))"
                " / max by (run) (hopeval_outcomes_expected{run=~'$run'})",
                "{{run}}",
            )
        ],
    ),
    ("Outcomes a second", "ops", [("sum by (run) (rate(hopeval_outcomes_total{run=~'$run'}[1m]))", "{{run}}")]),
    ("Failed outcomes", "short", [("sum by (run) (hopeval_outcomes_failed_total{run=~'$run'})", "{{run}}")]),
    (
        "Time of an outcome",
        "s",
        [
            (
                f"histogram_quantile({q}, sum by (le) (rate(hopeval_outcome_seconds_bucket{{run=~'$run'}}[1m])))",
                f"{q:.0%}",
            )
            for q in (0.5, 0.95)
        ],
    ),
    ("Questions in flight", "short", [("sum by (run) (hopeval_questions_in_flight{run=~'$run'})", "{{run}}")]),
    (
        "Requests a second",
        "ops",
        [("sum by (service) (rate(hopeval_service_requests_total{run=~'$run'}[1m]))", "{{service}}")],
    ),
    (
        "Share answered without computing",
        "percentunit",
        [
            (
                "sum by (service) (hopeval_service_journal_hits_total{run=~'$run'})"
                " / sum by (service) (hopeval_service_requests_total{run=~'$run'})",
                "{{service}}",
            )
        ],
    ),
    (
        "Requests that wait",
        "short",
        [("sum by (service) (hopeval_service_queue_requests{run=~'$run'})", "{{service}}")],
    ),
    ("Failed requests", "short", [("sum by (service) (hopeval_service_failed_total{run=~'$run'})", "{{service}}")]),
    (
        "Busy seconds a second",
        "short",
        [("sum by (service) (rate(hopeval_service_busy_seconds_total{run=~'$run'}[1m]))", "{{service}}")],
    ),
    (
        "Tokens a second",
        "short",
        [
            (f"sum(rate(hopeval_service_{kind}_tokens_total{{run=~'$run'}}[1m]))", kind)
            for kind in ("prompt", "completion", "scored")
        ],
    ),
    ("Steps of workers a second", "ops", [("rate(hopeval_worker_steps_total{run=~'$run'}[1m])", "{{instance}}")]),
    ("GPU busy", "percentunit", [("hopeval_gpu_utilisation_ratio{run=~'$run'}", "{{device}}")]),
    ("GPU power", "watt", [("rate(hopeval_gpu_energy_joules_total{run=~'$run'}[1m])", "{{device}}")]),
    (
        "GPU memory",
        "percentunit",
        [("hopeval_gpu_memory_used_bytes{run=~'$run'} / hopeval_gpu_memory_bytes{run=~'$run'}", "{{device}}")],
    ),
]

SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard() -> dict:
    """The dashboard: three panels beside each other."""
    panels = []
    for number, (title, unit, queries) in enumerate(PANELS):
        targets = [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend, "datasource": SOURCE}
            for at, (query, legend) in enumerate(queries)
        ]
        panels.append(
            {
                "id": number + 1,
                "type": "timeseries",
                "title": title,
                "datasource": SOURCE,
                "gridPos": {"w": 8, "h": 7, "x": number % 3 * 8, "y": number // 3 * 7},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "targets": targets,
            }
        )
    run = {
        "name": "run",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(hopeval_outcomes_expected, run)",
        "refresh": 2,
        "sort": 2,
        "includeAll": True,
    }
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "title": "hopeval",
        "uid": "hopeval",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-15m", "to": "now"},
        "templating": {"list": [source, run]},
        "panels": panels,
    }


def series_of(prometheus: str, query: str) -> list:
    """The series of a query at this moment."""
    arguments = urllib.parse.urlencode({"query": query.replace("$run", ".+")})
    with urllib.request.urlopen(f"{prometheus}/api/v1/query?{arguments}", timeout=10) as reply:
        return json.load(reply)["data"]["result"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--prometheus", help="the address of a Prometheus that scrapes a run")
    arguments = parser.parse_args()
    if not arguments.prometheus:
        print(json.dumps(dashboard(), indent=1))
        return 0
    empty = 0
    for title, _, queries in PANELS:
        for query, _ in queries:
            series = series_of(arguments.prometheus, query)
            empty += not series and "hopeval_gpu" not in query
            last = series[0]["value"][1] if series else "none"
            print(f"{len(series):>3} series, {last:>22}  {title}: {query}")
    return int(empty > 0)


if __name__ == "__main__":
    sys.exit(main())
