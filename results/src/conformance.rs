//! The conformance suite of stores. Each kind of store must pass it.

use crate::store::{Store, StoreError};
use bytes::Bytes;

/// Checks a store against the contract of [`Store`]. `store` must be empty; the suite leaves some objects in it.
///
/// # Panics
/// If the store does not conform.
pub fn conformance(store: &Store) {
    check_objects(store);
    check_removal(store);
    check_ranges(store);
    check_listings(store);
    check_large_objects(store);
    check_races(store);
}

/// Fails the suite with the store's error.
#[track_caller]
fn expect_ok<T>(result: Result<T, StoreError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("the store does not conform: {error}"),
    }
}

fn check_objects(store: &Store) {
    assert!(matches!(store.get("conformance/a"), Err(StoreError::NotFound { .. })), "an absent object is not found");
    assert!(!expect_ok(store.exists("conformance/a")));
    expect_ok(store.put("conformance/a", Bytes::from_static(b"first")));
    assert_eq!(expect_ok(store.get("conformance/a")), "first", "an object is read as it was written");
    expect_ok(store.put("conformance/a", Bytes::from_static(b"second, longer")));
    assert_eq!(expect_ok(store.get("conformance/a")), "second, longer", "a put replaces");
    assert_eq!(expect_ok(store.size("conformance/a")), 14);
    assert!(!expect_ok(store.put_if_absent("conformance/a", Bytes::from_static(b"third"))), "the object is there");
    assert_eq!(expect_ok(store.get("conformance/a")), "second, longer", "put_if_absent changes no object");
    assert!(expect_ok(store.put_if_absent("conformance/b", Bytes::from_static(b"new"))));
    assert_eq!(expect_ok(store.get("conformance/b")), "new");
    assert_eq!(expect_ok(store.put_or_get("conformance/c", &Bytes::from_static(b"c"))), None);
    assert_eq!(expect_ok(store.put_or_get("conformance/c", &Bytes::from_static(b"d"))), Some(Bytes::from_static(b"c")));
    expect_ok(store.put("conformance/empty", Bytes::new()));
    assert_eq!(expect_ok(store.get("conformance/empty")), "", "an object may be empty");
    expect_ok(store.copy("conformance/a", "conformance/c"));
    assert_eq!(expect_ok(store.get("conformance/c")), "second, longer", "a copy replaces");
    expect_ok(store.copy("conformance/empty", "conformance/c"));
    assert_eq!(expect_ok(store.get("conformance/c")), "", "an empty object is copied");
    assert!(matches!(store.copy("conformance/absent", "conformance/a"), Err(StoreError::NotFound { .. })));
    assert_eq!(expect_ok(store.get("conformance/a")), "second, longer", "a copy that fails changes no object");
    expect_ok(store.link("conformance/a", "conformance/linked"));
    expect_ok(store.link("conformance/a", "conformance/linked"));
    assert_eq!(expect_ok(store.get("conformance/linked")), "second, longer", "a second name reads the same");
    expect_ok(store.link("conformance/empty", "conformance/linked"));
    assert_eq!(expect_ok(store.get("conformance/linked")), "", "a link replaces");
    assert_eq!(expect_ok(store.get("conformance/a")), "second, longer", "and leaves the other name alone");
    assert!(matches!(store.link("conformance/absent", "conformance/linked"), Err(StoreError::NotFound { .. })));
    expect_ok(store.delete("conformance/linked"));
    assert_eq!(expect_ok(store.get("conformance/empty")), "", "one of two names is removed");
    let names: Vec<String> = ["b", "absent", "a"].iter().map(|name| format!("conformance/{name}")).collect();
    let many = expect_ok(store.get_many(&names));
    assert_eq!(many, [Some(Bytes::from_static(b"new")), None, Some(Bytes::from_static(b"second, longer"))]);
    expect_ok(store.put("conformance/deep/d", "deep".into()));
    let folders: Vec<String> = ["absent", "deep", "."].iter().map(|name| format!("conformance/{name}")).collect();
    let lists = expect_ok(store.list_many(&folders[..2]));
    assert_eq!(lists, [vec![], vec![("conformance/deep/d".to_owned(), 4)]]);
    let flat = expect_ok(store.list_many(&["conformance".to_owned()]));
    let whole = expect_ok(store.list("conformance"));
    let direct: Vec<_> = whole.into_iter().filter(|(name, _)| name.matches('/').count() == 1).collect();
    assert_eq!(flat, [direct], "folders in it are not listed");
    assert!(store.list_many(&folders[2..]).is_err(), "`.` is no name");
    expect_ok(store.delete("conformance/deep/d"));
    expect_ok(store.delete("conformance/b"));
    expect_ok(store.delete("conformance/b"));
    assert!(!expect_ok(store.exists("conformance/b")), "a removed object is gone, and removing it again is no error");
}

