//! On the small vocabularies of `hopeval-checkpoint`'s tests, imported like the folders of models.

use super::*;
use hopeval_checkpoint::import::tokenizer::{SentencePieceRules, import_tokenizer};

/// A folder with the imported tokenizer of a class. `llama-legacy` is Llama's as of the year 2023.
pub(crate) fn folder(name: &str) -> tempfile::TempDir {
    let class = name.trim_end_matches("-legacy");
    let mut from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../checkpoint/tests/tokenizers").join(class);
    let (out, legacy) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    if class != name {
        for file in ["config.json", "tokenizer.model"] {
            std::fs::copy(from.join(file), legacy.path().join(file)).expect("copied");
        }
        let settings = r#"{"add_bos_token": true, "legacy": true}"#;
        std::fs::write(legacy.path().join("tokenizer_config.json"), settings).expect("written");
        from = legacy.path().to_owned();
    }
    let config = std::fs::read(from.join("config.json")).expect("a fixture");
    let config = serde_json::from_slice(&config).expect("a fixture");
    import_tokenizer(&from, out.path(), &config, SentencePieceRules::Model, &mut Vec::new())
        .expect("imported")
        .expect("a vocabulary");
    out
}

/// The tokenizer of a class.
pub(crate) fn tokenizer(name: &str) -> Tokenizer {
    Tokenizer::open(folder(name).path()).expect("a tokenizer")
}

/// Tokenizers with Qwen 2's vocabulary and each known pattern of words.
pub(crate) fn tokenizers_of_known_words() -> Vec<Tokenizer> {
    joins::WORDS.map(tokenizer_of_words).into()
}

/// A tokenizer with Qwen 2's vocabulary and another pattern of words.
pub(crate) fn tokenizer_of_words(words: &str) -> Tokenizer {
    let folder = folder("qwen2");
    let path = folder.path().join("tokenizer.json");
    let mut file: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a tokenizer")).expect("JSON");
    let pattern = &mut file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
    assert!(pattern.is_string());
    *pattern = words.into();
    std::fs::write(&path, file.to_string()).expect("written");
    Tokenizer::open(folder.path()).expect("a tokenizer")
}

#[test]
fn texts_are_read_once_alone_and_in_batches() {
    let t5 = tokenizer("t5");
    let texts = ["The film", "", "The film", "director of the film"];
    let alone: Vec<Arc<[u32]>> = texts.iter().map(|text| t5.ids(text, true).expect("ids")).collect();
    assert!(Arc::ptr_eq(&alone[0], &alone[2]), "remembered");
    let fresh = tokenizer("t5");
    assert_eq!(fresh.ids_of_all(&texts, true).expect("ids"), alone);
    assert_eq!(fresh.ids_of_all(&texts, true).expect("ids"), alone);
    let eos = t5.special_id(SpecialRole::Eos).expect("</s>");
    for (text, ids) in texts.iter().zip(alone) {
        let bare = t5.ids(text, false).expect("ids");
        assert_eq!([&bare[..], &[eos]].concat(), ids[..], "{text:?}");
    }
    assert_eq!(t5.decode(&t5.ids("director of the film", true).expect("ids"), true), "director of the film");
}

#[test]
fn pairs_have_types_and_offsets() {
    let bert = tokenizer("bert-uncased");
    let pair = bert.encode_pair("who é", "the film").expect("ids");
    let (cls, sep) =
        (bert.special_id(SpecialRole::Cls).expect("[CLS]"), bert.special_id(SpecialRole::Sep).expect("[SEP]"));
    let seps: Vec<usize> = (0..pair.ids.len()).filter(|&n| pair.ids[n] == sep).collect();
    assert_eq!((pair.ids[0], seps.len(), seps[1]), (cls, 2, pair.ids.len() - 1));
    for n in 0..pair.ids.len() {
        assert_eq!(pair.type_ids[n], u32::from(n > seps[0]));
    }
    assert_eq!(pair.second, seps[0] + 1..seps[1]);
    let second: Vec<&str> = pair.second.clone().map(|n| &"the film"[pair.offsets[n].0..pair.offsets[n].1]).collect();
    assert_eq!(second.concat(), "thefilm");
    let single = bert.encode("who é", true).expect("ids");
    assert_eq!(
        (single.second.clone(), single.offsets[single.second.end - 1].1),
        (1..single.ids.len() - 1, 5),
        "characters"
    );
    assert_eq!(bert.tokens(&[cls, 1 << 30]), ["[CLS]", ""]);
}

