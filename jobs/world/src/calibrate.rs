//! Compares a world with a real dataset: quality of retrieval, lengths of texts, words shared by question and gold.
//!
//! The caller provides retrieval: a function from a question and k to passage numbers, best first. For overlap, words
//! are runs of letters and digits, lower-cased. Lengths count the words between blanks.

use std::collections::HashMap;
use std::fmt;

use rustc_hash::FxBuildHasher;

/// A question of the measurement: its text and the numbers of its gold passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleQuestion {
    /// The question.
    pub text: String,
    /// The gold passages, as positions among the measured passages.
    pub gold: Vec<u32>,
}

/// The best passages for a question: `(text, k)` to at most k positions, best first.
pub type RetrieveFn<'a> = &'a dyn Fn(&str, usize) -> Vec<u32>;

/// Mean and standard deviation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MeanDeviation {
    /// The mean.
    pub mean: f64,
    /// The standard deviation (of the population).
    pub deviation: f64,
}

impl MeanDeviation {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for v in values {
            n += 1.0;
            sum += v;
            squares += v * v;
        }
        if n == 0.0 {
            return Self::default();
        }
        let mean = sum / n;
        Self { mean, deviation: f64::max(squares / n - mean * mean, 0.0).sqrt() }
    }
}

/// The depths at which recall is measured.
pub const DEPTHS: [usize; 4] = [2, 5, 10, 20];

/// The quality of a retriever: means over the questions with gold passages.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RecallFigures {
    /// The share of a question's gold passages among the first [`DEPTHS`].
    pub fraction: [f64; 4],
    /// The share of questions with all their gold passages among the first ten.
    pub all_at_10: f64,
}

/// One column of the table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CalibrationColumn {
    /// Its heading.
    pub name: String,
    /// Questions measured.
    pub questions: usize,
    /// Passages measured.
    pub passages: usize,
    /// Recall of BM25.
    pub bm25: RecallFigures,
    /// Recall of TF-IDF, if requested.
    pub tfidf: Option<RecallFigures>,
    /// Words of a passage's text.
    pub passage_words: MeanDeviation,
    /// Words of a question.
    pub question_words: MeanDeviation,
    /// The share of a question's distinct words in its gold passages (title and text).
    pub overlap: f64,
    /// The same for content words: those in at most a tenth of the passages.
    pub content_overlap: f64,
    /// The share of content words in the gold passage with most of them.
    pub best_overlap: f64,
    /// The share of content words in the gold passage with fewest of them: the clues for a second hop.
    pub worst_overlap: f64,
    /// The share of gold passages whose title, without its part in brackets, is in the question.
    pub title_in_question: f64,
}

fn split_words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty()).map(str::to_lowercase)
}

