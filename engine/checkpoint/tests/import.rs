//! Imports of `torch.save` files (`ops/lm/pickles.py`): the results, number for number, and the refusals.

use hopeval_checkpoint::{Checkpoint, CheckpointError, import::import};
use safetensors::SafeTensors;
use std::path::{Path, PathBuf};

fn pickles(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pickles").join(name)
}

fn refused(dir: &Path) -> (CheckpointError, tempfile::TempDir) {
    let out = tempfile::tempdir().expect("a folder");
    (import(dir, out.path()).expect_err("nothing that can be imported"), out)
}

/// A folder with a `config.json` and a `pytorch_model.bin` of these bytes.
fn folder(bytes: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("config.json"), "{}").expect("written");
    std::fs::write(dir.path().join("pytorch_model.bin"), bytes).expect("written");
    dir
}

fn flat(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |e| e.source()).fold(error.to_string(), |text, e| format!("{text}: {e}"))
}

#[test]
fn every_format_gives_the_numbers_that_torch_has() {
    for name in ["zip", "legacy", "protocol-4", "untied", "sharded"] {
        let out = tempfile::tempdir().expect("a folder");
        let report = import(&pickles(name), out.path()).expect(name);
        let checkpoint = Checkpoint::open(out.path()).expect(name);
        let bytes = std::fs::read(pickles(name).join("expected.safetensors")).expect("fixture");
        let expected = SafeTensors::deserialize(&bytes).expect("fixture");
        let mut names: Vec<&str> = expected.names().into_iter().collect();
        names.sort_unstable();
        assert_eq!(checkpoint.names().collect::<Vec<_>>(), names, "{name}");
        assert_eq!(report.tensors, names.len(), "{name}");
        for (tensor, view) in expected.tensors() {
            let found = checkpoint.tensor(&tensor, view.shape()).expect(name);
            assert_eq!(found.bytes, view.data(), "{name}: {tensor}");
            assert_eq!(format!("{:?}", found.dtype).to_uppercase(), format!("{:?}", view.dtype()), "{name}: {tensor}");
        }
        let skipped: Vec<&str> = report.skipped.iter().map(|skipped| &skipped.name[..]).collect();
        assert_eq!(skipped, ["embeddings.position_ids", "attn.bias"], "{name}");
        assert_eq!(report.narrowed, ["double"], "{name}");
        let tied: Vec<(&str, &str)> = report.tied.iter().map(|tied| (&tied.name[..], &tied.same_as[..])).collect();
        assert_eq!(tied, if name == "untied" { vec![] } else { vec![("lm_head.weight", "shared.weight")] }, "{name}");
        assert_eq!(report.tokenizer, None, "{name}");
    }
}

#[test]
fn the_same_weights_have_one_digest_however_they_were_stored() {
    let digest = |name: &str| {
        let out = tempfile::tempdir().expect("a folder");
        import(&pickles(name), out.path()).expect(name);
        Checkpoint::open(out.path()).expect(name).weights_digest().expect(name).to_owned()
    };
    let zip = digest("zip");
    assert_eq!([digest("legacy"), digest("protocol-4"), digest("sharded")], [zip.clone(), zip.clone(), zip.clone()]);
    assert_ne!(digest("untied"), zip);
}

#[test]
fn a_pickle_that_wants_to_run_code_is_refused_and_runs_nothing() {
    for name in ["evil-zip", "evil-legacy"] {
        let (error, out) = refused(&pickles(name));
        assert!(matches!(&error, CheckpointError::Global { global, .. } if global == "posix.system"), "{error}");
        assert!(error.to_string().contains("pytorch_model.bin: the pickle wants posix.system"), "{error}");
        assert!(!Path::new("hopeval-pickle-was-run").exists());
        assert_eq!(std::fs::read_dir(out.path()).expect("a folder").count(), 0, "nothing is left behind");
    }
    let (error, _) = refused(&pickles("whole-model"));
    assert!(error.to_string().contains("the pickle wants torch.nn.modules.linear.Linear"), "{error}");
}

/// A file not from `torch.save`: all of it is the malicious pickle.
#[test]
fn a_bare_pickle_that_wants_to_run_code_says_what() {
    let protocol_0 = &b"cposix\nsystem\n(S'touch hopeval-pickle-was-run'\ntR."[..];
    let protocol_2 = b"\x80\x02cposix\nsystem\nq\x00X\x1d\x00\x00\x00touch hopeval-pickle-was-runq\x01\x85q\x02Rq\x03.";
    let protocol_4 = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x01x\x94\x85\x94R\x94.";
    for bytes in [protocol_0, protocol_2, protocol_4] {
        let (error, _) = refused(folder(bytes).path());
        assert!(error.to_string().contains("pytorch_model.bin: the pickle wants posix.system"), "{error}");
        assert!(!Path::new("hopeval-pickle-was-run").exists());
    }
    // A text beginning like an instruction is harmless.
    let (error, _) = refused(folder(b"can you\nread this?\nNo.\n").path());
    assert!(error.to_string().contains("neither a zip archive nor a pickle"), "{error}");
}