#[test]
fn words_are_read_each_on_its_own() {
    let deberta = tokenizer("deberta-v2");
    let (query, chunk) = (["Who", "'s", "the", "director", "?"], ["The", "film", " ", "-", "étude", ")"]);
    let (cls, sep) =
        (deberta.special_id(SpecialRole::Cls).expect("[CLS]"), deberta.special_id(SpecialRole::Sep).expect("[SEP]"));
    let whole = deberta.encode_word_sequence(&query, Some(&chunk), 384).expect("pieces");
    assert_eq!((whole.lost, whole.ids.len()), ([0, 0], whole.pieces.len()));
    let mut expected = vec![cls];
    for words in [&query[..], &chunk] {
        for word in words {
            expected.extend_from_slice(&deberta.ids(word, false).expect("ids"));
        }
        expected.push(sep);
    }
    assert_eq!(whole.ids, expected);
    let special: Vec<u32> =
        whole.ids.iter().zip(&whole.pieces).filter(|(_, piece)| piece.is_none()).map(|(&id, _)| id).collect();
    assert_eq!(special, [cls, sep, sep]);
    let of = |text: u8, word: u32| {
        let pieces = whole.pieces.iter().flatten().filter(move |piece| (piece.text, piece.word) == (text, word));
        pieces.map(|piece| piece.characters).collect::<Vec<_>>()
    };
    assert_eq!(of(1, 2), [], "a space has no pieces");
    assert_eq!((of(1, 4)[0].0, of(1, 4).last().map(|at| at.1)), (0, Some(5)), "characters, not bytes");
    assert_eq!(of(0, 3).last().map(|at| at.1), Some(8));

    let of_query = whole.ids.iter().position(|&id| id == sep).expect("[SEP]") + 1;
    for most in [4, of_query - 1, of_query, of_query + 3] {
        let cut = deberta.encode_word_sequence(&query, Some(&chunk), most).expect("pieces");
        let lost = [of_query.saturating_sub(most), whole.ids.len() - of_query.max(most)];
        assert_eq!((&cut.ids[..], cut.lost), (&whole.ids[..most], lost));
    }
    let single = deberta.encode_word_sequence(&query, None, 384).expect("pieces");
    assert_eq!((single.ids[0], single.ids.last()), (cls, Some(&sep)));
    let bare = deberta.encode_words(&query).expect("pieces");
    assert_eq!(bare.ids, single.ids[1..single.ids.len() - 1]);
}

/// Words of many forms, three of them new in every text.
fn sequences_of_words() -> Vec<Vec<String>> {
    let common =
        ["The", "director", "'s", "film", "", " ", "étude", "1936", "(", "日本", "[SEP]", "-", "\n\n", "e\u{301}"];
    let sequence = |n: usize| {
        let new = ["film", "Über", "ab"].map(|word| format!("{word}{n}"));
        common.iter().cycle().skip(n % common.len()).take(20).map(|&word| word.to_owned()).chain(new).collect()
    };
    (0..200).map(sequence).collect()
}

