//! `show`: tables fit the terminal, rows are sorted, filtered and cut, strata stand in columns, and tables go into
//! documents.

use crate::harness::{document, hopeval, run, succeed};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use tempfile::TempDir;

/// 108 configurations: 53 depths of two retrievers, and two more.
const JOB: &str = r#"
name = "views"
[dataset.world]
questions = 40
passages = 400
seed = 3
[service.lucene]
kind = "bm25"
[service.other-parameters-of-bm25]
kind = "bm25"
k1 = 2.0
[service.tfidf]
kind = "tfidf"
[method.sparse]
kind = "one_step"
[method.sparse.sweep]
retriever = ["lucene", "other-parameters-of-bm25"]
k = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
    28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53,
]
[method.tfidf]
kind = "one_step"
retriever = "tfidf"
[method.random]
kind = "random"
"#;

/// The run of [`JOB`].
static RUN: LazyLock<TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("job.toml"), JOB).unwrap();
    succeed(&mut hopeval(dir.path(), &["run", "job.toml", "--store", "store"]));
    dir
});

/// What `show` prints with these arguments, at a terminal of this width.
fn show(width: Option<&str>, arguments: &[&str]) -> String {
    let mut command = hopeval(RUN.path(), &[&["show", "latest", "--store", "store"], arguments].concat());
    command.env_remove("COLUMNS");
    if let Some(width) = width {
        command.env("COLUMNS", width);
    }
    succeed(&mut command)
}

/// The error of a refused `show`.
fn refused(arguments: &[&str]) -> String {
    let output = run(&mut hopeval(RUN.path(), &[&["show", "latest", "--store", "store"], arguments].concat()));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    error
}

/// The cells of the first table's rows.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    let against: [&[&str]; 4] = [&[], &["--against", "tfidf"], &["--interval", "--by", "hops"], &["--stratum", "all"]];
    for width in [80, 100, 200] {
        for arguments in against {
            let text = show(Some(&width.to_string()), arguments);
            let longest =
                text.lines().filter(|line| !line.starts_with("results: ")).max_by_key(|line| line.chars().count());
            assert!(longest.unwrap().chars().count() <= width, "{width} {arguments:?}: {}", longest.unwrap());
            assert!(width > 100 || text.contains("not shown (--wide): "), "{text}");
        }
    }
    let costs = succeed(hopeval(RUN.path(), &["costs", "latest", "--store", "store"]).env("COLUMNS", "80"));
    assert!(costs.lines().all(|line| line.chars().count() <= 80), "{costs}");
    // As wide as it is: with --wide, and where there is no terminal.
    assert_eq!(show(Some("80"), &["--wide"]), show(None, &[]));
}

#[test]
fn a_sweep_has_a_column_for_each_parameter() {
    let text = show(None, &[]);
    let rows = rows(&text);
    assert_eq!(rows[0][..6], ["#", "configuration", "k", "retriever", "n", "coverage"]);
    assert_eq!(rows.len(), 2 + 108);
    // Numbers stand for names.
    let row = rows.iter().find(|row| row[1..4] == ["sparse", "7", "lucene"]).unwrap();
    let by_number = document(&mut hopeval(RUN.path(), &["show", "--store", "store", "--json", "--against", row[0]]));
    assert_eq!(by_number["differences"][0]["against"], "sparse{k=7,retriever=lucene}");
    let error = refused(&["--against", "109"]);
    assert!(error.contains("no configuration `109`"), "{error}");
}

#[test]
fn rows_are_sorted_filtered_and_cut() {
    let document = document(&mut hopeval(RUN.path(), &["show", "--store", "store", "--json"]));
    let mut means: BTreeMap<String, f64> = BTreeMap::new();
    for row in document["measures"].as_array().unwrap() {
        if row["stratum"] == "all" && row["measure"] == "recall_all@10" {
            means.insert(row["configuration"].as_str().unwrap().to_owned(), row["value"].as_f64().unwrap());
        }
    }
    let text = show(None, &["--sort", "recall_all@10", "--top", "5", "--measure", "recall_all@10"]);
    let table = rows(&text);
    assert_eq!(table.len(), 2 + 5);
    let shown: Vec<f64> =
        table[2..].iter().map(|row| row[6].split([' ', '*']).next().unwrap().parse().unwrap()).collect();
    let mut best: Vec<f64> = means.values().copied().collect();
    best.sort_by(|a, b| b.total_cmp(a));
    assert!(shown.iter().zip(&best).all(|(shown, best)| (shown - best).abs() < 1e-4), "{shown:?} {best:?}");
    assert!(text.contains("103 more rows are not shown (--top)"), "{text}");
    let text = show(None, &["--filter", "retriever=lucene", "--filter", "k=20"]);
    assert_eq!(rows(&text)[2..].iter().map(|row| row[1..4].to_vec()).collect::<Vec<_>>(), [["sparse", "20", "lucene"]]);
    let error = refused(&["--filter", "k=99"]);
    assert!(error.contains("no configuration is left; `k` can be 1, 10"), "{error}");
    let error = refused(&["--sort", "nothing"]);
    assert!(error.contains("no measure `nothing`"), "{error}");
}

