//! Clusters statements and finds the middle one of the largest clusters, for the votes of several draws.
//!
//! As in the authors' code, statements are TF-IDF vectors in the manner of scikit-learn (words of two and more letters
//! in small letters, smoothed document frequencies, length 1), clustered by k-means: the partition of the least inertia
//! over several starts. The code's ten starts come from numpy's generator with seed 0 and may miss it. Here every set
//! of statements is a start; only where there are too many sets, ten starts are drawn with a fixed seed.
//!
//! Statements without a common word are equally far from each other, so ties are frequent. Distances and inertias that
//! differ by rounding alone are equal: the first start, center or statement counts, in whatever order sums are made.
//! Drawn starts are excepted: they weigh statements by their distances as they are.

use hopeval_pytext::{lower_into, words};
use std::collections::BTreeMap;

const DRAWN_STARTS: u64 = 10;
/// The most sets of statements that are all tried: three clusters of 23 statements have 1,771.
const MOST_SETS: usize = 2000;
const MOST_PASSES: usize = 300;

/// The positions of the middle statements of the `kept` largest of `clusters` clusters, the largest first. A cluster of
/// one statement counts if it is the largest alone. All statements if there are no more than clusters.
pub(super) fn middle_statements(statements: &[&str], clusters: usize, kept: usize) -> Vec<usize> {
    if statements.len() <= clusters {
        return (0..statements.len()).collect();
    }
    let vectors = tfidf_vectors(statements);
    let starts: Vec<Vec<Vec<f64>>> = match all_sets(vectors.len(), clusters) {
        Some(sets) => sets.iter().map(|set| set.iter().map(|&at| vectors[at].clone()).collect()).collect(),
        None => (0..DRAWN_STARTS).map(|seed| drawn_centers(&vectors, clusters, seed)).collect(),
    };
    let partitions = starts.into_iter().map(|centers| cluster_vectors(&vectors, centers));
    let best = partitions.min_by(|a, b| rounded(a.inertia).total_cmp(&rounded(b.inertia)));
    best.map(|best| best.middle_members(&vectors, kept)).unwrap_or_default()
}

/// All sets of `size` of the numbers below `count`, in order; `None` if they are more than [`MOST_SETS`].
fn all_sets(count: usize, size: usize) -> Option<Vec<Vec<usize>>> {
    let mut sets = vec![vec![]];
    for chosen in 0..size {
        // A set needs room for the numbers that are still to be chosen.
        let longer = |set: &Vec<usize>| {
            let (next, set) = (set.last().map_or(0, |last| last + 1), set.clone());
            (next..=count - (size - chosen)).map(move |number| [set.as_slice(), &[number]].concat())
        };
        sets = sets.iter().flat_map(longer).take(MOST_SETS + 1).collect();
        if sets.len() > MOST_SETS {
            return None;
        }
    }
    Some(sets)
}

/// A partition of vectors.
struct VectorPartition {
    centers: Vec<Vec<f64>>,
    /// The center of each vector.
    members: Vec<usize>,
    /// The sum of squared distances to the centers.
    inertia: f64,
}

impl VectorPartition {
    fn middle_members(&self, vectors: &[Vec<f64>], kept: usize) -> Vec<usize> {
        let members = |center: usize| self.members.iter().enumerate().filter(move |&(_, &of)| of == center);
        let mut sizes: Vec<(usize, usize)> = (0..self.centers.len()).map(|at| (members(at).count(), at)).collect();
        // The largest first; of equal ones that with the first statement.
        let first = |center: usize| members(center).next().map_or(usize::MAX, |(at, _)| at);
        sizes.sort_by_key(|&(size, center)| (std::cmp::Reverse(size), first(center)));
        let counted = sizes.iter().enumerate().filter(|&(rank, &(size, _))| size > 1 || (rank == 0 && size == 1));
        let centers = counted.take(kept).map(|(_, &(_, center))| center);
        let middle = |center: usize| {
            let distance = |at: usize| rounded(squared_distance(&vectors[at], &self.centers[center]));
            members(center).map(|(at, _)| at).min_by(|&a, &b| distance(a).total_cmp(&distance(b)))
        };
        centers.filter_map(middle).collect()
    }
}

/// A distance or an inertia as it is compared: to nine decimals.
fn rounded(number: f64) -> f64 {
    (number * 1e9).round()
}

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// TF-IDF vectors of length 1 over the words of all statements.
fn tfidf_vectors(statements: &[&str]) -> Vec<Vec<f64>> {
    let mut vocabulary: BTreeMap<String, usize> = BTreeMap::new();
    let counted: Vec<BTreeMap<String, u32>> = statements
        .iter()
        .map(|statement| {
            let mut lower = String::new();
            lower_into(statement, &mut lower);
            let mut counts = BTreeMap::new();
            for word in words(&lower).filter(|word| word.chars().nth(1).is_some()) {
                *counts.entry(word.to_owned()).or_default() += 1;
            }
            counts
        })
        .collect();
    for word in counted.iter().flat_map(BTreeMap::keys) {
        let next = vocabulary.len();
        vocabulary.entry(word.clone()).or_insert(next);
    }
    let total = statements.len() as f64;
    let weight = |word: &str| {
        let holding = counted.iter().filter(|counts| counts.contains_key(word)).count() as f64;
        ((1.0 + total) / (1.0 + holding)).ln() + 1.0
    };
    let weights: BTreeMap<&str, f64> = vocabulary.keys().map(|word| (word.as_str(), weight(word))).collect();
    let vector = |counts: &BTreeMap<String, u32>| {
        let mut vector = vec![0.0; vocabulary.len()];
        for (word, &count) in counts {
            vector[vocabulary[word]] = f64::from(count) * weights[word.as_str()];
        }
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x /= length);
        }
        vector
    };
    counted.iter().map(vector).collect()
}

