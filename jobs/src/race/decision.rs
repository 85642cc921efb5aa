//! Decides a race: who goes on after a rung.
//!
//! ```text
//!   standing candidates, over the rung's questions --> means, ranked --> the cut: the last of the share that goes on
//!   behind the cut, best first: closer than `margin` standard errors of the paired difference, and a place left?
//!                                                                                     --> goes on, else is stopped
//! ```
//!
//! A decision is a function of the rung's committed values alone, so it is the same for any number of workers and
//! after any interruption. Equal means are ranked in the candidates' order. A candidate with the same value as the
//! one at the cut on every question is stopped: the earlier of two equals would be chosen anyway.
//!
//! The comparison is paired, since all candidates answer the same questions: hard questions are hard for all of them.
//! It spares a candidate that the questions cannot tell from the last one that goes on. The places for spared ones are
//! few, so that a race keeps its price: over few questions hardly any two candidates can be told apart, and a test of
//! significance alone would stop nobody.

use crate::job::race::RaceSettings;
use crate::job::race_record::{RaceRecord, RungRecord, StoppedCandidate};
use std::collections::VecDeque;

/// A race under way.
#[derive(Clone, Debug)]
pub(crate) struct CandidateRace {
    settings: RaceSettings,
    /// Questions of the rungs to come.
    rungs: VecDeque<u64>,
    /// Numbers of the candidates that stand, in order.
    standing: Vec<usize>,
    /// The stopped candidates.
    stopped: Vec<(usize, StoppedCandidate)>,
    record: RaceRecord,
}

/// The figures of a candidate in a rung.
#[derive(Clone, Debug)]
pub(crate) struct RungFigures {
    /// The measure over the rung's questions.
    pub(crate) mean: Option<f64>,
    /// Its standard error.
    pub(crate) stderr: Option<f64>,
    /// Number of questions with a defined measure.
    pub(crate) n: u64,
    /// The measure of each question.
    pub(crate) values: Vec<Option<f64>>,
}

impl CandidateRace {
    /// A race of so many candidates over a sample.
    pub(crate) fn new(settings: &RaceSettings, candidates: usize, sample: u64) -> Self {
        Self {
            rungs: settings.rung_questions(sample).into(),
            settings: settings.clone(),
            standing: (0..candidates).collect(),
            stopped: Vec::new(),
            record: RaceRecord::default(),
        }
    }

    /// Numbers of the candidates that stand, in order.
    pub(crate) fn standing(&self) -> &[usize] {
        &self.standing
    }

    /// Questions of the next rung; `None` when the whole sample comes next.
    pub(crate) fn next_rung(&self) -> Option<u64> {
        self.rungs.front().copied().filter(|_| self.settings.kept_by_rank(self.standing.len()) < self.standing.len())
    }

    /// The rungs decided so far.
    pub(crate) fn record(&self) -> &RaceRecord {
        &self.record
    }

    /// The stopped candidates: the last rung's first, and of a rung the best first.
    pub(crate) fn stopped(&self) -> impl Iterator<Item = &(usize, StoppedCandidate)> {
        self.stopped.iter().rev()
    }

    /// Stops candidates after the next rung, whose figures are those of the standing candidates in their order.
    ///
    /// # Panics
    /// If no rung is to come.
    pub(crate) fn decide_rung(&mut self, figures: &[RungFigures]) -> &RungRecord {
        let questions = self.rungs.pop_front().expect("a rung to decide; this is a bug");
        assert_eq!(figures.len(), self.standing.len(), "figures of the standing candidates; this is a bug");
        let order = ranked_order(figures);
        let ranked = self.settings.kept_by_rank(order.len());
        let (ahead, behind) = order.split_at(ranked);
        let cut = &figures[*ahead.last().expect("a race keeps at least one candidate; this is a bug")];
        let (mut stopped, mut places) = (Vec::new(), self.settings.spare_places(ranked));
        for &at in behind {
            // A candidate that cannot be compared goes on.
            let Some(end) = compare_with_cut(&figures[at], cut, questions) else { continue };
            if places > 0 && -end.difference < self.settings.margin * end.difference_stderr {
                places -= 1;
            } else {
                stopped.push((self.standing[at], end));
            }
        }
        self.record.rungs.push(RungRecord {
            questions,
            candidates: order.len() as u64,
            ranked: ranked as u64,
            spared: (behind.len() - stopped.len()) as u64,
            stopped: stopped.len() as u64,
            cut: cut.mean,
        });
        self.standing.retain(|number| stopped.iter().all(|(stopped, _)| stopped != number));
        // Worst first, so that the whole list read backwards has the last rung's best first.
        self.stopped.extend(stopped.into_iter().rev());
        self.record.rungs.last().expect("it was just added; this is a bug")
    }
}

/// The end of a candidate behind the cut, if it is stopped; `None` if it cannot be compared with the one at the cut.
fn compare_with_cut(own: &RungFigures, cut: &RungFigures, questions: u64) -> Option<StoppedCandidate> {
    let (difference, difference_stderr) = paired_difference(&own.values, &cut.values)?;
    let RungFigures { mean, stderr, n, .. } = *own;
    Some(StoppedCandidate { questions, mean, stderr, n, cut: cut.mean?, difference, difference_stderr })
}

/// The positions of figures, best first; equal ones, and those without a mean, in their order.
fn ranked_order(figures: &[RungFigures]) -> Vec<usize> {
    let mean = |at: usize| figures[at].mean.unwrap_or(f64::NEG_INFINITY);
    let mut order: Vec<usize> = (0..figures.len()).collect();
    order.sort_by(|&a, &b| mean(b).total_cmp(&mean(a)));
    order
}

