//! `report`: its figures are those of the Parquet tables, its front is the brute force's, texts of strangers are inert.

use crate::harness::{document, hopeval, run, run_of, succeed};
use crate::tiny;
use hopeval_results::tables::{ConfigurationRow, CostRow, LatencyRow, MeasureRow, Row, read_table};
use hopeval_results::{Store, layout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// A sweep, two equal configurations for ties, a control, another context mode, and models with and without work.
const JOB: &str = r#"
name = "pictures"
title = "pictures of a world"
[dataset.world]
questions = 60
passages = 600
seed = 5
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
[service.reader]
kind = "lm"
model = "hopeval:reader"
threads = 1
[method.tfidf]
kind = "one_step"
retriever = "tfidf"
k = 10
[method.same]
kind = "one_step"
retriever = "tfidf"
k = 10
[method.read]
kind = "promptrank"
retriever = "tfidf"
scorer = "scorer"
pool = 4
first_hops = 2
reader = "reader"
[method.read.sweep]
read_paths = [1, 3]
[method.shuffled]
kind = "promptrank"
control = "random order"
retriever = "tfidf"
scorer = "scorer"
pool = 4
first_hops = 2
rerank = "passage"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.bm25.sweep]
k = [5, 10, 20]
[method.random]
kind = "random"
[method.random.replicates]
draw = [0, 1]
[method.given]
kind = "given"
retriever = "bm25"
[measures]
recall_at = [2, 5, 10]
[run]
price_per_device_hour = 36.0
"#;

/// A finished run and its page, shared by the tests. Its folder stays behind: a static is never dropped.
struct Sample {
    dir: tempfile::TempDir,
    run: String,
    page: String,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(dir.path().join("job.toml"), JOB).unwrap();
    let found = document(&mut hopeval(dir.path(), &["run", "job.toml", "--store", "store", "--json"]));
    let report = ["report", "latest", "--store", "store", "--out", "page.html", "--plots", "plots"];
    let said = succeed(&mut hopeval(dir.path(), &report));
    assert_eq!(said.trim(), "page.html");
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    Sample { run: run_of(&found).to_owned(), page, dir }
});

impl Sample {
    fn rows<R: Row>(&self, table: &str) -> Vec<R> {
        let store = Store::open(self.dir.path().join("store").to_str().unwrap()).unwrap();
        read_table(&store, &layout::final_table(&self.run, table)).unwrap()
    }

    fn table(&self, id: &str) -> PageRows {
        PageRows::find(&self.page, id)
    }

    fn measure(&self, configuration: &str, measure: &str) -> MeasureRow {
        let of = |row: &MeasureRow| {
            (row.configuration.as_str(), row.stratum.as_str(), row.measure.as_str()) == (configuration, "all", measure)
        };
        self.rows::<MeasureRow>("measures").into_iter().find(of).unwrap()
    }
}

/// A table of the page.
struct PageRows {
    columns: Vec<String>,
    rows: Vec<Vec<PageCell>>,
}

/// A cell: its text, and the numbers in it with all their digits.
struct PageCell {
    text: String,
    numbers: Vec<f64>,
}

impl PageRows {
    fn find(page: &str, id: &str) -> Self {
        let (_, rest) = page.split_once(&format!("<table id=\"{id}\">")).unwrap_or_else(|| panic!("no table {id}"));
        let (table, _) = rest.split_once("</table>").unwrap();
        let mut rows: Vec<Vec<PageCell>> = table.split("<tr>").skip(1).map(cells).collect();
        let columns = rows.remove(0).into_iter().map(|cell| cell.text).collect();
        Self { columns, rows }
    }

    fn column(&self, name: &str) -> usize {
        self.columns.iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}: {:?}", self.columns))
    }

    fn by_name(&self) -> BTreeMap<&str, &Vec<PageCell>> {
        self.rows.iter().map(|row| (row[0].text.trim_end_matches(" (control)"), row)).collect()
    }
}

