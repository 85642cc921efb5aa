//! The settings of dense retrieval from files: the files, what they are read by, and what the vectors mean.

use crate::bad_value::{BadValue, ensure};
use hopeval_datasets::{NameFile, VectorSpec};
use hopeval_index::VectorDtype;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// The keys of a `kind = "dense_vectors"` service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseVectorsSettings {
    /// The vectors of all passages of the corpus.
    pub passages: VectorFileSettings,
    /// The vectors of the questions, and perhaps of other queries.
    pub questions: VectorFileSettings,
    /// The score of a passage.
    #[serde(default)]
    pub metric: VectorMetric,
    /// The stored type of passages' vectors in the index.
    #[serde(default)]
    pub dtype: VectorDtype,
}

/// The score of a passage, by its vector and that of the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VectorMetric {
    /// The inner product.
    #[default]
    InnerProduct,
    /// The cosine: the inner product of vectors that are divided by their lengths.
    Cosine,
}

/// A file of vectors: its name, or a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VectorFileSettings {
    /// The file: NumPy, safetensors or Parquet.
    pub file: PathBuf,
    /// The tensor of a safetensors file with several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// A file of ids, one a line in the order of the rows, for NumPy and safetensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<PathBuf>,
    /// A file of the queries' texts instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<PathBuf>,
    /// The column of ids in a Parquet file; `id` if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The column of the queries' texts instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The column of vectors in a Parquet file; `vector` if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vector: Option<String>,
}

/// The table of a file of vectors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorFileTable {
    file: PathBuf,
    tensor: Option<String>,
    ids: Option<PathBuf>,
    texts: Option<PathBuf>,
    id: Option<String>,
    text: Option<String>,
    vector: Option<String>,
}

impl<'de> Deserialize<'de> for VectorFileSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FileVisitor;

        impl<'de> Visitor<'de> for FileVisitor {
            type Value = VectorFileSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file, or a table with `file`")
            }

            fn visit_str<E: Error>(self, file: &str) -> Result<Self::Value, E> {
                Ok(VectorFileSettings { file: file.into(), ..VectorFileSettings::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let table = VectorFileTable::deserialize(MapAccessDeserializer::new(map))?;
                let VectorFileTable { file, tensor, ids, texts, id, text, vector } = table;
                Ok(VectorFileSettings { file, tensor, ids, texts, id, text, vector })
            }
        }

        deserializer.deserialize_any(FileVisitor)
    }
}

/// What the names of rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowNaming {
    /// Ids of the corpus or of the dataset.
    Ids,
    /// Texts of queries.
    Texts,
}

impl VectorFileSettings {
    /// Makes paths relative to `base`.
    pub(super) fn resolve_paths(&mut self, base: &Path) {
        for path in [Some(&mut self.file), self.ids.as_mut(), self.texts.as_mut()].into_iter().flatten() {
            if !path.as_os_str().is_empty() {
                *path = base.join(&*path);
            }
        }
    }

    /// What the names of its rows are, if they have names.
    pub(super) fn naming(&self) -> RowNaming {
        if self.text.is_some() || self.texts.is_some() { RowNaming::Texts } else { RowNaming::Ids }
    }

    /// The file for its reader.
    pub(super) fn spec(&self) -> VectorSpec {
        let names = match (&self.ids, &self.texts) {
            (Some(path), _) => Some(NameFile { path: path.clone(), setting: "ids" }),
            (None, Some(path)) => Some(NameFile { path: path.clone(), setting: "texts" }),
            (None, None) => None,
        };
        let (name_column, name_setting) = match (&self.id, &self.text) {
            (None, Some(text)) => (text.clone(), Some("text")),
            (Some(id), _) => (id.clone(), Some("id")),
            (None, None) => ("id".to_owned(), None),
        };
        let (file, tensor, vector_column) = (self.file.clone(), self.tensor.clone(), self.vector.clone());
        VectorSpec { file, tensor, names, vector_column, name_column, name_setting }
    }

    /// Its settings without paths, as text: what its rows are read by.
    pub(super) fn reading(&self) -> String {
        let names = self.texts.is_some();
        let settings = (&self.tensor, names, &self.id, &self.text, &self.vector);
        serde_json::to_string(&settings).expect("plain data can be written as JSON; this is a bug")
    }

    /// Its files.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.file), self.ids.as_ref(), self.texts.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }

    fn check_values(&self, key: &str) -> Result<(), BadValue> {
        ensure(!self.file.as_os_str().is_empty(), || {
            BadValue::new(format!("{key}.file"), "empty", "a .npy, .safetensors or Parquet file")
        })?;
        let names = [
            ("ids", self.ids.is_some()),
            ("texts", self.texts.is_some()),
            ("id", self.id.is_some()),
            ("text", self.text.is_some()),
        ];
        let named: Vec<&str> = names.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
        ensure(named.len() <= 1, || {
            let found = format!("a table with `{}`", named.join("` and `"));
            BadValue::new(key, found, "one of `ids`, `texts`, `id` and `text`: rows have one name")
        })
    }
}

impl DenseVectorsSettings {
    /// Refuses nonsensical values.
    pub(super) fn check_values(&self) -> Result<(), BadValue> {
        self.passages.check_values("passages")?;
        self.questions.check_values("questions")?;
        ensure(self.passages.naming() == RowNaming::Ids, || {
            BadValue::new(
                "passages",
                "a table with `text` or `texts`",
                "`id` or `ids`: passages are known by their ids",
            )
        })
    }

    /// The vector as it is multiplied.
    pub(super) fn scale(&self, vector: &mut [f32]) {
        if self.metric == VectorMetric::Cosine {
            crate::services::lm::embed::normalise(vector);
        }
    }

    /// The defect of a vector and what is allowed, if its products would have no meaning here.
    pub(super) fn vector_defect(&self, vector: &[f32]) -> Option<(String, &'static str)> {
        // The index's own bound: sums of products in single precision never overflow.
        const LONGEST: f64 = 1e18;
        const SHORTEST: f64 = 1e-12;
        let length = vector.iter().map(|&number| f64::from(number) * f64::from(number)).sum::<f64>().sqrt();
        // Lengths are divided by, in single precision, and by no smaller number.
        if self.metric == VectorMetric::Cosine && length < SHORTEST {
            return Some((
                format!("a vector of length {length:e}"),
                "with `metric = \"cosine\"`, a length of at least 1e-12",
            ));
        }
        (length > LONGEST).then(|| (format!("a vector of length {length:.3e}"), "lengths up to 1e18"))
    }
}
