//! Decides a race: who goes on after a rung.
//!
//! ```text
//!   standing candidates, over the rung's questions --> means, ranked --> the cut: the last of the share that goes on
//!   behind the cut: closer than `margin` standard errors of the paired difference? --> goes on, else is stopped
//! ```
//!
//! A decision is a function of the rung's committed values alone, so it is the same for any number of workers and
//! after any interruption. Equal means are ranked in the candidates' order. A candidate with the same value as the
//! one at the cut on every question is stopped: the earlier of two equals would be chosen anyway.
//!
//! The comparison is paired, since all candidates answer the same questions: hard questions are hard for all of them.
//! It spares a candidate only near the cut, so that a race keeps its price. No test of significance stands there: over
//! few questions it would tell apart hardly any two candidates, and nobody would be stopped.

use crate::choices::selection::{RaceRecord, RungRecord, StoppedCandidate};
use crate::job::race::RaceSettings;
use std::collections::VecDeque;

/// A race under way.
#[derive(Clone, Debug)]
pub(super) struct CandidateRace {
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
pub(super) struct RungFigures {
    /// The measure over the rung's questions.
    pub(super) mean: Option<f64>,
    /// Its standard error.
    pub(super) stderr: Option<f64>,
    /// Number of questions with a defined measure.
    pub(super) n: u64,
    /// The measure of each question.
    pub(super) values: Vec<Option<f64>>,
}

impl CandidateRace {
    /// A race of so many candidates over a sample.
    pub(super) fn new(settings: &RaceSettings, candidates: usize, sample: u64) -> Self {
        Self {
            rungs: settings.rung_questions(sample).into(),
            settings: settings.clone(),
            standing: (0..candidates).collect(),
            stopped: Vec::new(),
            record: RaceRecord::default(),
        }
    }

    /// Numbers of the candidates that stand, in order.
    pub(super) fn standing(&self) -> &[usize] {
        &self.standing
    }

    /// Questions of the next rung; `None` when the whole sample comes next.
    pub(super) fn next_rung(&self) -> Option<u64> {
        self.rungs.front().copied().filter(|_| self.settings.kept_by_rank(self.standing.len()) < self.standing.len())
    }

    /// The rungs decided so far.
    pub(super) fn record(&self) -> &RaceRecord {
        &self.record
    }

    /// The stopped candidates: the last rung's first, and of a rung the best first.
    pub(super) fn stopped(&self) -> impl Iterator<Item = &(usize, StoppedCandidate)> {
        self.stopped.iter().rev()
    }

    /// Stops candidates after the next rung, whose figures are those of the standing candidates in their order.
    ///
    /// # Panics
    /// If no rung is to come.
    pub(super) fn decide_rung(&mut self, figures: &[RungFigures]) -> &RungRecord {
        let questions = self.rungs.pop_front().expect("a rung to decide; this is a bug");
        assert_eq!(figures.len(), self.standing.len(), "figures of the standing candidates; this is a bug");
        let order = ranked_order(figures);
        let ranked = self.settings.kept_by_rank(order.len());
        let (ahead, behind) = order.split_at(ranked);
        let cut = &figures[*ahead.last().expect("a race keeps at least one candidate; this is a bug")];
        let mut stopped = Vec::new();
        for &at in behind {
            if let Some(end) = self.stop_candidate(&figures[at], cut, questions) {
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

    /// The end of a candidate behind the cut; `None` if it goes on.
    fn stop_candidate(&self, own: &RungFigures, cut: &RungFigures, questions: u64) -> Option<StoppedCandidate> {
        let (difference, difference_stderr) = paired_difference(&own.values, &cut.values)?;
        let is_close = -difference < self.settings.margin * difference_stderr;
        let stopped = StoppedCandidate {
            questions,
            mean: own.mean,
            stderr: own.stderr,
            n: own.n,
            cut: cut.mean?,
            difference,
            difference_stderr,
        };
        (!is_close).then_some(stopped)
    }
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
    fn a_candidate_close_behind_the_cut_is_spared() {
        let race =
            |margin: &str| CandidateRace::new(&settings(&format!("first = 8\nleast = 1\nmargin = {margin}")), 3, 99);
        // Against the first: one question lost and none won, and five lost.
        let found = [0b11_1111, 0b1_1111, 0b1].map(right_on);
        // The difference of the second is -1/8 with a standard error of 1/8, that of the third -5/8 with .183.
        for (margin, standing) in [("0.9", &[0][..]), ("1.1", &[0, 1][..]), ("3.5", &[0, 1, 2][..])] {
            let mut race = race(margin);
            let rung = race.decide_rung(&found).clone();
            assert_eq!(race.standing(), standing, "{margin}");
            assert_eq!((rung.ranked, rung.spared), (1, standing.len() as u64 - 1));
        }
        // Equal on every question: no error, and the earlier one is kept.
        let mut equals = race("9.0");
        equals.decide_rung(&[0b11, 0b11, 0b1100].map(right_on));
        assert_eq!(equals.standing(), [0, 2]);
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