fn cells(row: &str) -> Vec<PageCell> {
    let cell = |cell: &str| {
        let numbers = cell.split("<data value=\"").skip(1).map(|number| number.split('"').next().unwrap());
        let text: String = cell
            .split('<')
            .enumerate()
            .map(|(at, part)| match at {
                0 => part,
                _ => part.split_once('>').map_or("", |(_, text)| text),
            })
            .collect();
        PageCell { text, numbers: numbers.map(|number| number.parse().unwrap()).collect() }
    };
    let is_cell = |part: &&str| part.starts_with("h scope") || part.starts_with("d>");
    let parts = row.split("<t").filter(is_cell).filter_map(|part| Some(part.split_once('>')?.1));
    parts.map(|part| cell(part.split("</t").next().unwrap())).collect()
}

#[test]
fn measures_are_those_of_the_table() {
    let mut figures = 0;
    for mode in ["open", "given"] {
        let table = SAMPLE.table(&format!("measures-{mode}"));
        for (name, row) in table.by_name() {
            for (column, measure) in table.columns.iter().enumerate().skip(3) {
                let stored = SAMPLE.measure(name, measure);
                assert_eq!(stored.context_mode, mode);
                let expected: Vec<f64> = [stored.value, stored.low, stored.high].into_iter().flatten().collect();
                assert_eq!(row[column].numbers, expected, "{name} {measure}");
                // Measures of some questions alone have an n of their own.
                if stored.n == 60 {
                    assert_eq!((row[1].text.as_str(), &row[2].numbers[..]), ("60", &[stored.coverage.unwrap()][..]));
                }
                figures += expected.len();
            }
        }
    }
    assert!(figures > 200, "{figures}");
}

/// The means over replicates are those of the two rows, with the deviation of two figures.
#[test]
fn replicates_are_those_of_the_table() {
    let table = SAMPLE.table("replicates");
    assert_eq!((table.rows.len(), table.rows[0][0].text.as_str(), table.rows[0][1].text.as_str()), (1, "random", "2"));
    let mut figures = 0;
    for (column, measure) in table.columns.iter().enumerate().skip(2) {
        let [one, two] = ["random#1", "random#2"].map(|name| SAMPLE.measure(name, measure).value);
        let Some((one, two)) = one.zip(two) else { continue };
        let numbers = &table.rows[0][column].numbers;
        let expected = [f64::midpoint(one, two), (one - two).abs() / 2.0_f64.sqrt()];
        assert!(numbers.iter().zip(expected).all(|(found, wanted)| (found - wanted).abs() < 1e-12), "{measure}");
        assert!(numbers.len() == 2 || (numbers.len() == 4 && (numbers[2]..=numbers[3]).contains(&numbers[0])));
        figures += 1;
    }
    assert!(figures > 5, "{figures}");
}

#[test]
fn strata_curves_and_sweeps_are_those_of_the_table() {
    let stored = SAMPLE.rows::<MeasureRow>("measures");
    let figures = |configuration: &str, stratum: &str, measure: &str| -> Vec<f64> {
        let of = |row: &&MeasureRow| {
            (row.configuration.as_str(), row.stratum.as_str(), row.measure.as_str())
                == (configuration, stratum, measure)
        };
        let row = stored.iter().find(of).unwrap();
        [row.value, row.low, row.high].into_iter().flatten().collect()
    };
    let curves = SAMPLE.table("curve-recall_all-open");
    for (name, row) in curves.by_name() {
        for (column, measure) in curves.columns.iter().enumerate().skip(1) {
            assert_eq!(row[column].numbers, figures(name, "all", measure));
        }
    }
    for kind in ["hops", "type"] {
        let strata = SAMPLE.table(&format!("by-{kind}-recall_all@10-open"));
        assert!(strata.columns.len() > 2, "{:?}", strata.columns);
        for (name, row) in strata.by_name() {
            for (column, stratum) in strata.columns.iter().enumerate().skip(1) {
                assert_eq!(row[column].numbers, figures(name, stratum, "recall_all@10"), "{name} {stratum}");
            }
        }
    }
    let sweep = SAMPLE.table("sweep-bm25-recall_all@10-open");
    assert_eq!(sweep.rows.len(), 3);
    for (name, row) in sweep.by_name() {
        assert_eq!(row[2].numbers, figures(name, "all", "recall_all@10"));
    }
    assert_eq!(SAMPLE.table("slice-k-bm25-recall_all@10-open").rows.len(), 3);
}