/// The mean of `own` less `other` over the questions where both have a value, and its standard error. `None` below two
/// such questions.
fn paired_difference(own: &[Option<f64>], other: &[Option<f64>]) -> Option<(f64, f64)> {
    let differences: Vec<f64> = own.iter().zip(other).filter_map(|(own, other)| Some((*own)? - (*other)?)).collect();
    if differences.len() < 2 {
        return None;
    }
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let squares: f64 = differences.iter().map(|difference| (difference - mean) * (difference - mean)).sum();
    Some((mean, (squares / (n - 1.0) / n).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_measures::aggregate::{MeasureSummary, ValueRange};

    fn figures(values: &[Option<f64>]) -> RungFigures {
        let summary = MeasureSummary::of(values, values.iter().map(|_| true), ValueRange::Share);
        RungFigures { mean: summary.mean, stderr: summary.stderr, n: summary.n, values: values.to_vec() }
    }

    /// Right on the questions whose bit is set, of eight.
    fn right_on(bits: u8) -> RungFigures {
        figures(&(0..8).map(|at| Some(f64::from(bits >> at & 1))).collect::<Vec<_>>())
    }

    fn settings(text: &str) -> RaceSettings {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_share_goes_on_and_equals_stay_in_order() {
        let mut race = CandidateRace::new(&settings("first = 8\nfactor = 2\nleast = 1\nmargin = 0.0"), 6, 32);
        assert_eq!((race.next_rung(), race.standing()), (Some(8), &[0, 1, 2, 3, 4, 5][..]));
        // Means 2/8, 6/8, 4/8, 4/8, 4/8, 1/8: of the three with 4/8 the first two go on.
        let found = [0b11, 0b11_1111, 0b1111, 0b1111_0000, 0b11_1100, 0b1].map(right_on);
        let rung = race.decide_rung(&found).clone();
        let expected = RungRecord { questions: 8, candidates: 6, ranked: 3, spared: 0, stopped: 3, cut: Some(0.5) };
        assert_eq!((rung, race.standing()), (expected, &[1, 2, 3][..]));
        // Three stand: the next rung keeps two of them, the one after it one, and then the whole sample comes.
        assert_eq!(race.next_rung(), Some(16));
        race.decide_rung(&[0b1, 0b111, 0b11].map(right_on));
        assert_eq!((race.standing(), race.next_rung()), (&[2, 3][..], None));
        let stopped: Vec<(usize, u64, Option<f64>)> =
            race.stopped().map(|(number, end)| (*number, end.questions, end.mean)).collect();
        assert_eq!(
            stopped,
            [(1, 16, Some(0.125)), (4, 8, Some(0.5)), (0, 8, Some(0.25)), (5, 8, Some(0.125))],
            "the last rung's first, the best of a rung first"
        );
        let (_, end) = race.stopped().nth(2).unwrap();
        assert_eq!((end.cut, end.difference, end.n), (0.5, -0.25, 8));
    }

    #[test]
    fn candidates_close_behind_the_cut_are_spared_while_places_last() {
        let race = |margin: &str| {
            CandidateRace::new(&settings(&format!("first = 8\nfactor = 2\nleast = 2\nmargin = {margin}")), 5, 99)
        };
        // Means 7/8, 6/8, 5/8, 5/8, 1/8: three of five go on by their rank, and one place is left for the next.
        let found = [0b111_1111, 0b11_1111, 0b1_1111, 0b1111_1000, 0b1].map(right_on);
        // Against the third, the fourth has lost three questions and won three, so the error of its difference is .33.
        for (margin, standing) in [("0.0", &[0, 1, 2][..]), ("0.1", &[0, 1, 2, 3][..]), ("9.0", &[0, 1, 2, 3][..])] {
            let mut race = race(margin);
            let rung = race.decide_rung(&found).clone();
            assert_eq!(race.standing(), standing, "{margin}");
            assert_eq!((rung.ranked, rung.spared), (3, standing.len() as u64 - 3), "{margin}");
        }
        // The last has -4/8 with an error of .19: 3 of them are a wide margin.
        let last = [0b111_1111, 0b11_1111, 0b1_1111, 0b1_1111, 0b1].map(right_on);
        for (margin, standing) in [("2.6", &[0, 1, 2][..]), ("2.7", &[0, 1, 2, 4][..])] {
            let mut race = race(margin);
            race.decide_rung(&last);
            // The fourth equals the third on every question, so it is stopped: the earlier of the two would be chosen.
            assert_eq!(race.standing(), standing, "{margin}");
        }
    }

    #[test]
    fn what_cannot_be_compared_goes_on() {
        let none = figures(&[None; 8]);
        let one = figures(&[Some(0.0), None, None, None, None, None, None, None]);
        let mut race = CandidateRace::new(&settings("first = 8\nleast = 1\nmargin = 0.0"), 3, 99);
        race.decide_rung(&[right_on(0b1111), none.clone(), one]);
        assert_eq!(race.standing(), [0, 1, 2]);
        let mut undefined = CandidateRace::new(&settings("first = 8\nleast = 1"), 2, 99);
        let rung = undefined.decide_rung(&[none.clone(), none]).clone();
        assert_eq!((rung.cut, rung.spared, undefined.standing()), (None, 1, &[0, 1][..]));
    }
}
