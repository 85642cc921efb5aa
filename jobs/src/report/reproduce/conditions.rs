//! The conditions of a run's figures, and their comparison with those of a published one, field by field.
//!
//! | condition | of the paper | of the run |
//! | --- | --- | --- |
//! | configuration, measure, rules of answers | the columns `configuration`, `own_measure` | its figures |
//! | split | dataset and split | the public file with the SHA-256 of its questions' file |
//! | questions, choice of questions | `questions`, `sample` | questions of the mean |
//! | corpus, links | `passages`, `links` | its record |
//! | model of a role | `models` | the settings of its services |
//! | prompts | `prompts` | the digest of the method's wording |
//! | failures | none | the share of outcomes that are not ok |
//! | rule | `differs` | none |

use super::error::ReproduceError;
use super::figure::FoundFigure;
use super::published::{NOT_APPLICABLE, PublishedFigure};
use crate::run::make::dataset_digest;
use crate::run::open::OpenRun;
use hopeval_public_files::{PublicFiles, file_sha256};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A condition that is not known to be equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundCondition {
    /// The condition.
    pub condition: String,
    /// The finding.
    #[serde(flatten)]
    pub finding: ConditionFinding,
}

/// Why a condition is not known to be equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum ConditionFinding {
    /// It differs.
    Differs {
        /// In the paper.
        paper: String,
        /// In the run.
        run: String,
    },
    /// The paper does not state it.
    UnknownInPaper {
        /// In the run.
        run: String,
    },
    /// The run does not show it.
    UnknownInRun {
        /// In the paper.
        paper: String,
        /// Why not.
        reason: String,
    },
    /// No run has it.
    Impossible {
        /// Why not.
        reason: String,
    },
}

impl fmt::Display for FoundCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let condition = &self.condition;
        match &self.finding {
            ConditionFinding::Differs { paper, run } => {
                write!(f, "{condition}: {paper} in the paper, {run} in the run")
            }
            ConditionFinding::UnknownInPaper { run } => {
                write!(f, "{condition} unknown: the paper does not state it; {run} in the run")
            }
            ConditionFinding::UnknownInRun { paper, reason } => {
                write!(f, "{condition} unknown: {paper} in the paper; {reason}")
            }
            ConditionFinding::Impossible { reason } => write!(f, "{condition}: {reason}"),
        }
    }
}

/// The conditions of all figures of a run.
pub(super) struct RunConditions {
    /// Dataset and split of its questions; an error says why they are not known.
    split: Result<(String, String), String>,
    passages: u64,
    links: String,
}

/// The findings of one figure, in order.
#[derive(Default)]
struct ConditionList(Vec<FoundCondition>);

impl ConditionList {
    fn push(&mut self, condition: impl Into<String>, finding: ConditionFinding) {
        self.0.push(FoundCondition { condition: condition.into(), finding });
    }

    /// Compares a cell of the published figure with the run's value.
    fn compare(&mut self, condition: &str, paper: &str, run: &str) {
        match paper {
            NOT_APPLICABLE => {}
            "" => self.push(condition, ConditionFinding::UnknownInPaper { run: run.to_owned() }),
            paper if paper == run => {}
            paper => {
                self.push(condition, ConditionFinding::Differs { paper: paper.to_owned(), run: run.to_owned() });
            }
        }
    }
}

impl RunConditions {
    /// Reads the run's record, and the files of its questions for their split.
    pub(super) fn read(run: &OpenRun, files: &PublicFiles) -> Result<Self, ReproduceError> {
        let (passages, links) = (run.resolved.passages, run.resolved.links.clone());
        Ok(Self { split: find_split(run, files)?, passages, links })
    }