#[test]
fn strata_stand_in_columns() {
    let document = document(&mut hopeval(RUN.path(), &["show", "--store", "store", "--json"]));
    let text = show(None, &["--by", "hops", "--measure", "recall_all@10", "--filter", "configuration=tfidf"]);
    let table = rows(&text);
    assert_eq!(table[0][0], "configuration");
    assert!(table[0].len() > 2, "{text}");
    for (heading, figure) in table[0].iter().zip(&table[2]).skip(1) {
        let (stratum, n) = heading.trim_end_matches(')').split_once(" (n = ").unwrap();
        let row = |row: &&Value| {
            row["configuration"] == "tfidf" && row["measure"] == "recall_all@10" && row["stratum"] == stratum
        };
        let row = document["measures"].as_array().unwrap().iter().find(row).unwrap();
        assert_eq!(row["n"].as_u64(), n.parse().ok());
        assert!(figure.starts_with(&format!("{:.4}", row["value"].as_f64().unwrap())), "{figure} {row}");
    }
    let error = refused(&["--by", "colour"]);
    assert!(error.contains("no strata of this kind") && error.contains("hops"), "{error}");
    let both = show(None, &["--stratum", "hops=2", "--stratum", "hops=4"]);
    assert!(both.contains("context mode: open, stratum hops=2") && both.contains("open, stratum hops=4"), "{both}");
}

#[test]
fn tables_go_into_documents() {
    let chosen = ["--measure", "recall_all@10", "--filter", "method=one_step"];
    let of = |format: &str, more: &[&str]| show(Some("40"), &[&chosen[..], &["--format", format], more].concat());
    let latex = of("latex", &["--against", "tfidf"]);
    assert!(latex.contains(r"\begin{tabular}{llllll"), "{latex}");
    assert!(latex.contains(r"recall\_all@10") && latex.contains(r"$\pm$") && latex.contains(r"\textbf{"), "{latex}");
    // A recall of one passage is surely below that of 100.
    assert!(latex.lines().any(|line| line.contains(r"& 1 & lucene") && line.contains(r"$^\dagger$")), "{latex}");
    assert!(latex.lines().all(|line| !line.contains("not shown")), "{latex}");
    let html = of("html", &[]);
    assert_eq!(html.matches("<tr>").count(), html.matches("</tr>").count());
    assert!(html.contains("<th>recall_all@10</th>") && html.contains("<strong>"), "{html}");
    let markdown = of("md", &[]);
    assert!(markdown.contains("**") && rows(&markdown).len() == 2 + 107, "{markdown}");
    // Every number in full, and nothing else.
    let csv = of("csv", &[]);
    let document = document(&mut hopeval(RUN.path(), &["show", "--store", "store", "--json"]));
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert_eq!(header[..6], ["context_mode", "control", "configuration", "method", "k", "retriever"]);
    let cell = |line: &str, name: &str| {
        let cells: Vec<String> = csv_cells(line);
        cells[header.iter().position(|column| *column == name).unwrap()].clone()
    };
    let line =
        csv.lines().find(|line| line.contains("k=7,retriever=lucene") && line.contains("recall_all@10")).unwrap();
    let row = |row: &&Value| {
        row["configuration"] == "sparse{k=7,retriever=lucene}"
            && row["measure"] == "recall_all@10"
            && row["stratum"] == "all"
    };
    let row = document["measures"].as_array().unwrap().iter().find(row).unwrap();
    assert_eq!(cell(line, "value").parse::<f64>().ok(), row["value"].as_f64());
    assert_eq!((cell(line, "k"), cell(line, "n")), ("7".to_owned(), row["n"].to_string()));
}

