//! Writes the file of a dense index, in memory independent of the number of passages.

use std::path::Path;

use super::{
    DenseParameters,
    description::DenseDescription,
    vector::{self, MOST_NUMBERS},
};
use crate::{
    container::{ContainerWriter, SectionKind},
    error::IndexError,
};

/// Takes the vectors of all passages, in any order. The file appears at its place when [`DenseWriter::finish`] has
/// returned, and never without this call. Its bytes do not depend on the order.
pub struct DenseWriter {
    writer: ContainerWriter,
    description: DenseDescription,
    parameters: DenseParameters,
    dimension: usize,
    /// Offset of the first vector in the file.
    offset: u64,
    /// One bit per passage: whether its vector is placed.
    placed: Vec<u64>,
    count: u64,
    buffer: Vec<u8>,
}

impl DenseWriter {
    /// Begins the index of a corpus of `passages` passages at `path`, with vectors of `dimension` numbers.
    ///
    /// # Errors
    ///
    /// [`IndexError::Parameter`] for a dimension of zero or of more than 65,536, [`IndexError::Io`] if the file
    /// cannot be created.
    pub fn create(
        path: &Path,
        corpus_digest: &str,
        parameters: &DenseParameters,
        dimension: usize,
        passages: u32,
    ) -> Result<Self, IndexError> {
        let fits = u32::try_from(dimension).ok().filter(|_| (1..=MOST_NUMBERS).contains(&dimension));
        let Some(numbers) = fits else {
            let value = dimension.to_string();
            return Err(IndexError::Parameter { field: "dimension", value, allowed: "1 to 65536" });
        };
        let mut writer = ContainerWriter::create(path, 2)?;
        writer.begin_section(SectionKind::Vectors, 0);
        let pitch = parameters.dtype.pitch(dimension) as u64;
        Ok(Self {
            offset: writer.leave_space(u64::from(passages) * pitch)?,
            writer,
            description: DenseDescription::new(corpus_digest, parameters, numbers, passages),
            parameters: parameters.clone(),
            dimension,
            placed: vec![0; passages.div_ceil(u64::BITS) as usize],
            count: 0,
            buffer: Vec::new(),
        })
    }

    /// Takes the vectors of the passages from `first` on, `[count, dimension]` by rows, and replaces earlier vectors
    /// of these passages. After an error, all vectors of the call are left out of the file.
    ///
    /// # Errors
    ///
    /// [`IndexError::Vector`] for a vector that is incomplete, not finite, outside the number format, or longer than
    /// 1e18; [`IndexError::Count`] for more vectors than passages; [`IndexError::Io`] if the file cannot be written.
    pub fn place(&mut self, first: u32, vectors: &[f32]) -> Result<(), IndexError> {
        let (count, wanted) = (vectors.len().div_ceil(self.dimension) as u64, self.description.passages);
        let passages = u64::from(first)..u64::from(first) + count;
        if passages.end > u64::from(wanted) {
            return Err(IndexError::Count { found: passages.end, wanted });
        }
        self.buffer.clear();
        for (passage, vector) in passages.clone().zip(vectors.chunks(self.dimension)) {
            vector::check_vector(vector, self.dimension)
                .and_then(|()| self.parameters.dtype.check_range(vector))
                .map_err(|what| IndexError::Vector { owner: format!("the vector of passage {passage}"), what })?;
            self.parameters.dtype.write_vector(vector, &mut self.buffer);
        }
        let pitch = self.parameters.dtype.pitch(self.dimension) as u64;
        self.writer.place_bytes(self.offset + passages.start * pitch, &self.buffer)?;
        for passage in passages {
            let (word, bit) = (&mut self.placed[(passage / 64) as usize], 1 << (passage % 64));
            self.count += u64::from(*word & bit == 0);
            *word |= bit;
        }
        Ok(())
    }

    /// Number of passages with a vector.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Completes the file, syncs it to disk and moves it to its place.
    ///
    /// # Errors
    ///
    /// [`IndexError::Count`] for fewer vectors than passages; [`IndexError::Io`] if the file cannot be written.
    pub fn finish(mut self) -> Result<(), IndexError> {
        let wanted = self.description.passages;
        if self.count != u64::from(wanted) {
            return Err(IndexError::Count { found: self.count, wanted });
        }
        let pitch = self.parameters.dtype.pitch(self.dimension) as u64;
        self.writer.seal_placed(self.offset..self.offset + self.count * pitch)?;
        self.writer.end_section()?;
        self.writer.begin_section(SectionKind::Description, 0);
        self.writer.write(&self.description.to_bytes())?;
        self.writer.end_section()?;
        self.writer.finish()
    }
}