    /// The conditions that are not known to be equal; none for a figure that compares.
    pub(super) fn compare(
        &self,
        run: &OpenRun,
        published: &PublishedFigure,
        found: Option<&FoundFigure>,
    ) -> Vec<FoundCondition> {
        let mut list = ConditionList::default();
        compare_names(&mut list, published, found);
        if let Some(paper) = published.own_profile() {
            list.compare("rules of answers", paper, run.evaluator.measure_set().profile().name());
        }
        self.compare_split(&mut list, published);
        if let Some(found) = found {
            let paper = published.questions.map_or_else(String::new, |questions| questions.to_string());
            list.compare("questions", &paper, &found.questions.to_string());
        }
        compare_sample(&mut list, published, run);
        list.compare("passages of the corpus", &published.passages, &self.passages.to_string());
        list.compare("links", &published.links, &self.links);
        if let Some(found) = found {
            compare_models(&mut list, published, &model_names(run, found.configuration));
            compare_prompts(&mut list, published, &prompt_name(run, found.configuration));
            if let Some(coverage) = found.coverage.filter(|&coverage| coverage < 1.0) {
                let run = format!("{:.1} % of the questions", (1.0 - coverage) * 100.0);
                list.push("failures", ConditionFinding::Differs { paper: "none".to_owned(), run });
            }
        }
        if !published.differs.is_empty() {
            list.push("rule", ConditionFinding::Impossible { reason: published.differs.clone() });
        }
        list.0
    }

    fn compare_split(&self, list: &mut ConditionList, published: &PublishedFigure) {
        let named = |dataset: &str, split: &str| format!("{dataset}, {split}");
        let paper = match published.split.as_str() {
            "" => String::new(),
            split => named(&published.dataset, split),
        };
        match &self.split {
            Ok((dataset, split)) => list.compare("split", &paper, &named(dataset, split)),
            Err(reason) if paper.is_empty() => {
                list.push("split", ConditionFinding::UnknownInPaper { run: format!("not told ({reason})") });
            }
            Err(reason) => {
                list.push("split", ConditionFinding::UnknownInRun { paper, reason: reason.clone() });
            }
        }
    }
}

/// Whether the run has the configuration and the measure.
fn compare_names(list: &mut ConditionList, published: &PublishedFigure, found: Option<&FoundFigure>) {
    if published.configuration.is_empty() {
        let reason = format!("the job has none for `{}`", published.system);
        list.push("configuration", ConditionFinding::Impossible { reason });
    } else if found.is_none() {
        let (paper, reason) = (published.system.clone(), format!("the run has no `{}`", published.configuration));
        list.push("configuration", ConditionFinding::UnknownInRun { paper, reason });
    }
    if published.own_measure.is_empty() {
        let reason = format!("hopeval has none for `{}`", published.measure);
        list.push("measure", ConditionFinding::Impossible { reason });
    } else if let Some(found) = found {
        if found.value.is_none() {
            let reason = format!("the run has no value of `{}`", published.own_name());
            list.push("measure", ConditionFinding::UnknownInRun { paper: published.measure.clone(), reason });
        }
        if let Some(ranked) = found.ranked {
            let run = format!("{ranked} passages ranked, fewer than its cut-off");
            list.push("measure", ConditionFinding::Differs { paper: published.measure.clone(), run });
        }
    }
}

/// Whether the evaluated questions are the same ones. All questions of a split are; drawn ones cannot be known.
fn compare_sample(list: &mut ConditionList, published: &PublishedFigure, run: &OpenRun) {
    let dataset = &run.resolved.job.dataset;
    let drawn = dataset.draw.is_some() || dataset.only.is_some();
    let own = match (&dataset.draw, &dataset.only) {
        (_, Some(_)) => "those that a file names",
        (Some(_), None) => "a draw",
        (None, None) => "the first questions of the file, or all",
    };
    match published.sample.as_str() {
        // Their number says the rest.
        "all" if !drawn => {}
        "all" => {
            let paper = "all of the split".to_owned();
            list.push("choice of questions", ConditionFinding::Differs { paper, run: own.to_owned() });
        }
        "drawn" => {
            let (paper, reason) = ("drawn ones".to_owned(), "which ones, the paper does not say".to_owned());
            list.push("choice of questions", ConditionFinding::UnknownInRun { paper, reason });
        }
        _ => list.push("choice of questions", ConditionFinding::UnknownInPaper { run: own.to_owned() }),
    }
}