#[test]
fn remembered_words_have_the_pieces_of_new_ones() {
    for name in ["deberta-v2", "bert-uncased", "roberta"] {
        for most_bytes in [0, 4000, PIECE_CACHE_BYTES] {
            let tokenizer = Tokenizer { pieces: PieceCache::new(most_bytes), ..tokenizer(name) };
            let check = |sequence: &Vec<String>| {
                let found = tokenizer.encode_words(sequence).expect("pieces");
                let (mut ids, mut pieces) = (Vec::new(), Vec::new());
                for (word, written) in (0..).zip(sequence) {
                    let alone = tokenizer.encode(written, false).expect("ids");
                    let characters = alone.offsets.iter().map(|&(begin, end)| (begin as u32, end as u32));
                    pieces.extend(characters.map(|characters| Some(WordPiece { text: 0, word, characters })));
                    ids.extend(alone.ids);
                }
                assert_eq!((found.ids, found.pieces), (ids, pieces), "{name}, {most_bytes}: {sequence:?}");
            };
            let sequences = sequences_of_words();
            std::thread::scope(|threads| {
                for half in [&sequences[..120], &sequences[80..], &sequences] {
                    threads.spawn(|| half.iter().for_each(check));
                }
            });
        }
    }
}

#[test]
fn what_is_missing_is_said_when_it_is_needed() {
    let gpt2 = tokenizer("gpt2");
    assert_eq!(gpt2.special_id(SpecialRole::Eos).expect("there"), gpt2.special_id(SpecialRole::Bos).expect("there"));
    let error = gpt2.encode_word_sequence(&["a"], None, 8).expect_err("no [CLS]");
    assert!(matches!(error, TokeniseError::NoSpecial { role: SpecialRole::Cls, .. }));
    assert!(error.to_string().contains("has no cls token, which this request needs"), "{error}");

    let empty = tempfile::tempdir().expect("a folder");
    assert!(Tokenizer::open_if_there(empty.path()).expect("nothing is wrong").is_none());
    let error = Tokenizer::open(empty.path()).expect_err("no tokenizer");
    assert!(error.to_string().contains("no tokenizer.json, so texts cannot be read"), "{error}");
    std::fs::write(empty.path().join("tokenizer.json"), "{\"model\": 3}").expect("written");
    let error = Tokenizer::open(empty.path()).expect_err("damaged");
    assert!(error.to_string().contains("tokenizer.json: not a tokenizer"), "{error}");
}

#[test]
fn files_say_roles_and_clean_up() {
    let dir = folder("bert-uncased");
    let settings = dir.path().join("tokenizer_config.json");
    std::fs::write(&settings, r#"{"sep_token": {"content": "[MASK]"}, "cls_token": "[NONE]"}"#).expect("written");
    let bert = Tokenizer::open(dir.path()).expect("a tokenizer");
    assert_eq!(
        bert.special_id(SpecialRole::Sep).expect("as said"),
        bert.special_id(SpecialRole::Mask).expect("the usual one")
    );
    assert!(bert.special_id(SpecialRole::Cls).is_err(), "a token that the vocabulary lacks fills no role");
    assert!(bert.vocabulary() > 100);

    let dir = folder("gpt2");
    let ids = |tokenizer: &Tokenizer| tokenizer.ids("it is , you 's .", false).expect("ids").to_vec();
    let plain = Tokenizer::open(dir.path()).expect("a tokenizer");
    assert_eq!(plain.decode(&ids(&plain), true), "it is , you 's .");
    let settings = dir.path().join("tokenizer_config.json");
    std::fs::write(&settings, r#"{"clean_up_tokenization_spaces": true}"#).expect("written");
    let cleaning = Tokenizer::open(dir.path()).expect("a tokenizer");
    assert_eq!(cleaning.decode(&ids(&cleaning), true), "it is, you's.");
}

#[test]
fn truncation_and_padding_in_the_file_are_no_part_of_the_model() {
    let dir = folder("bert-uncased");
    let path = dir.path().join("tokenizer.json");
    let mut whole: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
    let expected = Tokenizer::open(dir.path()).expect("a tokenizer").ids("the film of the year", true).expect("ids");
    assert!(expected.len() > 4);
    whole["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
    std::fs::write(&path, whole.to_string()).expect("written");
    let found = Tokenizer::open(dir.path()).expect("a tokenizer").ids("the film of the year", true).expect("ids");
    assert_eq!(found, expected);
}