/// Sums over a configuration's rows of costs, by its outcomes; `None` if there is no row, or one is unknown.
fn mean_cost(configuration: &str, of: &dyn Fn(&CostRow) -> Option<f64>) -> Option<f64> {
    let rows = SAMPLE.rows::<CostRow>("costs");
    let own: Vec<&CostRow> = rows.iter().filter(|row| row.configuration.as_deref() == Some(configuration)).collect();
    let sum = own.iter().map(|row| of(row)).collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty())?;
    Some(sum.iter().sum::<f64>() / 60.0)
}

/// The rows of a table that no other one beats, by the definition.
fn brute_front(points: &[(Option<f64>, Option<f64>)]) -> Vec<bool> {
    let known = |point: &(Option<f64>, Option<f64>)| point.0.zip(point.1);
    let beats = |one: (f64, f64), other: (f64, f64)| {
        one.0 <= other.0 && one.1 >= other.1 && (one.0 < other.0 || one.1 > other.1)
    };
    let is_on = |point| known(point).is_some_and(|own| !points.iter().filter_map(known).any(|other| beats(other, own)));
    points.iter().map(is_on).collect()
}

#[test]
fn the_front_is_that_of_the_tables() {
    let controls: BTreeMap<String, bool> = SAMPLE
        .rows::<ConfigurationRow>("configurations")
        .into_iter()
        .map(|row| (row.configuration, row.control.is_some()))
        .collect();
    let tokens = |row: &CostRow| Some((row.prompt_tokens + row.completion_tokens + row.scored_tokens) as f64);
    let device = |row: &CostRow| match tokens(row) {
        Some(0.0) => Some(0.0),
        _ => row.device_s,
    };
    let (mut met, mut ties, mut unknown) = (0, 0, 0);
    for axis in ["tokens", "device-seconds", "money"] {
        for measure in ["recall_all@10", "em"] {
            let table = SAMPLE.table(&format!("front-{axis}-{measure}-open"));
            let mut points = Vec::new();
            for row in &table.rows {
                let name = row[0].text.trim_end_matches(" (control)");
                let uses_model = mean_cost(name, &tokens).is_some_and(|tokens| tokens > 0.0);
                let cost = match axis {
                    "tokens" => mean_cost(name, &tokens).or(Some(0.0)),
                    "money" => mean_cost(name, &device).filter(|_| uses_model).map(|seconds| seconds * 36.0 / 3600.0),
                    _ => mean_cost(name, &device).filter(|_| uses_model),
                };
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs();
                assert!(row[1].numbers.iter().copied().eq(cost) || near(row[1].numbers[0], cost.unwrap()), "{name}");
                unknown += usize::from(cost.is_none());
                let shown = row[1].numbers.first().copied();
                let quality = SAMPLE.measure(name, measure).value;
                assert_eq!(row[2].numbers[0], quality.unwrap());
                points.push(if controls[name] { (None, None) } else { (shown, quality) });
            }
            let expected = brute_front(&points);
            for (row, is_on_front) in table.rows.iter().zip(&expected) {
                assert_eq!(row[3].text == "yes", *is_on_front, "{axis} {measure} {}", row[0].text);
            }
            met += expected.iter().filter(|is| **is).count();
            let fronted: Vec<_> = points.iter().zip(&expected).filter(|(_, is)| **is).map(|(point, _)| point).collect();
            ties += fronted.iter().enumerate().filter(|(at, point)| fronted[..*at].contains(point)).count();
        }
    }
    // Recall at 10 is the same for the k of 10 and of 20, and for two methods of one setting; retrieval has no tokens.
    assert!(met >= 4 && ties > 0 && unknown > 0, "{met} {ties} {unknown}");
}

