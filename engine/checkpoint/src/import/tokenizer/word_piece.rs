//! Tokenizers of `vocab.txt`: WordPiece (BERT, ELECTRA and derived models such as Contriever).

use super::settings::TokenizerSettings;
use super::{PostProcessor, TokenRoles, TokenizerClass, TokenizerParts, vocabulary_error};
use crate::CheckpointError;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;

pub(super) fn build_parts(
    file: &Path,
    class: TokenizerClass,
    settings: &TokenizerSettings,
) -> Result<(TokenizerParts, TokenRoles), CheckpointError> {
    if class != TokenizerClass::Bert {
        return Err(vocabulary_error(file, format!("vocab.txt does not make a tokenizer of class {class:?}")));
    }
    let text = String::from_utf8(super::read_file(file)?).map_err(|_| vocabulary_error(file, "not UTF-8"))?;
    // Every line is a token, even an empty one: ids are line numbers.
    let tokens: HashMap<String, u32> = text.lines().map(str::to_owned).zip(0..).collect();
    let size = text.lines().count() as u32;
    let roles = settings.roles(&[
        ("unk_token", "[UNK]"),
        ("sep_token", "[SEP]"),
        ("pad_token", "[PAD]"),
        ("cls_token", "[CLS]"),
        ("mask_token", "[MASK]"),
    ]);
    let role = |name: &str| roles.iter().find(|(role, _)| *role == name).map_or("", |(_, token)| token);
    if !tokens.contains_key(role("unk_token")) {
        return Err(vocabulary_error(file, format!("the unknown token {} is not in it", role("unk_token"))));
    }
    let processor = PostProcessor::classifier(role("cls_token"), role("sep_token"));
    let parts = TokenizerParts {
        model: json!({
            "type": "WordPiece", "unk_token": role("unk_token"), "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": tokens,
        }),
        normalizer: json!({
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": settings.flag("tokenize_chinese_chars", true),
            // Null: follows lower-casing.
            "strip_accents": settings.config.get("strip_accents").and_then(Value::as_bool),
            "lowercase": settings.flag("do_lower_case", true),
        }),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        decoder: json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        size,
        vocabulary: tokens,
        fixed: Vec::new(),
        processor,
    };
    Ok((parts, roles))
}
