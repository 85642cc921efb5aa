//! Why: paid answers are written within a second, a segment each. Without merges a day would leave 86,400 objects, and
//! the next run would open every one of them.
//!
//! What: a simulated day of one segment a second, in memory, with a simulated clock: the most objects at any time, the
//! objects left, the bytes written for each byte of answers, and the seconds of all merges; the same journal in a local
//! folder, opened, scanned, and 100,000 values of it read at random. One process.
//!
//! Knobs: `HOPEVAL_BENCH_SEGMENTS` (86,400), `HOPEVAL_BENCH_RECORDS` in each (12, so that there are a million),
//! `HOPEVAL_BENCH_BYTES` of an answer (600, random letters). Run with `cargo bench -p hopeval-results --bench merging`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints its figures, and stops where it fails")]

use bytes::Bytes;
use hopeval_results::journal::{
    AnswerLocation, Journal, JournalEntry, JournalKey, MergingWriter, SegmentMerger, scan_run, write_segment,
};
use hopeval_results::{Store, layout};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn knob(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn key(n: u64) -> JournalKey {
    JournalKey(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

/// Letters that compress as English does, about by half.
fn answer(n: u64, bytes: u64) -> Bytes {
    let mut reader = blake3::Hasher::new().update(&n.to_le_bytes()).finalize_xof();
    let mut random = vec![0; bytes as usize];
    reader.fill(&mut random);
    random.iter().map(|byte| b"etaoinshrdlucmfw"[usize::from(byte & 15)]).collect()
}

fn main() {
    let (segments, records) = (knob("HOPEVAL_BENCH_SEGMENTS", 86_400), knob("HOPEVAL_BENCH_RECORDS", 12));
    let bytes = knob("HOPEVAL_BENCH_BYTES", 600);
    let store = Store::open("memory:").unwrap();
    let writer = MergingWriter { folder: layout::JOURNAL.to_owned(), run: "run".to_owned(), generation: 1, worker: 0 };
    let mut merger = SegmentMerger::new(&store, writer, None);
    let (mut merging, mut written) = (Duration::ZERO, 0);
    let (mut most, mut longest) = (0, Duration::ZERO);
    for second in 0..segments {
        let entries = (second * records..(second + 1) * records).map(|n| {
            // One endpoint's answers have one bucket.
            JournalEntry { bucket: 77, key: key(n), bytes: answer(n, bytes) }
        });
        let name = layout::segment_name(layout::JOURNAL, second * 1_000, "run", 1, 0, second);
        let segment = write_segment(&store, &name, entries.collect()).unwrap();
        written += segment.bytes();
        merger.add_segment(segment.name(), segment.bytes());
        let start = Instant::now();
        let mut merged = false;
        while merger.merge_once(second * 1_000).unwrap() {
            merged = true;
        }
        if merged {
            most = most.max(store.list(layout::JOURNAL).unwrap().len());
        }
        merger.delete_replaced(second * 1_000).unwrap();
        longest = longest.max(start.elapsed());
        merging += start.elapsed();
    }
    merger.delete_replaced(u64::MAX).unwrap();
    let left = store.list(layout::JOURNAL).unwrap();
    let size: u64 = left.iter().map(|(_, size)| size).sum();
    println!("simulated day: {segments} segments of {records} answers, {} MB written", written / 1_000_000);
    println!("objects  at most {most} at a time, {} left, {} MB", left.len(), size / 1_000_000);
    println!("merges   {:.1} s in all, the longest {:.2} s", merging.as_secs_f64(), longest.as_secs_f64());

    let folder = tempfile::tempdir().unwrap();
    let local = Store::open(folder.path().to_str().unwrap()).unwrap();
    for (name, _) in &left {
        local.put(name, store.get(name).unwrap()).unwrap();
    }
    drop((merger, store));
    let start = Instant::now();
    let journal = Journal::open(&local, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new()).unwrap();
    println!("open     {} answers from a local folder: {:.2} s", journal.len(), start.elapsed().as_secs_f64());
    assert_eq!((journal.len() as u64, journal.damaged().len()), (segments * records, 0));

    // A resumed run with endpoints sums what it has spent.
    let start = Instant::now();
    let (mut scanned, mut size) = (0, 0);
    let damaged = scan_run(&local, "run", &mut |entry| {
        scanned += 1;
        size += entry.value.len();
        Ok(())
    });
    assert_eq!((scanned, damaged.unwrap().len()), (segments * records, 0));
    println!(
        "scan     {scanned} answers with their values, {} MB: {:.2} s",
        size / 1_000_000,
        start.elapsed().as_secs_f64()
    );

    let wanted = (0..100_000).map(|n: u64| n.wrapping_mul(2_654_435_761) % (segments * records));
    let wanted: Vec<u64> = wanted.collect();
    let locations: Vec<AnswerLocation> = wanted.iter().map(|n| journal.locate(&key(*n)).unwrap()).collect();
    let start = Instant::now();
    let mut read = 0;
    for (some, numbers) in locations.chunks(4096).zip(wanted.chunks(4096)) {
        for (value, n) in journal.read(some).into_iter().zip(numbers) {
            assert_eq!(value.unwrap(), answer(*n, bytes));
            read += 1;
        }
    }
    println!("read     {read} values at random, 4,096 at once: {:.2} s", start.elapsed().as_secs_f64());
}
