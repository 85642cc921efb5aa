//! Tokenizers of SentencePiece models: T5, DeBERTa-v2/v3, XLM-RoBERTa (unigram) and Llama (BPE).

use super::sentencepiece::{ModelAlgorithm, PieceKind, SentencePieceModel};
use super::settings::TokenizerSettings;
use super::{
    PostProcessor, SentencePieceRules, TokenRoles, TokenizerClass, TokenizerParts, build_error, vocabulary_error,
};
use crate::CheckpointError;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use tokenizers::normalizers::Precompiled;

/// Maximum number of T5's sentinels; the published models have 100.
const MOST_SENTINELS: u64 = 65_536;

/// How SentencePiece writes a space.
const SPACE: &str = "▁";

pub(super) fn build_parts(
    file: &Path,
    class: TokenizerClass,
    settings: &TokenizerSettings,
    rules: SentencePieceRules,
) -> Result<(TokenizerParts, TokenRoles), CheckpointError> {
    let model = SentencePieceModel::parse(&super::read_file(file)?).map_err(|reason| vocabulary_error(file, reason))?;
    let wanted = if class == TokenizerClass::Llama { ModelAlgorithm::Bpe } else { ModelAlgorithm::Unigram };
    if model.algorithm != wanted {
        let reason = format!("a SentencePiece model of kind {:?}; {class:?} needs {wanted:?}", model.algorithm);
        return Err(vocabulary_error(file, reason));
    }
    match class {
        TokenizerClass::T5 => t5_parts(file, &model, settings),
        TokenizerClass::DebertaV2 => deberta_parts(file, &model, settings, rules),
        TokenizerClass::XlmRoberta => xlm_roberta_parts(file, &model, settings),
        TokenizerClass::Llama => Ok(llama_parts(&model, settings)),
        other => {
            Err(vocabulary_error(file, format!("a SentencePiece model does not make a tokenizer of class {other:?}")))
        }
    }
}

fn t5_parts(
    file: &Path,
    model: &SentencePieceModel,
    settings: &TokenizerSettings,
) -> Result<(TokenizerParts, TokenRoles), CheckpointError> {
    let roles = settings.roles(&[("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")]);
    let extra = settings.config.get("extra_ids").and_then(Value::as_u64).unwrap_or(100);
    if extra > MOST_SENTINELS {
        let path = file.with_file_name("tokenizer_config.json");
        return Err(vocabulary_error(&path, format!("extra_ids = {extra}; at most {MOST_SENTINELS} are made")));
    }
    let mut pieces = scored_pieces(model);
    let mut fixed = fixed_pieces(model);
    let known: HashSet<&str> = model.pieces.iter().map(|piece| piece.text.as_str()).collect();
    for n in (0..extra).rev() {
        let sentinel = format!("<extra_id_{n}>");
        if !known.contains(sentinel.as_str()) {
            pieces.push((sentinel.clone(), 0.0));
            fixed.push((sentinel, true));
        }
    }
    let normalizer = sentencepiece_normalizer(file, model)?;
    let processor = PostProcessor::template(&["$A", "</s>"], &["$A", "</s>", "$B", "</s>"]);
    Ok((unigram_parts(pieces, model.unk_id, fixed, normalizer, metaspace(), processor), roles))
}

