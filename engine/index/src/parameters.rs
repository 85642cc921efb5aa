//! Parameters of retrieval, as in settings files and in index file names.
//!
//! The *layout*, analyzer and fields, decides the bytes of an index file. Formula, `k1`, `b` and `epsilon` apply when
//! a query is answered, so one file serves a whole sweep over them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{analyzer::Analyzer, error::IndexError};

/// A formula that turns term frequencies into a score. `tf` is a term's count in the passage, `df` the number of
/// passages with the term, `N` the number of passages, `norm = k1 * (1 - b + b * length / average length)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bm25Formula {
    /// Lucene 8 and later: `ln(1 + (N - df + .5) / (df + .5)) * tf / (tf + norm)`, with exact lengths.
    #[default]
    Lucene,
    /// `BM25Okapi` of rank_bm25 0.2.2: `idf * (tf * (k1 + 1) / (tf + norm))`, `idf = ln(N - df + .5) - ln(df + .5)`;
    /// a negative idf is replaced by `epsilon` times the mean idf of all terms.
    Okapi,
    /// ATIRE: `ln(N / df) * tf * (k1 + 1) / (tf + norm)`.
    Atire,
}

/// The searched parts of a passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum SearchedFields {
    /// One field: the title, a space, the text.
    #[default]
    #[serde(rename = "title+text")]
    TitleText,
    /// The text alone.
    #[serde(rename = "text")]
    Text,
    /// The title alone, to find pages by their names.
    #[serde(rename = "title")]
    Title,
    /// Two fields, each with its own statistics and lengths; a passage's score is the sum of the two.
    #[serde(rename = "title,text")]
    TitleAndText,
}

impl SearchedFields {
    pub(crate) fn count(self) -> usize {
        if self == Self::TitleAndText { 2 } else { 1 }
    }
}

/// Parameters of a BM25 ranking. The default is Lucene's BM25 with k1 = 0.9 and b = 0.4 over words of title and text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bm25Parameters {
    /// The analyzer, which turns text into terms.
    pub analyzer: Analyzer,
    /// The searched parts of a passage.
    pub fields: SearchedFields,
    /// The formula of the score.
    pub formula: Bm25Formula,
    /// Term frequency saturation, at least 0.
    pub k1: f64,
    /// Length normalisation, from 0 to 1.
    pub b: f64,
    /// Floor of negative idf values as a share of the mean idf; used by `okapi` only.
    pub epsilon: f64,
}

impl Default for Bm25Parameters {
    fn default() -> Self {
        Self {
            analyzer: Analyzer::Word,
            fields: SearchedFields::TitleText,
            formula: Bm25Formula::Lucene,
            k1: 0.9,
            b: 0.4,
            epsilon: 0.25,
        }
    }
}

impl Bm25Parameters {
    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// [`IndexError::Parameter`] names the first parameter out of its range.
    pub fn check(&self) -> Result<(), IndexError> {
        let wrong =
            |field, value: f64, allowed| Err(IndexError::Parameter { field, value: value.to_string(), allowed });
        if !(self.k1.is_finite() && self.k1 >= 0.0) {
            return wrong("k1", self.k1, "a finite number of at least 0");
        }
        if !(0.0..=1.0).contains(&self.b) {
            return wrong("b", self.b, "a number from 0 to 1");
        }
        if !(self.epsilon.is_finite() && self.epsilon >= 0.0) {
            return wrong("epsilon", self.epsilon, "a finite number of at least 0");
        }
        Ok(())
    }

    pub(crate) fn layout(&self) -> IndexLayout {
        IndexLayout::Bm25 { analyzer: self.analyzer, fields: self.fields }
    }
}

/// The order of two passages with equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TieOrder {
    /// The earlier passage of the corpus first.
    #[default]
    Earlier,
    /// The later passage of the corpus first, as in a reversed `argsort`.
    Later,
}

/// The Unicode form in which passages are counted. Questions are always in NFD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassageNormalisation {
    /// NFD, as in DrQA's own database of passages.
    #[default]
    Nfd,
    /// As they stand, as in the index of PathRetriever and PromptRank: a word with a composed accent is another word
    /// than the question's.
    None,
}

