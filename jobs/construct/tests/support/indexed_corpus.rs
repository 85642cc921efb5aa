//! A corpus with its index in a temporary folder, for the tests beside this folder.

use hopeval_construct::CorpusLibrary;
use hopeval_corpus::{Corpus, CorpusBuilder, CorpusSettings, NewLink, NewPassage};
use hopeval_datasets::PassageRecord;
use hopeval_index::{Bm25Index, Bm25Parameters};

/// A corpus and its index, while their folder lives.
pub(crate) struct IndexedCorpus {
    corpus: Corpus,
    index: Bm25Index,
    _folder: tempfile::TempDir,
}

impl IndexedCorpus {
    pub(crate) fn from_passages(passages: impl IntoIterator<Item = PassageRecord>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = CorpusBuilder::create(&folder.path().join("corpus"), CorpusSettings::default()).unwrap();
        for record in passages {
            let links: Option<Vec<NewLink<'_>>> = record
                .links
                .as_ref()
                .map(|links| links.iter().map(|l| NewLink { title: &l.title, start: l.start, end: l.end }).collect());
            let passage = NewPassage {
                id: record.id.as_deref(),
                title: &record.title,
                text: &record.text,
                sentences: &record.sentences,
                links: links.as_deref(),
            };
            builder.push(passage).unwrap();
        }
        builder.finish().unwrap();
        let corpus = Corpus::open(&folder.path().join("corpus")).unwrap();
        let (parameters, path) = (Bm25Parameters::default(), folder.path().join("index"));
        let texts: Vec<(&str, &str)> = corpus.passages().map(|id| (corpus.title(id), corpus.text(id))).collect();
        Bm25Index::build(&texts, corpus.digest(), &parameters, &path, 1).unwrap();
        let index = Bm25Index::open(&path, corpus.digest(), &parameters).unwrap();
        Self { corpus, index, _folder: folder }
    }

    pub(crate) fn library(&self) -> CorpusLibrary<'_> {
        CorpusLibrary::new(&self.corpus, &self.index)
    }
}