fn deberta_parts(
    file: &Path,
    model: &SentencePieceModel,
    settings: &TokenizerSettings,
    rules: SentencePieceRules,
) -> Result<(TokenizerParts, TokenRoles), CheckpointError> {
    let roles = settings.roles(&[
        ("bos_token", "[CLS]"),
        ("eos_token", "[SEP]"),
        ("unk_token", "[UNK]"),
        ("sep_token", "[SEP]"),
        ("pad_token", "[PAD]"),
        ("cls_token", "[CLS]"),
        ("mask_token", "[MASK]"),
    ]);
    let mut normalizers = Vec::new();
    if settings.flag("do_lower_case", false) {
        normalizers.push(json!({"type": "Lowercase"}));
    }
    if rules == SentencePieceRules::Transformers5 {
        normalizers.push(json!({"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "}));
        normalizers.push(json!({"type": "NFC"}));
    } else {
        normalizers.push(json!({"type": "Strip", "strip_left": true, "strip_right": true}));
        normalizers.extend(character_map(file, model)?);
        normalizers.push(json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}));
    }
    // transformers' converter leaves the spaces that the character map puts at the end; SentencePiece does not.
    normalizers.push(json!({"type": "Strip", "strip_left": false, "strip_right": true}));
    let normalizer = json!({"type": "Sequence", "normalizers": normalizers});
    let mut splits = Vec::new();
    if settings.flag("split_by_punct", false) {
        splits.push(json!({"type": "Punctuation", "behavior": "Isolated"}));
    }
    splits.push(metaspace());
    let pre_tokenizer = json!({"type": "Sequence", "pretokenizers": splits});
    let processor = PostProcessor::classifier("[CLS]", "[SEP]");
    Ok((
        unigram_parts(scored_pieces(model), model.unk_id, fixed_pieces(model), normalizer, pre_tokenizer, processor),
        roles,
    ))
}

fn xlm_roberta_parts(
    file: &Path,
    model: &SentencePieceModel,
    settings: &TokenizerSettings,
) -> Result<(TokenizerParts, TokenRoles), CheckpointError> {
    let roles = settings.roles(&[
        ("bos_token", "<s>"),
        ("eos_token", "</s>"),
        ("unk_token", "<unk>"),
        ("sep_token", "</s>"),
        ("pad_token", "<pad>"),
        ("cls_token", "<s>"),
        ("mask_token", "<mask>"),
    ]);
    // fairseq's first tokens stand where the model has `<unk>`, `<s>` and `</s>`.
    let mut pieces: Vec<(String, f64)> = ["<s>", "<pad>", "</s>", "<unk>"].map(|token| (token.to_owned(), 0.0)).into();
    pieces.extend(scored_pieces(model).into_iter().skip(3));
    pieces.push(("<mask>".to_owned(), 0.0));
    let normalizer = sentencepiece_normalizer(file, model)?;
    let processor = PostProcessor::template(&["<s>", "$A", "</s>"], &["<s>", "$A", "</s>", "</s>", "$B", "</s>"]);
    Ok((unigram_parts(pieces, 3, Vec::new(), normalizer, metaspace(), processor), roles))
}

fn llama_parts(model: &SentencePieceModel, settings: &TokenizerSettings) -> (TokenizerParts, TokenRoles) {
    let roles = settings.roles(&[("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")]);
    let role = |name: &str| roles.iter().find(|(role, _)| *role == name).map_or("", |(_, token)| token);
    let (bos, eos) = (role("bos_token"), role("eos_token"));
    let texts = || model.pieces.iter().map(|piece| piece.text.as_str());
    let vocabulary: HashMap<String, u32> = texts().map(str::to_owned).zip(0..).collect();
    let around = |text: &'static str| {
        let before = settings.flag("add_bos_token", true).then_some(bos);
        let after = settings.flag("add_eos_token", false).then_some(eos);
        before.into_iter().chain([text]).chain(after)
    };
    let single: Vec<&str> = around("$A").collect();
    let second: Vec<String> = around("$B").map(|name| format!("{name}:1")).collect();
    let pair: Vec<&str> = single.iter().copied().chain(second.iter().map(String::as_str)).collect();
    let prefix = settings.flag("add_prefix_space", true);
    let (normalizer, pre_tokenizer) = llama_spaces(prefix, settings.flag("legacy", false));
    let parts = TokenizerParts {
        model: json!({
            "type": "BPE", "dropout": null, "unk_token": model.pieces[model.unk_id].text,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true,
            "byte_fallback": model.byte_fallback, "ignore_merges": false,
            "vocab": vocabulary, "merges": derive_merges(model, &vocabulary),
        }),
        normalizer,
        pre_tokenizer,
        decoder: llama_decoder(prefix),
        size: model.pieces.len() as u32,
        vocabulary,
        fixed: fixed_pieces(model),
        processor: PostProcessor::template(&single, &pair),
    };
    (parts, roles)
}

