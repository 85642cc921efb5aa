//! The description section of a dense index file.

use serde::{Deserialize, Serialize};

use super::{DenseParameters, VectorDtype, vector::MOST_NUMBERS};
use crate::{
    container::{self, Container, SectionKind},
    error::IndexError,
};

/// Changes whenever the description or the vectors' bytes change their meaning.
const SCHEMA: u32 = 1;

/// The description section, JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DenseDescription {
    /// The corpus digest given to the writer.
    pub corpus: String,
    pub layout: DenseLayout,
    pub passages: u32,
}

/// The settings that decide the bytes, together with the passages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum DenseLayout {
    Dense {
        schema: u32,
        encoder: String,
        dtype: VectorDtype,
        dimension: u32,
    },
    /// The file is an index of another kind.
    #[serde(other)]
    Other,
}

/// The name of an index: 64 hexadecimal digits. The encoder determines the dimension.
pub(super) fn key(corpus_digest: &str, parameters: &DenseParameters) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"hopeval index\0");
    hasher.update(&container::VERSION.to_le_bytes());
    hasher.update(layout_name(SCHEMA, &parameters.encoder, parameters.dtype).as_bytes());
    hasher.update(b"\0");
    hasher.update(corpus_digest.as_bytes());
    hasher.finalize().to_hex().to_string()
}

fn layout_name(schema: u32, encoder: &str, dtype: VectorDtype) -> String {
    format!("dense schema={schema} dtype={} encoder={encoder}", dtype.name())
}

impl DenseDescription {
    pub(super) fn new(corpus: &str, parameters: &DenseParameters, dimension: u32, passages: u32) -> Self {
        let DenseParameters { encoder, dtype } = parameters.clone();
        Self {
            corpus: corpus.to_owned(),
            layout: DenseLayout::Dense { schema: SCHEMA, encoder, dtype, dimension },
            passages,
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data can be written as JSON; this is a bug")
    }

    /// Reads the section and checks it against the expected corpus and parameters.
    pub(super) fn read(container: &Container, corpus: &str, parameters: &DenseParameters) -> Result<Self, IndexError> {
        let section = container.section(SectionKind::Description, 0)?;
        let found: Self = serde_json::from_slice(&container.bytes()[section])
            .map_err(|e| container.corrupt_error(format!("the description cannot be read: {e}")))?;
        let differs = |what, found: String, wanted: String| {
            Err(IndexError::Mismatch { path: container.path().to_owned(), what, found, wanted })
        };
        let wanted = layout_name(SCHEMA, &parameters.encoder, parameters.dtype);
        match &found.layout {
            DenseLayout::Other => differs("layout", "of another kind".to_owned(), wanted),
            DenseLayout::Dense { schema, .. } if *schema != SCHEMA => {
                Err(IndexError::ForeignVersion { path: container.path().to_owned(), found: *schema, supported: SCHEMA })
            }
            DenseLayout::Dense { schema, encoder, dtype, .. } if layout_name(*schema, encoder, *dtype) != wanted => {
                differs("layout", layout_name(*schema, encoder, *dtype), wanted)
            }
            DenseLayout::Dense { .. } if found.corpus != corpus => differs("corpus", found.corpus, corpus.to_owned()),
            DenseLayout::Dense { .. } => Ok(found),
        }
    }

    /// Numbers per vector.
    pub(super) fn dimension(&self, container: &Container) -> Result<usize, IndexError> {
        match self.layout {
            DenseLayout::Dense { dimension, .. } if (1..=MOST_NUMBERS).contains(&(dimension as usize)) => {
                Ok(dimension as usize)
            }
            _ => Err(container.corrupt_error("vectors without numbers, or with too many, are described".to_owned())),
        }
    }
}