#[test]
fn what_is_not_measured_to_its_cut_off_has_a_star_and_no_place_on_a_curve() {
    let table = SAMPLE.table("measures-open");
    let mut stars = 0;
    for (name, row) in table.by_name() {
        for (column, measure) in table.columns.iter().enumerate().skip(3) {
            let stored = SAMPLE.measure(name, measure);
            let is_short = stored.value.is_some() && stored.ranked.is_some();
            assert_eq!(row[column].text.contains('*'), is_short, "{name} {measure}: {}", row[column].text);
            stars += usize::from(is_short);
        }
    }
    assert!(stars > 2, "{stars}");
    assert!(SAMPLE.page.contains("*: not measured to its cut-off"), "the star's meaning");
    assert!(SAMPLE.page.contains("1 of 3 points rank fewer passages than the cut-off of recall_all@10 (*)."));
    let differences = SAMPLE.table("difference-recall_all@10-open");
    assert!(!differences.by_name().contains_key("bm25{k=10}"), "the first that ranks enough is what they are less");
    for (name, row) in differences.by_name() {
        assert_eq!(row[2].text.contains('*'), name == "bm25{k=5}", "{name}");
    }
    // Its curve has two points: recall at 2 and at 5.
    let curves = std::fs::read_to_string(SAMPLE.dir.path().join("plots/recall_all-open.svg")).unwrap();
    let points: Vec<usize> = curves
        .split("<polyline ")
        .skip(1)
        .map(|line| line.split("points=\"").nth(1).unwrap().split('"').next().unwrap().split_whitespace().count())
        .collect();
    assert!(points.contains(&2) && points.contains(&3), "{points:?}");
    let fronts = std::fs::read_to_string(SAMPLE.dir.path().join("plots/front-tokens-recall_all-10-open.svg")).unwrap();
    assert!(fronts.contains("(control)"), "controls are told apart");
}

#[test]
fn a_configuration_without_models_has_no_unknown_cost() {
    let table = SAMPLE.table("front-device-seconds-recall_all@10-open");
    assert_eq!(table.by_name()["tfidf"][3].text, "uses no model: left out");
    let services = SAMPLE.table("front-service-seconds-recall_all@10-open");
    assert_eq!(services.by_name()["random#1"][3].text, "asks no service: left out");
    assert!(SAMPLE.page.contains("not on the front: uses no model (7)."), "counted beneath the plot");
}

