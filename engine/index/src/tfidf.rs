//! The hashed TF-IDF of DrQA, used by PromptRank's retrieval.
//!
//! A passage's vector has for each n-gram `ln(1 + tf) * max(0, ln((N - n + .5) / (n + .5)))`, with `n` the number of
//! passages with this n-gram. The question has the same kind of vector. The score is their dot product, summed by
//! ascending n-gram number. n-grams of weight 0 count as absent: a passage with no other n-gram of the question is
//! never returned.

pub(crate) mod grams;
mod murmur;
mod tables;

use std::{cmp::Ordering, collections::BTreeMap, path::Path};

use crate::{
    SearchScratch,
    bm25::description::IndexDescription,
    build,
    container::Container,
    error::IndexError,
    field::{IndexField, PostingReader},
    parameters::{TfidfParameters, TieOrder},
    passages::Passages,
    query::{BestHits, Hit, Query, QueryRestriction, Statistics},
    simd::InstructionLevel,
    vocabulary::TermRecord,
};

/// Passages scored together.
const WINDOW: u32 = 1 << 13;

/// A TF-IDF index, memory-mapped.
pub struct TfidfIndex {
    container: Container,
    description: IndexDescription,
    field: IndexField,
    parameters: TfidfParameters,
    level: InstructionLevel,
}

/// The scores of a window; the allocation is reused for the next batch.
#[derive(Default)]
pub(crate) struct WindowScores {
    scores: Vec<f64>,
}

/// An n-gram of the question.
struct QuestionGram {
    record: TermRecord,
    /// `ln(1 + tf)` of the question.
    question: f64,
}

impl TfidfIndex {
    /// The name of the index of a corpus under these parameters: 64 hexadecimal digits. `ties` does not change it.
    pub fn key(corpus_digest: &str, parameters: &TfidfParameters) -> String {
        parameters.layout().key(corpus_digest)
    }

    /// Builds the index of `passages` at `path` with `threads` threads, as [`crate::Bm25Index::build`] does.
    ///
    /// # Errors
    ///
    /// As [`crate::Bm25Index::build`].
    pub fn build(
        passages: &dyn Passages,
        corpus_digest: &str,
        parameters: &TfidfParameters,
        path: &Path,
        threads: usize,
    ) -> Result<(), IndexError> {
        parameters.check()?;
        build::build_index(passages, corpus_digest, parameters.layout(), path, threads)
    }

    /// Opens the index at `path`. It must have been built from the corpus of this digest with these parameters.
    ///
    /// # Errors
    ///
    /// As [`crate::Bm25Index::open`].
    pub fn open(path: &Path, corpus_digest: &str, parameters: &TfidfParameters) -> Result<Self, IndexError> {
        parameters.check()?;
        let container = Container::open(path)?;
        let description = IndexDescription::read(&container, corpus_digest, parameters.layout())?;
        let field = IndexField::open(&container, 0, description.passages)?;
        Ok(Self { container, description, field, parameters: *parameters, level: InstructionLevel::detect() })
    }

    /// Checks every byte against its checksum.
    ///
    /// # Errors
    ///
    /// [`IndexError::Corrupt`] names the first section with a wrong checksum.
    pub fn verify(&self) -> Result<(), IndexError> {
        self.container.verify()
    }

    /// Number of passages in the index.
    pub fn len(&self) -> u32 {
        self.description.passages
    }

