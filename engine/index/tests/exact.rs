//! The search against a reference that scores every passage by the definition.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::collections::HashMap;

use hopeval_index::{
    Analyzer, Bm25Formula, Bm25Index, Bm25Parameters, Hit, Query, QueryRestriction, SearchScratch, SearchedFields,
    Statistics,
};
use proptest::prelude::*;

type Passages = Vec<(String, String)>;

/// A small linear congruential generator: tests are the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// A term by a steep distribution: a few are in most passages, most are rare.
    fn term(&mut self, terms: u64) -> String {
        let n = self.below(terms) + 1;
        format!("t{}", self.below(n) * self.below(n) / terms)
    }

    fn text(&mut self, longest: u64, terms: u64) -> String {
        let n = self.below(longest + 1);
        let mut words: Vec<String> = (0..n).map(|_| self.term(terms)).collect();
        if self.below(40) == 0 {
            words.extend((0..self.below(40)).map(|_| "t0".to_owned()));
        }
        words.join(" ")
    }

    fn passages(&mut self, n: u64, longest: u64, terms: u64) -> Passages {
        (0..n).map(|_| (self.text(4, terms), self.text(longest, terms))).collect()
    }
}

/// Statistics and scores of one field, by the definitions.
struct Reference {
    counts: Vec<HashMap<String, u32>>,
    lengths: Vec<u32>,
    idf: HashMap<String, f64>,
    average: f64,
}

impl Reference {
    fn new(texts: &[String], p: &Bm25Parameters) -> Self {
        let mut order = Vec::new();
        let mut df: HashMap<String, u32> = HashMap::new();
        let (mut counts, mut lengths) = (Vec::new(), Vec::new());
        for text in texts {
            let terms = p.analyzer.terms(text);
            lengths.push(terms.len() as u32);
            let mut count = HashMap::new();
            for term in terms {
                *count.entry(term.clone()).or_insert(0) += 1;
                if count[&term] == 1 {
                    if !df.contains_key(&term) {
                        order.push(term.clone());
                    }
                    *df.entry(term).or_insert(0) += 1;
                }
            }
            counts.push(count);
        }
        let n = texts.len() as f64;
        let okapi = |term: &String| (n - f64::from(df[term]) + 0.5).ln() - (f64::from(df[term]) + 0.5).ln();
        let mean = order.iter().map(okapi).sum::<f64>() / order.len() as f64;
        let idf = order.iter().map(|term| {
            let d = f64::from(df[term]);
            let idf = match p.formula {
                Bm25Formula::Lucene => (1.0 + (n - d + 0.5) / (d + 0.5)).ln(),
                Bm25Formula::Atire => (n / d).ln(),
                Bm25Formula::Okapi => {
                    if okapi(term) < 0.0 {
                        p.epsilon * mean
                    } else {
                        okapi(term)
                    }
                }
            };
            (term.clone(), idf)
        });
        let idf = idf.collect();
        let average = lengths.iter().map(|&l| f64::from(l)).sum::<f64>() / n;
        Self { counts, lengths, idf, average }
    }

    /// The score of passage `i`, and whether it has a term of the query.
    fn score(&self, query: &str, i: usize, p: &Bm25Parameters) -> (f64, bool) {
        let (mut sum, mut matched) = (0.0, false);
        for term in p.analyzer.terms(query) {
            let Some(&tf) = self.counts[i].get(&term) else { continue };
            let norm = p.k1 * (1.0 - p.b + p.b * f64::from(self.lengths[i]) / self.average);
            let tf = f64::from(tf);
            sum += self.idf[&term]
                * match p.formula {
                    Bm25Formula::Lucene => tf / (tf + norm),
                    Bm25Formula::Okapi | Bm25Formula::Atire => tf * (p.k1 + 1.0) / (tf + norm),
                };
            matched = true;
        }
        (sum, matched)
    }
}

fn field_texts(passages: &Passages, fields: SearchedFields) -> Vec<Vec<String>> {
    let titles = || passages.iter().map(|p| p.0.clone()).collect();
    let texts = || passages.iter().map(|p| p.1.clone()).collect();
    match fields {
        SearchedFields::TitleText => vec![passages.iter().map(|p| format!("{} {}", p.0, p.1)).collect()],
        SearchedFields::Text => vec![texts()],
        SearchedFields::Title => vec![titles()],
        SearchedFields::TitleAndText => vec![titles(), texts()],
    }
}

fn reference(passages: &Passages, p: &Bm25Parameters, query: &Query<'_>) -> Vec<Hit> {
    let all: Vec<u32> = (0..passages.len() as u32).collect();
    let (ids, statistics) = match &query.within {
        None => (all.clone(), Statistics::Corpus),
        Some(within) => {
            (within.ids.iter().copied().filter(|&i| (i as usize) < passages.len()).collect(), within.statistics)
        }
    };
    let counted = if statistics == Statistics::Corpus { &all } else { &ids };
    let subset: Passages = counted.iter().map(|&i| passages[i as usize].clone()).collect();
    let fields: Vec<Reference> = field_texts(&subset, p.fields).iter().map(|texts| Reference::new(texts, p)).collect();
    let mut hits = Vec::new();
    for &id in &ids {
        let at = counted.iter().position(|&i| i == id).unwrap();
        let scores: Vec<_> = fields.iter().map(|field| field.score(query.text, at, p)).collect();
        if scores.iter().any(|s| s.1) {
            hits.push(Hit { id, score: scores.iter().fold(0.0, |sum, s| sum + s.0) });
        }
    }
    hits.sort_by(Hit::ranking);
    hits.truncate(query.k);
    hits
}

