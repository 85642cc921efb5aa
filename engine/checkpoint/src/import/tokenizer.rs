//! Makes `tokenizer.json` from the files of older model folders, as transformers converts them.
//!
//! | class | files | model |
//! | --- | --- | --- |
//! | T5 | `spiece.model` | unigram, 100 sentinels at the end of the vocabulary, `</s>` after each text |
//! | DeBERTa-v2/v3 | `spm.model` | unigram, `[CLS] A [SEP] B [SEP]`, `[MASK]` after the vocabulary |
//! | XLM-RoBERTa | `sentencepiece.bpe.model` | unigram, the first pieces renumbered |
//! | Llama, Mistral | `tokenizer.model` | BPE of characters with bytes for the unknown |
//! | GPT-2, OPT | `vocab.json`, `merges.txt` | BPE of bytes; OPT begins with `</s>` |
//! | RoBERTa | `vocab.json`, `merges.txt` | BPE of bytes, `<s> A </s></s> B </s>` |
//! | Qwen2, Qwen3 | `vocab.json`, `merges.txt` | BPE of bytes of composed characters, words cut by its own pattern |
//! | BERT, ELECTRA | `vocab.txt` | WordPiece, `[CLS] A [SEP] B [SEP]` |
//!
//! The class is `tokenizer_class` of `tokenizer_config.json`, else it follows from `config.json`. The rules are those
//! of transformers' `convert_slow_tokenizer.py`; for SentencePiece they apply the model's own character map.

mod byte_level;
mod sentencepiece;
mod settings;
mod unigram;
mod word_piece;

use crate::CheckpointError;
use serde_json::{Map, Value, json};
use settings::TokenizerSettings;
use std::path::{Path, PathBuf};
use tokenizers::Tokenizer;

/// The files that a tokenizer was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenizerSource {
    /// A `tokenizer.json`, copied.
    TokenizerJson,
    /// A SentencePiece model.
    SentencePiece,
    /// `vocab.json` and `merges.txt`.
    Merges,
    /// `vocab.txt`.
    WordPiece,
}

/// The rules for a SentencePiece model where implementations differ: for DeBERTa-v2/v3, on 2 of 100 Wikipedia
/// passages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SentencePieceRules {
    /// The model's own character map, as SentencePiece and the slow tokenizers of transformers 4 apply it. The
    /// published models were trained with it.
    #[default]
    Model,
    /// `DebertaV2Tokenizer` of transformers 5: it composes characters (NFC) and leaves out the map.
    Transformers5,
}

/// Tokenizer classes of transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenizerClass {
    T5,
    DebertaV2,
    XlmRoberta,
    Llama,
    Gpt2,
    Opt,
    Roberta,
    Qwen2,
    Bert,
}

const CLASSES: [(&[&str], TokenizerClass); 9] = [
    (&["T5Tokenizer", "MT5Tokenizer", "t5", "mt5"], TokenizerClass::T5),
    (&["DebertaV2Tokenizer", "deberta-v2"], TokenizerClass::DebertaV2),
    (&["XLMRobertaTokenizer", "xlm-roberta"], TokenizerClass::XlmRoberta),
    (&["LlamaTokenizer", "llama", "mistral"], TokenizerClass::Llama),
    (&["GPT2Tokenizer", "gpt2"], TokenizerClass::Gpt2),
    (&["opt"], TokenizerClass::Opt),
    (&["RobertaTokenizer", "roberta"], TokenizerClass::Roberta),
    (&["Qwen2Tokenizer", "qwen2", "qwen3"], TokenizerClass::Qwen2),
    (&["BertTokenizer", "ElectraTokenizer", "bert", "electra"], TokenizerClass::Bert),
];

/// Files with a SentencePiece model, in the order of the search.
const SENTENCEPIECE_FILES: [&str; 4] = ["spiece.model", "spm.model", "sentencepiece.bpe.model", "tokenizer.model"];