/// The normalizer and the pre-tokenizer. Legacy ones put a space before every stretch of text, others only before the
/// first.
fn llama_spaces(prefix: bool, legacy: bool) -> (Value, Value) {
    if !legacy {
        let scheme = if prefix { "first" } else { "never" };
        let spaces = json!({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": false});
        return (Value::Null, spaces);
    }
    let mut normalizers = Vec::new();
    if prefix {
        normalizers.push(json!({"type": "Prepend", "prepend": SPACE}));
    }
    normalizers.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE}));
    (json!({"type": "Sequence", "normalizers": normalizers}), Value::Null)
}

fn llama_decoder(prefix: bool) -> Value {
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": decoders})
}

/// All ways to compose a piece of two others, in the order of the pieces: SentencePiece's BPE derives its merges from
/// the vocabulary alone. For one piece, the way with the shorter beginning comes first, as in transformers'
/// `generate_merges`.
fn derive_merges(model: &SentencePieceModel, vocabulary: &HashMap<String, u32>) -> Vec<[String; 2]> {
    let mut merges = Vec::new();
    for piece in &model.pieces {
        for (cut, _) in piece.text.char_indices().skip(1) {
            let (left, right) = piece.text.split_at(cut);
            if vocabulary.contains_key(left) && vocabulary.contains_key(right) {
                merges.push([left.to_owned(), right.to_owned()]);
            }
        }
    }
    merges
}

/// A unigram tokenizer.
fn unigram_parts(
    pieces: Vec<(String, f64)>,
    unk_id: usize,
    fixed: Vec<(String, bool)>,
    normalizer: Value,
    pre_tokenizer: Value,
    processor: PostProcessor,
) -> TokenizerParts {
    let vocabulary = pieces.iter().map(|(piece, _)| piece.clone()).zip(0..).collect();
    TokenizerParts {
        size: pieces.len() as u32,
        model: json!({"type": "Unigram", "unk_id": unk_id, "vocab": pieces, "byte_fallback": false}),
        normalizer,
        pre_tokenizer,
        decoder: metaspace(),
        vocabulary,
        fixed,
        processor,
    }
}

fn scored_pieces(model: &SentencePieceModel) -> Vec<(String, f64)> {
    model.pieces.iter().map(|piece| (piece.text.clone(), piece.score.into())).collect()
}

fn fixed_pieces(model: &SentencePieceModel) -> Vec<(String, bool)> {
    let fixed = model.pieces.iter().filter(|piece| piece.kind != PieceKind::Other);
    fixed.map(|piece| (piece.text.clone(), piece.kind == PieceKind::Control)).collect()
}

/// The model's character map, then SentencePiece's rules for spaces: removed at the end, several become one.
fn sentencepiece_normalizer(file: &Path, model: &SentencePieceModel) -> Result<Value, CheckpointError> {
    let mut normalizers: Vec<Value> = character_map(file, model)?.into_iter().collect();
    normalizers.push(json!({"type": "Strip", "strip_left": false, "strip_right": true}));
    normalizers.push(json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": SPACE}));
    Ok(json!({"type": "Sequence", "normalizers": normalizers}))
}

fn character_map(file: &Path, model: &SentencePieceModel) -> Result<Option<Value>, CheckpointError> {
    if model.charsmap.is_empty() {
        return Ok(None);
    }
    let precompiled = Precompiled::from(&model.charsmap).map_err(|source| build_error(file, Box::new(source)))?;
    let json = serde_json::to_value(precompiled).map_err(|source| build_error(file, Box::new(source)))?;
    Ok(Some(json))
}

fn metaspace() -> Value {
    json!({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": true})
}
