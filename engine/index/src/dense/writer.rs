//! Writes the file of a dense index, in memory that does not grow with the number of passages.

use std::path::Path;

use super::{
    DenseParameters,
    description::Description,
    vector::{self, MOST_NUMBERS},
};
use crate::{
    container::{Kind, Writer},
    error::IndexError,
};

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;

/// Takes the vectors of all passages in passage order. The file appears at its place when [`DenseWriter::finish`] has
/// returned, and never if it is not called; its bytes do not depend on how the vectors were cut into blocks.
pub struct DenseWriter {
    writer: Writer,
    description: Description,
    parameters: DenseParameters,
    dimension: usize,
    count: u64,
    buffer: Vec<u8>,
}

impl DenseWriter {
    /// Begins the index of a corpus of `passages` passages at `path`, with vectors of `dimension` numbers.
    ///
    /// # Errors
    ///
    /// [`IndexError::Parameter`] for a dimension of zero or of more than 65,536, [`IndexError::Io`] where the file cannot be
    /// made.
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
        let mut writer = Writer::create(path, 2)?;
        writer.begin(Kind::Vectors, 0);
        Ok(Self {
            writer,
            description: Description::new(corpus_digest, parameters, numbers, passages),
            parameters: parameters.clone(),
            dimension,
            count: 0,
            buffer: Vec::new(),
        })
    }

    /// Appends the vectors of the next passages, `[count, dimension]` by rows. After an error the block is not part of the
    /// file.
    ///
    /// # Errors
    ///
    /// [`IndexError::Vector`] for a vector that is not whole, is not finite, does not fit the number format, or is longer
    /// than 1e18; [`IndexError::Count`] for more vectors than passages; [`IndexError::Io`] where the file cannot be
    /// written.
    pub fn push(&mut self, vectors: &[f32]) -> Result<(), IndexError> {
        let (count, wanted) = (vectors.len().div_ceil(self.dimension) as u64, self.description.passages);
        if self.count + count > u64::from(wanted) {
            return Err(IndexError::Count { found: self.count + count, wanted });
        }
        for (passage, vector) in (self.count..).zip(vectors.chunks(self.dimension)) {
            vector::check(vector, self.dimension)
                .and_then(|()| self.parameters.dtype.check(vector))
                .map_err(|what| IndexError::Vector { owner: format!("the vector of passage {passage}"), what })?;
        }
        for vector in vectors.chunks_exact(self.dimension) {
            self.parameters.dtype.write(vector, &mut self.buffer);
            if self.buffer.len() >= PIECE {
                self.flush()?;
            }
        }
        self.count += count;
        Ok(())
    }

    /// How many vectors there are so far: the passage whose vector is next.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Completes the file, brings it to disk and moves it to its place.
    ///
    /// # Errors
    ///
    /// [`IndexError::Count`] for fewer vectors than passages; [`IndexError::Io`] where the file cannot be written.
    pub fn finish(mut self) -> Result<(), IndexError> {
        let wanted = self.description.passages;
        if self.count != u64::from(wanted) {
            return Err(IndexError::Count { found: self.count, wanted });
        }
        self.flush()?;
        self.writer.end()?;
        self.writer.begin(Kind::Description, 0);
        self.writer.write(&self.description.to_bytes())?;
        self.writer.end()?;
        self.writer.finish()
    }

    fn flush(&mut self) -> Result<(), IndexError> {
        self.writer.write(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
