//! Tokenizers of `vocab.json` and `merges.txt`: byte-pair encoding of bytes (GPT-2, OPT, RoBERTa, Qwen2).

use super::settings::TokenizerSettings;
use super::{PostProcessor, TokenRoles, TokenizerClass, TokenizerParts, vocabulary_error};
use crate::CheckpointError;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;

/// The pattern by which Qwen2 cuts a text, as transformers writes it (`models/qwen2/tokenization_qwen2.py`):
/// contractions of any case, words with the character before them, single digits, signs with the line breaks after
/// them.
const QWEN2_WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// Highest id of a token; the largest vocabularies have some 260,000 tokens.
const MOST_ID: u32 = (1 << 24) - 1;

pub(super) fn build_parts(
    file: &Path,
    class: TokenizerClass,
    settings: &TokenizerSettings,
) -> Result<(TokenizerParts, TokenRoles), CheckpointError> {
    let tokens: HashMap<String, u32> = serde_json::from_slice(&super::read_file(file)?)
        .map_err(|source| vocabulary_error(file, format!("not a JSON object of tokens and ids: {source}")))?;
    let highest = tokens.values().copied().max();
    if let Some(id) = highest.filter(|&id| id > MOST_ID) {
        return Err(vocabulary_error(file, format!("a token has the id {id}; at most {MOST_ID} is allowed")));
    }
    let merges = read_merges(&file.with_file_name("merges.txt"))?;
    let Some(defaults) = default_roles(class) else {
        let reason = format!("vocab.json and merges.txt do not make a tokenizer of class {class:?}");
        return Err(vocabulary_error(file, reason));
    };
    let roles = settings.roles(defaults);
    let role = |name: &str| roles.iter().find(|(role, _)| *role == name).map_or("", |(_, token)| token).to_owned();
    let add_prefix_space = settings.flag("add_prefix_space", false);
    let bos = role("bos_token");
    let processor = match class {
        TokenizerClass::Roberta => {
            PostProcessor::Roberta { sep: role("sep_token"), cls: role("cls_token"), add_prefix_space }
        }
        // Without a BOS token the flag has no effect.
        _ if !bos.is_empty() && settings.flag("add_bos_token", class == TokenizerClass::Opt) => {
            PostProcessor::template(&[&bos, "$A"], &[&bos, "$A", &format!("{bos}:1"), "$B:1"])
        }
        _ => PostProcessor::Bytes,
    };
    let parts = TokenizerParts {
        model: json!({
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": tokens, "merges": merges,
        }),
        normalizer: if class == TokenizerClass::Qwen2 { json!({"type": "NFC"}) } else { json!(null) },
        pre_tokenizer: pre_tokenizer(class, add_prefix_space),
        decoder: json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        size: highest.map_or(0, |last| last + 1),
        vocabulary: tokens,
        fixed: Vec::new(),
        processor,
    };
    Ok((parts, roles))
}

/// The default special tokens of a class; `None` if the class is not one of byte-pair encoding.
fn default_roles(class: TokenizerClass) -> Option<&'static [(&'static str, &'static str)]> {
    Some(match class {
        TokenizerClass::Gpt2 => {
            &[("bos_token", "<|endoftext|>"), ("eos_token", "<|endoftext|>"), ("unk_token", "<|endoftext|>")]
        }
        TokenizerClass::Opt => {
            &[("bos_token", "</s>"), ("eos_token", "</s>"), ("unk_token", "</s>"), ("pad_token", "<pad>")]
        }
        TokenizerClass::Roberta => &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<s>"),
            ("mask_token", "<mask>"),
        ],
        TokenizerClass::Qwen2 => {
            &[("eos_token", "<|endoftext|>"), ("unk_token", "<|endoftext|>"), ("pad_token", "<|endoftext|>")]
        }
        _ => return None,
    })
}

fn pre_tokenizer(class: TokenizerClass, add_prefix_space: bool) -> Value {
    let bytes = |use_regex: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": use_regex,
        })
    };
    if class != TokenizerClass::Qwen2 {
        return bytes(true);
    }
    let words = json!({"type": "Split", "pattern": {"Regex": QWEN2_WORDS}, "behavior": "Isolated", "invert": false});
    json!({"type": "Sequence", "pretokenizers": [words, bytes(false)]})
}

/// The merges, best first; `#version` and blank lines are skipped.
fn read_merges(path: &Path) -> Result<Vec<[String; 2]>, CheckpointError> {
    let text = String::from_utf8(super::read_file(path)?).map_err(|_| vocabulary_error(path, "not UTF-8"))?;
    let mut merges = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with("#version") {
            continue;
        }
        match line.split(' ').collect::<Vec<_>>()[..] {
            [left, right] => merges.push([left.to_owned(), right.to_owned()]),
            _ => {
                return Err(vocabulary_error(
                    path,
                    format!("line {}: two tokens expected, found {line:?}", number + 1),
                ));
            }
        }
    }
    Ok(merges)
}
