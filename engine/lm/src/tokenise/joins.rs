//! Where a text may be cut so that its pieces, tokenised one by one, give the tokens of the whole.
//!
//! A cut lies before a space behind a visible ASCII character. It is safe if the tokenizer parts words there anyway and
//! looks neither back nor ahead across that place: its normalizer works on neighbouring characters, its pre-tokenizer
//! ends every word there, and no added token swallows the space. Of the pre-tokenizers with regular expressions only
//! those with known ones qualify. SentencePiece's BPE without a pre-tokenizer (Llama 2, Mistral) merges across words
//! and does not qualify: its texts are tokenised whole.
//!
//! The special tokens of every tokenizer stand around a text. [`TextJoins::find`] decides from the tokenizer's parts,
//! and then tries the rule on a few texts.

use serde_json::Value;
use tokenizers::models::ModelWrapper;
use tokenizers::{Encoding, Tokenizer as Inner};

/// Known patterns of words: GPT-2's and those of Llama 3 and Qwen 2. No match begins before a cut and ends behind it,
/// and none looks behind one.
const WORDS: [&str; 3] = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextJoins {
    /// Whether texts may be cut.
    pub(crate) may_cut: bool,
    /// The special tokens before a text.
    pub(crate) prefix: Vec<u32>,
    /// The special tokens behind a text.
    pub(crate) suffix: Vec<u32>,
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
        let joins = Self { may_cut: may_cut(tokenizer), prefix: whole[..begin].to_vec(), suffix };
        let (mut is_around, mut agree) = (true, true);
        for text in TRIALS {
            let bare = ids(text, false)?;
            is_around &= ids(text, true)? == [&joins.prefix[..], &bare, &joins.suffix].concat();
            let pieces = pieces_of(text).into_iter().map(|piece| ids(piece, false)).collect::<Option<Vec<_>>>()?;
            agree &= bare == pieces.concat();
        }
        is_around.then_some(Self { may_cut: joins.may_cut && agree, ..joins })
    }
}

/// Whether cuts are safe by the tokenizer's parts.
fn may_cut(tokenizer: &Inner) -> bool {
    let part = |value: serde_json::Result<Value>| value.unwrap_or(Value::Bool(false));
    let pre = part(serde_json::to_value(tokenizer.get_pre_tokenizer()));
    let normalizer = part(serde_json::to_value(tokenizer.get_normalizer()));
    ends_words(&pre) == Some(true) && is_local(&normalizer) && has_fixed_model(tokenizer) && keeps_spaces(tokenizer)
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
        "Replace" => REPLACED.iter().any(|pattern| normalizer["pattern"]["Regex"] == *pattern),
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
    use crate::tokenise::tests::tokenizer;

    #[test]
    fn cuts_lie_before_spaces_behind_visible_characters() {
        assert_eq!(pieces_of(" a  bé c\n d.  "), [" a", "  bé c\n d.", "  "]);
        assert_eq!((first_cut("ab"), last_cut(" a b c"), first_cut("")), (None, Some(4), None));
    }

    #[test]
    fn tokenizers_that_merge_across_words_do_not_qualify() {
        for (name, qualifies) in
            [("gpt2", true), ("opt", true), ("qwen2", true), ("t5", true), ("roberta", true), ("llama", false)]
        {
            assert_eq!(tokenizer(name).joins().may_cut, qualifies, "{name}");
        }
    }
}
