//! Where a text may be cut so that its pieces, tokenised one by one, give the tokens of the whole.
//!
//! A cut lies before a space behind a visible ASCII character. It is safe if the tokenizer parts words there anyway and
//! looks neither back nor ahead across that place: its normalizer works on neighbouring characters, its pre-tokenizer
//! ends every word there, and no added token swallows the space. Of the pre-tokenizers with regular expressions only
//! those with known ones qualify. SentencePiece's BPE (Llama 2, Mistral) has no words: it merges along the whole text.
//! It qualifies if no token of its vocabulary has a space behind a visible ASCII character, for a merge across the cut
//! would make such a token. Some of these put a space before every text: see `behind.rs`.
//!
//! The special tokens of every tokenizer stand around a text. [`TextJoins::find`] decides from the tokenizer's parts,
//! and then tries the rule on a few texts.

use super::behind::TokenizerBehindCuts;
use serde_json::Value;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::{Encoding, Tokenizer as Inner};

/// Known patterns of words: those of GPT-2, Llama 3, Qwen 2, GPT-4o (gpt-oss, Llama 4) and Mistral Nemo. No match
/// begins before a cut and ends behind it, and none looks behind one.
pub(super) const WORDS: [&str; 5] = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];

/// SentencePiece's mark of a space.
const SPACE: char = '▁';

/// Known replacements: they join runs of white space, which a cut leaves whole.
const REPLACED: [&str; 2] = [" {2,}", r"\s{2,}|[\n\r\t]"];

/// Texts for a last check of the rule; the first is long enough to have tokens in every vocabulary.
const TRIALS: [&str; 5] = [
    "The quick brown fox, born in 1987: it is \"the\" one.",
    "",
    "Question: who  made it?\n\nAnswer: \"it\" was made in 1987, by  Éva Đ. (of Ghent).\n # 12 ",
    " leading, and\t tabs \u{a0} and  日本 語 text 's 're don't I'LL \u{301}e\n",
    "a  b\r\n c... d!? </s> [SEP] <|endoftext|> e <extra_id_0> f",
];

/// How the pieces of a text are joined.
#[derive(Debug)]
pub(crate) struct TextJoins {
    /// Whether texts may be cut.
    pub(crate) may_cut: bool,
    /// The special tokens before a text.
    pub(crate) prefix: Vec<u32>,
    /// The special tokens behind a text.
    pub(crate) suffix: Vec<u32>,
    /// What tokenises the pieces behind the first one; `None` if the tokenizer itself does.
    pub(super) behind: Option<TokenizerBehindCuts>,
}

impl TextJoins {
    /// Decides for a tokenizer; `None` if its special tokens are not around a text.
    pub(super) fn find(tokenizer: &Inner) -> Option<Self> {
        let ids = |text: &str, special| {
            let encoding: Encoding = tokenizer.encode_fast(text, special).ok()?;
            Some(encoding.get_ids().to_vec())
        };
        let (bare, whole) = (ids(TRIALS[0], false)?, ids(TRIALS[0], true)?);
        let begin = whole.windows(bare.len().max(1)).position(|window| window == bare).unwrap_or(whole.len());
        let suffix = whole.get(begin + bare.len()..).unwrap_or_default().to_vec();
        let behind = if may_cut(tokenizer) { TokenizerBehindCuts::find(tokenizer).ok() } else { None };
        let (may_cut, behind) = (behind.is_some(), behind.flatten());
        let mut joins = Self { may_cut, prefix: whole[..begin].to_vec(), suffix, behind };
        let (mut is_around, mut agree) = (true, true);
        for text in TRIALS {
            let bare = ids(text, false)?;
            is_around &= ids(text, true)? == [&joins.prefix[..], &bare, &joins.suffix].concat();
            agree &= joins.ids_of_pieces(tokenizer, text)?.is_none_or(|pieces| bare == pieces);
        }
        joins.may_cut &= agree;
        is_around.then_some(joins)
    }

