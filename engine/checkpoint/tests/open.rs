//! Opening folders: mapping, checks, and the errors for bad folders.

use hopeval_checkpoint::{Checkpoint, CheckpointError};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "bert", "hidden_size": 2}"#).expect("written");
    dir
}

fn write(path: &Path, tensors: &[(&str, Dtype, &[usize], &[u8])]) {
    let views: BTreeMap<&str, TensorView> = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.to_vec(), bytes).expect("a view")))
        .collect();
    serialize_to_file(views, None, path).expect("written");
}

fn refused(dir: &Path) -> String {
    Checkpoint::open(dir).expect_err("nothing to be opened").to_string()
}

#[test]
fn tensors_are_found_by_name_type_and_shape() {
    let dir = folder();
    let tensors: [(&str, Dtype, &[usize], &[u8]); 4] = [
        ("embeddings.LayerNorm.gamma", Dtype::F32, &[2], &[0, 0, 128, 63, 0, 0, 0, 64]),
        ("embeddings.LayerNorm.beta", Dtype::F16, &[2], &[0; 4]),
        ("position_ids", Dtype::I64, &[1, 1], &[0; 8]),
        ("other.beta", Dtype::BF16, &[1], &[128, 63]),
    ];
    write(&dir.path().join("model.safetensors"), &tensors);
    let checkpoint = Checkpoint::open(dir.path()).expect("opened");
    let names = ["embeddings.LayerNorm.bias", "embeddings.LayerNorm.weight", "other.beta"];
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), names);
    let weight = checkpoint.tensor("embeddings.LayerNorm.weight", &[2]).expect("there");
    assert_eq!(weight.to_f32(), [1.0, 2.0]);

    let dtype = checkpoint.tensor("position_ids", &[1, 1]).expect_err("integers");
    assert!(dtype.to_string().contains("tensor position_ids: dtype I64 is not one of F32, F16, BF16"), "{dtype}");
    assert!(dtype.to_string().contains("model.safetensors"), "{dtype}");
    let shape = checkpoint.tensor("other.beta", &[2, 3]).expect_err("another shape");
    assert!(
        shape.to_string().contains("tensor other.beta: expected shape [2, 3] by config.json, found [1]"),
        "{shape}"
    );
    let missing = checkpoint.tensor("pooler.dense.weight", &[2, 2]).expect_err("not there");
    assert!(missing.to_string().contains("no tensor pooler.dense.weight (shape [2, 2]"), "{missing}");
}

