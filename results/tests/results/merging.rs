//! Merged segments: the same answers as before, in every order of events, for every reader.

use bytes::Bytes;
use hopeval_results::journal::{
    BUCKETS, FAN_IN, GRACE_MS, Journal, JournalEntry, JournalKey, MergingWriter, SegmentEntry, SegmentMerger,
    SegmentReader, journal_summary, scan_run, scan_segment, share_left, write_segment,
};
use hopeval_results::layout::{self, SegmentName};
use hopeval_results::store::{SimulatedFate, SimulatedOperation};
use hopeval_results::verify::verify_store;
use hopeval_results::{AnswerLocation, Store};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn key(n: u64) -> JournalKey {
    JournalKey(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

fn entry(n: u64, value: impl Into<Vec<u8>>) -> JournalEntry {
    let key = key(n);
    JournalEntry { bucket: u16::from_le_bytes([key.0[30], key.0[31]]) % BUCKETS, key, bytes: Bytes::from(value.into()) }
}

fn value_of(n: u64) -> Vec<u8> {
    format!("answer {n} ").repeat(1 + n as usize % 40).into_bytes()
}

fn memory() -> Store {
    Store::open("memory:").unwrap()
}

fn name_of(run: &str, generation: u64, worker: u32, seq: u64) -> String {
    layout::segment_name(layout::JOURNAL, 1_000 + seq, run, generation, worker, seq)
}

fn writer_of(run: &str, generation: u64) -> MergingWriter {
    MergingWriter { folder: layout::JOURNAL.to_owned(), run: run.to_owned(), generation, worker: 0 }
}

fn open_preferring(store: &Store, preferred: &BTreeSet<String>) -> Journal {
    Journal::open(store, &[layout::JOURNAL.to_owned()], &|_| true, preferred).unwrap()
}

fn open(store: &Store) -> Journal {
    open_preferring(store, &BTreeSet::new())
}

fn get(journal: &Journal, n: u64) -> Option<Bytes> {
    journal.read(&[journal.locate(&key(n))?]).remove(0).ok()
}

/// Writes a segment and gives it to the merger.
fn write(store: &Store, merger: &mut SegmentMerger, name: &str, entries: Vec<JournalEntry>) {
    let segment = write_segment(store, name, entries).unwrap();
    merger.add_segment(name, segment.bytes());
}

/// Writes `count` segments of one answer each, from `first`, of generation 1 of a run.
fn write_singles(store: &Store, merger: &mut SegmentMerger, run: &str, answers: std::ops::Range<u64>) {
    for n in answers {
        write(store, merger, &name_of(run, 1, 0, n), vec![entry(n, value_of(n))]);
    }
}

fn merge_all(merger: &mut SegmentMerger, now_ms: u64) {
    while merger.merge_once(now_ms).unwrap() {}
}

fn objects(store: &Store) -> Vec<String> {
    store.list(layout::JOURNAL).unwrap().into_iter().map(|(name, _)| name).collect()
}

/// All answers `0..count` are there, equal and once.
#[track_caller]
fn check_answers(store: &Store, count: u64) {
    let journal = open(store);
    assert_eq!((journal.len() as u64, journal.damaged().len()), (count, 0));
    for n in 0..count {
        assert_eq!(get(&journal, n).unwrap(), value_of(n), "{n}");
    }
    let mut seen = BTreeMap::new();
    let damaged = scan_run(store, "run", &mut |entry: SegmentEntry| {
        *seen.entry((entry.key, entry.origin)).or_insert(0) += 1;
        Ok(())
    });
    assert!(damaged.unwrap().is_empty());
    assert_eq!(seen.len() as u64, count);
    assert!(seen.values().all(|times| *times == 1), "no entry counts twice");
    assert_eq!(journal_summary(store).unwrap().entries, count);
}

#[test]
fn names_are_taken_apart_and_sort_after_their_sources() {
    let plain = name_of("20261121T223304123-0f3a99c1", 2, 3, 4);
    let mut name = SegmentName::parse(&plain).unwrap();
    assert_eq!((name.run.as_str(), name.id.merge), ("20261121T223304123-0f3a99c1", 0));
    assert_eq!(name.object_name(), plain);
    name.id.merge = 1;
    let merged = name.object_name();
    assert!(merged > plain, "{merged}");
    assert_eq!(SegmentName::parse(&merged).as_ref(), Some(&name));
    assert_eq!(layout::segment_writer(&merged), Some(("20261121T223304123-0f3a99c1", 2)));
    for other in ["journal/a.seg", "journal/1-r-000001-0000-000000.seg", "x", "journal/0000000000001-r-1-2-3_x.seg"] {
        assert_eq!(SegmentName::parse(other), None, "{other}");
    }
}

#[test]
fn a_merge_keeps_every_record_byte_by_byte() {
    let store = memory();
    let mut merger = SegmentMerger::new(&store, writer_of("run", 1), None);
    for segment in 0..FAN_IN as u64 {
        let entries = (0..20).map(|n| entry(segment * 20 + n, value_of(segment * 20 + n))).collect();
        write(&store, &mut merger, &name_of("run", 1, 0, segment), entries);
    }
    let before: BTreeMap<JournalKey, (String, Bytes, u32)> = objects(&store)
        .iter()
        .flat_map(|name| scan_segment(&store, name).unwrap())
        .map(|found| (found.key, (found.origin.to_string(), found.value, found.stored)))
        .collect();
    assert!(merger.merge_once(0).unwrap());
    assert!(!merger.merge_once(0).unwrap());
    assert_eq!(merger.delete_replaced(GRACE_MS - 1).unwrap(), 0, "reads under way may go on");
    assert_eq!(merger.delete_replaced(GRACE_MS).unwrap(), FAN_IN);
    let [merged] = objects(&store).try_into().unwrap();
    let after: BTreeMap<JournalKey, (String, Bytes, u32)> = scan_segment(&store, &merged)
        .unwrap()
        .into_iter()
        .map(|found| (found.key, (found.origin.to_string(), found.value, found.stored)))
        .collect();
    assert_eq!(before, after);
    check_answers(&store, 20 * FAN_IN as u64);
    assert_eq!(verify_store(&store, None).unwrap().damage, Vec::<String>::new());
}

/// Merged segments outlive their program, as others do.
#[test]
fn the_format_of_merged_segments_is_pinned() {
    let store = memory();
    let mut merger = SegmentMerger::new(&store, writer_of("run", 1), None);
    for seq in 0..FAN_IN as u64 {
        write(&store, &mut merger, &name_of("run", 1, 0, seq), vec![entry(seq % 9, format!("value {seq}"))]);
    }
    merge_all(&mut merger, 0);
    let merged = format!("{}_000001.seg", name_of("run", 1, 0, FAN_IN as u64 - 1).strip_suffix(".seg").unwrap());
    let digest = blake3::hash(&store.get(&merged).unwrap()).to_hex();
    assert_eq!(digest.as_str(), "4776ae47ad35b3ac473cdec9c649499a80d903d4664ffd997bfad11dae5a8396");
}

/// A day of one small segment a second would be 86,400 objects.
#[test]
fn objects_do_not_grow_with_time() {
    let store = memory();
    let mut merger = SegmentMerger::new(&store, writer_of("run", 1), None);
    let mut most = 0;
    for second in 0..5_000 {
        write_singles(&store, &mut merger, "run", second..second + 1);
        merge_all(&mut merger, second * 1_000);
        merger.delete_replaced(second * 1_000).unwrap();
        most = most.max(objects(&store).len());
    }
    assert!(most <= 100, "{most}");
    merger.delete_replaced(u64::MAX).unwrap();
    assert!(objects(&store).len() <= 4 * (FAN_IN - 1), "{}", objects(&store).len());
    check_answers(&store, 5_000);
}

/// A process is killed at each of its operations in turn, before or after the operation's effect. The next generation
/// takes over.
#[test]
fn a_kill_at_any_step_loses_and_doubles_nothing() {
    let count = FAN_IN as u64 * 2;
    for lost_answer in [false, true] {
        let mut last = None;
        for step in 0.. {
            let store = memory();
            let dies = move |operation: SimulatedOperation<'_>| match operation.number {
                n if n < step => SimulatedFate::Success,
                n if n == step && lost_answer => SimulatedFate::LostAnswer,
                _ => SimulatedFate::Failure,
            };
            let mortal = store.simulate(Duration::ZERO, dies).unwrap();
            let mut merger = SegmentMerger::new(&mortal, writer_of("run", 1), None);
            for n in 0..count {
                let segment = write_segment(&store, &name_of("run", 1, 0, n), vec![entry(n, value_of(n))]).unwrap();
                merger.add_segment(segment.name(), segment.bytes());
            }
            let killed = merger.merge_once(0).is_err() | merger.delete_replaced(GRACE_MS).is_err();
            check_answers(&store, count);

            let journal = open(&store);
            let left = share_left(journal.found(), "run", 0, 1);
            let mut next = SegmentMerger::new(&store, writer_of("run", 2), None);
            next.take_over(&left, 0);
            merge_all(&mut next, 0);
            next.delete_replaced(GRACE_MS).unwrap();
            assert!(objects(&store).len() < FAN_IN, "step {step}: {:?}", objects(&store));
            check_answers(&store, count);
            for n in 0..count {
                assert_eq!(get(&journal, n).unwrap(), value_of(n), "step {step}: a reader from between");
            }
            if !killed {
                last = Some(step);
                break;
            }
        }
        assert!(last.is_some_and(|steps| steps > 2 * count), "reads, one put and removals: {last:?}");
    }
}

#[test]
fn a_reader_of_removed_segments_reads_their_successors() {
    let store = memory();
    let mut merger = SegmentMerger::new(&store, writer_of("run", 1), None);
    let count = (FAN_IN * FAN_IN) as u64;
    write_singles(&store, &mut merger, "run", 0..10);
    let early = open(&store);
    write_singles(&store, &mut merger, "run", 10..12);
    let late = open(&store);
    for n in 12..count {
        write_singles(&store, &mut merger, "run", n..n + 1);
        merge_all(&mut merger, 0);
    }
    merger.delete_replaced(u64::MAX).unwrap();
    assert_eq!(objects(&store).len(), 1, "merged twice");
    for (journal, count) in [(early, 10), (late, 12)] {
        let locations: Vec<AnswerLocation> = (0..count).map(|n| journal.locate(&key(n)).unwrap()).collect();
        let values = journal.reader().read(&locations);
        assert!(values.iter().zip(0..).all(|(value, n)| value.as_ref().unwrap() == &value_of(n)));
        assert_eq!(*journal.segment_name(&locations[0]), objects(&store)[0]);
    }
}

/// An outage of listings, or a segment that nothing replaces, is a miss of its own locations.
#[test]
fn a_removed_segment_without_successor_is_a_miss_and_is_listed_for_once() {
    let store = memory();
    let mut merger = SegmentMerger::new(&store, writer_of("run", 1), None);
    write_singles(&store, &mut merger, "run", 0..3);
    let lists = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&lists);
    let counting = store.simulate(Duration::ZERO, move |operation| {
        counted.fetch_add(u64::from(operation.operation == "list"), Ordering::SeqCst);
        SimulatedFate::Success
    });
    let journal = open(&counting.unwrap());
    store.delete(&name_of("run", 1, 0, 1)).unwrap();
    let before = lists.load(Ordering::SeqCst);
    for _ in 0..5 {
        let found: Vec<bool> = (0..3).map(|n| get(&journal, n).is_some()).collect();
        assert_eq!(found, [true, false, true]);
    }
    assert_eq!(lists.load(Ordering::SeqCst) - before, 2, "a listing costs money, too");
}