#[test]
fn no_other_file_is_overwritten() {
    let dir = SAMPLE.dir.path();
    std::fs::write(dir.join("letter.html"), "<!DOCTYPE html>\n<p>mine</p>").unwrap();
    for (out, reason) in [
        ("letter.html", "is no page of hopeval report"),
        ("plots", "it is a folder"),
        ("nothing/page.html", "there is no folder nothing"),
    ] {
        let output = run(&mut hopeval(dir, &["report", "latest", "--store", "store", "--out", out]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    assert_eq!(std::fs::read_to_string(dir.join("letter.html")).unwrap(), "<!DOCTYPE html>\n<p>mine</p>");
}

#[test]
fn latencies_and_steps_are_those_of_the_tables() {
    let rows = SAMPLE.rows::<LatencyRow>("latencies");
    for part in ["service", "queue", "wall"] {
        let time = |row: &LatencyRow| match part {
            "service" => row.service_s,
            "queue" => row.queue_s,
            _ => row.wall_s,
        };
        let table = SAMPLE.table(&format!("latency-{part}"));
        for (name, row) in table.by_name() {
            let mut times: Vec<f64> = rows.iter().filter(|row| row.configuration == name).map(time).collect();
            times.sort_by(f64::total_cmp);
            assert_eq!(row[1].text, times.len().to_string());
            assert_eq!(row[table.column("50 %")].numbers, [times[29]]);
            assert_eq!(row[table.column("99 %")].numbers, [times[59]]);
        }
    }
    let steps = SAMPLE.table("steps-open");
    let costs = SAMPLE.rows::<CostRow>("costs");
    for row in &steps.rows {
        let is_same = |cost: &&CostRow| {
            cost.configuration.as_deref() == Some(row[0].text.trim_end_matches(" (control)"))
                && (cost.service.as_str(), cost.kind.as_str()) == (row[2].text.as_str(), row[3].text.as_str())
                && cost.step.as_deref().unwrap_or_default() == row[1].text
        };
        let cost = costs.iter().find(is_same).unwrap();
        assert_eq!(row[4].numbers, [cost.requests as f64 / 60.0]);
        assert_eq!(row[5].numbers, [cost.prompt_tokens as f64 / 60.0]);
    }
    assert!(steps.rows.len() > 5);
}

#[test]
fn differences_are_those_of_show() {
    let shown =
        ["show", "latest", "--store", "store", "--against", "bm25{k=10}", "--measure", "recall_all@10", "--json"];
    let shown = document(&mut hopeval(SAMPLE.dir.path(), &shown));
    let rows = shown["differences"].as_array().unwrap();
    let table = PageRows::find(&SAMPLE.page, "difference-recall_all@10-open");
    let by_name = table.by_name();
    assert_eq!(by_name.len(), rows.len());
    for row in rows {
        let cells = by_name[row["configuration"].as_str().unwrap()];
        for (column, key) in [(2, "difference"), (3, "low"), (4, "high"), (5, "p"), (6, "p_holm")] {
            assert_eq!(cells[column].numbers, [row[key].as_f64().unwrap()], "{key} of {row}");
        }
    }
}

#[test]
fn the_page_is_one_small_file_without_scripts_and_loads() {
    let page = &SAMPLE.page;
    assert!(page.len() < 3_000_000, "{}", page.len());
    let all = ["<script", "javascript:", "unsaf\u{65}", "https:", " style=", "@import", "url(", " onerror", "<iframe"];
    for forbidden in all {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    // The names of namespaces are no addresses that anything loads.
    assert_eq!(page.matches("http:").count(), page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    assert!(page.contains("default-src &#39;none&#39;; style-src &#39;sha256-"), "a policy");
    assert!(page.contains("won against") && page.contains("<pre tabindex=\"0\">question "), "transcripts");
    let ids: Vec<&str> = page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "ids are unique");
}

#[test]
fn every_plot_is_a_file_of_well_formed_xml() {
    let folder = SAMPLE.dir.path().join("plots");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), SAMPLE.page.matches("<svg ").count());
    assert!(files.len() > 15, "{files:?}");
    for path in &files {
        assert_well_formed(&std::fs::read_to_string(path).unwrap(), path);
    }
}

/// Checks the few rules that plots need: tags close in order, and texts and attributes have no bare `<` or `&`.
fn assert_well_formed(text: &str, path: &Path) {
    let mut open: Vec<&str> = Vec::new();
    let mut parts = text.split('<');
    assert_eq!(parts.next(), Some(""), "{}", path.display());
    for part in parts {
        let (tag, after) = part.split_once('>').unwrap_or_else(|| panic!("{}: {part}", path.display()));
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{}", path.display()),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{}: {tag}", path.display());
        let entities = format!("{tag}{after}");
        let bare = entities
            .split('&')
            .skip(1)
            .filter(|rest| !["lt;", "gt;", "amp;", "quot;", "apos;"].iter().any(|name| rest.starts_with(name)));
        assert_eq!(bare.count(), 0, "{}: {part}", path.display());
    }
    assert!(open.is_empty(), "{}: {open:?}", path.display());
}

#[test]
fn texts_of_strangers_are_inert() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    tiny::write(dir.path());
    let nasty = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"' javascript:alert(3) \
                 \u{202E}txt\u{2066}";
    let put_in = |rows: Vec<Value>| -> Vec<Value> {
        let text = |row: &Value| row.to_string().replace("Town", Value::from(nasty).to_string().trim_matches('"'));
        rows.iter().map(|row| serde_json::from_str(&text(row)).unwrap()).collect()
    };
    std::fs::write(dir.path().join("questions.json"), tiny::array(&put_in(tiny::questions()))).unwrap();
    std::fs::write(dir.path().join("corpus.jsonl"), tiny::lines(&put_in(tiny::passages()))).unwrap();
    let job = tiny::JOB
        .replace(
            "name = \"tiny\"",
            &format!("name = \"tiny\"\ntitle = {}", Value::from("<script>alert(4)</script>&\u{202E}")),
        )
        .replace("[measures]", "[method.few]\nkind = \"one_step\"\nretriever = \"sparse\"\nk = 1\n[measures]");
    std::fs::write(dir.path().join("job.toml"), job).unwrap();
    succeed(&mut hopeval(dir.path(), &["run", "job.toml", "--store", "store"]));
    succeed(&mut hopeval(dir.path(), &["report", "latest", "--store", "store"]));
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "the answers are shown");
    assert!(page.contains("&lt;script&gt;alert(4)&lt;/script&gt;"), "the title is shown");
    for forbidden in ["<script", "</script", "<img", "\u{202E}", "\u{2066}"] {
        assert!(!page.contains(forbidden), "{forbidden:?}");
    }
    assert!(page.contains("[U+202E]"), "marks of direction are named");
}

