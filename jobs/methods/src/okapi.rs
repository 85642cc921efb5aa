//! `BM25Okapi` of rank_bm25 0.2.2 over a few texts that are at hand, sum by sum: for methods that rank texts of their
//! own, such as paths, which no index has.
//!
//! `idf * (tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length)))`, summed over the query's tokens, with
//! `idf = ln(N - n + .5) - ln(n + .5)`. A negative idf is replaced by a quarter of the mean idf of all tokens, which
//! may be negative as well.

use std::collections::BTreeMap;

/// rank_bm25's default floor of negative idf values, as a share of the mean idf.
const EPSILON: f64 = 0.25;

/// The numbers of BM25's formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OkapiConstants {
    /// Saturation of a token's count.
    pub(crate) k1: f64,
    /// Weight of a text's length, from 0 to 1.
    pub(crate) b: f64,
}

/// The score of each text, in tokens, for a query, in tokens. Texts without any token score 0.
pub(crate) fn okapi_scores(constants: OkapiConstants, texts: &[&[String]], query: &[String]) -> Vec<f64> {
    let counts: Vec<TokenCounts<'_>> = texts.iter().map(|text| TokenCounts::new(text)).collect();
    let tokens: usize = texts.iter().map(|text| text.len()).sum();
    if tokens == 0 {
        return vec![0.0; texts.len()];
    }
    let (number, mean_length) = (texts.len() as f64, tokens as f64 / texts.len() as f64);
    let idfs = inverse_frequencies(number, &counts);
    let OkapiConstants { k1, b } = constants;
    let one = |(text, counts): (&&[String], &TokenCounts<'_>)| {
        let norm = k1 * (1.0 - b + b * text.len() as f64 / mean_length);
        query.iter().fold(0.0, |sum, token| {
            let count = counts.by_token.get(token.as_str()).copied().unwrap_or_default();
            let idf = idfs.get(token.as_str()).copied().unwrap_or_default();
            sum + idf * (count * (k1 + 1.0) / (count + norm))
        })
    };
    texts.iter().zip(&counts).map(one).collect()
}

/// The counts of a text's tokens.
struct TokenCounts<'a> {
    by_token: BTreeMap<&'a str, f64>,
    /// Each token once, in order of first occurrence.
    order: Vec<&'a str>,
}

impl<'a> TokenCounts<'a> {
    fn new(text: &'a [String]) -> Self {
        let (mut by_token, mut order) = (BTreeMap::new(), Vec::new());
        for token in text {
            *by_token.entry(token.as_str()).or_insert_with(|| {
                order.push(token.as_str());
                0.0
            }) += 1.0;
        }
        Self { by_token, order }
    }
}

/// The idf of each token of the texts. The mean is summed in the order of the tokens' first occurrence.
fn inverse_frequencies<'a>(number: f64, counts: &[TokenCounts<'a>]) -> BTreeMap<&'a str, f64> {
    let (mut texts_with, mut order) = (BTreeMap::new(), Vec::new());
    for &token in counts.iter().flat_map(|counts| &counts.order) {
        *texts_with.entry(token).or_insert_with(|| {
            order.push(token);
            0.0
        }) += 1.0;
    }
    let idf = |with: f64| (number - with + 0.5).ln() - (with + 0.5).ln();
    let sum = order.iter().fold(0.0, |sum, token| sum + idf(texts_with[token]));
    let floor = EPSILON * (sum / order.len() as f64);
    texts_with.values_mut().for_each(|with| *with = Some(idf(*with)).filter(|&idf| idf >= 0.0).unwrap_or(floor));
    texts_with
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(texts: &[&str], query: &str) -> Vec<f64> {
        let tokens = |text: &str| text.split(' ').filter(|token| !token.is_empty()).map(str::to_owned).collect();
        let texts: Vec<Vec<String>> = texts.iter().map(|text| tokens(text)).collect();
        let texts: Vec<&[String]> = texts.iter().map(Vec::as_slice).collect();
        okapi_scores(OkapiConstants { k1: 2.0, b: 0.75 }, &texts, &tokens(query))
    }

    fn check(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    /// Scores of rank_bm25 0.2.2.
    #[test]
    fn scores_are_those_of_rank_bm25() {
        check(
            &scores(
                &["the red fox", "the red red sea", "the blue whale swims far", "a grey stone"],
                "the red whale red ?",
            ),
            &[0.17117128492670775, 0.14908466751681, 0.8583017287039205, 0.0],
        );
        check(
            &scores(&["A the of x", "A the of y", "A the of z"], "the x A"),
            &[0.15205449244365998, -0.35877113132233074, -0.35877113132233074],
        );
        check(
            &scores(&["only one text", "", "another only"], "only text"),
            &[0.4104848762405283, 0.0, 0.0580483663370444],
        );
    }

    #[test]
    fn texts_without_tokens_score_nothing() {
        assert_eq!(scores(&["", ""], "a"), [0.0, 0.0]);
        assert_eq!(scores(&[], "a"), [0.0; 0]);
    }
}
