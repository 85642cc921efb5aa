//! The versions of a run's measures: those of their definitions, and for measures of a judge's words the judge, too.

use crate::run::open::OpenRun;

/// The versions of all measures of a run.
pub(super) struct MeasureVersions {
    /// By measure, in the set's order: the definition's version, and whether the judge is part of the measure's.
    measures: Vec<(String, bool)>,
    /// By configuration: the judge, if the configuration is one.
    judges: Vec<Option<String>>,
}

impl MeasureVersions {
    /// The versions, with `prefix` before each.
    pub(super) fn new(run: &OpenRun, prefix: &str) -> Self {
        let set = run.evaluator.measure_set();
        let definitions = set.versions().map(|version| format!("{prefix}{version}"));
        Self {
            measures: definitions.zip(set.of_judges()).collect(),
            judges: (0..run.resolved.configurations.len()).map(|at| run.judge_version(at)).collect(),
        }
    }

    /// The version of a measure under a configuration.
    pub(super) fn version(&self, configuration: usize, measure: usize) -> String {
        let (definition, of_judges) = &self.measures[measure];
        match self.judges[configuration].as_ref().filter(|_| *of_judges) {
            Some(judge) => format!("{definition} {judge}"),
            None => definition.clone(),
        }
    }
}
