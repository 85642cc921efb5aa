//! Why: a run asks the journal about every request, and a resume loads all its keys before it can begin; outcome parts
//! are written while the dataflow runs.
//!
//! What: `locate` over a million keys in random order (ns a key), opening a folder of many segments, reading values by
//! range, writing and reading outcome parts of a hundred ranked passages a row. A local folder, one process.
//!
//! Knobs: `HOPEVAL_BENCH_KEYS` (1,000,000), `HOPEVAL_BENCH_SEGMENTS` (2,000). Run with
//! `cargo bench -p hopeval-results --bench storage`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints its figures, and stops where it fails")]

use bytes::Bytes;
use hopeval_results::journal::{AnswerLocation, Journal, JournalEntry, JournalKey, write_segment};
use hopeval_results::tables::outcomes::write_part;
use hopeval_results::tables::{OutcomeRow, read_table};
use hopeval_results::{Store, layout};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

fn knob(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn key(n: u64) -> JournalKey {
    JournalKey(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

fn main() {
    let (keys, segments) = (knob("HOPEVAL_BENCH_KEYS", 1_000_000), knob("HOPEVAL_BENCH_SEGMENTS", 2_000));
    let folder = tempfile::tempdir().unwrap();
    journal(&Store::open(folder.path().to_str().unwrap()).unwrap(), keys, segments);
    outcomes(&Store::open(folder.path().to_str().unwrap()).unwrap());
}

fn journal(store: &Store, keys: u64, segments: u64) {
    let each = keys / segments;
    let value = |n: u64| format!("{{\"hits\":[{n},{},{}],\"scores\":[1.5,0.25,0.125]}}", n / 3, n / 7).repeat(4);
    let start = Instant::now();
    for segment in 0..segments {
        let entries = (segment * each..(segment + 1) * each).map(|n| {
            let key = key(n);
            let bucket = u16::from_le_bytes([key.0[30], key.0[31]]) % 4096;
            JournalEntry { bucket, key, bytes: Bytes::from(value(n)) }
        });
        write_segment(store, &layout::segment_name(layout::JOURNAL, segment, "run", 1, 0, 0), entries.collect())
            .unwrap();
    }
    let wrote = start.elapsed();
    println!("write  {segments} segments of {each}, synced: {:.2} s", wrote.as_secs_f64());

    let start = Instant::now();
    let journal = Journal::open(store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new()).unwrap();
    let stats = journal.stats();
    println!("open   {} keys, {} MB: {:.2} s", stats.keys, stats.bytes / 1_000_000, start.elapsed().as_secs_f64());

    let order: Vec<JournalKey> = (0..keys).map(|n| key(n.wrapping_mul(2_654_435_761) % (each * segments))).collect();
    let start = Instant::now();
    let found: usize = order.iter().filter(|key| black_box(journal.locate(key)).is_some()).count();
    println!("locate {found} found: {:.0} ns a key", start.elapsed().as_nanos() as f64 / order.len() as f64);

    let locations: Vec<AnswerLocation> = order.iter().take(100_000).filter_map(|key| journal.locate(key)).collect();
    let start = Instant::now();
    let read = locations.chunks(4096).flat_map(|some| journal.read(some)).filter(Result::is_ok).count();
    println!("read   {read} values at random, 4,096 at once: {:.2} s", start.elapsed().as_secs_f64());
}

fn outcomes(store: &Store) {
    let rows: Vec<OutcomeRow> = (0..20_000u64)
        .map(|index| OutcomeRow {
            configuration: (index % 4) as u32,
            index: index / 4,
            question: format!("question-{}", index / 4),
            status: "ok".to_owned(),
            ranked: (0..100).map(|i| (index * 7919 + i * 104_729) as u32 % 5_000_000).collect(),
            scores: (0..100).map(|i| 20.0 - (i as f64).sqrt() - (index % 97) as f64 / 100.0).collect(),
            ..OutcomeRow::default()
        })
        .collect();
    let count = rows.len() as f64;
    let start = Instant::now();
    let part = write_part(store, &layout::outcome_part("run", 1, 0, 0), rows).unwrap();
    let wrote = start.elapsed().as_secs_f64();
    println!(
        "part   {count} rows of 100 passages, {} MB: written at {:.0} rows/s",
        part.bytes / 1_000_000,
        count / wrote
    );
    let start = Instant::now();
    let read = read_table::<OutcomeRow>(store, &part.path).unwrap().len() as f64;
    println!("part   read at {:.0} rows/s", read / start.elapsed().as_secs_f64());
}
