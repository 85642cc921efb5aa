"""The sweep of 60 points, what it costs the device beside its most expensive point alone, and whether it changes any of them.

The floor: a first hop is scored once for all temperatures, ensembles, K1 and L, since a score's answer holds every temperature
and all else is arithmetic. Second hops are those of the passages that a point expands and of the links that it takes; points
with other temperatures or ensembles order the first hop differently and expand others, which nobody else has scored. What the
sweep must score beyond a single point is the union of these paths.
"""

import collections
import itertools
import statistics
import sys

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

TEMPERATURES = [1.0, 1.2, 1.4, 1.6, 1.8]
ENSEMBLES = ["max", "mean", "token_max"]
FIRST_HOPS = [3, 5]
LINKS = [2, 3]
KEYS = ("ensemble", "first_hops", "links_per_passage", "temperature")


def points():
    """Every point, as its parameters."""
    return [dict(zip(KEYS, values)) for values in itertools.product(ENSEMBLES, FIRST_HOPS, LINKS, TEMPERATURES)]


def name(point):
    return "promptrank{" + ",".join(f"{key}={point[key]}" for key in KEYS) + "}"


def quoted(value):
    return f'"{value}"' if isinstance(value, str) else str(value)


def job(chosen=None):
    """A job's lines that say which points: all, or one that is then called as it is in the sweep."""
    values = {key: [chosen[key]] for key in KEYS} if chosen else dict(zip(KEYS, (ENSEMBLES, FIRST_HOPS, LINKS, TEMPERATURES)))
    lines = ['instructions = "hopeval:five"', "[method.promptrank.sweep]"]
    return "\n".join([*lines, *(f"{key} = [{', '.join(map(quoted, values[key]))}]" for key in KEYS)])


def by_cost():
    """A point for each number of paths, of different temperatures and ensembles, and for how many points it stands."""
    groups = collections.defaultdict(list)
    for point in points():
        groups[point["first_hops"], point["links_per_passage"]].append(point)
    return [(name(group[(7 * number) % len(group)]), len(group)) for number, group in enumerate(groups.values())]


def scoring(document, configuration=None):
    """The scorer's row of a document's costs, of the run or of a configuration."""
    (row,) = (row for row in document["cost"] if row["service"] == "scorer" and row["configuration"] == configuration)
    return row


def rows_of(folder, table, configuration):
    """The bytes of a configuration's rows in a final table."""
    path = folder / "final" / f"{table}.parquet"
    found = pyarrow.parquet.read_table(path, filters=[("configuration", "=", configuration)])
    # Anew from its values: what lies under a null or beyond a slice is not of the rows.
    found = pyarrow.Table.from_pylist(found.to_pylist(), found.schema).combine_chunks()
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, found.schema) as stream:
        stream.write_table(found)
    return sink.getvalue().to_pybytes(), found.num_rows


def same(sweep_folder, alone_folder, configuration):
    """Whether a point's rows are the same in the sweep and alone, in every table that does not say what was measured."""
    for table in ("outcomes", "scores", "measures"):
        (ours, count), (alone, _) = (rows_of(folder, table, configuration) for folder in (sweep_folder, alone_folder))
        if not count or ours != alone:
            return False
    return True


def second_hops(folder, configurations):
    """Different paths of two passages that these configurations scored, over all questions."""
    found = set()
    for configuration in configurations:
        columns = {"columns": ["index", "paths"], "filters": [("configuration", "=", configuration)]}
        for row in pyarrow.parquet.read_table(folder / "final" / "outcomes.parquet", **columns).to_pylist():
            found.update((row["index"], *path["passages"]) for path in row["paths"] if len(path["passages"]) == 2)
    return len(found)


def every(hopeval, text, questions, onto):
    """A line of how many points are the same alone, each on an empty store or `onto` that of those before it, and whether all are."""
    _, folder, *_ = hopeval.run("every", text(job()))
    different, count, scored = [], len(points()), 0
    for number, point in enumerate(points()):
        document, alone, *_ = hopeval.run("every-alone", text(job(point)), onto and number > 0)
        scored += scoring(document)["computed"]
        equal = same(folder, alone, name(point))
        if not equal:
            different.append(name(point))
        # Hours, with many questions: what is known so far is not lost with the process.
        print(f"{number + 1} of {count}: {name(point)} {'the same' if equal else 'DIFFERS'}", file=sys.stderr, flush=True)
    listed = f"; different are {', '.join(f'`{point}`' for point in different)}" if different else ""
    stores = "each onto the store of those before it, which the sweep never saw" if onto else "each on an empty store"
    return f"Over {questions} questions, {count - len(different)} of {count} points alone have the sweep's final tables to the byte ({stores}; {scored:,} scores computed){listed}.", not different


def cost(hopeval, text, questions, rounds):
    """The table, and whether every point that was run alone is the sweep's."""
    document, folder, *_ = hopeval.run("cost", text(job()))
    peaks = [hopeval.peak_mib]
    operations = {name(point): scoring(document, name(point))["operations"] for point in points()}
    ordered = sorted(points(), key=lambda point: (-operations[name(point)], name(point)))
    # The most expensive one first.
    chosen = [ordered[0], ordered[len(ordered) // 3], ordered[-1]]
    alone = []
    for number, point in enumerate(chosen):
        alone.append(hopeval.run(f"cost-{number}", text(job(point))))
        peaks.append(hopeval.peak_mib)
    equal = [same(folder, run_folder, name(point)) for point, (_, run_folder, *_) in zip(chosen, alone)]
    single, single_folder, *_ = alone[0]
    seconds = [[scoring(document)["device_s"], scoring(single)["device_s"]]]
    for _ in range(rounds - 1):
        again = [hopeval.run("cost-again", text(lines))[0] for lines in (job(), job(chosen[0]))]
        seconds.append([scoring(of)["device_s"] for of in again])
    devices = [statistics.median(column) for column in zip(*seconds)]
    hops = [second_hops(folder, map(name, points())), second_hops(single_folder, [name(chosen[0])])]
    rows = [
        f"## What a sweep costs: {len(points())} points, {questions} questions",
        "",
        "| | device s | requests | different | tokens computed | operations, T | second hops | memory at most, MiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    titles = ("sweep", f"`{name(chosen[0])}` alone")
    for title, of, device, paths, peak in zip(titles, (document, single), devices, hops, peaks):
        row = scoring(of)
        cells = [title, f"{device:.1f}", f"{row['requests']:,}", f"{row['unique']:,}", f"{row['computed_tokens']:,}"]
        rows.append("| " + " | ".join([*cells, f"{row['operations'] / 1e12:.2f}", f"{paths:,}", f"{peak:,.0f}"]) + " |")
    floor = scoring(document)["unique"] / scoring(single)["unique"]
    pairs = "; ".join(f"{sweep:.1f} and {single:.1f} ({sweep / single:.2f})" for sweep, single in seconds)
    named = ", ".join(f"`{name(point)}`{'' if good else ' (differs)'}" for point, good in zip(chosen, equal))
    rows += [
        "",
        f"**{devices[0] / devices[1]:.2f}** times the device seconds of the most expensive point alone by medians (bar 1.5); pair by pair {pairs}.",
        f"The floor is {floor:.2f}, by the prompts that are different: temperatures and ensembles choose different second hops.",
        "",
        f"{sum(equal)} of {len(equal)} points that were run alone have the sweep's final tables to the byte: {named}.",
        "",
    ]
    return rows, all(equal)
