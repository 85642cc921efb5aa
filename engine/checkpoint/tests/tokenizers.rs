//! Imported tokenizers give the same ids as transformers and SentencePiece, on vocabularies and texts written by
//! `ops/lm/compare-tokenizers.py --fixture`; the script itself compares 10,000 passages.

use hopeval_checkpoint::CheckpointError;
use hopeval_checkpoint::import::tokenizer::{SentencePieceRules, TokenizerSource, import_tokenizer};
use std::path::{Path, PathBuf};
use tokenizers::Tokenizer;

fn vocabularies(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokenizers").join(name)
}

fn run(dir: &Path, out: &Path) -> Result<Option<TokenizerSource>, CheckpointError> {
    let config = std::fs::read(dir.join("config.json")).expect("a fixture");
    import_tokenizer(
        dir,
        out,
        &serde_json::from_slice(&config).expect("a fixture"),
        SentencePieceRules::Model,
        &mut Vec::new(),
    )
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&std::fs::read(path).expect("a fixture")).expect("a fixture")
}

/// A copy of a vocabulary, to be damaged.
fn copy(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(vocabularies(name)).expect("a fixture").flatten() {
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).expect("copied");
    }
    dir
}

fn refused(dir: &Path) -> String {
    let out = tempfile::tempdir().expect("a folder");
    run(dir, out.path()).expect_err("nothing to be made").to_string()
}

const CLASSES: [(&str, TokenizerSource); 11] = [
    ("t5", TokenizerSource::SentencePiece),
    ("deberta-v2", TokenizerSource::SentencePiece),
    ("xlm-roberta", TokenizerSource::SentencePiece),
    ("llama", TokenizerSource::SentencePiece),
    ("gpt2", TokenizerSource::Merges),
    ("opt", TokenizerSource::Merges),
    ("roberta", TokenizerSource::Merges),
    ("qwen2", TokenizerSource::Merges),
    ("bert-uncased", TokenizerSource::WordPiece),
    ("bert-cased", TokenizerSource::WordPiece),
    ("electra", TokenizerSource::WordPiece),
];

#[test]
fn every_class_gives_the_reference_ids() {
    let texts: Vec<String> = read(&vocabularies("texts.json"));
    for (name, source) in CLASSES {
        let out = tempfile::tempdir().expect("a folder");
        assert_eq!(run(&vocabularies(name), out.path()).expect(name), Some(source), "{name}");
        let tokenizer = Tokenizer::from_file(out.path().join("tokenizer.json")).expect(name);
        let expected: Vec<Vec<u32>> = read(&vocabularies(name).join("ids.json"));
        for (text, ids) in texts.iter().zip(expected) {
            assert_eq!(tokenizer.encode(&text[..], true).expect(name).get_ids(), ids, "{name}: {text:?}");
        }
    }
}

#[test]
fn roles_and_layout_are_the_classes_own() {
    let made = |name: &str| {
        let out = tempfile::tempdir().expect("a folder");
        run(&vocabularies(name), out.path()).expect(name);
        let settings: serde_json::Value = read(&out.path().join("tokenizer_config.json"));
        (Tokenizer::from_file(out.path().join("tokenizer.json")).expect(name), settings)
    };
    let (t5, settings) = made("t5");
    let size = t5.get_vocab_size(true) as u32;
    assert_eq!([t5.token_to_id("<extra_id_99>"), t5.token_to_id("<extra_id_0>")], [Some(size - 100), Some(size - 1)]);
    assert_eq!(settings["eos_token"], "</s>");
    assert_eq!(
        t5.encode("a <extra_id_0> b", false).expect("ids").get_ids().iter().filter(|&&id| id == size - 1).count(),
        1
    );

    let (deberta, settings) = made("deberta-v2");
    assert_eq!(deberta.token_to_id("[MASK]"), Some(deberta.get_vocab_size(false) as u32));
    assert_eq!((&settings["mask_token"], &settings["vocab_type"]), (&"[MASK]".into(), &"spm".into()));
    let pair = deberta.encode(("a", "b"), true).expect("ids");
    assert_eq!(pair.get_tokens(), ["[CLS]", "▁a", "[SEP]", "▁b", "[SEP]"]);
    assert_eq!(pair.get_type_ids(), [0, 0, 0, 1, 1]);
    let (roberta, _) = made("roberta");
    assert_eq!(roberta.encode(("a", "b"), true).expect("ids").get_tokens(), ["<s>", "a", "</s>", "</s>", "b", "</s>"]);
    let (qwen2, settings) = made("qwen2");
    assert_eq!(qwen2.encode("12 A", true).expect("ids").get_tokens()[..2], ["1", "2"], "digits stand alone");
    assert_eq!((&settings["eos_token"], settings.get("bos_token")), (&"<|endoftext|>".into(), None));
    let (opt, _) = made("opt");
    assert_eq!(opt.encode("a", true).expect("ids").get_tokens(), ["</s>", "a"]);
}

