//! The description section of an index file: corpus, layout, and the numbers of its fields.

use serde::{Deserialize, Serialize};

use crate::{
    container::{Container, SectionKind},
    error::IndexError,
    parameters::IndexLayout,
};

/// The description section, JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexDescription {
    /// The corpus digest given to the builder.
    pub corpus: String,
    pub layout: IndexLayout,
    pub passages: u32,
    pub fields: Vec<FieldNumbers>,
}

/// The numbers of one field for the formulas.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct FieldNumbers {
    /// Tokens of all passages.
    pub tokens: u64,
    /// The longest passage, in tokens.
    pub longest: u32,
    /// The sum over all terms, in the order of their first occurrence, of `ln(N - df + .5) - ln(df + .5)`.
    pub okapi_idf_sum: f64,
}

impl FieldNumbers {
    pub(crate) fn new(lengths: &[u32], frequencies: &[u32]) -> Self {
        Self {
            tokens: lengths.iter().map(|&n| u64::from(n)).sum(),
            longest: lengths.iter().copied().max().unwrap_or(0),
            okapi_idf_sum: frequencies
                .iter()
                .fold(0.0, |sum, &df| sum + okapi_idf(lengths.len() as f64, f64::from(df))),
        }
    }
}

/// rank_bm25's idf before its floor. It is negative for terms in more than half of the passages.
pub(crate) fn okapi_idf(passages: f64, df: f64) -> f64 {
    (passages - df + 0.5).ln() - (df + 0.5).ln()
}

impl IndexDescription {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the section and checks it against the expected corpus and layout.
    pub(crate) fn read(container: &Container, corpus: &str, layout: IndexLayout) -> Result<Self, IndexError> {
        let section = container.section(SectionKind::Description, 0)?;
        let found: Self = serde_json::from_slice(&container.bytes()[section])
            .map_err(|e| container.corrupt_error(format!("the description cannot be read: {e}")))?;
        let differs = |what, found: String, wanted: String| IndexError::Mismatch {
            path: container.path().to_owned(),
            what,
            found,
            wanted,
        };
        if found.corpus != corpus {
            return Err(differs("corpus", found.corpus, corpus.to_owned()));
        }
        if found.layout != layout {
            return Err(differs("layout", found.layout.to_string(), layout.to_string()));
        }
        if found.fields.len() != layout.fields().count() {
            return Err(container.corrupt_error(format!("{} fields are described", found.fields.len())));
        }
        Ok(found)
    }
}