    /// The ids of a text from its pieces; the inner option is `None` for a text that cannot be cut.
    fn ids_of_pieces(&self, tokenizer: &Inner, text: &str) -> Option<Option<Vec<u32>>> {
        let (mut ids, mut is_first) = (Vec::new(), true);
        for piece in pieces_of(text) {
            match &self.behind {
                Some(behind) if !is_first => ids.extend_from_slice(&behind.ids(piece).ok()?),
                _ => ids.extend_from_slice(tokenizer.encode_fast(piece, false).ok()?.get_ids()),
            }
            is_first = false;
        }
        Some((!self.forbids(&ids)).then_some(ids))
    }

    /// Whether a text with these tokens cannot be cut.
    pub(super) fn forbids(&self, ids: &[u32]) -> bool {
        self.behind.as_ref().is_some_and(|behind| behind.has_added(ids))
    }
}

/// Whether cuts are safe by the tokenizer's parts.
fn may_cut(tokenizer: &Inner) -> bool {
    let part = |value: serde_json::Result<Value>| value.unwrap_or(Value::Bool(false));
    let pre = part(serde_json::to_value(tokenizer.get_pre_tokenizer()));
    let normalizer = part(serde_json::to_value(tokenizer.get_normalizer()));
    let parts = ends_words(&pre) == Some(true)
        || marks_spaces(&pre, &normalizer)
            && matches!(tokenizer.get_model(), ModelWrapper::BPE(model) if merges_end_at_cuts(model));
    parts && is_local(&normalizer) && has_fixed_model(tokenizer) && keeps_spaces(tokenizer)
}

/// Whether the model gets a text whole, with marks in place of spaces.
fn marks_spaces(pre: &Value, normalizer: &Value) -> bool {
    let marks = |part: &Value| {
        kind(part) == "Replace" && part["pattern"]["String"] == " " && part["content"].as_str().is_some_and(is_mark)
    };
    match kind(pre) {
        "Metaspace" => pre["split"] == false && pre["replacement"].as_str().is_some_and(is_mark),
        // Gemma's parts at spaces: there are none left.
        "Split" if pre["pattern"]["String"] != " " => false,
        "" | "Split" => match kind(normalizer) {
            "Sequence" => normalizer["normalizers"].as_array().and_then(|parts| parts.last()).is_some_and(marks),
            _ => marks(normalizer),
        },
        _ => false,
    }
}

/// Whether no merge goes across a cut: it would make a token with a space's mark behind a visible ASCII character.
fn merges_end_at_cuts(model: &BPE) -> bool {
    let has_plain_words =
        !model.ignore_merges && model.continuing_subword_prefix.is_none() && model.end_of_word_suffix.is_none();
    let vocabulary = model.get_vocab();
    let goes_across = |token: &String| {
        token.char_indices().any(|(at, mark)| mark == SPACE && token[..at].ends_with(|c: char| c.is_ascii_graphic()))
    };
    has_plain_words && vocabulary.contains_key(SPACE.to_string().as_str()) && !vocabulary.keys().any(goes_across)
}

/// The first safe cut of a text.
pub(crate) fn first_cut(text: &str) -> Option<usize> {
    text.as_bytes().windows(2).position(is_cut).map(|at| at + 1)
}

/// The last safe cut of a text.
pub(crate) fn last_cut(text: &str) -> Option<usize> {
    text.as_bytes().windows(2).rposition(is_cut).map(|at| at + 1)
}

/// Whether a cut lies between these two bytes.
fn is_cut(bytes: &[u8]) -> bool {
    bytes[0].is_ascii_graphic() && bytes[1] == b' '
}