/// The process that merges reads on without a listing, also segments that it indexes after their merge.
#[test]
fn the_merging_process_lists_nothing() {
    let store = memory();
    let no_lists = store.simulate(Duration::ZERO, |operation| match operation.operation {
        "list" => SimulatedFate::Failure,
        _ => SimulatedFate::Success,
    });
    let no_lists = no_lists.unwrap();
    let mut journal = Journal::open(&no_lists, &[], &|_| true, &BTreeSet::new()).unwrap();
    let mut merger = SegmentMerger::new(&no_lists, writer_of("run", 1), Some(journal.reader()));
    let mut behind = Vec::new();
    for n in 0..1_000 {
        let segment = write_segment(&store, &name_of("run", 1, 0, n), vec![entry(n, value_of(n))]).unwrap();
        merger.add_segment(segment.name(), segment.bytes());
        merge_all(&mut merger, n * 1_000);
        merger.delete_replaced(n * 1_000).unwrap();
        // Every third one is indexed late, after merges of merges.
        if n % 3 == 0 { behind.push(segment) } else { journal.add_segment(&segment) }
    }
    merger.delete_replaced(u64::MAX).unwrap();
    behind.iter().for_each(|segment| journal.add_segment(segment));
    for n in 0..1_000 {
        assert_eq!(get(&journal, n).unwrap(), value_of(n), "{n}");
    }
}