/// k-means from these centers, until nothing moves.
fn cluster_vectors(vectors: &[Vec<f64>], mut centers: Vec<Vec<f64>>) -> VectorPartition {
    let mut members = nearest_centers(vectors, &centers);
    for _ in 0..MOST_PASSES {
        for (center, place) in centers.iter_mut().enumerate() {
            let own: Vec<&Vec<f64>> =
                vectors.iter().zip(&members).filter(|&(_, &of)| of == center).map(|(v, _)| v).collect();
            if !own.is_empty() {
                let mean = |at: usize| own.iter().map(|vector| vector[at]).sum::<f64>() / own.len() as f64;
                *place = (0..place.len()).map(mean).collect();
            }
        }
        let next = nearest_centers(vectors, &centers);
        if next == members {
            break;
        }
        members = next;
    }
    let inertia = vectors.iter().zip(&members).map(|(vector, &of)| squared_distance(vector, &centers[of])).sum();
    VectorPartition { centers, members, inertia }
}

fn nearest_centers(vectors: &[Vec<f64>], centers: &[Vec<f64>]) -> Vec<usize> {
    let nearest = |vector: &Vec<f64>| {
        let distance = |at: &usize| rounded(squared_distance(vector, &centers[*at]));
        (0..centers.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or_default()
    };
    vectors.iter().map(nearest).collect()
}

/// Centers that lie apart (k-means++).
fn drawn_centers(vectors: &[Vec<f64>], clusters: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut draws = SplitMix(seed);
    let first = (draws.next_share() * vectors.len() as f64) as usize;
    let mut centers = vec![vectors[first.min(vectors.len() - 1)].clone()];
    while centers.len() < clusters {
        let nearest = |vector: &Vec<f64>| {
            centers.iter().map(|center| squared_distance(vector, center)).fold(f64::INFINITY, f64::min)
        };
        let weights: Vec<f64> = vectors.iter().map(nearest).collect();
        let mut left = draws.next_share() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        centers.push(vectors[chosen.unwrap_or_default()].clone());
    }
    centers
}

/// SplitMix64 (Steele et al., 2014).
struct SplitMix(u64);

impl SplitMix {
    /// A number from 0 to 1, without 1.
    fn next_share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_statements_of_the_largest_clusters_stay() {
        let statements = [
            "Levity was directed by Ed Solomon",
            "The weather is fine today",
            "Ed Solomon directed Levity",
            "Carl Boese died in 1958",
            "The film Levity was directed by Ed Solomon in 2003",
            "Boese, Carl, died in July 1958",
        ];
        assert_eq!(middle_statements(&statements, 3, 2), [0, 3]);
        assert_eq!(middle_statements(&statements, 3, 1), [0]);
        assert_eq!(middle_statements(&statements[..3], 3, 2), [0, 1, 2]);
    }

    #[test]
    fn equal_and_empty_statements_are_clustered_too() {
        assert_eq!(middle_statements(&["", "a", "", "!"], 3, 2), [0]);
        assert_eq!(middle_statements(&["same words"; 5], 3, 2), [0]);
    }

    /// The last statement has no word, so it is as far from each of the others. The first center has it.
    #[test]
    fn the_first_of_equally_near_centers_counts() {
        let [solomon, weather, born] =
            ["Ed Solomon directed Levity", "The weather is fine today", "She was born in Rome"];
        for statements in [[solomon, weather, born, "5"], [solomon, born, weather, "5"]] {
            assert_eq!(middle_statements(&statements, 3, 2), [0], "{statements:?}");
        }
    }

    #[test]
    fn all_sets_are_tried_where_they_are_few() {
        assert_eq!(all_sets(4, 3).unwrap(), [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]);
        assert_eq!((all_sets(23, 3).unwrap().len(), all_sets(24, 3)), (1771, None));
        assert_eq!(all_sets(3, 1).unwrap(), [[0], [1], [2]]);
        // Too many to try: starts are drawn, and equal statements still are one cluster.
        let many: Vec<String> = (0..40).map(|n| format!("{} word", ["first", "second", "third"][n % 3])).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(middle_statements(&many, 3, 3), [0, 1, 2]);
    }

    /// Vectors of scikit-learn 1.5's TfidfVectorizer, without its order of words.
    #[test]
    fn vectors_are_those_of_scikit_learn() {
        let vectors = tfidf_vectors(&["a film film", "the film"]);
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        close(vectors[0][0], 1.0);
        let (film, the) = (1.0, (3.0f64 / 2.0).ln() + 1.0);
        close(vectors[1][1], the / (film * film + the * the).sqrt());
    }
}
