//! Imports of `torch.save` files (`ops/lm/pickles.py`): the results, number for number, and the refusals.

use hopeval_checkpoint::{Checkpoint, CheckpointError, import::import};
use safetensors::SafeTensors;
use std::io::Write;
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
        Checkpoint::open(out.path()).expect(name).weights_digest().to_owned()
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
        let digest = |path: &Path| Checkpoint::open(path).expect("a model").weights_digest().to_owned();
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

/// A zip archive of stored entries, as `torch.save` writes one.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in entries {
        writer.start_file(*name, stored).expect("started");
        writer.write_all(bytes).expect("written");
    }
    writer.finish().expect("finished").into_inner()
}

/// The pickle of a state dict: `count` tensors of 200,000 numbers, each a view of one storage from another number on.
fn pickled_views(count: u16) -> Vec<u8> {
    let text = |text: &str| [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let int = |n: u32| [&b"J"[..], &n.to_le_bytes()].concat();
    let mut out = b"\x80\x02(".to_vec();
    for part in [text("storage"), b"ctorch\nFloatStorage\n".to_vec(), text("0"), text("cpu"), int(262_144)] {
        out.extend(part);
    }
    out.extend(b"tQq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02}(");
    for n in 0..count {
        out.extend(text(&format!("view.{n}")));
        out.extend([&b"h\x02(h\x01"[..], &int(n.into()), &int(200_000), b"\x85K\x01\x85\x89}tR"].concat());
    }
    out.extend(b"u.");
    out
}

#[test]
fn views_that_would_fill_the_disk_are_refused() {
    let bytes = vec![0; 1 << 20];
    let model = |count| archive(&[("m/data.pkl", &pickled_views(count)), ("m/data/0", &bytes)]);
    let out = tempfile::tempdir().expect("a folder");
    assert_eq!(import(folder(&model(4)).path(), out.path()).expect("four views").tensors, 4);
    let (error, out) = refused(folder(&model(64)).path());
    assert!(error.to_string().contains("its 64 tensors have 51200000 bytes"), "{error}");
    assert_eq!(names(out.path()), Vec::<String>::new());
}

#[test]
fn entries_that_share_bytes_are_refused() {
    let bytes = vec![0; 1 << 20];
    let mut model = archive(&[("m/data.pkl", &pickled_views(1)), ("m/data/0", &bytes), ("m/data/1", &bytes)]);
    // The directory's third record is made to point to the second's bytes.
    let records: Vec<usize> = (0..model.len() - 4).filter(|&at| model[at..].starts_with(b"PK\x01\x02")).collect();
    let start = model[records[1] + 42..records[1] + 46].to_vec();
    model[records[2] + 42..records[2] + 46].copy_from_slice(&start);
    let (error, _) = refused(folder(&model).path());
    assert!(error.to_string().contains("m/data/0 and m/data/1 of the zip archive share bytes"), "{error}");
}

#[test]
fn a_flipped_bit_of_a_number_is_found_by_its_sum() {
    let bytes: Vec<u8> = (0..1 << 20).map(|n| (n % 61) as u8).collect();
    let mut model = archive(&[("m/data.pkl", &pickled_views(1)), ("m/data/0", &bytes)]);
    let at = model.windows(64).position(|window| window == &bytes[..64]).expect("the storage");
    model[at + 4097] ^= 1;
    let (error, _) = refused(folder(&model).path());
    assert!(error.to_string().contains("m/data/0 is damaged"), "{error}");
    assert!(error.to_string().contains("hint: fetch the file again"), "{error}");
}

#[test]
fn names_that_would_be_copied_without_end_are_refused() {
    let name = "n".repeat(1 << 20);
    let text = [&b"X"[..], &(name.len() as u32).to_le_bytes(), name.as_bytes()].concat();
    let pickle = [&b"\x80\x02}("[..], &text, b"q\x01N", &b"h\x01N".repeat(100_000), b"u."].concat();
    let (error, _) = refused(folder(&archive(&[("m/data.pkl", &pickle)])).path());
    assert!(error.to_string().contains("an entry whose name has 1048576 bytes; at most 512"), "{error}");
}

#[test]
fn two_shards_with_one_converted_name_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("config.json"), "{}").expect("written");
    let shards = ["pytorch_model-1.bin", "model-1.bin"];
    for (from, to) in ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"].iter().zip(shards) {
        std::fs::copy(pickles("sharded").join(from), dir.path().join(to)).expect("copied");
    }
    let index = std::fs::read_to_string(pickles("sharded").join("pytorch_model.bin.index.json")).expect("fixture");
    let index = index.replace("pytorch_model-00001-of-00002.bin", shards[0]);
    let index = index.replace("pytorch_model-00002-of-00002.bin", shards[1]);
    std::fs::write(dir.path().join("pytorch_model.bin.index.json"), index).expect("written");
    let (error, out) = refused(dir.path());
    let said = "shards model-1.bin and pytorch_model-1.bin would both be written as model-1.safetensors";
    assert!(error.to_string().contains(said), "{error}");
    assert_eq!(names(out.path()), Vec::<String>::new());
}