/// Readers read all the time, in their own processes, while a run writes, merges and removes.
#[test]
fn readers_go_on_while_segments_are_merged_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    // The listing of a folder is not one moment, so removals there wait, as in a run: for 50 segments.
    for (store, step) in [(memory(), GRACE_MS), (Store::open(folder.path().to_str().unwrap()).unwrap(), GRACE_MS / 50)]
    {
        let mut merger = SegmentMerger::new(&store, writer_of("run", 1), None);
        write_singles(&store, &mut merger, "run", 0..40);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let journal = open(&store);
                    let reader: SegmentReader = journal.reader();
                    let locations: Vec<AnswerLocation> = (0..40).map(|n| journal.locate(&key(n)).unwrap()).collect();
                    let mut last = false;
                    while !std::mem::replace(&mut last, over.load(Ordering::SeqCst)) {
                        for (value, n) in reader.read(&locations).into_iter().zip(0..) {
                            assert_eq!(value.unwrap(), value_of(n), "{n}");
                        }
                        let again = open(&store);
                        assert!((0..40).all(|n| again.locate(&key(n)).is_some()), "a new reader finds all keys, too");
                    }
                });
            }
            for n in 40..340 {
                write_singles(&store, &mut merger, "run", n..n + 1);
                merge_all(&mut merger, n * step);
                merger.delete_replaced((n + 1) * step).unwrap();
            }
            over.store(true, Ordering::SeqCst);
        });
        check_answers(&store, 340);
    }
}

