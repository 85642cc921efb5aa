//! Every kind of store conforms. Every error has one clear message.

use bytes::Bytes;
use hopeval_results::conformance::conformance;
use hopeval_results::store::StagingFile;
use hopeval_results::{Store, StoreError};
use std::sync::Barrier;

#[test]
fn memory_conforms() {
    conformance(&Store::open("memory:").unwrap());
}

#[test]
fn a_local_folder_conforms() {
    let folder = tempfile::tempdir().unwrap();
    conformance(&Store::open(folder.path().join("made/below").to_str().unwrap()).unwrap());
}

#[test]
fn handles_on_one_folder_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    let (one, other) = (Store::open(name).unwrap(), Store::open(&format!("file://{name}")).unwrap());
    one.put("a/b", Bytes::from_static(b"x")).unwrap();
    assert_eq!(other.get("a/b").unwrap(), "x");
    assert!(!other.put_if_absent("a/b", Bytes::from_static(b"y")).unwrap());
    assert_eq!(one.uri(), other.uri());
    assert_eq!(one.local_path(), Some(folder.path().canonicalize().unwrap().as_path()));
    assert_eq!(one.full_name("a/b"), format!("{}/a/b", one.uri()));
}

#[test]
fn bad_addresses_say_what_is_allowed() {
    for uri in ["", "ftp://host/folder", "s3://", "s3:///prefix"] {
        let error = Store::open(uri).unwrap_err();
        assert!(matches!(error, StoreError::Address { .. }), "{uri}: {error}");
        assert!(error.to_string().contains("s3://BUCKET/PREFIX"), "{error}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let below = file.join("store");
    let error = Store::open(below.to_str().unwrap()).unwrap_err();
    assert!(error.to_string().contains(below.to_str().unwrap()), "{error}");

    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    for error in [
        store.put("file/object", Bytes::from_static(b"x")).unwrap_err(),
        store.put_if_absent("file/object", Bytes::from_static(b"x")).unwrap_err(),
    ] {
        assert!(error.to_string().starts_with("cannot write"), "{error}");
        assert!(error.to_string().contains("file/object"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x", "what was there stays");
}

#[test]
fn a_bucket_that_does_not_answer_is_an_error_without_secrets() {
    // Opening does not contact the bucket, so this needs no server.
    let store = Store::open("s3://bucket/some/prefix/").unwrap();
    assert_eq!(store.uri(), "s3://bucket/some/prefix/");
    assert_eq!(store.full_name("runs/a"), "s3://bucket/some/prefix/runs/a");
    assert_eq!(store.local_path(), None);
}

#[test]
fn names_with_odd_parts_are_refused() {
    let store = Store::open("memory:").unwrap();
    assert!(matches!(store.get("a//b").unwrap_err(), StoreError::Refused { .. }));
    assert!(matches!(store.put("../a", Bytes::new()).unwrap_err(), StoreError::Refused { .. }));
}

#[test]
fn a_second_name_in_a_folder_takes_no_bytes_and_leaves_no_files() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    store.put("tables/one", Bytes::from_static(b"first")).unwrap();
    store.put("tables/two", Bytes::from_static(b"second")).unwrap();
    for from in ["tables/one", "tables/two", "tables/two"] {
        store.link(from, "final/table").unwrap();
        let inode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().ino();
        assert_eq!(inode("final/table"), inode(from));
    }
    let files: Vec<_> = std::fs::read_dir(folder.path().join("final")).unwrap().flatten().collect();
    assert_eq!(files.len(), 1, "no staging file is left: {files:?}");
}

/// Several put the same object. The first clears the staging files of the others, as edits of gold do.
#[test]
fn a_writer_whose_staging_file_was_cleared_finds_the_winners_object() {
    const WRITERS: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    let stores = [(); WRITERS].map(|()| Store::open(folder.path().to_str().unwrap()).unwrap());
    let mut cleared = 0;
    for turn in 0..1000 {
        let (name, begin) = (format!("edits/{turn}"), Barrier::new(WRITERS));
        let put = |store: &Store| {
            begin.wait();
            let is_first = store.put_if_absent(&name, Bytes::from_static(b"x")).unwrap();
            let left = |staged: &StagingFile| staged.object == name;
            let removed = if is_first { store.remove_staging("edits", &left).unwrap() } else { 0 };
            (u64::from(is_first), removed)
        };
        let ends = std::thread::scope(|scope| {
            let writers: Vec<_> = stores.iter().map(|store| scope.spawn(|| put(store))).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(ends.iter().map(|(first, _)| first).sum::<u64>(), 1, "one has made it");
        cleared += ends.iter().map(|(_, removed)| removed).sum::<u64>();
        if cleared >= 3 {
            return;
        }
    }
    panic!("only {cleared} of 3 files of other writers were cleared in 1000 turns");
}

#[test]
fn a_folder_that_gives_no_answer_is_an_error_after_a_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    // Opening it waits for a writer, for ever: as a file of a network file system without its server.
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("stuck")).status().unwrap();
    assert!(made.success());
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    // Limits are shortest after this.
    store.end_patience();
    let error = store.get("stuck").unwrap_err();
    assert!(matches!(&error, StoreError::Hung { path, .. } if path.ends_with("stuck")), "{error}");
    assert!(error.may_pass() && error.to_string().contains("gave no answer for"), "{error}");
    // Other files still have answers.
    store.put("well", Bytes::from_static(b"x")).unwrap();
    assert_eq!(store.get("well").unwrap(), "x");
}

/// A client of a network file system may remember for a while that there is no such file.
#[test]
fn an_object_that_appears_late_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let late = folder.path().join("late");
    std::os::unix::fs::symlink(&late, folder.path().join("object")).unwrap();
    let winner = std::thread::spawn(move || {
        // Eight tries without a pause between them end sooner, on a slow disk, too.
        std::thread::sleep(std::time::Duration::from_secs(1));
        std::fs::write(late, "theirs").unwrap();
    });
    assert_eq!(store.put_or_get("object", &Bytes::from_static(b"ours")).unwrap().unwrap(), "theirs");
    winner.join().unwrap();
}