#[test]
fn shards_are_checked_against_their_index() {
    let dir = folder();
    let index = |text: &str| {
        std::fs::write(dir.path().join("model.safetensors.index.json"), text).expect("written");
    };
    write(&dir.path().join("one.safetensors"), &[("a", Dtype::F32, &[1], &[0; 4])]);
    index(r#"{"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}"#);
    assert!(refused(dir.path()).contains("index.json: names the shard two.safetensors, which is not there"));
    write(&dir.path().join("two.safetensors"), &[("c", Dtype::F32, &[1], &[0; 4])]);
    let error = refused(dir.path());
    assert!(error.contains("two.safetensors holds tensor b, which it does not"), "{error}");
    write(&dir.path().join("two.safetensors"), &[("b", Dtype::F32, &[1], &[0; 4])]);
    assert_eq!(Checkpoint::open(dir.path()).expect("whole").names().collect::<Vec<_>>(), ["a", "b"]);
    index(r#"{"weight_map": {"a": "../one.safetensors"}}"#);
    assert!(refused(dir.path()).contains("is not a file of this folder"));
    index(r#"{"weight_map": 7}"#);
    assert!(refused(dir.path()).contains("not an index of weights"));
    // Saved again as one file: what is left of the shards does not count.
    write(&dir.path().join("model.safetensors"), &[("whole", Dtype::F32, &[1], &[0; 4])]);
    assert_eq!(Checkpoint::open(dir.path()).expect("whole").names().collect::<Vec<_>>(), ["whole"]);
}

#[test]
fn a_folder_without_weights_says_what_is_there() {
    let dir = folder();
    assert!(refused(dir.path()).contains("found config.json"));
    std::fs::write(dir.path().join("pytorch_model.bin"), "").expect("written");
    let error = refused(dir.path());
    assert!(error.contains("found config.json, pytorch_model.bin"), "{error}");
    assert!(error.contains("hint: hopeval model import"), "{error}");
    std::fs::remove_file(dir.path().join("config.json")).expect("removed");
    assert!(refused(dir.path()).contains("config.json"));
}

#[test]
fn damaged_files_are_errors_that_name_them() {
    let dir = folder();
    let path = dir.path().join("model.safetensors");
    write(&path, &[("a", Dtype::F32, &[4], &[1; 16]), ("b", Dtype::F32, &[4], &[2; 16])]);
    let whole = std::fs::read(&path).expect("read");
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).expect("written");
        let error = refused(dir.path());
        assert!(error.contains("model.safetensors: not a whole safetensors file"), "{length} bytes: {error}");
    }
    for garbage in [&[0xff_u8; 64][..], b"version https://git-lfs.github.com/spec/v1", &[0; 64]] {
        std::fs::write(&path, garbage).expect("written");
        assert!(matches!(Checkpoint::open(dir.path()), Err(CheckpointError::Format { .. })));
    }
}

#[test]
fn opening_reads_headers_only() {
    // 64 GB of bf16 that were never written: reading them would take longer than any test may.
    let dir = folder();
    let (rows, columns) = (32 << 10, 1 << 20);
    let bytes: u64 = rows * columns * 2;
    let mut header = format!(r#"{{"w":{{"dtype":"BF16","shape":[{rows},{columns}],"data_offsets":[0,{bytes}]}}}}"#);
    header.extend(std::iter::repeat_n(' ', 128 - header.len()));
    let mut file = std::fs::File::create(dir.path().join("model.safetensors")).expect("created");
    file.write_all(&128_u64.to_le_bytes()).expect("written");
    file.write_all(header.as_bytes()).expect("written");
    if let Err(error) = file.set_len(8 + 128 + bytes) {
        eprintln!("SKIPPED: this file system has no sparse files of 64 GB: {error}");
        return;
    }
    let began = Instant::now();
    let checkpoint = Checkpoint::open(dir.path()).expect("opened");
    let tensor = checkpoint.tensor("w", &[rows as usize, columns as usize]).expect("there");
    let mut last = [1.0];
    tensor.read_into(tensor.len() - 1, &mut last);
    assert_eq!(last, [0.0]);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn the_digest_is_taken_once_and_again_when_a_file_changes() {
    let dir = folder();
    let path = dir.path().join("model.safetensors");
    let digest = || Checkpoint::open(dir.path()).expect("opened").weights_digest().to_owned();
    write(&path, &[("a", Dtype::F32, &[1], &[1; 4]), ("b", Dtype::F32, &[1], &[2; 4])]);
    let first = digest();
    let side = dir.path().join(hopeval_checkpoint::digest::SIDE_FILE);
    let text = std::fs::read_to_string(&side).expect("remembered");
    assert!(text.contains(&first));
    // The changed side file shows whether it is believed. Damage is not; a file without a check, of an earlier version,
    // is.
    std::fs::write(&side, text.replace(&first, "remembered")).expect("written");
    assert_eq!(digest(), first);
    let mut unchecked: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    unchecked["weights"] = "remembered".into();
    assert!(unchecked.as_object_mut().expect("an object").remove("check").is_some());
    std::fs::write(&side, unchecked.to_string()).expect("written");
    assert_eq!(digest(), "remembered");
    write(&path, &[("a", Dtype::F32, &[1], &[1; 4]), ("b", Dtype::F32, &[1], &[3; 4]), ("c", Dtype::F32, &[0], &[])]);
    let second = digest();
    assert_ne!(second, first);
    // A configuration makes another model of the same weights.
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "bert", "hidden_size": 20}"#).expect("written");
    assert_ne!(digest(), second);
    std::fs::write(&side, "not JSON").expect("written");
    assert_eq!(digest().len(), 64);
}

#[test]
fn the_tokenizers_digest_is_of_its_files() {
    let dir = folder();
    write(&dir.path().join("model.safetensors"), &[("a", Dtype::F32, &[1], &[1; 4])]);
    let digest = || Checkpoint::open(dir.path()).expect("opened").tokenizer_digest().expect("read");
    assert_eq!(digest(), None);
    std::fs::write(dir.path().join("tokenizer.json"), "{}").expect("written");
    let first = digest();
    assert!(first.is_some());
    std::fs::write(dir.path().join("tokenizer_config.json"), "{}").expect("written");
    assert_ne!(digest(), first);
}

#[test]
fn a_file_replaced_after_opening_is_not_remembered_under_the_old_digest() {
    let dir = folder();
    let path = dir.path().join("model.safetensors");
    write(&path, &[("a", Dtype::F32, &[1], &[1; 4])]);
    let opened = Checkpoint::open(dir.path()).expect("opened");
    let new = dir.path().join("new");
    write(&new, &[("a", Dtype::F32, &[2], &[2; 8])]);
    std::fs::rename(&new, &path).expect("renamed");
    let old = opened.weights_digest();
    assert_ne!(Checkpoint::open(dir.path()).expect("opened").weights_digest(), old);
}