/// Another run reads the journal that this one merges, and its later answers keep their rank.
#[test]
fn two_runs_share_a_journal_and_the_order_of_answers() {
    let store = memory();
    let mut merger = SegmentMerger::new(&store, writer_of("a", 1), None);
    for seq in 0..FAN_IN as u64 {
        write(&store, &mut merger, &name_of("a", 1, 0, seq), vec![entry(seq, "of a"), entry(100, format!("a {seq}"))]);
    }
    // Between the first and the last segment of a, b answered some keys again.
    let between = layout::segment_name(layout::JOURNAL, 1_004, "b", 1, 0, 0);
    write_segment(&store, &between, vec![entry(2, "of b"), entry(9, "of b"), entry(100, "b")]).unwrap();
    let before = open(&store);
    let expected: Vec<Option<Bytes>> = (0..FAN_IN as u64).chain([100]).map(|n| get(&before, n)).collect();
    assert_eq!(expected[2].as_deref(), Some(b"of b".as_slice()), "later than a's");
    assert_eq!(expected[9].as_deref(), Some(b"of a".as_slice()), "earlier than a's");
    assert_eq!(expected[16].as_deref(), Some(b"a 15".as_slice()));
    merge_all(&mut merger, 0);
    merger.delete_replaced(u64::MAX).unwrap();
    assert_eq!(objects(&store).len(), 2);
    let after = open(&store);
    for journal in [&before, &after] {
        let found: Vec<Option<Bytes>> = (0..FAN_IN as u64).chain([100]).map(|n| get(journal, n)).collect();
        assert_eq!(found, expected);
    }
}

/// Two processes that take each other for dead merge the same segments.
#[test]
fn rival_mergers_lose_nothing() {
    let store = memory();
    let count = FAN_IN as u64 * FAN_IN as u64;
    let mut first = SegmentMerger::new(&store, writer_of("run", 1), None);
    write_singles(&store, &mut first, "run", 0..count);
    let reader = open(&store);
    let mut second = SegmentMerger::new(&store, writer_of("run", 2), None);
    second.take_over(reader.found(), 0);
    // Both have merged; the first removes its sources, some of which the second still has to merge again.
    assert!(second.merge_once(0).unwrap());
    assert!(first.merge_once(0).unwrap());
    first.delete_replaced(u64::MAX).unwrap();
    check_answers(&store, count);
    let (journal, mut third) = (open(&store), SegmentMerger::new(&store, writer_of("run", 3), None));
    third.take_over(journal.found(), 0);
    write_singles(&store, &mut third, "run", count..count + FAN_IN as u64);
    merge_all(&mut third, 0);
    third.delete_replaced(u64::MAX).unwrap();
    second.delete_replaced(u64::MAX).unwrap();
    write_singles(&store, &mut first, "run", count + 20..count + 20);
    check_answers(&store, count + FAN_IN as u64);
    assert!((0..count).all(|n| get(&reader, n).unwrap() == value_of(n)));
}

