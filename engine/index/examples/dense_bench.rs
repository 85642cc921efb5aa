//! Measures exact dense top-k on one thread.
//!
//! Why: a query of a dense index costs two operations for each stored number. With a batch the bar is the time of
//! numpy's matrix product and `argpartition`, for single queries the bandwidth of the memory
//! (`ops/bench/dense/run.py` runs all).
//! What: builds an index of a file of vectors (single precision, by rows, no header), or answers a file of such
//! queries, and prints one JSON line with CPU seconds of the main thread.
//! Knobs: number format, `k`, queries at a time, repetitions.
//!
//! ```text
//! dense_bench build VECTORS DIMENSION INDEX f32|f16
//! dense_bench search INDEX f32|f16 QUERIES K BATCH REPETITIONS
//! dense_bench hits INDEX f32|f16 QUERIES K
//! ```

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::Read,
    path::Path,
    time::Instant,
};

use hopeval_index::{DenseIndex, DenseParameters, DenseQuery, DenseWriter, Hit, SearchScratch, VectorDtype};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn parameters(dtype: &str) -> Outcome<DenseParameters> {
    let dtype = match dtype {
        "f32" => VectorDtype::F32,
        "f16" => VectorDtype::F16,
        other => return Err(format!("number format {other}; allowed: f32, f16").into()),
    };
    Ok(DenseParameters { encoder: "bench".into(), dtype })
}

/// CPU seconds of the main thread, to a nanosecond.
fn thread_seconds() -> Outcome<f64> {
    let stat = fs::read_to_string("/proc/self/schedstat")?;
    Ok(stat.split_whitespace().next().unwrap_or_default().parse::<f64>()? / 1e9)
}

fn peak_mb() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default();
    Ok(line.split_whitespace().nth(1).unwrap_or("0").parse::<u64>()? / 1024)
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

fn build(vectors: &str, dimension: usize, index: &str, dtype: &str) -> Outcome<()> {
    let (from, wall) = (thread_seconds()?, Instant::now());
    let mut file = File::open(vectors)?;
    let passages = u32::try_from(file.metadata()?.len() / (4 * dimension as u64))?;
    let mut writer = DenseWriter::create(Path::new(index), "bench", &parameters(dtype)?, dimension, passages)?;
    let mut block = vec![0; 256 * dimension * 4];
    while writer.count() < u64::from(passages) {
        let rows = (u64::from(passages) - writer.count()).min(256) as usize;
        file.read_exact(&mut block[..rows * dimension * 4])?;
        writer.place(writer.count() as u32, &numbers(&block[..rows * dimension * 4]))?;
    }
    writer.finish()?;
    println!(
        "{{\"passages\": {passages}, \"build_s_cpu\": {:.3}, \"build_s_wall\": {:.3}, \
         \"disk_mb\": {:.1}, \"rss_mb\": {}}}",
        thread_seconds()? - from,
        wall.elapsed().as_secs_f64(),
        fs::metadata(index)?.len() as f64 / f64::from(1 << 20),
        peak_mb()?,
    );
    Ok(())
}

fn open(index: &str, dtype: &str, queries: &str) -> Outcome<(DenseIndex, Vec<f32>)> {
    let index = DenseIndex::open(Path::new(index), "bench", &parameters(dtype)?)?;
    index.verify()?;
    Ok((index, numbers(&fs::read(queries)?)))
}

fn answers(
    index: &DenseIndex,
    vectors: &[f32],
    k: usize,
    batch: usize,
    scratch: &mut SearchScratch,
) -> Outcome<Vec<Vec<Hit>>> {
    let queries: Vec<_> =
        vectors.chunks(index.dimension()).map(|vector| DenseQuery { vector, k, within: None }).collect();
    let mut found = Vec::new();
    for batch in queries.chunks(batch) {
        for hits in index.search(batch, scratch) {
            found.push(hits?);
        }
    }
    Ok(found)
}

fn search(index: &str, dtype: &str, queries: &str, [k, batch, repetitions]: [&str; 3]) -> Outcome<()> {
    let (k, batch, repetitions) = (k.parse()?, batch.parse::<usize>()?.max(1), repetitions.parse::<usize>()?.max(1));
    let (index, vectors) = open(index, dtype, queries)?;
    let mut scratch = SearchScratch::default();
    let mut seconds = Vec::new();
    for _ in 0..repetitions {
        let from = thread_seconds()?;
        answers(&index, &vectors, k, batch, &mut scratch)?;
        seconds.push(thread_seconds()? - from);
    }
    let count = vectors.len() / index.dimension();
    println!("{{\"queries\": {count}, \"batch\": {batch}, \"seconds_cpu\": {seconds:?}}}");
    Ok(())
}

fn hits(index: &str, dtype: &str, queries: &str, k: &str) -> Outcome<()> {
    let (index, vectors) = open(index, dtype, queries)?;
    for hits in answers(&index, &vectors, k.parse()?, 64, &mut SearchScratch::default())? {
        let list: Vec<String> = hits.iter().map(|hit| format!("[{}, {:?}]", hit.id, hit.score)).collect();
        println!("[{}]", list.join(", "));
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["build", vectors, dimension, index, dtype] => build(vectors, dimension.parse()?, index, dtype),
        ["search", index, dtype, queries, k, batch, repetitions] => {
            search(index, dtype, queries, [k, batch, repetitions])
        }
        ["hits", index, dtype, queries, k] => hits(index, dtype, queries, k),
        _ => Err("usage: build VECTORS DIMENSION INDEX DTYPE | search INDEX DTYPE QUERIES K BATCH REPETITIONS | \
                  hits INDEX DTYPE QUERIES K"
            .into()),
    }
}