/// A text, cut wherever it is safe.
fn pieces_of(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(cut) = first_cut(rest) {
        let (piece, behind) = rest.split_at(cut);
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}

fn is_mark(text: &str) -> bool {
    text.chars().eq([SPACE])
}

fn kind(value: &Value) -> &str {
    value["type"].as_str().unwrap_or_default()
}

/// Whether the pre-tokenizer ends a word at every cut; `None` for one that may reach across.
fn ends_words(pre: &Value) -> Option<bool> {
    match kind(pre) {
        "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit" => Some(true),
        "Metaspace" => Some(pre["split"] == true),
        "ByteLevel" => Some(pre["use_regex"] == true),
        "Split" => {
            let is_known = WORDS.iter().any(|words| pre["pattern"]["Regex"] == *words);
            (is_known && pre["behavior"] == "Isolated" && pre["invert"] == false).then_some(true)
        }
        // They part single characters from others, none of which is a space.
        "Punctuation" | "Digits" => Some(false),
        "Sequence" => {
            let parts = pre["pretokenizers"].as_array()?;
            let ends = parts.iter().map(ends_words).collect::<Option<Vec<_>>>()?;
            Some(ends.into_iter().any(|ends| ends))
        }
        _ => None,
    }
}

/// Whether a normalizer changes characters by their neighbours alone, and spaces only in whole runs.
fn is_local(normalizer: &Value) -> bool {
    match kind(normalizer) {
        "" => normalizer.is_null(),
        "NFC" | "NFD" | "NFKC" | "NFKD" | "Nmt" | "Lowercase" | "StripAccents" | "BertNormalizer" | "Precompiled" => {
            true
        }
        // It removes a whole text's last spaces, and no piece but the last one ends in a space.
        "Strip" => normalizer["strip_left"] == false,
        "Replace" if normalizer["pattern"]["String"] == " " => normalizer["content"].as_str().is_some_and(is_mark),
        "Replace" => REPLACED.iter().any(|pattern| normalizer["pattern"]["Regex"] == *pattern),
        // Not behind a cut: see `behind.rs`.
        "Prepend" => true,
        "Sequence" => normalizer["normalizers"].as_array().is_some_and(|parts| parts.iter().all(is_local)),
        _ => false,
    }
}

/// Whether the model gives a word the same tokens each time.
fn has_fixed_model(tokenizer: &Inner) -> bool {
    !matches!(tokenizer.get_model(), ModelWrapper::BPE(model) if model.dropout.is_some_and(|dropout| dropout > 0.0))
}

/// Whether no added token contains a space or swallows one behind itself.
fn keeps_spaces(tokenizer: &Inner) -> bool {
    let added = tokenizer.get_added_tokens_decoder();
    added.values().all(|token| !token.rstrip && !token.content.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenise::tests::{folder, tokenizer, tokenizer_of_words};

    #[test]
    fn cuts_lie_before_spaces_behind_visible_characters() {
        assert_eq!(pieces_of(" a  bé c\n d.  "), [" a", "  bé c\n d.", "  "]);
        assert_eq!((first_cut("ab"), last_cut(" a b c"), first_cut("")), (None, Some(4), None));
    }

    #[test]
    fn tokenizers_of_words_and_of_sentencepiece_qualify() {
        for name in ["gpt2", "opt", "qwen2", "t5", "roberta", "llama", "llama-legacy"] {
            assert!(tokenizer(name).joins().may_cut, "{name}");
        }
        for words in WORDS {
            assert!(tokenizer_of_words(words).joins().may_cut, "{words}");
        }
        let puts_a_space = |name| tokenizer(name).joins().behind.is_some();
        assert_eq!(["t5", "llama", "llama-legacy"].map(puts_a_space), [false, false, true]);
    }

    #[test]
    fn a_vocabulary_with_a_token_across_words_does_not_qualify() {
        let folder = folder("llama");
        let path = folder.path().join("tokenizer.json");
        let text = std::fs::read_to_string(&path).expect("a file");
        for (token, qualifies) in [("é▁", true), ("t▁", false)] {
            let mut file: Value = serde_json::from_str(&text).expect("JSON");
            let vocabulary = file["model"]["vocab"].as_object_mut().expect("a vocabulary");
            vocabulary.insert(token.to_owned(), vocabulary.len().into());
            std::fs::write(&path, file.to_string()).expect("written");
            let tokenizer = crate::tokenise::Tokenizer::open(folder.path()).expect("a tokenizer");
            assert_eq!(tokenizer.joins().may_cut, qualifies, "{token}");
        }
    }
}
