//! Tests the choice of writers. Whole builds are tested in `jobs/tests/lm.rs` and `tests/models.rs`.

use super::*;

#[test]
fn a_place_has_one_writer_and_every_place_has_one() {
    let missing = |place: &str, writer| MissingIndex { place: place.to_owned(), writer };
    let indexes = vec![missing("b", 6), missing("a", 4), missing("b", 2), missing("a", 0), missing("c", 8)];
    assert_eq!(MissingIndex::choose_writers(indexes), [0, 2, 8]);
    assert_eq!(MissingIndex::choose_writers(Vec::new()), [0usize; 0]);
}

#[test]
fn a_folder_is_one_place_by_whatever_name() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&other).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let place = |folder: &Path| MissingIndex::new(&folder.join("index.idx"), 3).unwrap().place;
    assert_eq!(place(&one), place(&link));
    assert_ne!(place(&one), place(&other));
    let error = MissingIndex::new(&dir.path().join("nowhere/index.idx"), 3).unwrap_err().to_string();
    assert!(error.contains("cannot read") && error.contains("nowhere"), "{error}");
}

#[test]
fn the_last_count_of_each_index_is_reported_once() {
    let building = IndexBuild::default();
    let reported = Mutex::new(Vec::new());
    let report = |stage: &str, done: u64| reported.lock().unwrap().push((stage.to_owned(), done));
    let news = || {
        building.report_progress(&report);
        std::mem::take(&mut *reported.lock().unwrap())
    };
    assert!(news().is_empty());
    building.set_current(Some("one"));
    building.embedded.fetch_add(4096, Ordering::Relaxed);
    assert_eq!(news(), [("index one".to_owned(), 4096)]);
    // It ends between two looks, and the next one begins.
    building.embedded.fetch_add(904, Ordering::Relaxed);
    building.set_current(Some("two"));
    assert_eq!(news(), [("index one".to_owned(), 5000), ("index two".to_owned(), 0)]);
    building.embedded.fetch_add(7, Ordering::Relaxed);
    building.set_current(None);
    assert_eq!(news(), [("index two".to_owned(), 7)]);
    assert!(news().is_empty());
}