fn distinct_words(text: &str) -> Vec<String> {
    let mut all: Vec<String> = split_words(text).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The recall of a retriever over the samples.
pub fn measure_recall(samples: &[SampleQuestion], retrieve: RetrieveFn<'_>) -> RecallFigures {
    let mut recall = RecallFigures::default();
    let mut asked = 0.0;
    for sample in samples.iter().filter(|s| !s.gold.is_empty()) {
        asked += 1.0;
        let found = retrieve(&sample.text, DEPTHS[3]);
        let among = |k: usize| sample.gold.iter().filter(|g| found.iter().take(k).any(|f| f == *g)).count();
        for (sum, k) in recall.fraction.iter_mut().zip(DEPTHS) {
            *sum += among(k) as f64 / sample.gold.len() as f64;
        }
        recall.all_at_10 += f64::from(u8::from(among(10) == sample.gold.len()));
    }
    if asked > 0.0 {
        recall.fraction.iter_mut().for_each(|sum| *sum /= asked);
        recall.all_at_10 /= asked;
    }
    recall
}

/// Measures one column. `passages` are (title, text), in the order of the numbers of gold and retrieval.
pub fn measure_column(
    name: &str,
    samples: &[SampleQuestion],
    passages: &[(String, String)],
    bm25: RetrieveFn<'_>,
    tfidf: Option<RetrieveFn<'_>>,
) -> CalibrationColumn {
    let WordOverlaps { words, content, best, worst, titles } = WordOverlaps::of(samples, passages);
    let mean = |values: Vec<f64>| MeanDeviation::of(values.into_iter()).mean;
    let count = |text: &str| text.split_whitespace().count() as f64;
    CalibrationColumn {
        name: name.to_owned(),
        questions: samples.len(),
        passages: passages.len(),
        bm25: measure_recall(samples, bm25),
        tfidf: tfidf.map(|retrieve| measure_recall(samples, retrieve)),
        passage_words: MeanDeviation::of(passages.iter().map(|(_, text)| count(text))),
        question_words: MeanDeviation::of(samples.iter().map(|s| count(&s.text))),
        overlap: mean(words),
        content_overlap: mean(content),
        best_overlap: mean(best),
        worst_overlap: mean(worst),
        title_in_question: mean(titles),
    }
}

/// Shares that questions have in common with their gold passages: one value for each question with a defined share.
#[derive(Default)]
struct WordOverlaps {
    words: Vec<f64>,
    content: Vec<f64>,
    best: Vec<f64>,
    worst: Vec<f64>,
    titles: Vec<f64>,
}

impl WordOverlaps {
    fn of(samples: &[SampleQuestion], passages: &[(String, String)]) -> Self {
        let mut frequency: HashMap<String, u32, FxBuildHasher> = HashMap::default();
        for (title, text) in passages {
            for word in distinct_words(&format!("{title} {text}")) {
                *frequency.entry(word).or_default() += 1;
            }
        }
        let is_content = |word: &String| frequency.get(word).copied().unwrap_or(0) as usize * 10 <= passages.len();
        let mut overlaps = Self::default();
        for sample in samples {
            let golds: Vec<_> = sample.gold.iter().filter_map(|&g| passages.get(g as usize)).collect();
            overlaps.add_question(&sample.text, &golds, is_content);
        }
        overlaps
    }

    fn add_question(&mut self, question: &str, golds: &[&(String, String)], is_content: impl Fn(&String) -> bool) {
        let words = distinct_words(question);
        if golds.is_empty() || words.is_empty() {
            return;
        }
        let bags: Vec<Vec<String>> =
            golds.iter().map(|(title, text)| distinct_words(&format!("{title} {text}"))).collect();
        self.words.push(shared_fraction(&words.iter().collect::<Vec<_>>(), &bags));
        let contents: Vec<&String> = words.iter().filter(|w| is_content(w)).collect();
        if !contents.is_empty() {
            self.content.push(shared_fraction(&contents, &bags));
            let each = bags.iter().map(|bag| shared_fraction(&contents, std::slice::from_ref(bag)));
            self.best.push(each.clone().fold(0.0, f64::max));
            self.worst.push(each.fold(1.0, f64::min));
        }
        let text = question.to_lowercase();
        let named = |title: &str| text.contains(&title.split(" (").next().unwrap_or(title).to_lowercase());
        self.titles.push(golds.iter().filter(|(title, _)| named(title)).count() as f64 / golds.len() as f64);
    }
}

/// The share of words that occur in any of the bags. Each bag is sorted.
fn shared_fraction(words: &[&String], bags: &[Vec<String>]) -> f64 {
    let hits = words.iter().filter(|w| bags.iter().any(|bag| bag.binary_search(w).is_ok())).count();
    hits as f64 / words.len() as f64
}

/// A world beside real data. Displays as a Markdown table.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationTable {
    /// The columns, the world's first.
    pub columns: Vec<CalibrationColumn>,
}

impl fmt::Display for CalibrationTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.3}"));
        let mut row = |label: &str, cell: &dyn Fn(&CalibrationColumn) -> String| {
            let cells: Vec<String> = self.columns.iter().map(cell).collect();
            writeln!(f, "| {label} | {} |", cells.join(" | "))
        };
        row("", &|c| c.name.clone())?;
        row("---", &|_| "---:".to_owned())?;
        row("questions", &|c| c.questions.to_string())?;
        row("passages", &|c| c.passages.to_string())?;
        for (n, k) in DEPTHS.iter().enumerate() {
            row(&format!("BM25 recall_frac@{k}"), &|c| format!("{:.3}", c.bm25.fraction[n]))?;
        }
        row("BM25 recall_all@10", &|c| format!("{:.3}", c.bm25.all_at_10))?;
        for (n, k) in DEPTHS.iter().enumerate() {
            row(&format!("TF-IDF recall_frac@{k}"), &|c| share(c.tfidf.map(|r| r.fraction[n])))?;
        }
        row("TF-IDF recall_all@10", &|c| share(c.tfidf.map(|r| r.all_at_10)))?;
        let spread = |s: MeanDeviation| format!("{:.1} ± {:.1}", s.mean, s.deviation);
        row("words per passage, mean ± sd", &|c| spread(c.passage_words))?;
        row("words per question, mean ± sd", &|c| spread(c.question_words))?;
        row("question words in gold", &|c| format!("{:.3}", c.overlap))?;
        row("content words in gold", &|c| format!("{:.3}", c.content_overlap))?;
        row("content words in the nearer gold passage", &|c| format!("{:.3}", c.best_overlap))?;
        row("content words in the farther gold passage", &|c| format!("{:.3}", c.worst_overlap))?;
        row("gold titles in the question", &|c| format!("{:.3}", c.title_in_question))
    }
}