/// Compares the models, role by role.
fn compare_models(list: &mut ConditionList, published: &PublishedFigure, own: &BTreeMap<String, String>) {
    let shown = |models: &BTreeMap<String, String>| {
        let named: Vec<String> = models.iter().map(|(role, model)| format!("{role}={model}")).collect();
        if named.is_empty() { "none".to_owned() } else { named.join("; ") }
    };
    if published.models.is_empty() {
        list.push("models", ConditionFinding::UnknownInPaper { run: shown(own) });
        return;
    }
    let roles = published.models.split("; ").filter_map(|role| role.split_once('='));
    let paper: BTreeMap<String, String> = roles.map(|(role, model)| (role.to_owned(), model.to_owned())).collect();
    let all: BTreeSet<&String> = paper.keys().chain(own.keys()).collect();
    for role in all {
        let (theirs, ours) = (paper.get(role), own.get(role));
        if theirs == ours {
            continue;
        }
        let name = |model: Option<&String>| model.cloned().unwrap_or_else(|| "none".to_owned());
        let condition = format!("model ({role})");
        match ours.filter(|model| std::path::Path::new(model).is_absolute()) {
            Some(folder) if theirs.is_some() => {
                let reason = format!("the run's is the folder {folder}, which may hold any model");
                list.push(condition, ConditionFinding::UnknownInRun { paper: name(theirs), reason });
            }
            _ => list.push(condition, ConditionFinding::Differs { paper: name(theirs), run: name(ours) }),
        }
    }
}

fn compare_prompts(list: &mut ConditionList, published: &PublishedFigure, own: &PromptName) {
    let run = own.to_string();
    match (published.prompts.as_str(), own) {
        (NOT_APPLICABLE, PromptName::None) => {}
        ("", _) => list.push("prompts", ConditionFinding::UnknownInPaper { run }),
        (digest, PromptName::Wording { digest: found, .. }) if found.starts_with(digest) => {}
        ("authors", _) => {
            list.push("prompts", ConditionFinding::Differs { paper: "the authors' own".to_owned(), run });
        }
        (NOT_APPLICABLE, _) => list.push("prompts", ConditionFinding::Differs { paper: "none".to_owned(), run }),
        (digest, _) => {
            list.push("prompts", ConditionFinding::Differs { paper: format!("those of digest {digest}"), run });
        }
    }
}

/// The prompts of a configuration.
enum PromptName {
    None,
    Wording { origin: String, digest: String },
}

impl fmt::Display for PromptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Wording { origin, digest } => write!(f, "those of {origin}, digest {}", &digest[..12]),
        }
    }
}

fn prompt_name(run: &OpenRun, configuration: usize) -> PromptName {
    match run.methods[configuration].wording() {
        None => PromptName::None,
        Some(wording) => PromptName::Wording {
            origin: wording.origin.into_owned(),
            digest: blake3::hash(wording.text.as_bytes()).to_hex().to_string(),
        },
    }
}

/// The models of a configuration, by the parameter that names their service. An index has its encoder's model.
fn model_names(run: &OpenRun, configuration: usize) -> BTreeMap<String, String> {
    let services = &run.resolved.job.service;
    let text = |name: &str, key: &str| -> Option<String> {
        let settings: Value = serde_json::to_value(services.get(name)?).ok()?;
        Some(settings.get(key)?.as_str()?.to_owned())
    };
    let model = |name: &str| text(name, "model").or_else(|| text(&text(name, "encoder")?, "model"));
    let uses = run.methods[configuration].service_uses();
    let named = uses.iter().filter_map(|used| Some((used.parameter.to_owned(), model(&used.service.to_string())?)));
    named.collect()
}

