//! The versions of a run's measures: those of their definitions, and for measures of a judge's words the judge, too.

use crate::run::open::OpenRun;
use std::sync::Arc;

/// The versions of all measures of a run: by configuration, then by measure, in the set's order.
pub(super) struct MeasureVersions(Vec<Vec<Arc<str>>>);

impl MeasureVersions {
    /// The versions, with `prefix` before each.
    pub(super) fn new(run: &OpenRun, prefix: &str) -> Self {
        let set = run.evaluator.measure_set();
        let measures: Vec<(Arc<str>, bool)> =
            set.versions().map(|version| format!("{prefix}{version}").into()).zip(set.of_judges()).collect();
        let of_configuration = |at: usize| {
            // Given if the configuration is a judge.
            let judge = run.judge_version(at);
            let version = |(definition, of_judges): &(Arc<str>, bool)| match judge.as_ref().filter(|_| *of_judges) {
                Some(judge) => format!("{definition} {judge}").into(),
                None => Arc::clone(definition),
            };
            measures.iter().map(version).collect()
        };
        Self((0..run.resolved.configurations.len()).map(of_configuration).collect())
    }

    /// The versions of all measures under a configuration.
    pub(super) fn of_configuration(&self, configuration: usize) -> &[Arc<str>] {
        &self.0[configuration]
    }
}