    /// Whether the index has no passages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Answers each query with at most `k` hits, best first; the parameters decide ties.
    pub fn search(&self, queries: &[Query<'_>], scratch: &mut SearchScratch) -> Vec<Vec<Hit>> {
        queries.iter().map(|query| self.answer_query(query, &mut scratch.tfidf)).collect()
    }

    fn hit_order(&self) -> fn(&Hit, &Hit) -> Ordering {
        match self.parameters.ties {
            TieOrder::Earlier => Hit::ranking,
            TieOrder::Later => |a, b| b.score.total_cmp(&a.score).then(b.id.cmp(&a.id)),
        }
    }

    fn answer_query(&self, query: &Query<'_>, scratch: &mut WindowScores) -> Vec<Hit> {
        let grams = self.question_grams(query.text);
        match &query.within {
            Some(within) => self.search_within(&grams, within, query.k),
            None => self.search_all(&grams, query.k, scratch),
        }
    }

    /// The question's n-grams found in the index, by ascending number.
    fn question_grams(&self, text: &str) -> Vec<QuestionGram> {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        grams::each_gram(text, self.parameters.ngrams, self.parameters.hash_bits, |gram| {
            let number = gram.try_into().map(u32::from_le_bytes).unwrap_or_default();
            *counts.entry(number).or_default() += 1;
        });
        let bytes = self.container.bytes();
        let found = counts.into_iter().filter_map(|(number, count)| {
            let id = self.field.vocabulary.find(bytes, &number.to_le_bytes())?;
            Some(QuestionGram { record: self.field.vocabulary.record(bytes, id), question: f64::from(count).ln_1p() })
        });
        found.collect()
    }

    fn gram_reader(&self, gram: &QuestionGram) -> PostingReader<'_> {
        PostingReader::new(self.field.posting_list(self.container.bytes(), &gram.record), self.level)
    }

    fn search_all(&self, grams: &[QuestionGram], k: usize, scratch: &mut WindowScores) -> Vec<Hit> {
        let mut best = BestHits::new(k, self.hit_order());
        let mut readers: Vec<_> = grams
            .iter()
            .map(|gram| (gram.question, idf(self.len(), gram.record.document_frequency), gram))
            .filter(|&(_, idf, _)| idf > 0.0)
            .map(|(question, idf, gram)| (question * idf, idf, self.gram_reader(gram)))
            .collect();
        for start in (0..self.len()).step_by(WINDOW as usize) {
            let end = self.len().min(start.saturating_add(WINDOW));
            let size = (end - start) as usize;
            if !readers.iter().any(|(_, _, reader)| reader.any_before(end)) {
                continue;
            }
            scratch.scores.clear();
            scratch.scores.resize(size, 0.0);
            for (question, idf, reader) in &mut readers {
                reader.each_posting(start, end, |doc, frequency| {
                    // A damaged list may hold any number.
                    if let Some(score) = scratch.scores.get_mut(doc.wrapping_sub(start) as usize) {
                        *score += *question * (f64::from(frequency).ln_1p() * *idf);
                    }
                });
            }
            for (at, &score) in scratch.scores.iter().enumerate().filter(|&(_, &score)| score > 0.0) {
                best.push(Hit { id: start + at as u32, score });
            }
        }
        best.finish()
    }

    fn search_within(&self, grams: &[QuestionGram], within: &QueryRestriction, k: usize) -> Vec<Hit> {
        let ids = within.ids_below(self.len());
        let mut scores = vec![0.0; ids.len()];
        for gram in grams {
            let mut reader = self.gram_reader(gram);
            let frequencies: Vec<u32> = ids.iter().map(|&id| reader.frequency(id)).collect();
            let idf = match within.statistics {
                Statistics::Corpus => idf(self.len(), gram.record.document_frequency),
                Statistics::Restriction => {
                    idf(ids.len() as u32, frequencies.iter().filter(|&&frequency| frequency > 0).count() as u32)
                }
            };
            for (score, &frequency) in scores.iter_mut().zip(&frequencies).filter(|&(_, &frequency)| frequency > 0) {
                *score += gram.question * idf * (f64::from(frequency).ln_1p() * idf);
            }
        }
        let mut best = BestHits::new(k, self.hit_order());
        for (&id, &score) in ids.iter().zip(&scores).filter(|&(_, &score)| score > 0.0) {
            best.push(Hit { id, score });
        }
        best.finish()
    }
}

