//! Times the measures on files written by `ops/bench/measures/run.py`.
//!
//! Why: a sweep scores millions of answers and ranked rows, and scoring must not slow it down.
//! What: `answers FILE.tsv` (prediction, tab, gold in each line): EM and F1 under the rules of `hotpotqa`;
//! `ranked DIR` (`ids.u32`, `gold_offsets.u32`, `gold_ids.u32`, little-endian; 100 passages a list): recall, MRR, nDCG,
//! MAP and precision from columns. Prints one JSON object: CPU seconds of the best repetition of this one thread,
//! without reading the files, and the means.
//! Knobs: `--repeat N` (default 3).

#![expect(clippy::print_stdout, reason = "a bench reports on stdout")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use hopeval_measures::measures::{map, mrr, ndcg, precision, recall};
use hopeval_measures::ranked::{GoldColumns, RankedColumns, evaluate};
use hopeval_measures::{AnswerScorer, Profile, aggregate};
use serde_json::{Map, Value, json};

/// The length of every ranked list.
const DEPTH: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, path) = match arguments.as_slice() {
        [what, path, ..] => (what.as_str(), Path::new(path)),
        _ => return Err("usage: measure_bench answers FILE.tsv | ranked DIR [--repeat N]".into()),
    };
    let repeat = match arguments.get(2..) {
        Some([flag, n]) if flag == "--repeat" => n.parse()?,
        _ => 3,
    };
    let report = match what {
        "answers" => answers(&fs::read_to_string(path)?, repeat)?,
        "ranked" => ranked(path, repeat)?,
        other => return Err(format!("unknown bench \"{other}\"; allowed: answers, ranked").into()),
    };
    println!("{report}");
    Ok(())
}

fn answers(text: &str, repeat: usize) -> Result<Value, Box<dyn Error>> {
    let rows: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    let mut scorer = AnswerScorer::new();
    let (seconds, (em, f1)) = best_of(repeat, || {
        let (mut em, mut f1) = (0.0, 0.0);
        for &(prediction, gold) in &rows {
            let score = scorer.score(Profile::HotpotQa, prediction, &[gold]);
            em += score.em;
            f1 += score.f1;
        }
        (em, f1)
    })?;
    let n = rows.len() as f64;
    Ok(json!({"rows": rows.len(), "cpu_s": seconds, "means": {"em": em / n, "f1": f1 / n}}))
}

fn ranked(folder: &Path, repeat: usize) -> Result<Value, Box<dyn Error>> {
    let ids = column(&folder.join("ids.u32"))?;
    let gold_offsets = column(&folder.join("gold_offsets.u32"))?;
    let gold_ids = column(&folder.join("gold_ids.u32"))?;
    let offsets: Vec<u32> = (0..=ids.len() / DEPTH).map(|i| (i * DEPTH) as u32).collect();
    let measures = [
        recall::recall_frac(10),
        recall::recall_frac(100),
        mrr::mrr(),
        ndcg::ndcg(10),
        map::map(),
        precision::precision(10),
    ];
    let (seconds, columns) = best_of(repeat, || {
        evaluate(
            RankedColumns { offsets: &offsets, ids: &ids },
            GoldColumns { offsets: &gold_offsets, groups: None, ids: &gold_ids, grades: None },
            &measures,
        )
    })?;
    let means: Map<String, Value> =
        measures.iter().zip(&columns).map(|(m, column)| (m.to_string(), json!(aggregate::mean(column).0))).collect();
    Ok(json!({"rows": ids.len(), "cpu_s": seconds, "means": means}))
}

fn column(path: &Path) -> Result<Vec<u32>, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
}

/// The last result and the least CPU time of one repetition. Short work is repeated inside, since the kernel counts
/// a thread's time in ticks.
fn best_of<T>(repeat: usize, mut work: impl FnMut() -> T) -> Result<(f64, T), Box<dyn Error>> {
    let started = Instant::now();
    let mut result = work();
    let inner = (0.5 / started.elapsed().as_secs_f64()).ceil().clamp(1.0, 1000.0) as usize;
    let mut best = f64::INFINITY;
    for _ in 0..repeat.max(1) {
        let before = cpu_seconds()?;
        for _ in 0..inner {
            result = std::hint::black_box(work());
        }
        best = best.min((cpu_seconds()? - before) / inner as f64);
    }
    Ok((best, result))
}

/// The CPU time of this thread so far (Linux).
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: u64 = text.split_whitespace().next().ok_or("no schedstat")?.parse()?;
    Ok(nanoseconds as f64 / 1e9)
}
