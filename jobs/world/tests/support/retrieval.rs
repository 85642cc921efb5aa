//! Slow, obvious references of BM25 and TF-IDF.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty()).map(str::to_lowercase).collect()
}

/// (passage, occurrences) by word.
type Postings = HashMap<String, Vec<(u32, u32)>>;

fn postings(passages: &[(String, String)], terms: impl Fn(&str) -> Vec<String>) -> (Postings, Vec<usize>) {
    let mut postings: Postings = HashMap::new();
    let mut lengths = vec![];
    for (n, (title, text)) in (0u32..).zip(passages) {
        let all = terms(&format!("{title} {text}"));
        lengths.push(all.len());
        for term in all {
            let list = postings.entry(term).or_default();
            match list.last_mut() {
                Some((passage, count)) if *passage == n => *count += 1,
                _ => list.push((n, 1)),
            }
        }
    }
    (postings, lengths)
}

fn best(scores: &[f64], k: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0u32..).take(scores.len()).filter(|&n| scores[n as usize] > 0.0).collect();
    let by_score = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
    if order.len() > k {
        order.select_nth_unstable_by(k, by_score);
        order.truncate(k);
    }
    order.sort_by(by_score);
    order
}

/// Lucene's BM25 (k1 0.9, b 0.4) over title and text as one field.
pub(crate) struct Bm25 {
    postings: Postings,
    lengths: Vec<usize>,
    average: f64,
}

impl Bm25 {
    pub(crate) fn new(passages: &[(String, String)]) -> Self {
        let (postings, lengths) = postings(passages, words);
        let average = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        Self { postings, lengths, average }
    }

    pub(crate) fn search(&self, text: &str, k: usize) -> Vec<u32> {
        let n = self.lengths.len() as f64;
        let mut scores = vec![0.0; self.lengths.len()];
        for word in words(text) {
            let Some(list) = self.postings.get(&word) else { continue };
            let df = list.len() as f64;
            let idf = (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
            for &(passage, count) in list {
                let tf = f64::from(count);
                let norm = 0.9 * (1.0 - 0.4 + 0.4 * self.lengths[passage as usize] as f64 / self.average);
                scores[passage as usize] += idf * tf / (tf + norm);
            }
        }
        best(&scores, k)
    }
}

/// DrQA's stop words, as its tokenizer cuts them.
const STOP_WORDS: &str = "a about above after again against ain all am an and any are aren as at be because been before being \
    below between both but by can couldn d did didn do does doesn doing don down during each few for \
    from further had hadn has hasn have haven having he her here hers herself him himself his how i if \
    in into is isn it its itself just ll m ma me mightn more most mustn my myself needn no nor not now o \
    of off on once only or other our ours ourselves out over own re s same shan she should shouldn so \
    some such t than that the their theirs them themselves then there these they this those through to \
    too under until up ve very was wasn we were weren what when where which while who whom why will with \
    won wouldn y you your yours yourself yourselves";

/// DrQA's TF-IDF over uni- and bigrams without stop words, unhashed: log(1 + tf) times a clipped idf, on both sides.
pub(crate) struct TfIdf {
    postings: Postings,
    passages: usize,
}

fn ngrams(text: &str) -> Vec<String> {
    static STOPPED: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP_WORDS.split_whitespace().collect());
    let unigrams = words(text);
    let is_kept = |gram: &&[String]| gram.iter().all(|word| !STOPPED.contains(word.as_str()));
    let grams = |n: usize| unigrams.windows(n).filter(is_kept).map(|gram| gram.join(" "));
    grams(1).chain(grams(2)).collect()
}

impl TfIdf {
    pub(crate) fn new(passages: &[(String, String)]) -> Self {
        Self { postings: postings(passages, ngrams).0, passages: passages.len() }
    }

    pub(crate) fn search(&self, text: &str, k: usize) -> Vec<u32> {
        let mut counts: std::collections::BTreeMap<String, u32> = Default::default();
        for term in ngrams(text) {
            *counts.entry(term).or_default() += 1;
        }
        let mut scores = vec![0.0; self.passages];
        let weights: Vec<f64> = (0..256).map(|n| f64::from(n).ln_1p()).collect();
        for (term, asked) in counts {
            let Some(list) = self.postings.get(&term) else { continue };
            let df = list.len() as f64;
            let idf = ((self.passages as f64 - df + 0.5) / (df + 0.5)).ln();
            if idf <= 0.0 {
                continue;
            }
            let weight = f64::from(asked).ln_1p() * idf * idf;
            for &(passage, count) in list {
                scores[passage as usize] += weights[count.min(255) as usize] * weight;
            }
        }
        best(&scores, k)
    }
}