fn idf(passages: u32, df: u32) -> f64 {
    let (n, df) = (f64::from(passages), f64::from(df));
    ((n - df + 0.5) / (df + 0.5)).ln().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::PassageNormalisation;

    fn index(parameters: &TfidfParameters, passages: &impl Passages) -> (tempfile::TempDir, TfidfIndex) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        TfidfIndex::build(passages, "d", parameters, &path, 2).unwrap();
        let index = TfidfIndex::open(&path, "d", parameters).unwrap();
        index.verify().unwrap();
        (folder, index)
    }

    fn passages() -> Vec<(String, String)> {
        let texts = [
            "red fox jumps",
            "red fox red fox",
            "blue whale",
            "green tree",
            "yellow sun",
            "red fox jumps",
            "grey stone",
            "white snow",
        ];
        texts.iter().map(|t| (String::new(), (*t).to_owned())).collect()
    }

    /// The same scores by the definition, with n-grams as strings.
    fn defined(passages: &[&str], question: &str) -> Vec<f64> {
        let counts = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            let mut counts: BTreeMap<String, f64> = BTreeMap::new();
            for n in 1..=2 {
                words.windows(n).for_each(|gram| *counts.entry(gram.join(" ")).or_default() += 1.0);
            }
            counts
        };
        let docs: Vec<_> = passages.iter().map(|p| counts(p)).collect();
        let (question, n) = (counts(question), passages.len() as f64);
        let weight = |gram: &String, tf: f64| {
            let df = docs.iter().filter(|d| d.contains_key(gram)).count() as f64;
            (1.0 + tf).ln() * ((n - df + 0.5) / (df + 0.5)).ln().max(0.0)
        };
        docs.iter()
            .map(|doc| question.iter().map(|(g, &tf)| doc.get(g).map_or(0.0, |&f| weight(g, tf) * weight(g, f))).sum())
            .collect()
    }

    #[test]
    fn scores_are_the_definition() {
        let passages = passages();
        let (_folder, index) = index(&TfidfParameters::default(), &passages);
        let search = |within| {
            let query = Query { text: "jumps red fox", k: 10, within };
            index.search(&[query], &mut SearchScratch::default()).remove(0)
        };
        let check = |hits: &[Hit], ids: &[u32], wanted: &[f64]| {
            assert!(!hits.is_empty());
            assert_eq!(hits.len(), wanted.iter().filter(|&&w| w > 0.0).count());
            for hit in hits {
                let at = ids.iter().position(|&id| id == hit.id).unwrap();
                assert!((hit.score - wanted[at]).abs() < 1e-12, "{hit:?} {wanted:?}");
            }
        };
        let texts = |ids: &[u32]| ids.iter().map(|&i| passages[i as usize].1.as_str()).collect::<Vec<_>>();
        let all: Vec<u32> = (0..8).collect();
        check(&search(None), &all, &defined(&texts(&all), "jumps red fox"));
        let some = vec![0, 2, 3, 4, 6];
        check(
            &search(Some(QueryRestriction::new(some.clone(), Statistics::Restriction))),
            &some,
            &defined(&texts(&some), "jumps red fox"),
        );
        let hits = search(Some(QueryRestriction::new(some, Statistics::Corpus)));
        assert_eq!(hits, search(None).into_iter().filter(|h| h.id == 0).collect::<Vec<_>>());
    }

    #[test]
    fn passages_as_written_are_found_only_in_the_question_s_form() {
        let texts = ["the Café", "the Cafe\u{301}", "a sun", "a stone", "a tree", "a whale"];
        let passages: Vec<(String, String)> = texts.iter().map(|t| (String::new(), (*t).to_owned())).collect();
        let found = |normalisation| {
            let parameters = TfidfParameters { normalisation, ..TfidfParameters::default() };
            let (_folder, index) = index(&parameters, &passages);
            let query = Query { text: "Café", k: 9, within: None };
            index.search(&[query], &mut SearchScratch::default())[0].iter().map(|h| h.id).collect::<Vec<_>>()
        };
        assert_eq!(found(PassageNormalisation::Nfd), [0, 1]);
        assert_eq!(found(PassageNormalisation::None), [1]);
    }

    #[test]
    fn ties_go_as_asked() {
        let ids = |ties| {
            let (_folder, index) = index(&TfidfParameters { ties, ..TfidfParameters::default() }, &passages());
            let query = Query { text: "jumps", k: 2, within: None };
            index.search(&[query], &mut SearchScratch::default())[0].iter().map(|h| h.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(TieOrder::Earlier), [0, 5]);
        assert_eq!(ids(TieOrder::Later), [5, 0]);
    }
}