fn check_removal(store: &Store) {
    for name in ["a", "b", "c/d", "c/e"] {
        expect_ok(store.put(&format!("conformance/gone/{name}"), Bytes::from_static(b"x")));
    }
    expect_ok(store.put("conformance/gone-not", Bytes::from_static(b"x")));
    expect_ok(store.remove_folder("conformance/gone", &["conformance/gone/a".to_owned()]));
    assert_eq!(expect_ok(store.list("conformance/gone")), [], "a removed folder is empty");
    assert!(!expect_ok(store.list_folders("conformance")).contains(&"gone".to_owned()), "and not listed");
    assert!(expect_ok(store.exists("conformance/gone-not")), "its neighbour stays");
    expect_ok(store.remove_folder("conformance/gone", &[]));
    expect_ok(store.delete("conformance/gone-not"));
}

fn check_ranges(store: &Store) {
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    expect_ok(store.put("conformance/ranges", Bytes::from(bytes.clone())));
    assert_eq!(expect_ok(store.get_range("conformance/ranges", 10..20)), bytes[10..20]);
    assert_eq!(expect_ok(store.get_range("conformance/ranges", 99_990..100_000)), bytes[99_990..]);
    assert_eq!(expect_ok(store.get_range("conformance/ranges", 5..5)), "", "an empty range is empty");
    assert!(store.get_range("conformance/ranges", 99_990..100_001).is_err(), "a range past the end is an error");
    let got = expect_ok(store.get_ranges("conformance/ranges", &[50_000..50_010, 3..4, 7..9]));
    assert_eq!(got, [bytes[50_000..50_010].to_vec(), bytes[3..4].to_vec(), bytes[7..9].to_vec()]);
    let many = store.get_ranges_many(&[
        ("conformance/ranges", vec![0..2, 4..6]),
        ("conformance/absent", vec![0..1, 1..2]),
        ("conformance/a", vec![0..6, 8..14]),
    ]);
    assert_eq!(many[0].as_ref().ok().map(|got| got[1].to_vec()), Some(bytes[4..6].to_vec()));
    assert!(matches!(many[1], Err(StoreError::NotFound { .. })), "one failure leaves the others alone");
    assert_eq!(many[2].as_ref().ok().map(|got| got[0].to_vec()), Some(b"second".to_vec()));
}

fn check_listings(store: &Store) {
    assert_eq!(expect_ok(store.list("conformance/nowhere")), [], "an absent folder lists as empty");
    assert!(expect_ok(store.list_folders("conformance/nowhere")).is_empty());
    for name in ["tree/b/2", "tree/a/10", "tree/a/1", "tree/c", "tree-not/x"] {
        expect_ok(store.put(&format!("conformance/{name}"), Bytes::from_static(b"x")));
    }
    let names: Vec<String> = expect_ok(store.list("conformance/tree")).into_iter().map(|(name, _)| name).collect();
    let expected = ["a/1", "a/10", "b/2", "c"].map(|name| format!("conformance/tree/{name}"));
    assert_eq!(names, expected, "a listing is deep, sorted, and of this folder alone");
    assert_eq!(expect_ok(store.list_folders("conformance/tree")), ["a", "b"], "folders are sorted and not deep");
}

fn check_large_objects(store: &Store) {
    let piece: Vec<u8> = (0..3_000_000u32).map(|i| (i % 241) as u8).collect();
    let mut writer = expect_ok(store.writer("conformance/large"));
    for _ in 0..4 {
        expect_ok(writer.write(Bytes::from(piece.clone())));
    }
    assert!(!expect_ok(store.exists("conformance/large")), "an unfinished object is not visible");
    assert_eq!(expect_ok(writer.finish()), 12_000_000);
    assert_eq!(expect_ok(store.get_range("conformance/large", 8_999_999..9_000_001)), vec![piece[2_999_999], piece[0]]);
    for pieces in [1, 4] {
        let mut writer = expect_ok(store.writer("conformance/dropped"));
        for _ in 0..pieces {
            expect_ok(writer.write(Bytes::from(piece.clone())));
        }
        drop(writer);
        assert!(!expect_ok(store.exists("conformance/dropped")), "a dropped writer leaves nothing");
    }
}

/// Eight writers race for each of a few names: exactly one wins, and the stored object is the winner's.
fn check_races(store: &Store) {
    for name in (0..8).map(|i| format!("conformance/race/{i}")) {
        let winners: Vec<String> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|i| {
                    let name = &name;
                    scope.spawn(move || {
                        let ours = format!("writer {i}");
                        expect_ok(store.put_if_absent(name, Bytes::from(ours.clone()))).then_some(ours)
                    })
                })
                .collect();
            writers.into_iter().filter_map(|writer| writer.join().unwrap_or(None)).collect()
        });
        assert_eq!(winners.len(), 1, "put_if_absent has one winner");
        assert_eq!(expect_ok(store.get(&name)), winners[0], "the winner's object is there");
    }
}
