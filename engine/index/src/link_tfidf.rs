//! PromptRank's ranking of linked passages: scikit-learn's `TfidfVectorizer(strip_accents="unicode",
//! stop_words="english")`, fitted on just these passages, and the cosine to the question.
//!
//! Words match `\b\w\w+\b`, in lower case, without accents and without scikit-learn's 318 English stop words. A
//! vector has `tf * (ln((1 + n) / (1 + df)) + 1)`, scaled to length 1. PromptRank fits it on texts without titles.

use std::sync::LazyLock;

use hopeval_pytext as pytext;
use rustc_hash::{FxHashMap, FxHashSet};
use unicode_normalization::{UnicodeNormalization, char::canonical_combining_class};

/// scikit-learn's `ENGLISH_STOP_WORDS`, sorted.
const STOP_WORDS: &str = "a about above across after afterwards again against all almost alone along already also \
    although always am \
    among amongst amoungst amount an and another any anyhow anyone anything anyway anywhere are around as at back \
    be became because become becomes becoming been before beforehand behind being below beside besides between \
    beyond bill both bottom but by call can cannot cant co con could couldnt cry de describe detail do done down \
    due during each eg eight either eleven else elsewhere empty enough etc even ever every everyone everything \
    everywhere except few fifteen fifty fill find fire first five for former formerly forty found four from front \
    full further get give go had has hasnt have he hence her here hereafter hereby herein hereupon hers herself \
    him himself his how however hundred i ie if in inc indeed interest into is it its itself keep last latter \
    latterly least less ltd made many may me meanwhile might mill mine more moreover most mostly move much must my \
    myself name namely neither never nevertheless next nine no nobody none noone nor not nothing now nowhere of \
    off often on once one only onto or other others otherwise our ours ourselves out over own part per perhaps \
    please put rather re same see seem seemed seeming seems serious several she should show side since sincere six \
    sixty so some somehow someone something sometime sometimes somewhere still such system take ten than that the \
    their them themselves then thence there thereafter thereby therefore therein thereupon these they thick thin \
    third this those though three through throughout thru thus to together too top toward towards twelve twenty \
    two un under until up upon us very via was we well were what whatever when whence whenever where whereafter \
    whereas whereby wherein whereupon wherever whether which while whither who whoever whole whom whose why will \
    with within without would yet you your yours yourself yourselves";

static IS_STOP_WORD: LazyLock<FxHashSet<&str>> = LazyLock::new(|| STOP_WORDS.split(' ').collect());

/// Words and their numbers, in the order of the words, to make sums over them reproducible.
type WordWeights<'a> = Vec<(&'a str, f64)>;

/// Ranks `passages`, `(title, text)` each, by their similarity to `question`: pairs of position and cosine, best first.
///
/// Of equal similarities the later passage comes first, as in PromptRank's reversed `argsort`. Passages without any
/// similarity are kept. If no passage has a counted word, nothing can be fitted and the ranking is empty; but a
/// single passage is always returned, with any similarity. Titles are not read.
pub fn rank(question: &str, passages: &[(&str, &str)]) -> Vec<(usize, f64)> {
    let lower: Vec<String> = passages.iter().map(|(_, text)| lower_unaccented(text)).collect();
    let counts: Vec<WordWeights<'_>> = lower.iter().map(|text| word_counts(text)).collect();
    let mut frequencies: FxHashMap<&str, f64> = FxHashMap::default();
    for (word, _) in counts.iter().flatten() {
        *frequencies.entry(word).or_default() += 1.0;
    }
    if frequencies.is_empty() {
        return if passages.len() == 1 { vec![(0, 0.0)] } else { Vec::new() };
    }
    let n = passages.len() as f64;
    let mut idfs = frequencies;
    idfs.values_mut().for_each(|df| *df = ((1.0 + n) / (1.0 + *df)).ln() + 1.0);
    let question = lower_unaccented(question);
    let question: FxHashMap<&str, f64> = weight_vector(word_counts(&question), &idfs).into_iter().collect();
    let similarity = |counts: WordWeights<'_>| {
        weight_vector(counts, &idfs).into_iter().filter_map(|(word, w)| Some(w * question.get(word)?)).sum::<f64>()
    };
    let mut ranking: Vec<(usize, f64)> = counts.into_iter().map(similarity).enumerate().collect();
    // `+ 0.0`: an empty sum is -0.0, and a total order would put it after other zeros.
    ranking.iter_mut().for_each(|(_, score)| *score += 0.0);
    ranking.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    ranking
}

/// A text's vector of length 1, from its counts and from the words' inverse document frequencies.
fn weight_vector<'a>(mut counts: WordWeights<'a>, idfs: &FxHashMap<&str, f64>) -> WordWeights<'a> {
    counts.retain_mut(|(word, weight)| {
        let idf = idfs.get(word);
        *weight *= idf.unwrap_or(&0.0);
        idf.is_some()
    });
    let length = counts.iter().map(|(_, w)| w * w).sum::<f64>().sqrt();
    counts.iter_mut().for_each(|(_, weight)| *weight /= length);
    counts
}

/// The text in lower case and without accents.
fn lower_unaccented(text: &str) -> String {
    let mut lower = String::new();
    pytext::lower_into(text, &mut lower);
    if !lower.is_ascii() {
        lower = lower.nfkd().filter(|&c| canonical_combining_class(c) == 0).collect();
    }
    lower
}

/// The counts of the vectorizer's words in a lower-case text.
fn word_counts(lower: &str) -> WordWeights<'_> {
    let counted = |word: &&str| word.chars().nth(1).is_some() && !IS_STOP_WORD.contains(word);
    let mut all: Vec<&str> = pytext::words(lower).filter(counted).collect();
    all.sort_unstable();
    all.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarities_are_those_of_sklearn() {
        // scikit-learn 1.x, TfidfVectorizer(strip_accents="unicode", stop_words="english") and cosine_similarity.
        let texts = [
            "The Café Wars were a long conflict over coffee in São Paulo.",
            "São Paulo is the largest city of Brazil; coffee made it rich, coffee!",
            "A fox.",
            "Nothing in common here whatsoever",
            "A fox.",
        ];
        let passages: Vec<(&str, &str)> = texts.iter().map(|&text| ("", text)).collect();
        let ranking = rank("Which Brazil city became rich from cafe and coffee?", &passages);
        assert_eq!(ranking.iter().map(|r| r.0).collect::<Vec<_>>(), [1, 0, 4, 3, 2]);
        let wanted = [0.3137595751867096, 0.7094464755488731, 0.0, 0.0, 0.0];
        for (at, score) in ranking {
            assert!((score - wanted[at]).abs() < 1e-12, "{at}: {score}");
        }
    }

    #[test]
    fn nothing_to_fit_is_nothing_to_rank() {
        assert_eq!(rank("which fox", &[("Fox", "the and of"), ("", "a")]), []);
        assert_eq!(rank("which fox", &[("Fox", "the and of")]), [(0, 0.0)]);
        assert_eq!(rank("which fox", &[]), []);
    }

    #[test]
    fn there_are_318_stop_words() {
        assert_eq!(STOP_WORDS.split(' ').count(), 318);
    }
}
