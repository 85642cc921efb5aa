//! Measures BM25 top-k on one thread.
//!
//! Why: an evaluation must never wait for retrieval. The bar is twice the better of bm25s (numba) and tantivy, per
//! CPU-second, for every size of the corpus and kind of query (`ops/bench/retrieval/run.py` runs all).
//! What: builds an index of a file of passages, one a line, or answers a file of queries, one a line, and prints one
//! JSON line with CPU seconds. Analysis of the queries' text is inside the measured time.
//! Knobs: threads of the build; `k`, repetitions.
//!
//! ```text
//! retrieval_bench build CORPUS INDEX THREADS
//! retrieval_bench search INDEX K REPETITIONS QUERIES...
//! retrieval_bench hits INDEX K QUERIES
//! ```

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::{env, error::Error, fs, path::Path, time::Instant};

use hopeval_index::{Bm25Index, Bm25Parameters, Passages, Query, SearchScratch, SearchedFields};

struct Lines<'a>(Vec<&'a str>);

impl Passages for Lines<'_> {
    fn len(&self) -> u32 {
        self.0.len() as u32
    }
    fn title(&self, _: u32) -> &str {
        ""
    }
    fn text(&self, id: u32) -> &str {
        self.0[id as usize]
    }
}

const PARAMETERS: Bm25Parameters = Bm25Parameters {
    analyzer: hopeval_index::Analyzer::Word,
    fields: SearchedFields::Text,
    formula: hopeval_index::Bm25Formula::Lucene,
    k1: 1.2,
    b: 0.75,
    epsilon: 0.25,
};

/// CPU seconds of all threads of this process, to 10 ms.
fn process_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / 100.0)
}

/// CPU seconds of the main thread, to a nanosecond.
fn thread_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/schedstat")?;
    Ok(stat.split_whitespace().next().unwrap_or_default().parse::<f64>()? / 1e9)
}

fn peak_mb() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default();
    Ok(line.split_whitespace().nth(1).unwrap_or("0").parse::<u64>()? / 1024)
}

fn build(corpus: &str, index: &str, threads: usize) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(corpus)?;
    let passages = Lines(text.lines().collect());
    let (corpus_mb, cpu, wall) = (peak_mb()?, process_seconds()?, Instant::now());
    Bm25Index::build(&passages, "bench", &PARAMETERS, Path::new(index), threads)?;
    println!(
        "{{\"passages\": {}, \"threads\": {threads}, \"build_s_cpu\": {:.2}, \"build_s_wall\": {:.2}, \
         \"disk_mb\": {:.1}, \"rss_over_corpus_mb\": {}}}",
        passages.len(),
        process_seconds()? - cpu,
        wall.elapsed().as_secs_f64(),
        fs::metadata(index)?.len() as f64 / f64::from(1 << 20),
        peak_mb()? - corpus_mb,
    );
    Ok(())
}

fn search(index: &str, k: usize, repetitions: usize, files: &[String]) -> Result<(), Box<dyn Error>> {
    let index = Bm25Index::open(Path::new(index), "bench", &PARAMETERS)?;
    let mut scratch = SearchScratch::default();
    for file in files {
        let text = fs::read_to_string(file)?;
        let queries: Vec<Query<'_>> = text.lines().map(|text| Query { text, k, within: None }).collect();
        let mut seconds = Vec::new();
        for _ in 0..repetitions {
            let from = thread_seconds()?;
            let hits = index.search(&queries, &mut scratch);
            seconds.push(thread_seconds()? - from);
            assert_eq!(hits.len(), queries.len());
        }
        seconds.sort_by(f64::total_cmp);
        println!(
            "{{\"queries\": {file:?}, \"count\": {}, \"seconds_cpu\": {seconds:?}, \"qps_cpu\": {:.1}}}",
            queries.len(),
            queries.len() as f64 / seconds[repetitions / 2],
        );
    }
    Ok(())
}

fn hits(index: &str, k: usize, file: &str) -> Result<(), Box<dyn Error>> {
    let index = Bm25Index::open(Path::new(index), "bench", &PARAMETERS)?;
    for text in fs::read_to_string(file)?.lines() {
        let hits = index.search(&[Query { text, k, within: None }], &mut SearchScratch::default());
        let list: Vec<String> = hits[0].iter().map(|hit| format!("[{}, {:?}]", hit.id, hit.score)).collect();
        println!("[{}]", list.join(", "));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["build", corpus, index, threads] => build(corpus, index, threads.parse()?),
        ["search", index, k, repetitions, ..] if arguments.len() > 4 => {
            search(index, k.parse()?, repetitions.parse()?, &arguments[4..])
        }
        ["hits", index, k, queries] => hits(index, k.parse()?, queries),
        _ => {
            Err("usage: build CORPUS INDEX THREADS | search INDEX K REPETITIONS QUERIES... | hits INDEX K QUERIES"
                .into())
        }
    }
}
