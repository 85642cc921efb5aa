//! The job of judges: over the outcomes of a run, in place of a dataset.

use super::file::{CorpusEntry, DatasetEntry, Job, MethodEntry, RunSettings};
use crate::services::ServiceEntry;
use hopeval_measures::{Profile, Settings};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A file with judges alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JudgeFile {
    /// Left out, it is named after the judged run's job.
    #[serde(default)]
    name: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    service: BTreeMap<String, ServiceEntry>,
    judge: BTreeMap<String, MethodEntry>,
    #[serde(default)]
    run: RunSettings,
}

impl JudgeFile {
    /// A job without a dataset and without methods.
    pub(super) fn into_job(self) -> Job {
        let Self { name, title, service, judge, run } = self;
        // The questions of a run of judges come from the judged run.
        let (dataset, corpus) = (DatasetEntry::default(), CorpusEntry::default());
        let (method, measures) = (BTreeMap::new(), Settings::default());
        Job { name, title, dataset, corpus, service, method, judge, measures, tune: None, run }
    }
}

impl Job {
    /// The job of its judges over the outcomes of `judged`, whose answers are scored by `profile`. Services that no
    /// judge uses are left out; `used` names those that one uses.
    pub fn judging(&self, judged: &Job, profile: Profile, used: &BTreeSet<String>) -> Job {
        let is_same = self.name == judged.name;
        let name = if self.name.is_empty() || is_same { format!("{}, judged", judged.name) } else { self.name.clone() };
        let mut service = self.service.clone();
        service.retain(|name, _| self.needs_service(name, used));
        Job {
            name,
            title: self.title.clone().filter(|_| !is_same),
            dataset: DatasetEntry { format: judged.dataset.format, ..DatasetEntry::default() },
            corpus: CorpusEntry::default(),
            service,
            method: BTreeMap::new(),
            judge: self.judge.clone(),
            measures: Settings::of_judges(profile),
            tune: None,
            // An answer that failed fails here, too.
            run: RunSettings {
                allowed_failed: self.run.allowed_failed.max(judged.run.allowed_failed),
                ..self.run.clone()
            },
        }
    }

    /// Whether one of the services `used` is `name` or depends on it.
    fn needs_service(&self, name: &str, used: &BTreeSet<String>) -> bool {
        let needed = |used: &String| self.service.get(used)?.settings().needed_service();
        used.contains(name) || used.iter().any(|used| needed(used) == Some(name))
    }
}