#[test]
fn two_runs_share_a_page_if_they_share_questions() {
    let dir = SAMPLE.dir.path();
    let other = JOB.replace("name = \"pictures\"", "name = \"fewer\"").replace("k = [5, 10, 20]", "k = [10, 20]");
    std::fs::write(dir.join("fewer.toml"), other).unwrap();
    succeed(&mut hopeval(dir, &["run", "fewer.toml", "--store", "store"]));
    succeed(&mut hopeval(dir, &["report", "pictures", "fewer", "--store", "store", "--out", "two.html"]));
    let page = std::fs::read_to_string(dir.join("two.html")).unwrap();
    let table = PageRows::find(&page, "difference-recall_all@10-B-A");
    assert!(table.rows.iter().all(|row| row[2].numbers == [0.0]), "the same configurations have the same scores");
    assert!(PageRows::find(&page, "measures-open").by_name().contains_key("B:tfidf"));
    let elsewhere = JOB.replace("name = \"pictures\"", "name = \"elsewhere\"").replace("seed = 5", "seed = 6");
    std::fs::write(dir.join("elsewhere.toml"), elsewhere).unwrap();
    succeed(&mut hopeval(dir, &["run", "elsewhere.toml", "--store", "store"]));
    refused(dir, &["pictures", "elsewhere"], "is over another corpus");
    refused(dir, &["pictures", "pictures"], "is named twice");
    refused(dir, &["nothing"], "nothing");
    refused(dir, &[], "<RUN>");
}

/// Checks that the runs get no page, and that the message has the reason.
fn refused(dir: &Path, runs: &[&str], reason: &str) {
    let arguments = [&["report", "--store", "store", "--out", "refused.html"], runs].concat();
    let output = run(&mut hopeval(dir, &arguments));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(reason), "{reason}: {said}");
    assert!(!dir.join("refused.html").exists());
}

#[test]
fn other_gold_and_other_questions_are_refused() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = dir.path();
    tiny::write(dir);
    let evaluated = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut questions = tiny::questions();
        questions.iter_mut().for_each(change);
        std::fs::write(dir.join("questions.json"), tiny::array(&questions)).unwrap();
        std::fs::write(dir.join("job.toml"), tiny::JOB.replace("\"tiny\"", &format!("\"{name}\""))).unwrap();
        succeed(&mut hopeval(dir, &["run", "job.toml", "--store", "store"]));
    };
    evaluated("first", &|_| ());
    evaluated("corrected", &|question| {
        if question["_id"] == "q4" {
            question["answer"] = "a village".into();
        }
    });
    evaluated("others", &|question| question["_id"] = format!("{}b", question["_id"].as_str().unwrap()).into());
    refused(dir, &["first", "corrected"], "has other gold than run");
    refused(dir, &["first", "corrected"], "the first of such questions is `q4`");
    refused(dir, &["first", "others"], "has no question of run");
}

#[test]
fn an_unfinished_run_has_measures_and_says_the_rest_is_missing() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = dir.path();
    tiny::write(dir);
    let found = document(&mut hopeval(dir, &["run", "job.toml", "--store", "store", "--json"]));
    // A process that died before the last record of the log leaves the same.
    let log = dir.join("store").join(layout::log_folder(run_of(&found)));
    let last = std::fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    std::fs::remove_file(last).unwrap();
    succeed(&mut hopeval(dir, &["report", "latest", "--store", "store"]));
    let page = std::fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("not finished: 12 of 12 outcomes, as of commit"), "{page}");
    assert_eq!(PageRows::find(&page, "measures-open").rows.len(), 1);
    for section in ["id=\"cost\"", "id=\"differences\"", "id=\"latency\"", "id=\"steps\"", "id=\"questions\""] {
        assert!(!page.contains(section), "{section}");
    }
}
