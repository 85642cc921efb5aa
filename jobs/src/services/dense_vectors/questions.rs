//! The vectors of questions, by their texts: queries are texts.
//!
//! Rows are named by the dataset's ids, by texts, or stand in the dataset's order. Equal texts are one query. If the
//! dataset has a text under several ids, the first row counts; a text that names two rows must have one vector.

use super::settings::{DenseVectorsSettings, RowNaming};
use crate::error::JobError;
use crate::services::dataset_questions::DatasetQuestions;
use hopeval_datasets::{VectorError, VectorFile, VectorRow};
use std::collections::{BTreeMap, BTreeSet};

/// The vectors of queries, in memory.
pub(super) struct QuestionVectors {
    /// The place of the vector of each text.
    places: BTreeMap<String, usize>,
    /// One vector after the other.
    numbers: Vec<f32>,
    width: usize,
    digest: String,
}

impl QuestionVectors {
    /// Reads the file of the service `name`. Vectors must have `width` numbers.
    ///
    /// # Errors
    /// Unreadable files; a wrong row; a question with two vectors; rows in the dataset's order that are more or fewer
    /// than its questions.
    pub(super) fn read(
        name: &str,
        settings: &DenseVectorsSettings,
        dataset: &DatasetQuestions,
        width: usize,
    ) -> Result<Self, JobError> {
        let wrong = |source: VectorError| JobError::Vectors { name: name.to_owned(), source };
        let mut file = VectorFile::open(&settings.questions.spec()).map_err(wrong)?;
        let naming = settings.questions.naming();
        let by_text = file.has_names() && naming == RowNaming::Texts;
        let asked = if by_text { Vec::new() } else { dataset.read()? };
        if !file.has_names() && file.row_count() != asked.len() as u64 {
            let found = format!("{} rows without ids", file.row_count());
            let allowed = format!(
                "{}, one for each question in the dataset's order (whatever `limit` and `draw` say), or ids with `ids`",
                asked.len()
            );
            return Err(wrong(file.file_error(found, allowed)));
        }
        let texts: BTreeMap<&str, &str> = asked.iter().map(|(id, text)| (id.as_str(), text.as_str())).collect();
        let mut read = Self { places: BTreeMap::new(), numbers: Vec::new(), width, digest: String::new() };
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let (mut rows, mut vector) = (0, Vec::new());
        while let Some(row) = file.next_row().map_err(wrong)? {
            let VectorRow { position, name, numbers } = row;
            vector.clear();
            vector.extend_from_slice(numbers);
            if vector.len() != width {
                let found = format!("a vector of {} numbers", vector.len());
                let allowed = format!("{width}, as in {}", settings.passages.file.display());
                return Err(wrong(file.vector_error(position, found, allowed)));
            }
            if let Some((found, allowed)) = settings.vector_defect(&vector) {
                return Err(wrong(file.vector_error(position, found, allowed)));
            }
            let text = match &name {
                None => asked.get(rows).map(|(_, text)| text.as_str()),
                Some(text) if by_text => Some(text.as_str()),
                Some(id) => texts.get(id.as_str()).copied(),
            };
            settings.scale(&mut vector);
            if let Some(name) = &name
                && !seen.insert(name.clone())
                // A text that is embedded twice is no mistake.
                && !(by_text && read.vector(name) == Some(&vector[..]))
            {
                let allowed = if by_text { "one vector of each text" } else { "each question once" };
                return Err(wrong(file.name_error(position, format!("{name:?} once more"), allowed)));
            }
            rows += 1;
            // Rows of other questions are not needed.
            let Some(text) = text.filter(|text| !read.places.contains_key(*text)) else { continue };
            read.places.insert(text.to_owned(), read.numbers.len());
            read.numbers.extend_from_slice(&vector);
        }
        if read.places.is_empty() {
            let found = format!("{rows} rows, none of them of a question of the dataset");
            return Err(wrong(file.file_error(found, "ids of the dataset's questions, or `text` or `texts`")));
        }
        read.digest = read.find_digest();
        Ok(read)
    }

    /// The vector of a text.
    pub(super) fn vector(&self, text: &str) -> Option<&[f32]> {
        let place = *self.places.get(text)?;
        self.numbers.get(place..place + self.width)
    }

    /// The hash of all texts with their vectors.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    fn find_digest(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("hopeval vectors of questions 1");
        for (text, &place) in &self.places {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
            for number in &self.numbers[place..place + self.width] {
                hasher.update(&number.to_le_bytes());
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}