/// Writes `tokenizer.json` and `tokenizer_config.json` into `out`, made from the files in `dir`, and adds their names
/// to `files`. `None` if `dir` has no files to make a tokenizer from.
///
/// # Errors
/// [`CheckpointError::Vocabulary`] and [`CheckpointError::Format`], naming the file.
pub fn import_tokenizer(
    dir: &Path,
    out: &Path,
    config: &Map<String, Value>,
    rules: SentencePieceRules,
    files: &mut Vec<String>,
) -> Result<Option<TokenizerSource>, CheckpointError> {
    let mut write = |name: &str, text: &[u8]| {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(|source| CheckpointError::Write { path, source })?;
        files.push(name.to_owned());
        Ok::<_, CheckpointError>(())
    };
    let settings = TokenizerSettings::read(dir)?;
    let present = dir.join("tokenizer.json");
    if present.exists() {
        let text = read_file(&present)?;
        parse_tokenizer(&present, &text)?;
        write("tokenizer.json", &text)?;
        if !settings.config.is_empty() {
            write("tokenizer_config.json", &pretty_json(&settings.config))?;
        }
        return Ok(Some(TokenizerSource::TokenizerJson));
    }
    let Some((file, source)) = find_source(dir) else { return Ok(None) };
    let class = tokenizer_class(&file, &settings, config)?;
    let (parts, roles) = match source {
        TokenizerSource::SentencePiece => unigram::build_parts(&file, class, &settings, rules)?,
        TokenizerSource::Merges => byte_level::build_parts(&file, class, &settings)?,
        _ => word_piece::build_parts(&file, class, &settings)?,
    };
    let (text, tokenizer_config) = parts.assemble(&file, &settings, &roles)?;
    write("tokenizer.json", &text)?;
    write("tokenizer_config.json", &pretty_json(&tokenizer_config))?;
    Ok(Some(source))
}

fn find_source(dir: &Path) -> Option<(PathBuf, TokenizerSource)> {
    let sentencepiece = SENTENCEPIECE_FILES.iter().map(|name| (dir.join(name), TokenizerSource::SentencePiece));
    let others =
        [(dir.join("vocab.json"), TokenizerSource::Merges), (dir.join("vocab.txt"), TokenizerSource::WordPiece)];
    sentencepiece.chain(others).find(|(path, _)| path.exists())
}

fn tokenizer_class(
    file: &Path,
    settings: &TokenizerSettings,
    config: &Map<String, Value>,
) -> Result<TokenizerClass, CheckpointError> {
    let of = |name: &str| CLASSES.iter().find(|(names, _)| names.contains(&name)).map(|(_, class)| *class);
    let model = config.get("model_type").and_then(Value::as_str);
    let named =
        settings.text_field("tokenizer_class").or_else(|| config.get("tokenizer_class").and_then(Value::as_str));
    let named = named.map(|name| name.strip_suffix("Fast").unwrap_or(name));
    match (named.and_then(of), model.and_then(of)) {
        // OPT's folders say GPT2Tokenizer, whose defaults are GPT-2's.
        (Some(TokenizerClass::Gpt2) | None, Some(TokenizerClass::Opt)) => Ok(TokenizerClass::Opt),
        (Some(class), _) | (None, Some(class)) => Ok(class),
        (None, None) => {
            let known = CLASSES.iter().flat_map(|(names, _)| names.iter().copied()).collect::<Vec<_>>().join(", ");
            let said = named.or(model).unwrap_or("nothing");
            let reason = format!("tokenizer_class and model_type say {said}; a tokenizer.json can be made for {known}");
            Err(vocabulary_error(file, reason))
        }
    }
}

/// A tokenizer without the parts common to all classes.
struct TokenizerParts {
    model: Value,
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    /// Token ids of the vocabulary, without added tokens.
    vocabulary: std::collections::HashMap<String, u32>,
    /// One more than the largest id of the vocabulary.
    size: u32,
    /// Pieces of the vocabulary found in a text before anything else, in order, and whether they are special.
    fixed: Vec<(String, bool)>,
    /// Tokens before, between and after texts, when all tokens have ids.
    processor: PostProcessor,
}

/// The tokens around texts.
enum PostProcessor {
    /// Tokens, `$A` and `$B`, each with its type.
    Template { single: Vec<(String, u32)>, pair: Vec<(String, u32)> },
    /// RoBERTa's, with offsets that leave out a word's space.
    Roberta { sep: String, cls: String, add_prefix_space: bool },
    /// Nothing.
    Bytes,
}

