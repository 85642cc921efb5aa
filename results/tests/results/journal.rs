//! The journal against a map, and against every kind of damage.

use bytes::Bytes;
use hopeval_results::journal::{
    BUCKETS, Journal, JournalEntry, JournalError, JournalKey, Segment, journal_summary, scan_segment, write_segment,
};
use hopeval_results::{AnswerLocation, Store, layout};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn key(n: u64) -> JournalKey {
    JournalKey(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

/// A key's bucket is a function of the key.
fn entry(n: u64, value: impl Into<Vec<u8>>) -> JournalEntry {
    let key = key(n);
    let bucket = u16::from_le_bytes([key.0[30], key.0[31]]) % BUCKETS;
    JournalEntry { bucket, key, bytes: Bytes::from(value.into()) }
}

fn memory() -> Store {
    Store::open("memory:").unwrap()
}

fn open(store: &Store) -> Journal {
    Journal::open(store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new()).unwrap()
}

fn get(journal: &Journal, key: &JournalKey) -> Option<Bytes> {
    let location = journal.locate(key)?;
    Some(journal.read(&[location]).remove(0).unwrap())
}

fn name(created_ms: u64) -> String {
    layout::segment_name(layout::JOURNAL, created_ms, "run", 1, 0, 0)
}

#[test]
fn what_was_written_is_found_and_read() {
    let store = memory();
    let long = "a passage that repeats itself, ".repeat(100);
    let segment = write_segment(&store, &name(1), vec![entry(1, "one"), entry(2, long.clone()), entry(3, "")]).unwrap();
    assert_eq!(segment.entries(), 3);
    assert!(segment.bytes() < 1000, "long values are compressed: {} bytes", segment.bytes());
    assert_eq!(store.size(segment.name()).unwrap(), segment.bytes());
    let journal = open(&store);
    assert_eq!(get(&journal, &key(1)).unwrap(), "one");
    assert_eq!(get(&journal, &key(2)).unwrap(), long);
    assert_eq!(get(&journal, &key(3)).unwrap(), "");
    assert_eq!(journal.locate(&key(4)), None);
    assert_eq!(&*journal.segment_name(&journal.locate(&key(1)).unwrap()), name(1));
    let entries = scan_segment(&store, &name(1)).unwrap();
    assert!(entries.is_sorted_by_key(|entry| (entry.bucket, entry.key)));
    assert_eq!(entries.iter().find(|entry| entry.key == key(1)).unwrap().value, "one");
}

#[test]
fn a_written_segment_is_found_at_once_and_by_a_reader_elsewhere() {
    let store = memory();
    let mut journal = open(&store);
    let reader = journal.reader();
    let segment = write_segment(&store, &name(1), (0..100).map(|n| entry(n, n.to_string())).collect()).unwrap();
    assert_eq!(journal.locate(&key(7)), None);
    journal.add_segment(&segment);
    let locations: Vec<AnswerLocation> = (0..100).rev().map(|n| journal.locate(&key(n)).unwrap()).collect();
    let values = std::thread::spawn(move || reader.read(&locations)).join().unwrap();
    let values: Vec<Bytes> = values.into_iter().map(Result::unwrap).collect();
    assert!(values.iter().zip((0..100).rev()).all(|(value, n)| *value == n.to_string()));
    assert_eq!(journal.stats().keys, 100);
    assert_eq!(journal.stats().segments, 1);
}

#[test]
fn the_order_of_entries_does_not_change_a_byte() {
    let store = memory();
    let entries: Vec<JournalEntry> = (0..50).map(|n| entry(n, format!("value {n}").repeat(9))).collect();
    write_segment(&store, &name(1), entries.clone()).unwrap();
    write_segment(&store, &name(2), entries.into_iter().rev().collect()).unwrap();
    assert_eq!(store.get(&name(1)).unwrap(), store.get(&name(2)).unwrap());
}

/// Segments outlive their program: a change of the format must be intended, and must change the version.
#[test]
fn the_format_is_pinned() {
    let store = memory();
    write_segment(&store, &name(1), (0..10).map(|n| entry(n, format!("value {n}"))).collect()).unwrap();
    let digest = blake3::hash(&store.get(&name(1)).unwrap()).to_hex();
    assert_eq!(digest.as_str(), "fea3ccd176bd2b2795d998f1ba6628d272d9a7b23234c50b98baf0841a48937e");
}

#[test]
fn later_segments_win_unless_others_are_preferred() {
    let store = memory();
    let run_folder = layout::run_journal("run");
    let in_run = layout::segment_name(&run_folder, 4, "run", 1, 0, 0);
    write_segment(&store, &name(3), vec![entry(1, "not kept"), entry(1, "third")]).unwrap();
    write_segment(&store, &name(2), vec![entry(1, "second")]).unwrap();
    write_segment(&store, &in_run, vec![entry(1, "fourth, in the run")]).unwrap();
    assert_eq!(get(&open(&store), &key(1)).unwrap(), "third");
    let both = [layout::JOURNAL.to_owned(), run_folder];
    let open =
        |preferred: &[String]| Journal::open(&store, &both, &|_| true, &preferred.iter().cloned().collect()).unwrap();
    assert_eq!(get(&open(&[]), &key(1)).unwrap(), "fourth, in the run", "file names decide, not folders");
    assert_eq!(get(&open(&[name(2)]), &key(1)).unwrap(), "second");
    assert_eq!(get(&open(&[name(3), name(2)]), &key(1)).unwrap(), "third", "the later of two preferred ones");
}

#[test]
fn only_owned_buckets_are_loaded() {
    let store = memory();
    let entries: Vec<JournalEntry> = (0..1000).map(|n| entry(n, n.to_string())).collect();
    write_segment(&store, &name(1), entries.clone()).unwrap();
    let owns = |bucket: u16| bucket % 4 == 1;
    let mut journal = Journal::open(&store, &[layout::JOURNAL.to_owned()], &owns, &BTreeSet::new()).unwrap();
    let mine = entries.iter().filter(|entry| owns(entry.bucket)).count();
    assert!(mine > 0 && mine < 1000);
    assert_eq!(journal.len(), mine);
    assert!(entries.iter().all(|entry| journal.locate(&entry.key).is_some() == owns(entry.bucket)));
    journal.add_segment(&write_segment(&store, &name(2), (1000..2000).map(|n| entry(n, "x")).collect()).unwrap());
    let added = (1000..2000).filter(|&n| owns(entry(n, "").bucket)).count();
    assert_eq!(journal.len(), mine + added, "nor are others' added");
}

#[test]
fn a_segment_that_vanished_is_a_miss_for_its_locations_only() {
    let store = memory();
    write_segment(&store, &name(1), vec![entry(1, "one")]).unwrap();
    write_segment(&store, &name(2), vec![entry(2, "two")]).unwrap();
    let journal = open(&store);
    store.delete(&name(1)).unwrap();
    let values = journal.read(&[journal.locate(&key(1)).unwrap(), journal.locate(&key(2)).unwrap()]);
    assert!(matches!(&values[0], Err(JournalError::Unreadable { path, .. }) if path.contains(&name(1))));
    assert_eq!(values[1].as_ref().unwrap(), "two");
}

#[test]
fn an_answer_that_was_computed_again_replaces_the_unusable_one() {
    let store = memory();
    write_segment(&store, &name(1), vec![entry(1, "old")]).unwrap();
    let mut journal = open(&store);
    journal.add_segment(&write_segment(&store, &name(2), vec![entry(1, "new")]).unwrap());
    assert_eq!(get(&journal, &key(1)).unwrap(), "new");
}

#[test]
fn keys_that_begin_alike_are_told_apart() {
    let store = memory();
    let (mut one, mut other) = (entry(1, "one"), entry(1, "other"));
    one.key.0[31] = 1;
    other.key.0[31] = 2;
    write_segment(&store, &name(1), vec![one.clone()]).unwrap();
    let journal = open(&store);
    assert_eq!(get(&journal, &one.key).unwrap(), "one");
    let location = journal.locate(&other.key).unwrap();
    assert!(matches!(journal.read(&[location])[0], Err(JournalError::Value { .. })), "the whole key is compared");
}

#[test]
fn another_version_is_an_error_that_names_both() {
    let store = memory();
    write_segment(&store, &name(1), vec![entry(1, "one")]).unwrap();
    let mut bytes = store.get(&name(1)).unwrap().to_vec();
    let at = bytes.len() - 20;
    bytes[at..at + 4].copy_from_slice(&9u32.to_le_bytes());
    store.put(&name(1), Bytes::from(bytes)).unwrap();
    let error = Journal::open(&store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new()).unwrap_err();
    assert!(matches!(error, JournalError::Version { found: 9, supported: 2, .. }), "{error}");
    assert!(error.to_string().contains(&name(1)), "{error}");
    assert!(matches!(journal_summary(&store), Err(JournalError::Version { .. })));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut bad = entry(1, "x");
    bad.bucket = BUCKETS;
    assert!(matches!(write_segment(&memory(), &name(1), vec![bad]), Err(JournalError::Bucket { found: BUCKETS })));
}

#[test]
fn the_summary_counts_and_sets_damage_aside() {
    let store = memory();
    let mut bytes = 0;
    for created in 0..3 {
        let entries = (0..10).map(|n| entry(created * 10 + n, "value")).collect();
        bytes += write_segment(&store, &name(created), entries).unwrap().bytes();
    }
    store.put(&name(9), Bytes::from_static(b"torn")).unwrap();
    let found = journal_summary(&store).unwrap();
    assert_eq!((found.segments, found.entries, found.bytes, found.damaged.len()), (3, 30, bytes, 1));
    assert!(found.damaged[0].contains(&name(9)), "{:?}", found.damaged);
    let journal = open(&store);
    assert_eq!((journal.len(), journal.damaged().len()), (30, 1));
    assert!(journal.damaged()[0].to_string().contains(&name(9)));
}

#[test]
fn a_segment_whose_keys_exceed_one_read_is_loaded_whole() {
    let store = memory();
    let entries: Vec<JournalEntry> = (0..5_000).map(|n| entry(n, n.to_string())).collect();
    write_segment(&store, &name(1), entries).unwrap();
    let journal = Journal::open(&store, &[layout::JOURNAL.to_owned()], &|b| b % 3 == 0, &BTreeSet::new()).unwrap();
    let mine: Vec<u64> = (0..5_000).filter(|&n| entry(n, "").bucket % 3 == 0).collect();
    assert_eq!(journal.len(), mine.len());
    let locations: Vec<AnswerLocation> = mine.iter().map(|&n| journal.locate(&key(n)).unwrap()).collect();
    for (value, n) in journal.read(&locations).into_iter().zip(mine) {
        assert_eq!(value.unwrap(), n.to_string());
    }
}

#[test]
fn a_thousand_segments_open_in_a_local_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    // Written around the store: a sync for each would be most of the test's time.
    let scratch = memory();
    std::fs::create_dir_all(folder.path().join(layout::JOURNAL)).unwrap();
    for created in 0..1000u64 {
        let entries = (0..5).map(|n| entry(created * 5 + n, format!("value {n}"))).collect();
        let segment: Segment = write_segment(&scratch, &name(created), entries).unwrap();
        std::fs::write(folder.path().join(segment.name()), scratch.get(segment.name()).unwrap()).unwrap();
    }
    let journal = open(&store);
    assert_eq!((journal.stats().segments, journal.len()), (1000, 5000));
    let locations: Vec<AnswerLocation> = (0..5000).map(|n| journal.locate(&key(n)).unwrap()).collect();
    assert!(journal.read(&locations).iter().all(Result::is_ok));
}

/// After one changed byte or a cut, every value read is right, and nothing panics.
fn survives(original: &[u8], damaged: Vec<u8>) -> Result<(), TestCaseError> {
    let store = memory();
    store.put(&name(1), Bytes::from(damaged)).unwrap();
    prop_assert_ne!(store.get(&name(1)).unwrap(), original);
    let opened = Journal::open(&store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new());
    let journal = match opened {
        Ok(journal) => journal,
        Err(JournalError::Version { .. }) => return Ok(()),
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    };
    prop_assert!(journal.damaged().len() <= 1);
    for n in 0..20 {
        if let Some(location) = journal.locate(&key(n))
            && let Ok(value) = &journal.read(&[location])[0]
        {
            prop_assert_eq!(value, &Bytes::from(value_of(n)));
        }
    }
    prop_assert!(scan_segment(&store, &name(1)).is_err(), "`store verify` reads a segment so");
    let _ = journal_summary(&store);
    Ok(())
}

fn value_of(n: u64) -> Vec<u8> {
    if n.is_multiple_of(2) { n.to_string().into_bytes() } else { format!("value {n} ").repeat(20).into_bytes() }
}

fn twenty() -> Vec<u8> {
    let store = memory();
    write_segment(&store, &name(1), (0..20).map(|n| entry(n, value_of(n))).collect()).unwrap();
    store.get(&name(1)).unwrap().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_bit_never_yields_a_wrong_value(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let original = twenty();
        let mut damaged = original.clone();
        damaged[at.index(original.len())] ^= 1 << bit;
        survives(&original, damaged)?;
    }

    #[test]
    fn a_torn_segment_never_yields_a_wrong_value(at in any::<prop::sample::Index>(), zeros in 0usize..200) {
        let original = twenty();
        let mut damaged = original[..at.index(original.len())].to_vec();
        damaged.extend(std::iter::repeat_n(0, zeros));
        survives(&original, damaged)?;
    }

    /// Segments, duplicates, owners and preferences against a map.
    #[test]
    fn the_journal_is_a_map(
        segments in vec((vec((0u64..40, vec(any::<u8>(), 0..200)), 0..30), any::<bool>()), 0..8),
        workers in 1u16..5,
    ) {
        let store = memory();
        let mut preferred = BTreeSet::new();
        for (created, (entries, prefer)) in segments.iter().enumerate() {
            let entries = entries.iter().map(|(n, value)| entry(*n, value.clone())).collect();
            write_segment(&store, &name(created as u64), entries).unwrap();
            if *prefer {
                preferred.insert(name(created as u64));
            }
        }
        let mut expected: BTreeMap<u64, &[u8]> = BTreeMap::new();
        for wanted in [true, false] {
            for (entries, _) in segments.iter().rev().filter(|(_, prefer)| *prefer == wanted) {
                for (n, value) in entries.iter().rev() {
                    expected.entry(*n).or_insert(value);
                }
            }
        }
        let mut found = 0;
        for worker in 0..workers {
            let owns = |bucket: u16| bucket % workers == worker;
            let journal = Journal::open(&store, &[layout::JOURNAL.to_owned()], &owns, &preferred).unwrap();
            prop_assert_eq!(journal.damaged().len(), 0);
            found += journal.len();
            let mine: Vec<u64> = expected.keys().copied().filter(|&n| owns(entry(n, "").bucket)).collect();
            let locations: Vec<AnswerLocation> = mine.iter().map(|&n| journal.locate(&key(n)).unwrap()).collect();
            for (value, n) in journal.read(&locations).into_iter().zip(mine) {
                prop_assert_eq!(value.unwrap(), expected[&n].to_vec());
            }
        }
        prop_assert_eq!(found, expected.len(), "each key is some worker's, and no other's");
    }
}
