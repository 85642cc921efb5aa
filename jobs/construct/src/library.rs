//! The corpus and its BM25 index: texts of passages, and passages that resemble gold.

use crate::steps::StepPassage;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_index::{Bm25Index, Query, SearchScratch};
use std::collections::BTreeSet;

/// A corpus with its index.
pub struct CorpusLibrary<'c> {
    corpus: &'c Corpus,
    index: Option<&'c Bm25Index>,
    scratch: SearchScratch,
}

/// A passage with its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkText {
    /// Its number in the corpus, if it is there.
    pub(crate) number: Option<PassageId>,
    /// Its external id, else its title.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) text: String,
    /// Ends of its sentences in `text`, in bytes; empty if unknown.
    pub(crate) sentences: Vec<u32>,
}

impl ChunkText {
    /// The form shown to models: title, colon, text.
    pub(crate) fn written(&self) -> String {
        if self.title.is_empty() { self.text.clone() } else { format!("{}: {}", self.title, self.text) }
    }
}

impl<'c> CorpusLibrary<'c> {
    /// The index must be the corpus's own.
    pub fn new(corpus: &'c Corpus, index: &'c Bm25Index) -> Self {
        Self { corpus, index: Some(index), scratch: SearchScratch::default() }
    }

    /// A library without search, for negatives found elsewhere.
    pub fn unsearched(corpus: &'c Corpus) -> Self {
        Self { corpus, index: None, scratch: SearchScratch::default() }
    }

    /// Whether the corpus has a passage with this number.
    pub(crate) fn contains(&self, passage: PassageId) -> bool {
        self.corpus.contains(passage)
    }

    /// The best `k` passages for a query.
    pub(crate) fn search(&mut self, query: &str, k: usize) -> Vec<PassageId> {
        let Some(index) = self.index else { return Vec::new() };
        let query = Query { text: query, k, within: None };
        index.search(&[query], &mut self.scratch).into_iter().flatten().map(|hit| PassageId(hit.id)).collect()
    }

    /// The targets of the links of `passage`.
    pub(crate) fn links(&self, passage: PassageId) -> &[PassageId] {
        self.corpus.links(passage)
    }

    /// A passage of the corpus.
    pub(crate) fn corpus_chunk(&self, passage: PassageId) -> ChunkText {
        let (id, title) = (self.corpus.id(passage), self.corpus.title(passage));
        ChunkText {
            number: Some(passage),
            name: if id.is_empty() { title } else { id }.to_owned(),
            title: title.to_owned(),
            text: self.corpus.text(passage).to_owned(),
            sentences: self.corpus.sentence_ends(passage).to_vec(),
        }
    }

    /// A gold passage. Its number is the corpus's, if the corpus has it; its text is the question's own, or the
    /// corpus's if the question has none.
    pub(crate) fn gold_chunk(&self, gold: &StepPassage) -> Option<ChunkText> {
        let by_id = gold.id.as_deref().and_then(|id| self.corpus.by_external_id(id));
        let number = by_id.or_else(|| self.corpus.by_title_and_text(&gold.title, &gold.text));
        if gold.text.is_empty() {
            return number.map(|number| self.corpus_chunk(number));
        }
        let name = gold.id.clone().unwrap_or_else(|| gold.title.clone());
        let (title, text, sentences) = (gold.title.clone(), gold.text.clone(), gold.sentences.clone());
        Some(ChunkText { number, name, title, text, sentences })
    }

    /// The passages with one of these titles.
    pub(crate) fn passages_titled<'t>(&self, titles: impl Iterator<Item = &'t str>) -> BTreeSet<PassageId> {
        titles.flat_map(|title| self.corpus.by_title(title)).copied().collect()
    }

    /// The number of passages.
    pub(crate) fn len(&self) -> usize {
        self.corpus.len()
    }
}
