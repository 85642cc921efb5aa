//! Compares configurations of several finished runs: what differs in their set-up, quality paired by question, and the
//! cost of a question.
//!
//! ```text
//!   RUN, RUN:CONFIGURATION ... --> ComparedSide (settings, log, tables: the run's own folder alone)
//!     base, other --> setup_differences | refusals --> quality (scores, paired) | costs (committed outcomes, paired)
//! ```
//!
//! Costs are *attributed*: an outcome's own work, as if nothing were shared. So it makes no difference whether a run's
//! answers came from the journal, from a neighbour in a batch, or from the model. Figures that mean nothing side by
//! side are refused, and the reason is said: see [`compare_runs`].

mod costs;
mod setup;
mod side;

pub use costs::{ComparedCost, CostMeasure};
pub use setup::SetupDifference;
pub use side::RunConfiguration;

use crate::error::JobError;
use crate::job::rankings;
use hopeval_measures::paired::{PairedDifference, adjust_families};
use hopeval_results::Store;
use hopeval_results::run::resolve_run;
use serde::Serialize;
use side::{ComparedSide, MeasureScores};

/// A side of a comparison, as it is named: `RUN` or `RUN:CONFIGURATION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedName {
    /// One of the names of a run, as `hopeval_results::run::find_run` reads them.
    pub run: String,
    /// The configuration; all of the run if it is left out.
    pub configuration: Option<String>,
}

impl ComparedName {
    /// Reads `RUN` or `RUN:CONFIGURATION`. A run's id has no colon.
    pub fn parse(name: &str) -> Self {
        match name.split_once(':') {
            None => Self { run: name.to_owned(), configuration: None },
            Some((run, configuration)) => Self { run: run.to_owned(), configuration: Some(configuration.to_owned()) },
        }
    }
}

/// Two configurations beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedPair {
    /// The configuration that the other one is compared with.
    pub against: RunConfiguration,
    /// The other one.
    pub compared: RunConfiguration,
    /// Questions that both runs have.
    pub questions: u64,
    /// Their share of the questions of `against`.
    pub share: f64,
    /// The differences in job, data, models, prompts and program.
    pub setup: Vec<SetupDifference>,
    /// Quality, by measure in the order of `against`.
    pub quality: Vec<QualityDifference>,
    /// Measures that are not compared: name and reason.
    pub measures_left_out: Vec<(String, String)>,
    /// The cost of a question.
    pub costs: Vec<ComparedCost>,
    /// The reason why costs are not compared.
    pub costs_left_out: Option<String>,
}

/// The difference of two configurations in a measure, over the questions where both have a value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QualityDifference {
    /// The measure.
    pub measure: String,
    /// Questions where both have a value; failed ones are included.
    pub n: u64,
    /// The mean of `against` over them. This and the following figures are `None` below two questions.
    pub against_mean: Option<f64>,
    /// The mean of the other.
    pub mean: Option<f64>,
    /// `mean` less `against_mean`.
    pub difference: Option<f64>,
    /// Lower end of its 95 % interval, of a bootstrap over questions.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Two-sided p value, of exchanging the two within questions.
    pub p: Option<f64>,
    /// `exact` if all exchanges are counted (McNemar's exact test), `drawn` if 10,000 of them are drawn.
    pub p_kind: Option<&'static str>,
    /// Two-sided p value of Student's paired t test, not adjusted; `None` if all differences are equal.
    pub p_t: Option<f64>,
    /// The same, adjusted by Holm over all pairs of this comparison in this measure.
    pub p_holm: Option<f64>,
    /// The most passages that an outcome of one of the two ranks, the smaller number, where the measure's cut-off is
    /// beyond: that one is not measured to the cut-off.
    pub ranked: Option<u32>,
}