fn opened(passages: &Passages, p: &Bm25Parameters) -> (tempfile::TempDir, Bm25Index) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    Bm25Index::build(passages, "random", p, &path, 1).unwrap();
    let index = Bm25Index::open(&path, "random", p).unwrap();
    (folder, index)
}

/// Compares passages and their order, and scores to the last bit. Only the mean idf of a restriction is summed in
/// another order than the reference's.
fn same(found: &[Hit], wanted: &[Hit], exactly: bool) {
    if exactly {
        let bits = |hits: &[Hit]| hits.iter().map(|h| (h.id, h.score.to_bits())).collect::<Vec<_>>();
        assert_eq!(bits(found), bits(wanted));
    } else {
        assert_eq!(found.len(), wanted.len());
        for (f, w) in found.iter().zip(wanted) {
            assert!((f.score - w.score).abs() < 1e-9, "{f:?} {w:?}");
        }
    }
}

fn parameters() -> impl Strategy<Value = Bm25Parameters> {
    (
        prop_oneof![
            Just(SearchedFields::TitleText),
            Just(SearchedFields::Text),
            Just(SearchedFields::Title),
            Just(SearchedFields::TitleAndText)
        ],
        prop_oneof![Just(Bm25Formula::Lucene), Just(Bm25Formula::Okapi), Just(Bm25Formula::Atire)],
        prop_oneof![Just(0.0), Just(0.9), Just(1.2), Just(2.0), 0.0..5.0],
        prop_oneof![Just(0.0), Just(0.4), Just(0.75), Just(1.0), 0.0..=1.0],
        prop_oneof![Just(0.0), Just(0.25)],
    )
        .prop_map(|(fields, formula, k1, b, epsilon)| Bm25Parameters {
            analyzer: Analyzer::Whitespace,
            fields,
            formula,
            k1,
            b,
            epsilon,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn search_is_the_reference(
        p in parameters(),
        seed in any::<u64>(),
        size in 1u64..900,
        longest in 1u64..60,
        terms in prop_oneof![Just(20u64), Just(400), Just(4000)],
    ) {
        let mut random = Random(seed);
        let passages = random.passages(size, longest, terms);
        let (_folder, index) = opened(&passages, &p);
        let mut scratch = SearchScratch::default();
        for k in [0, 1, 2, 10, 100, 1000] {
            let text = random.text(12, terms);
            let ids: Vec<u32> = (0..random.below(size + 1)).map(|_| random.below(size + 3) as u32).collect();
            for within in [None, Some(Statistics::Corpus), Some(Statistics::Restriction)] {
                let exactly = within != Some(Statistics::Restriction) || p.formula != Bm25Formula::Okapi;
                let within = within.map(|statistics| QueryRestriction::new(ids.clone(), statistics));
                let query = Query { text: &text, k, within };
                let wanted = reference(&passages, &p, &query);
                same(&index.search(&[query], &mut scratch)[0], &wanted, exactly);
            }
        }
    }
}

/// Several windows, lists of many blocks, terms from everywhere to nowhere.
#[test]
fn large_corpora_are_searched_exactly() {
    let mut random = Random(7);
    let passages = random.passages(70_000, 14, 30_000);
    for formula in [Bm25Formula::Lucene, Bm25Formula::Okapi, Bm25Formula::Atire] {
        let p = Bm25Parameters {
            formula,
            fields: SearchedFields::Text,
            analyzer: Analyzer::Whitespace,
            ..Bm25Parameters::default()
        };
        let (_folder, index) = opened(&passages, &p);
        let field = Reference::new(&field_texts(&passages, p.fields)[0], &p);
        let mut scratch = SearchScratch::default();
        for (i, k) in [1, 10, 100, 100, 100, 100, 3000].into_iter().enumerate() {
            let donor = &passages[random.below(70_000) as usize].1;
            let text = if i == 0 { "t0 t1".to_owned() } else { format!("{donor} t0 t1 t2") };
            let mut wanted: Vec<Hit> = (0..passages.len())
                .map(|at| (at, field.score(&text, at, &p)))
                .filter(|(_, (_, matched))| *matched)
                .map(|(at, (score, _))| Hit { id: at as u32, score })
                .collect();
            wanted.sort_by(Hit::ranking);
            wanted.truncate(k);
            let query = Query { text: &text, k, within: None };
            same(&index.search(&[query], &mut scratch)[0], &wanted, true);
        }
    }
}

/// Thousands of passages with the same score: ties go to the earlier one.
#[test]
fn ties_are_in_corpus_order() {
    let passages: Passages = (0..20_000).map(|i| (String::new(), format!("a b{}", i % 2))).collect();
    let (_folder, index) = opened(&passages, &Bm25Parameters::default());
    for (text, ids) in [("a", [0, 1, 2, 3]), ("b1", [1, 3, 5, 7]), ("b1 a", [1, 3, 5, 7])] {
        let hits = index.search(&[Query { text, k: 4, within: None }], &mut SearchScratch::default());
        assert_eq!(hits[0].iter().map(|h| h.id).collect::<Vec<_>>(), ids);
    }
}

#[test]
fn empty_corpora_and_queries_find_nothing() {
    for passages in [Vec::new(), vec![(String::new(), String::new()); 3]] {
        let (_folder, index) = opened(&passages, &Bm25Parameters::default());
        index.verify().unwrap();
        let query = |text| Query { text, k: 5, within: None };
        assert_eq!(index.search(&[query("a"), query("")], &mut SearchScratch::default()), [vec![], vec![]]);
    }
}