/// Dataset and split of a run's questions, by the digests of their files; the reason if that cannot be told.
fn find_split(run: &OpenRun, files: &PublicFiles) -> Result<Result<(String, String), String>, ReproduceError> {
    let dataset = &run.resolved.job.dataset;
    if dataset.world.is_some() {
        return Ok(Err("the questions are those of a generated world".to_owned()));
    }
    let paths = dataset.questions.paths();
    if let Some(missing) = paths.iter().chain(&dataset.only).find(|path| !path.is_file()) {
        return Ok(Err(format!("the file {} is not there any more", missing.display())));
    }
    if dataset_digest(&run.resolved.job)? != run.resolved.dataset_digest {
        return Ok(Err("the questions' files have changed since the run".to_owned()));
    }
    let mut found = BTreeSet::new();
    for path in paths {
        let digest = file_sha256(path, &mut |_| ())
            .map_err(|source| ReproduceError::Questions { path: path.clone(), source })?;
        let public =
            files.find_digest(&digest).and_then(|(_, file)| Some((file.dataset.clone()?, file.split.clone()?)));
        let Some(public) = public else {
            return Ok(Err(format!("{} is not a public file by its SHA-256 {}", path.display(), &digest[..12])));
        };
        found.insert(public);
    }
    let mut found = found.into_iter();
    Ok(match (found.next(), found.next()) {
        (Some(split), None) => Ok(split),
        _ => Err("the questions' files are of several splits, or there is none".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: ConditionList) -> Vec<String> {
        list.0.iter().map(ToString::to_string).collect()
    }

    fn published(models: &str, prompts: &str) -> PublishedFigure {
        let own = super::super::PublishedFigures::own().unwrap();
        PublishedFigure { models: models.to_owned(), prompts: prompts.to_owned(), ..own.rows()[0].clone() }
    }

    #[test]
    fn an_empty_cell_is_unknown_and_a_dash_does_not_apply() {
        let mut list = ConditionList::default();
        list.compare("links", "-", "none");
        list.compare("links", "hyperlinks", "hyperlinks");
        list.compare("links", "hyperlinks", "none");
        list.compare("passages", "", "7");
        assert_eq!(
            words(list),
            [
                "links: hyperlinks in the paper, none in the run",
                "passages unknown: the paper does not state it; 7 in the run"
            ]
        );
    }

    #[test]
    fn models_are_compared_by_role_and_a_folder_may_hold_any() {
        let compare = |paper: &str, own: &[(&str, &str)]| {
            let mut list = ConditionList::default();
            let own = own.iter().map(|(role, model)| ((*role).to_owned(), (*model).to_owned())).collect();
            compare_models(&mut list, &published(paper, "-"), &own);
            words(list)
        };
        assert_eq!(compare("scorer=a/b", &[("scorer", "a/b")]), Vec::<String>::new());
        assert_eq!(compare("-", &[]), Vec::<String>::new());
        assert_eq!(compare("-", &[("reader", "c")]), ["model (reader): none in the paper, c in the run"]);
        let found = compare("generator=g; scorer=a/b", &[("scorer", "/models/b")]);
        assert_eq!(found[0], "model (generator): g in the paper, none in the run");
        assert!(found[1].starts_with("model (scorer) unknown: a/b in the paper; the run's is the folder"), "{found:?}");
        assert!(compare("", &[])[0].starts_with("models unknown"));
    }

    #[test]
    fn prompts_are_compared_by_digest() {
        let own = PromptName::Wording { origin: "hopeval".to_owned(), digest: "0123456789abcdef".to_owned() };
        let compare = |paper: &str, own: &PromptName| {
            let mut list = ConditionList::default();
            compare_prompts(&mut list, &published("-", paper), own);
            words(list)
        };
        assert_eq!(compare("0123456789ab", &own), Vec::<String>::new());
        assert_eq!(compare("-", &PromptName::None), Vec::<String>::new());
        let differing = "prompts: the authors' own in the paper, those of hopeval, digest 0123456789ab in the run";
        assert_eq!(compare("authors", &own), [differing]);
        assert_eq!(compare("-", &own).len() + compare("ab", &own).len() + compare("", &own).len(), 3);
    }
}