#[test]
fn what_cannot_be_made_is_said() {
    let dir = copy("t5");
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "mamba"}"#).expect("written");
    let error = refused(dir.path());
    assert!(
        error.contains("spiece.model: tokenizer_class and model_type say mamba; a tokenizer.json can be made for T5"),
        "{error}"
    );
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "llama"}"#).expect("written");
    assert!(refused(dir.path()).contains("a SentencePiece model of kind Unigram; Llama needs Bpe"));
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "bert"}"#).expect("written");
    assert!(
        refused(dir.path()).contains("does not make a tokenizer of class Bert")
            || refused(dir.path()).contains("SentencePiece")
    );
}

#[test]
fn damaged_vocabularies_are_errors_that_name_them() {
    let dir = copy("t5");
    let path = dir.path().join("spiece.model");
    let whole = std::fs::read(&path).expect("a fixture");
    for length in (0..200).chain([whole.len() - 1]) {
        std::fs::write(&path, &whole[..length]).expect("written");
        let error = refused(dir.path());
        assert!(error.contains("spiece.model: "), "{length} bytes: {error}");
    }
    let dir = copy("gpt2");
    std::fs::write(dir.path().join("merges.txt"), "#version: 0.2\na b\na b c\n").expect("written");
    assert!(refused(dir.path()).contains(r#"merges.txt: line 3: two tokens expected, found "a b c""#));
    std::fs::write(dir.path().join("merges.txt"), "qqq zzz\n").expect("written");
    assert!(refused(dir.path()).contains("vocab.json: no tokenizer can be made of it"));
    std::fs::remove_file(dir.path().join("merges.txt")).expect("removed");
    assert!(refused(dir.path()).contains("cannot read"));
    let dir = copy("bert-uncased");
    std::fs::write(dir.path().join("vocab.txt"), "[PAD]\n[CLS]\n[SEP]\na\n").expect("written");
    assert!(refused(dir.path()).contains("vocab.txt: the unknown token [UNK] is not in it"));
    std::fs::write(dir.path().join("tokenizer_config.json"), "[]").expect("written");
    assert!(refused(dir.path()).contains("tokenizer_config.json: not a JSON object"));
    let dir = copy("bert-uncased");
    std::fs::write(dir.path().join("added_tokens.json"), r#"{"<new>": 9999}"#).expect("written");
    assert!(refused(dir.path()).contains("the added token <new> has id 9999, which the vocabulary makes"));
}

#[test]
fn added_tokens_and_present_tokenizers_are_kept() {
    let dir = copy("bert-uncased");
    let size = std::fs::read_to_string(dir.path().join("vocab.txt")).expect("a fixture").lines().count();
    let added = format!(r#"{{"<CONTINUE>": {size}, "<FINISH>": {}}}"#, size + 1);
    std::fs::write(dir.path().join("added_tokens.json"), added).expect("written");
    let (out, again) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    run(dir.path(), out.path()).expect("imported");
    let path = out.path().join("tokenizer.json");
    let tokenizer = Tokenizer::from_file(&path).expect("a tokenizer");
    assert_eq!(tokenizer.token_to_id("<FINISH>"), Some(size as u32 + 1));
    std::fs::copy(dir.path().join("config.json"), out.path().join("config.json")).expect("copied");
    assert_eq!(run(out.path(), again.path()).expect("copied"), Some(TokenizerSource::TokenizerJson));
    let same = |file: &str| std::fs::read(out.path().join(file)).ok() == std::fs::read(again.path().join(file)).ok();
    assert!(same("tokenizer.json") && same("tokenizer_config.json"));
    std::fs::write(&path, "{}").expect("written");
    assert!(refused(out.path()).contains("tokenizer.json: no tokenizer can be made of it"));
}

/// A field of a protocol buffer that is a text or a message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 128 {
        out.push(length as u8 | 128);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

#[test]
fn what_would_take_hours_or_memory_is_refused() {
    // Merges of a piece of 4 MB would be looked for at each of its characters.
    let dir = copy("llama");
    let path = dir.path().join("tokenizer.model");
    let model = std::fs::read(&path).expect("a fixture");
    std::fs::write(&path, [field(1, &field(1, &b"a".repeat(4_000_000))), model].concat()).expect("written");
    let error = refused(dir.path());
    assert!(error.contains("tokenizer.model: a piece of 4000000 bytes; at most 1024 are read"), "{error}");

    let dir = copy("t5");
    std::fs::write(dir.path().join("tokenizer_config.json"), r#"{"extra_ids": 1000000000}"#).expect("written");
    let error = refused(dir.path());
    assert!(error.contains("tokenizer_config.json: extra_ids = 1000000000; at most 65536"), "{error}");

    for id in [u32::MAX, u32::MAX - 1, 1 << 24] {
        let dir = copy("gpt2");
        let path = dir.path().join("vocab.json");
        let mut tokens: serde_json::Map<String, serde_json::Value> = read(&path);
        tokens.insert("far".to_owned(), id.into());
        std::fs::write(&path, serde_json::to_vec(&tokens).expect("JSON")).expect("written");
        let error = refused(dir.path());
        assert!(error.contains(&format!("vocab.json: a token has the id {id}; at most 16777215")), "{error}");
    }
}