impl PassageNormalisation {
    fn is_nfd(&self) -> bool {
        *self == Self::Nfd
    }
}

/// Parameters of the hashed TF-IDF of DrQA, PromptRank's retrieval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TfidfParameters {
    /// The searched parts of a passage; two fields are not supported.
    pub fields: SearchedFields,
    /// Longest n-gram, in tokens: 1 or 2.
    pub ngrams: u8,
    /// n-grams are counted modulo 2 to this power, 1 to 32.
    pub hash_bits: u8,
    /// The order of two passages with equal scores.
    pub ties: TieOrder,
    /// The Unicode form of passages. Unwritten if NFD, as before the choice.
    #[serde(skip_serializing_if = "PassageNormalisation::is_nfd")]
    pub normalisation: PassageNormalisation,
}

impl Default for TfidfParameters {
    fn default() -> Self {
        Self {
            fields: SearchedFields::TitleText,
            ngrams: 2,
            hash_bits: 24,
            ties: TieOrder::Earlier,
            normalisation: PassageNormalisation::Nfd,
        }
    }
}

impl TfidfParameters {
    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// [`IndexError::Parameter`] names the first parameter out of its range.
    pub fn check(&self) -> Result<(), IndexError> {
        let wrong = |field, value: String, allowed| Err(IndexError::Parameter { field, value, allowed });
        if self.fields == SearchedFields::TitleAndText {
            return wrong("fields", "title,text".into(), "\"title+text\", \"text\" or \"title\"");
        }
        if !(1..=2).contains(&self.ngrams) {
            return wrong("ngrams", self.ngrams.to_string(), "1 or 2");
        }
        if !(1..=32).contains(&self.hash_bits) {
            return wrong("hash_bits", self.hash_bits.to_string(), "1 to 32");
        }
        Ok(())
    }

    pub(crate) fn layout(&self) -> IndexLayout {
        let Self { fields, ngrams, hash_bits, normalisation, ties: _ } = *self;
        IndexLayout::Tfidf { fields, ngrams, hash_bits, normalisation }
    }
}

/// The settings that decide the bytes of an index file, together with the passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum IndexLayout {
    Bm25 {
        analyzer: Analyzer,
        fields: SearchedFields,
    },
    Tfidf {
        fields: SearchedFields,
        ngrams: u8,
        hash_bits: u8,
        #[serde(default, skip_serializing_if = "PassageNormalisation::is_nfd")]
        normalisation: PassageNormalisation,
    },
}

impl IndexLayout {
    pub(crate) fn fields(self) -> SearchedFields {
        match self {
            Self::Bm25 { fields, .. } | Self::Tfidf { fields, .. } => fields,
        }
    }

    /// The name of an index of this layout over the corpus of this digest: 64 hexadecimal digits.
    pub(crate) fn key(self, corpus_digest: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"hopeval index\0");
        hasher.update(&crate::container::VERSION.to_le_bytes());
        hasher.update(self.to_string().as_bytes());
        hasher.update(b"\0");
        hasher.update(corpus_digest.as_bytes());
        hasher.finalize().to_hex().to_string()
    }
}

impl fmt::Display for IndexLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = |fields| match fields {
            SearchedFields::TitleText => "title+text",
            SearchedFields::Text => "text",
            SearchedFields::Title => "title",
            SearchedFields::TitleAndText => "title,text",
        };
        match self {
            Self::Bm25 { analyzer, fields: which } => write!(f, "bm25 analyzer={analyzer} fields={}", fields(*which)),
            Self::Tfidf { fields: which, ngrams, hash_bits, normalisation } => {
                write!(f, "tfidf fields={} ngrams={ngrams} hash_bits={hash_bits}", fields(*which))?;
                match normalisation {
                    // The names of files of before the choice.
                    PassageNormalisation::Nfd => Ok(()),
                    PassageNormalisation::None => f.write_str(" normalisation=none"),
                }
            }
        }
    }
}