#[test]
fn a_damaged_source_stays_where_it_is() {
    let store = memory();
    let mut merger = SegmentMerger::new(&store, writer_of("run", 1), None);
    write_singles(&store, &mut merger, "run", 0..FAN_IN as u64);
    let damaged = name_of("run", 1, 0, 3);
    let mut bytes = store.get(&damaged).unwrap().to_vec();
    bytes[60] ^= 1;
    store.put(&damaged, bytes.into()).unwrap();
    merge_all(&mut merger, 0);
    merger.delete_replaced(u64::MAX).unwrap();
    let [left, _] = <[String; 2]>::try_from(objects(&store)).unwrap();
    assert_eq!(left, damaged);
    let journal = open(&store);
    assert!((0..FAN_IN as u64).all(|n| get(&journal, n).is_some() == (n != 3)));
}

#[test]
fn segments_of_other_writers_are_left_alone() {
    let store = memory();
    for n in 0..40 {
        for (run, generation) in [("run", 2), ("other", 1)] {
            write_segment(&store, &name_of(run, generation, 0, n), vec![entry(n, value_of(n))]).unwrap();
        }
    }
    let before = objects(&store);
    let journal = open(&store);
    let mut merger = SegmentMerger::new(&store, writer_of("run", 2), None);
    merger.take_over(journal.found(), 0);
    merge_all(&mut merger, 0);
    assert_eq!(objects(&store), before);
    let shares: Vec<usize> = (0..3).map(|index| share_left(journal.found(), "run", index, 3).len()).collect();
    assert_eq!(shares, [40, 0, 0], "one worker wrote them, so one takes them over");
}

/// A flipped bit of a merged segment never gives a wrong value.
#[test]
fn damage_of_a_merged_segment_is_noticed() {
    let store = memory();
    let mut merger = SegmentMerger::new(&store, writer_of("run", 1), None);
    write_singles(&store, &mut merger, "run", 0..FAN_IN as u64);
    merge_all(&mut merger, 0);
    merger.delete_replaced(u64::MAX).unwrap();
    let [name] = <[String; 1]>::try_from(objects(&store)).unwrap();
    let whole = store.get(&name).unwrap();
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0x10;
        store.put(&name, bytes.into()).unwrap();
        let Ok(journal) = Journal::open(&store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new()) else {
            continue;
        };
        for n in 0..FAN_IN as u64 {
            if let Some(found) = get(&journal, n) {
                assert_eq!(found, value_of(n), "bit at {at}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any segments, with repeated keys and any choice of preferred ones: a merge changes no answer of any reader.
    #[test]
    fn a_merge_changes_no_answer(
        segments in vec((vec((0u64..30, any::<u8>()), 0..6), any::<bool>(), 0u8..8), FAN_IN..40),
    ) {
        let store = memory();
        let mut merger = SegmentMerger::new(&store, writer_of("run", 1), None);
        let mut preferred = BTreeSet::new();
        for (seq, (entries, prefer, other)) in segments.iter().enumerate() {
            // One in eight is of another run, and stays.
            let run = if *other == 0 { "other" } else { "run" };
            let name = name_of(run, 1, 0, seq as u64);
            let entries = entries.iter().map(|(n, value)| entry(*n, vec![*value; *n as usize])).collect();
            let segment = write_segment(&store, &name, entries).unwrap();
            if *other != 0 {
                merger.add_segment(&name, segment.bytes());
                if *prefer {
                    preferred.insert(name);
                }
            }
        }
        let (none, journals) = (BTreeSet::new(), [open(&store), open_preferring(&store, &preferred)]);
        let answers = |journal: &Journal| (0..30).map(|n| get(journal, n)).collect::<Vec<_>>();
        let expected = journals.each_ref().map(answers);
        let merged = merger.merge_once(0).unwrap();
        let both = [open_preferring(&store, &none), open_preferring(&store, &preferred)];
        prop_assert_eq!(&both.each_ref().map(answers), &expected, "merged, and not removed yet");
        merger.delete_replaced(u64::MAX).unwrap();
        let after = [open_preferring(&store, &none), open_preferring(&store, &preferred)];
        prop_assert_eq!(&after.each_ref().map(answers), &expected);
        prop_assert_eq!(&journals.each_ref().map(answers), &expected, "readers from before");
        prop_assert!(!merged || objects(&store).len() < segments.len());
    }
}