/// Compares the first of `names` with each further one, in the `wanted` measures. Where no side names a configuration,
/// those that both runs have are compared name by name; where one does, it stands for both.
///
/// # Errors
/// Fewer than two names; an unknown or unfinished run; an unknown configuration; two sides that are the same. And sides
/// that no figure compares: of different context modes, over different corpora, with different gold of a question that
/// both have, or without any question that both have. A table cannot be read.
pub fn compare_runs(
    store: &Store,
    names: &[ComparedName],
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<ComparedPair>, JobError> {
    let [first, others @ ..] = names else { return Ok(Vec::new()) };
    let mut pairs = Vec::new();
    let base_run = resolve_run(store, &first.run)?;
    for other in others {
        let other_run = resolve_run(store, &other.run)?;
        let asked = [first.configuration.as_deref(), other.configuration.as_deref()];
        for (base, compared) in ComparedSide::open_pairs(store, [&base_run, &other_run], asked)? {
            pairs.push(compare_sides(&base, &compared, wanted)?);
        }
    }
    adjust_families(
        pairs.iter_mut().flat_map(|pair| &mut pair.quality),
        |found| found.measure.clone(),
        |found| found.p,
        |found, p| found.p_holm = Some(p),
    );
    Ok(pairs)
}

fn compare_sides(
    base: &ComparedSide,
    other: &ComparedSide,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<ComparedPair, JobError> {
    setup::refuse_different_contexts(base, other)?;
    let (own, theirs) = (base.read_scores()?, other.read_scores()?);
    let shared = setup::shared_questions(base, other, &own, &theirs)?;
    let (mut quality, mut left_out) = (Vec::new(), Vec::new());
    for (measure, base_scores) in own.measures.iter().filter(|(measure, _)| wanted(measure)) {
        match theirs.measures.get(measure) {
            None => left_out.push((measure.to_string(), format!("run {} has no such measure", other.run.id))),
            Some(scores) if scores.version != base_scores.version => {
                let reason = format!("version {} there, {} here", base_scores.version, scores.version);
                left_out.push((measure.to_string(), reason));
            }
            Some(scores) => {
                let ranked = base.short_ranking(measure).into_iter().chain(other.short_ranking(measure)).min();
                let found = quality_difference(measure, [base_scores, scores], &shared);
                quality.push(QualityDifference { ranked, ..found });
            }
        }
    }
    for measure in theirs.measures.keys().filter(|measure| wanted(measure) && !own.measures.contains_key(*measure)) {
        left_out.push((measure.to_string(), format!("run {} has no such measure", base.run.id)));
    }
    let brought = [base, other].into_iter().find(|side| side.configuration.method == rankings::KIND);
    let costs_left_out = brought.map(|side| {
        format!("{} is another system's: `hopeval costs` has what its file says, not measured", side.title())
    });
    let costs = if brought.is_some() { Vec::new() } else { costs::compare_costs(base, other, &shared)? };
    let share = shared.len() as f64 / own.questions.len().max(1) as f64;
    Ok(ComparedPair {
        against: base.name(),
        compared: other.name(),
        questions: shared.len() as u64,
        share,
        setup: setup::setup_differences(base, other),
        quality,
        measures_left_out: left_out,
        costs,
        costs_left_out,
    })
}

/// The figures of one measure; `shared` has the positions of each shared question in both runs.
fn quality_difference(measure: &str, scores: [&MeasureScores; 2], shared: &[(u64, u64)]) -> QualityDifference {
    let both = shared.iter().filter_map(|&(own, other)| Some((scores[0].value(own)?, scores[1].value(other)?)));
    let both: Vec<(f64, f64)> = both.collect();
    let differences: Vec<f64> = both.iter().map(|(own, other)| other - own).collect();
    let told = PairedDifference::of(&differences);
    let mean = |of: fn(&(f64, f64)) -> f64| told.map(|_| both.iter().map(of).sum::<f64>() / both.len() as f64);
    QualityDifference {
        measure: measure.to_owned(),
        n: both.len() as u64,
        against_mean: mean(|pair| pair.0),
        mean: mean(|pair| pair.1),
        difference: told.map(|told| told.mean),
        low: told.map(|told| told.low),
        high: told.map(|told| told.high),
        p: told.map(|told| told.p.value()),
        p_kind: told.map(|told| told.p.kind()),
        p_t: told.and_then(|told| told.t_test),
        p_holm: None,
        ranked: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_run_and_perhaps_a_configuration() {
        let of = |run: &str, configuration: Option<&str>| ComparedName {
            run: run.to_owned(),
            configuration: configuration.map(ToOwned::to_owned),
        };
        assert_eq!(ComparedName::parse("latest"), of("latest", None));
        assert_eq!(ComparedName::parse("0a:bm25 k1=0.9"), of("0a", Some("bm25 k1=0.9")));
        assert_eq!(ComparedName::parse("0a:sweep:x"), of("0a", Some("sweep:x")));
    }

    #[test]
    fn questions_are_paired_by_their_positions_in_both_runs() {
        let scores = |values: &[Option<f64>]| MeasureScores { version: "v".into(), values: values.to_vec() };
        let own = scores(&[Some(1.0), Some(0.0), None, Some(1.0)]);
        let other = scores(&[Some(0.0), Some(1.0), Some(1.0)]);
        let found = quality_difference("em", [&own, &other], &[(0, 2), (1, 1), (2, 0)]);
        assert_eq!((found.n, found.against_mean, found.mean, found.difference), (2, Some(0.5), Some(1.0), Some(0.5)));
        let found = quality_difference("em", [&own, &other], &[(3, 0)]);
        assert_eq!((found.n, found.difference, found.mean), (1, None, None));
    }
}
