//! `chunks_with_repeats`: the number of chunks that a method's retrievals found, each as often as it was found
//! (EfficientRAG's K).

use super::MeasureKey;
use crate::answer::Profile;
use crate::registry::Column;

/// K of EfficientRAG's table 2: the mean length of the list of chunks, in which a chunk stands as often as it was found
/// (or kept). Its evaluation divides by the questions of its file; a failed question has no list here.
pub(crate) struct ChunksWithRepeats;

impl MeasureKey for ChunksWithRepeats {
    type Value = bool;

    fn build_columns(_: &bool, _: Profile) -> Vec<Column> {
        let chunks = Column::new("chunks_with_repeats".to_owned(), "1", |input| Some(input.outcome.chunks? as f64));
        vec![chunks.none_if_failed().of_counts()]
    }
}
