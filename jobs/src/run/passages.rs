//! Names and texts of a run's passages: from its corpus, or from the table `passages` of a finished run.

use crate::error::JobError;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_results::log::FinalRecord;
use hopeval_results::tables::{PassageRow, RunRow, read_final};
use hopeval_results::{RunRecord, Store};
use std::collections::HashMap;
use std::sync::Arc;

/// The passages of a run, by number.
#[derive(Clone)]
pub enum RunPassages {
    /// All passages of the corpus.
    Corpus(Arc<Corpus>),
    /// The passages named by a finished run.
    Stored(Arc<StoredPassages>),
}

/// The passages in a finished run's tables.
#[derive(Clone, Debug, Default)]
pub struct StoredPassages {
    corpus_name: Option<String>,
    rows: HashMap<u32, PassageRow>,
}

impl RunPassages {
    /// No passages, for readers of finished tables, which name none.
    pub(super) fn none() -> Self {
        Self::Stored(Arc::default())
    }

    /// Reads the passages of a finished run; `None` if it was finished by a version that did not store them.
    ///
    /// # Errors
    /// A table cannot be read.
    pub(super) fn read(store: &Store, run: &str, finished: &FinalRecord) -> Result<Option<Self>, JobError> {
        if finished.find_table("passages").is_none() {
            return Ok(None);
        }
        let rows = read_final::<PassageRow>(store, run, finished)?;
        let rows = rows.into_iter().map(|row| (row.passage, row)).collect();
        let runs = read_final::<RunRow>(store, run, finished)?;
        let corpus_name = runs.into_iter().find_map(|row| row.corpus);
        Ok(Some(Self::Stored(Arc::new(StoredPassages { corpus_name, rows }))))
    }

    /// The corpus's name.
    pub(crate) fn corpus_name(&self) -> Option<String> {
        match self {
            Self::Corpus(corpus) => Some(corpus.info().settings.name.clone()),
            Self::Stored(stored) => stored.corpus_name.clone(),
        }
    }

    /// The id of a passage; empty for an unknown one, which [`RunPassages::require`] refuses.
    pub(crate) fn id(&self, passage: u32) -> &str {
        match self {
            Self::Corpus(corpus) => known(corpus, passage).map_or("", |passage| corpus.id(passage)),
            Self::Stored(stored) => stored.rows.get(&passage).map_or("", |row| &row.id),
        }
    }

    /// The title of a passage; empty if it has none.
    pub(crate) fn title(&self, passage: u32) -> &str {
        match self {
            Self::Corpus(corpus) => known(corpus, passage).map_or("", |passage| corpus.title(passage)),
            Self::Stored(stored) => stored.rows.get(&passage).map_or("", |row| &row.title),
        }
    }

    /// The text of a passage; empty if a finished run did not store it, since none of its measures reads texts.
    pub(crate) fn text(&self, passage: u32) -> &str {
        match self {
            Self::Corpus(corpus) => known(corpus, passage).map_or("", |passage| corpus.text(passage)),
            Self::Stored(stored) => stored.rows.get(&passage).and_then(|row| row.text.as_deref()).unwrap_or_default(),
        }
    }

    /// Checks that all of `passages` are known.
    ///
    /// # Errors
    /// One is not in the corpus, or not in the run's table.
    pub(crate) fn require(&self, run: &RunRecord, passages: impl IntoIterator<Item = u32>) -> Result<(), JobError> {
        let is_known = |passage: u32| match self {
            Self::Corpus(corpus) => corpus.contains(PassageId(passage)),
            Self::Stored(stored) => stored.rows.contains_key(&passage),
        };
        let Some(unknown) = passages.into_iter().find(|&passage| !is_known(passage)) else { return Ok(()) };
        let place = match self {
            Self::Corpus(_) => "its corpus",
            Self::Stored(_) => "its table `passages`",
        };
        let reason = format!("it names passage {unknown}, which is not in {place}");
        Err(JobError::Unfit { run: run.run.clone(), reason })
    }

    /// The row of a passage in the table `passages`.
    pub(crate) fn row(&self, passage: u32, with_text: bool) -> PassageRow {
        let (id, title) = (self.id(passage).to_owned(), self.title(passage).to_owned());
        PassageRow { passage, id, title, text: with_text.then(|| self.text(passage).to_owned()) }
    }
}

fn known(corpus: &Corpus, passage: u32) -> Option<PassageId> {
    Some(PassageId(passage)).filter(|&passage| corpus.contains(passage))
}