#[test]
fn what_is_no_state_dict_is_said() {
    let (error, _) = refused(&pickles("no-tensors"));
    assert!(error.to_string().contains("no tensor in its dict of 2 entries (epoch, model)"), "{error}");
    let (error, _) = refused(folder(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n").path());
    assert!(error.to_string().contains("a Git LFS pointer"), "{error}");
    for bytes in [&b""[..], b"hello", b"PK\x03\x04", &[0; 4096]] {
        let (error, _) = refused(folder(bytes).path());
        assert!(matches!(error, CheckpointError::Format { .. }), "{error}");
    }
}

#[test]
fn a_truncated_file_is_an_error_wherever_it_ends() {
    for name in ["zip", "legacy"] {
        let whole = std::fs::read(pickles(name).join("pytorch_model.bin")).expect("fixture");
        for length in (0..whole.len()).step_by(if name == "zip" { 61 } else { 23 }) {
            let (error, _) = refused(folder(&whole[..length]).path());
            assert!(matches!(error, CheckpointError::Format { .. }), "{name}, {length} bytes: {error}");
        }
    }
}

#[test]
fn every_changed_byte_is_read_or_refused_without_a_panic() {
    let whole = std::fs::read(pickles("legacy").join("pytorch_model.bin")).expect("fixture");
    let dir = folder(&whole);
    for at in (0..whole.len()).step_by(13) {
        let mut changed = whole.clone();
        changed[at] ^= 0x15;
        std::fs::write(dir.path().join("pytorch_model.bin"), changed).expect("written");
        let out = tempfile::tempdir().expect("a folder");
        let _ = import(dir.path(), out.path());
    }
}

#[test]
fn a_missing_shard_and_a_second_import_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    for file in ["config.json", "pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin"] {
        std::fs::copy(pickles("sharded").join(file), dir.path().join(file)).expect("copied");
    }
    let (error, _) = refused(dir.path());
    let said = "index.json: names the shard pytorch_model-00002-of-00002.bin, which is not there";
    assert!(error.to_string().contains(said), "{error}");

    let out = tempfile::tempdir().expect("a folder");
    import(&pickles("zip"), out.path()).expect("imported");
    let error = import(&pickles("zip"), out.path()).expect_err("there is a model");
    assert!(error.to_string().contains("already holds config.json"), "{error}");
}

#[test]
fn safetensors_are_copied() {
    let (first, second) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    for name in ["zip", "sharded"] {
        let (first, second) = (first.path().join(name), second.path().join(name));
        import(&pickles(name), &first).expect("imported");
        let report = import(&first, &second).expect("copied");
        assert_eq!(report.tensors, 0);
        let digest = |path: &Path| Checkpoint::open(path).expect("a model").weights_digest().expect("read").to_owned();
        assert_eq!(digest(&first), digest(&second));
    }
}

#[test]
fn a_folder_without_weights_says_what_it_looked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("config.json"), "{}").expect("written");
    let (error, _) = refused(dir.path());
    assert!(flat(&error).contains("pytorch_model.bin"), "{error}");
}

/// Names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn imports_leave_other_files_alone() {
    // The weights are good: the defect appears after they were written.
    let bad = tempfile::tempdir().expect("a folder");
    for file in ["config.json", "pytorch_model.bin"] {
        std::fs::copy(pickles("zip").join(file), bad.path().join(file)).expect("copied");
    }
    std::fs::write(bad.path().join("tokenizer.json"), "{}").expect("written");
    let home = tempfile::tempdir().expect("a folder");
    let new = home.path().join("models/new");
    import(bad.path(), &new).expect_err("no tokenizer");
    assert_eq!(names(home.path()), [""; 0]);
    std::fs::create_dir(home.path().join("old")).expect("a folder");
    std::fs::write(home.path().join("old/notes.txt"), "mine").expect("written");
    import(bad.path(), &home.path().join("old")).expect_err("no tokenizer");
    assert_eq!(names(&home.path().join("old")), ["notes.txt"]);

    import(&pickles("zip"), &new).expect("imported");
    import(&pickles("zip"), &home.path().join("old")).expect("imported");
    assert_eq!(names(home.path()), ["models", "old"]);
    assert_eq!(names(&home.path().join("models")), ["new"]);
    assert_eq!(names(&new), ["config.json", "model.safetensors"]);
    assert_eq!(names(&home.path().join("old")), ["config.json", "model.safetensors", "notes.txt"]);
    Checkpoint::open(&new).expect("a model");
}