/// The fields of a line of CSV without line breaks.
fn csv_cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            other => cells.last_mut().unwrap().push(other),
        }
    }
    cells
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let lost = ["--lost", "random", "--to", "tfidf"];
    for arguments in [
        ["--format", "md", "--json"].as_slice(),
        &["--by", "hops", "--stratum", "all"],
        &["--top", "0"],
        &["--json", "--top", "1"],
        &["--json", "--filter", "k=5"],
        &["--question", "q", "--sort", "mrr"],
        &[&lost[..], &["--stratum", "hops=2"]].concat(),
        &[&lost[..], &["--failing", "tfidf"]].concat(),
        &["--limit", "5"],
    ] {
        let error = refused(arguments);
        let words = ["cannot be used with", "invalid value", "required arguments were not provided"];
        assert!(words.iter().any(|&word| error.contains(word)), "{error}");
    }
}

#[test]
fn a_mark_stands_at_each_tested_measure() {
    let shown = show(None, &["--against", "random", "--format", "md", "--filter", "method=one_step", "--top", "3"]);
    let table = rows(&shown);
    let column = |name: &str| table[0].iter().position(|heading| *heading == name).unwrap();
    // Retrieval is better than chance in each of them: a measure without marks would not have been tested.
    for measure in ["recall_frac@10", "recall_all@20", "mrr"] {
        assert!(table[2..].iter().any(|row| row[column(measure)].contains('†')), "{measure}: {shown}");
    }
    let by_hops = show(None, &["--by", "hops", "--measure", "mrr", "--format", "md"]);
    let heading = &rows(&by_hops)[0];
    assert!(!heading.contains(&"n") && heading.iter().any(|cell| cell.contains("(n = ")), "{by_hops}");
}

#[test]
fn lost_and_won_questions_are_listed() {
    let scores = succeed(&mut hopeval(
        RUN.path(),
        &["export", "latest", "--store", "store", "--format", "csv", "--configuration", "tfidf"],
    ));
    let others = succeed(&mut hopeval(
        RUN.path(),
        &["export", "latest", "--store", "store", "--format", "csv", "--configuration", "random"],
    ));
    let values = |csv: &str| -> Vec<(String, f64)> {
        let header = csv_cells(csv.lines().next().unwrap());
        let column = |name: &str| header.iter().position(|known| known == name).unwrap();
        let (id, measure) = (column("question"), column("recall_all@20"));
        csv.lines().skip(1).map(csv_cells).map(|row| (row[id].clone(), row[measure].parse().unwrap())).collect()
    };
    let (tfidf, random) = (values(&scores), values(&others));
    let lost: Vec<&str> =
        tfidf.iter().zip(&random).filter(|(a, b)| b.1 < a.1).map(|(question, _)| question.0.as_str()).collect();
    assert!(lost.len() > 3);
    let list = ["--store", "store", "--json", "--limit", "3"];
    let listed = |more: &[&str]| document(&mut hopeval(RUN.path(), &[&["show", "latest"], &list[..], more].concat()));
    let by_lost = listed(&["--lost", "random", "--to", "tfidf"]);
    let by_won = listed(&["--won", "tfidf", "--over", "random"]);
    assert_eq!(by_lost, by_won);
    assert_eq!(
        (by_lost["measure"].as_str(), by_lost["found"].as_u64()),
        (Some("recall_all@20"), Some(lost.len() as u64))
    );
    let ids: Vec<&str> =
        by_lost["listed"].as_array().unwrap().iter().map(|row| row["question"].as_str().unwrap()).collect();
    assert_eq!(ids, lost[..3]);
    let side = &by_lost["listed"][0]["sides"][1];
    assert!(side["gold_ranks"].as_array().unwrap().iter().all(|rank| rank.as_u64().is_some_and(|rank| rank <= 20)));
    let text = show(None, &["--lost", "random", "--to", "tfidf", "--limit", "1"]);
    assert!(text.contains("`random` has a lower recall_all@20 than `tfidf`; the first 1 are listed"), "{text}");
    assert!(
        text.contains(&format!("\n{} (", lost[0])) && text.contains("tfidf: recall_all@20 1.0000; gold at"),
        "{text}"
    );
    let none = listed(&["--failing", "tfidf"]);
    assert_eq!((none["found"].as_u64(), none["questions"].as_u64()), (Some(0), Some(40)));
    let error = refused(&["--lost", "random", "--to", "nothing"]);
    assert!(error.contains("it has no configuration `nothing`"), "{error}");
    // A transcript marks gold and has the question's own measures.
    let text = show(None, &["--question", lost[0], "--configuration", "tfidf"]);
    assert!(
        text.contains(" ✓ gold") && text.contains("gold answer: ") && text.contains("recall_all@20 1.0000"),
        "{text}"
    );
}
