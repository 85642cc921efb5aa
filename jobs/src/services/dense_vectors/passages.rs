//! The vectors of passages: from a file into an index of the cache, each at its passage.

use super::settings::DenseVectorsSettings;
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::prepare::corpora::digest_path;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_datasets::{VectorError, VectorFile, VectorRow};
use hopeval_index::{DenseParameters, DenseWriter, VectorDtype};
use std::path::Path;

/// Version of the index. It rises when the same files give another one.
const VERSION: &str = "vectors 1";

/// Rows between two reports.
const REPORTED: u64 = 4096;

/// The file of a service with the vectors of a corpus's passages.
pub(super) struct PassageFile<'a> {
    pub(super) name: &'a str,
    pub(super) settings: &'a DenseVectorsSettings,
    pub(super) corpus: &'a Corpus,
}

impl PassageFile<'_> {
    /// Opens the file, and checks its heading.
    ///
    /// # Errors
    /// No such file, or one of another kind.
    pub(super) fn open(&self) -> Result<VectorFile, JobError> {
        VectorFile::open(&self.settings.passages.spec()).map_err(|error| self.error(error))
    }

    /// The parameters of the index: in place of an encoder the bytes of the files, and what they are read by.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn index_parameters(&self) -> Result<DenseParameters, JobError> {
        let metric = serde_json::to_string(&self.settings.metric).expect("a name can be written; this is a bug");
        let mut parts = vec![VERSION.to_owned(), metric, self.settings.passages.reading()];
        for file in self.settings.passages.files() {
            parts.push(digest_path(file)?);
        }
        let encoder = blake3::hash(parts.join("\n").as_bytes()).to_hex().to_string();
        Ok(DenseParameters { encoder, dtype: self.settings.dtype })
    }

    /// Writes the index at `path`.
    ///
    /// # Errors
    /// A wrong row, a passage without a vector or with two; a file that was changed meanwhile; a full disk.
    pub(super) fn build_index(
        &self,
        path: &Path,
        parameters: &DenseParameters,
        report: ProgressReporter<'_>,
    ) -> Result<(), JobError> {
        let stage = format!("index {}", self.name);
        let failed = |source| JobError::Index { name: self.name.to_owned(), source };
        let mut file = self.open()?;
        let passages = self.corpus.len();
        if !file.has_names() && file.row_count() != passages as u64 {
            let found = format!("{} rows without ids", file.row_count());
            let allowed = format!("{passages}, one for each passage in the corpus's order, or ids with `ids`");
            return Err(self.error(file.file_error(found, allowed)));
        }
        let mut placed = vec![false; passages];
        let mut writer: Option<DenseWriter> = None;
        let mut vector = Vec::new();
        let mut rows = 0;
        while let Some(row) = file.next_row().map_err(|error| self.error(error))? {
            let VectorRow { position, name, numbers } = row;
            vector.clear();
            vector.extend_from_slice(numbers);
            let passage = match &name {
                None => PassageId(rows as u32),
                Some(id) => self.corpus.by_external_id(id).ok_or_else(|| {
                    let allowed = "ids of the corpus's passages";
                    self.error(file.name_error(position, format!("{id:?}, which is no passage"), allowed))
                })?,
            };
            if std::mem::replace(&mut placed[passage.index()], true) {
                let found = format!("{:?} once more", name.unwrap_or_default());
                return Err(self.error(file.name_error(position, found, "each passage once")));
            }
            let defect = self.settings.vector_defect(&vector).or_else(|| {
                self.settings.scale(&mut vector);
                range_defect(self.settings.dtype, &vector)
            });
            if let Some((found, allowed)) = defect {
                return Err(self.error(file.vector_error(position, found, allowed)));
            }
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(
                    DenseWriter::create(path, self.corpus.digest(), parameters, vector.len(), passages as u32)
                        .map_err(failed)?,
                ),
            };
            writer.place(passage.0, &vector).map_err(failed)?;
            rows += 1;
            if rows % REPORTED == 0 {
                report(&stage, rows);
            }
        }
        if let Some(lacking) = placed.iter().position(|placed| !placed) {
            let id = self.corpus.id(PassageId(lacking as u32));
            let without = placed.iter().filter(|placed| !**placed).count();
            let found = format!("no vector of passage `{id}` ({without} of {passages} passages have none)");
            return Err(self.error(file.file_error(found, "a vector of every passage of the corpus")));
        }
        let now = self.index_parameters()?;
        if now != *parameters {
            let what = "a file of vectors, which was written to while it was read,";
            return Err(JobError::Differs { what, found: now.encoder, expected: parameters.encoder.clone() });
        }
        if let Some(writer) = writer {
            writer.finish().map_err(failed)?;
        }
        report(&stage, rows);
        tracing::info!(service = self.name, passages, "an index is built of a file of vectors");
        Ok(())
    }

    fn error(&self, source: VectorError) -> JobError {
        JobError::Vectors { name: self.name.to_owned(), source }
    }
}

/// The defect of a vector that the stored type cannot hold, and what is allowed.
fn range_defect(dtype: VectorDtype, vector: &[f32]) -> Option<(String, &'static str)> {
    // From here on half precision rounds to infinity.
    const BEYOND: f32 = 65520.0;
    let beyond = vector.iter().find(|number| dtype == VectorDtype::F16 && number.abs() >= BEYOND);
    beyond.map(|number| (number.to_string(), "with `dtype = \"f16\"`, numbers from -65504 to 65504"))
}
