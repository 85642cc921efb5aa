//! Folders are written whole, once, by any number of callers and over any previous content.

use std::fs;
use std::thread;

use hopeval_models::{ModelsError, digest, names, unpack, untrained};

#[test]
fn folders_are_whole_and_written_once() {
    let cache = tempfile::tempdir().unwrap();
    for name in names() {
        let place = unpack(name, cache.path()).unwrap();
        assert!(place.ends_with(format!("{name}-{}", &digest(name).unwrap()[..16])));
        for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
            assert!(fs::metadata(place.join(file)).unwrap().len() > 0, "{name}: {file}");
        }
        let written = fs::metadata(place.join("config.json")).unwrap().modified().unwrap();
        assert_eq!(unpack(name, cache.path()).unwrap(), place);
        assert_eq!(fs::metadata(place.join("config.json")).unwrap().modified().unwrap(), written);
    }
    let left: Vec<_> = fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), names().count(), "{left:?}");
}

#[test]
fn a_folder_that_is_not_whole_is_written_anew() {
    let cache = tempfile::tempdir().unwrap();
    let name = names().next().unwrap();
    let place = unpack(name, cache.path()).unwrap();
    let whole = fs::read(place.join("config.json")).unwrap();
    fs::write(place.join("config.json"), "{}").unwrap();
    fs::remove_file(place.join("tokenizer.json")).unwrap();
    assert_eq!(unpack(name, cache.path()).unwrap(), place);
    assert_eq!(fs::read(place.join("config.json")).unwrap(), whole);
    assert!(place.join("tokenizer.json").exists());
    // One bit of the weights, as a damaged disk changes it: neither the length nor the time tells.
    let weights = place.join("model.safetensors");
    let (whole, written) = (fs::read(&weights).unwrap(), fs::metadata(&weights).unwrap().modified().unwrap());
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&weights, damaged).unwrap();
    fs::File::options().write(true).open(&weights).unwrap().set_modified(written).unwrap();
    unpack(name, cache.path()).unwrap();
    assert!(fs::read(&weights).unwrap() == whole);
}

#[test]
fn a_control_is_a_folder_of_its_own_for_each_seed() {
    let cache = tempfile::tempdir().unwrap();
    let name = names().next().unwrap();
    let (one, two) = (untrained(name, 1, cache.path()).unwrap(), untrained(name, 2, cache.path()).unwrap());
    let weights = |place: &std::path::Path| fs::read(place.join("model.safetensors")).unwrap();
    assert_ne!(weights(&one), weights(&two));
    assert!(one.file_name().unwrap().to_str().unwrap().starts_with(&format!("{name}-untrained-1-")));
    fs::remove_file(one.join("model.safetensors")).unwrap();
    assert_eq!(untrained(name, 1, cache.path()).unwrap(), one);
    assert_ne!(weights(&one), weights(&unpack(name, cache.path()).unwrap()));
}

#[test]
fn many_at_once_agree() {
    let cache = tempfile::tempdir().unwrap();
    let name = names().next().unwrap();
    let places: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| unpack(name, cache.path()).unwrap())).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(places.iter().all(|place| *place == places[0]));
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
}

#[test]
fn errors_say_what_there_is() {
    let cache = tempfile::tempdir().unwrap();
    let message = unpack("scorer-xl", cache.path()).unwrap_err().to_string();
    assert!(message.contains("`scorer-xl`") && names().all(|name| message.contains(name)), "{message}");
    let file = cache.path().join("file");
    fs::write(&file, "").unwrap();
    let name = names().next().unwrap();
    assert!(matches!(unpack(name, &file), Err(ModelsError::Write { .. })));
}

#[test]
fn all_together_are_small() {
    let cache = tempfile::tempdir().unwrap();
    let bytes: u64 = names()
        .flat_map(|name| fs::read_dir(unpack(name, cache.path()).unwrap()).unwrap())
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 20_000_000, "{bytes} bytes");
}