/// Special tokens by role, such as `cls_token`, in the order in which transformers adds them.
type TokenRoles = Vec<(&'static str, String)>;

impl TokenizerParts {
    /// The text of `tokenizer.json`, and `tokenizer_config.json`.
    fn assemble(
        self,
        file: &Path,
        settings: &TokenizerSettings,
        roles: &TokenRoles,
    ) -> Result<(Vec<u8>, Map<String, Value>), CheckpointError> {
        let added = settings.added_tokens(file, &self, roles)?;
        let id = |token: &str| {
            let found = self.vocabulary.get(token).copied();
            found.or_else(|| added.iter().find(|added| added["content"] == token)?["id"].as_u64()?.try_into().ok())
        };
        let post_processor = self.processor.to_json(file, id)?;
        let whole = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added,
            "normalizer": self.normalizer,
            "pre_tokenizer": self.pre_tokenizer,
            "post_processor": post_processor,
            "decoder": self.decoder,
            "model": self.model,
        });
        let text = serde_json::to_vec(&whole).expect("a JSON object; this is a bug");
        let tokenizer = parse_tokenizer(file, &text)?;
        let text = tokenizer.to_string(true).map_err(|source| build_error(file, source))?;
        let mut tokenizer_config = settings.config.clone();
        for (role, token) in roles {
            tokenizer_config.insert((*role).to_owned(), json!(token));
        }
        Ok((text.into_bytes(), tokenizer_config))
    }
}

impl PostProcessor {
    fn to_json(&self, file: &Path, id: impl Fn(&str) -> Option<u32>) -> Result<Value, CheckpointError> {
        let id = |token: &str| {
            id(token)
                .ok_or_else(|| vocabulary_error(file, format!("the special token {token} is not in the vocabulary")))
        };
        Ok(match self {
            Self::Bytes => {
                json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true})
            }
            Self::Roberta { sep, cls, add_prefix_space } => json!({
                "type": "RobertaProcessing",
                "sep": [sep, id(sep)?],
                "cls": [cls, id(cls)?],
                "trim_offsets": true,
                "add_prefix_space": add_prefix_space,
            }),
            Self::Template { single, pair } => {
                let mut special = Map::new();
                for (token, _) in single.iter().chain(pair).filter(|(token, _)| !token.starts_with('$')) {
                    special.insert(token.clone(), json!({"id": token, "ids": [id(token)?], "tokens": [token]}));
                }
                let pieces = |pieces: &[(String, u32)]| -> Vec<Value> {
                    let piece = |(name, type_id): &(String, u32)| match name.strip_prefix('$') {
                        Some(sequence) => json!({"Sequence": {"id": sequence, "type_id": type_id}}),
                        None => json!({"SpecialToken": {"id": name, "type_id": type_id}}),
                    };
                    pieces.iter().map(piece).collect()
                };
                json!({
                    "type": "TemplateProcessing",
                    "single": pieces(single),
                    "pair": pieces(pair),
                    "special_tokens": special,
                })
            }
        })
    }

    /// `single` and `pair` as transformers writes templates: names separated by spaces, `:1` for the second type.
    fn template(single: &[&str], pair: &[&str]) -> Self {
        let piece = |text: &&str| match text.strip_suffix(":1") {
            Some(name) => (name.to_owned(), 1),
            None => ((*text).to_owned(), 0),
        };
        Self::Template { single: single.iter().map(piece).collect(), pair: pair.iter().map(piece).collect() }
    }

    /// `[CLS] A [SEP] B [SEP]`; the second text and everything after it have type 1.
    fn classifier(cls: &str, sep: &str) -> Self {
        let last = format!("{sep}:1");
        Self::template(&[cls, "$A", sep], &[cls, "$A", sep, "$B:1", &last])
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    std::fs::read(path).map_err(|source| CheckpointError::Read { path: path.to_owned(), source })
}

fn parse_tokenizer(path: &Path, text: &[u8]) -> Result<Tokenizer, CheckpointError> {
    Tokenizer::from_bytes(text).map_err(|source| build_error(path, source))
}

fn build_error(path: &Path, source: tokenizers::Error) -> CheckpointError {
    let reason = "no tokenizer can be made of it".to_owned();
    CheckpointError::Vocabulary { path: path.to_owned(), reason, source: Some(source) }
}

fn vocabulary_error(path: &Path, reason: impl Into<String>) -> CheckpointError {
    CheckpointError::Vocabulary { path: path.to_owned(), reason: reason.into(), source: None }
}

fn pretty_json(value: &Map<String, Value>) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("a JSON object; this is a bug")
}
