//! The job file: what is evaluated, on what, by which methods.
//!
//! A job is TOML; unknown keys are errors that list what is allowed. Paths resolve against the file, those of `--set`
//! against the working directory. Precedence: `--set`, then the file, then the defaults below; environment variables
//! name places and secrets only, never anything that can change a number.
//!
//! The run's record stores the same names as JSON, and the definition of a service is in its fingerprint. So a new setting of
//! a service has a default that is not written, or all answers of that kind are computed again: `tests/golden/services.txt`.

use crate::draw::Draw;
use crate::early;
use crate::error::JobError;
use crate::services::dense::DenseSettings;
use crate::services::links::ShuffledLinksSettings;
use crate::services::lm::LmSettings;
use crate::services::models;
use crate::tune::Tune;
use crate::worlds::WorldEntry;
use hopeval_corpus::{Duplicates, LinkSource};
use hopeval_datasets::Format;
use hopeval_index::{Bm25Parameters, TfidfParameters};
use hopeval_measures::Settings as MeasureSettings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A job, as its file says it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name, in tables and listings.
    pub name: String,
    /// What stands above its tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The questions.
    pub dataset: Dataset,
    /// The passages.
    #[serde(default)]
    pub corpus: Corpus,
    /// Retrievers, models and endpoints, by the name that methods use.
    #[serde(default)]
    pub service: BTreeMap<String, Service>,
    /// Methods, by the name that their configurations carry.
    pub method: BTreeMap<String, MethodEntry>,
    /// What is measured.
    #[serde(default)]
    pub measures: MeasureSettings,
    /// What is chosen before, on questions that are not evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<Tune>,
    /// How it is run; nothing here can change a number.
    #[serde(default)]
    pub run: RunSettings,
}

/// The questions of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// The files' format; told from the first file when left out.
    pub format: Option<Format>,
    /// One file or several, in this order. Left out for a generated world.
    #[serde(default)]
    pub questions: OneOrMany,
    /// A generated world instead of files.
    #[serde(default)]
    pub world: Option<WorldEntry>,
    /// What makes a passage gold.
    pub gold: Option<GoldBy>,
    /// The first so many questions only.
    pub limit: Option<u64>,
    /// Questions drawn at random, or all but those, instead of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<Draw>,
}

/// What makes a passage of the corpus equal to a gold passage of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GoldBy {
    /// The same id.
    #[serde(rename = "id")]
    Id,
    /// The same title; several passages may have it, and any of them is the gold one.
    #[serde(rename = "title")]
    Title,
    /// The same title and text.
    #[serde(rename = "title+text")]
    TitleAndText,
}

/// The passages of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// Files or folders to build from, `contexts` for the questions' own candidates, or the folder of a built corpus.
    /// Left out for the passages of a generated world.
    #[serde(default)]
    pub source: OneOrMany,
    /// What happens to passages that occur twice.
    #[serde(default)]
    pub duplicates: Duplicates,
    /// Where links come from.
    #[serde(default)]
    pub links: LinkSource,
}

/// One path or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(PathBuf),
    /// Several, in order.
    Many(Vec<PathBuf>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    /// The paths, in order.
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Many(paths) => paths,
        }
    }

    pub(crate) fn resolve(&mut self, base: &Path) {
        let resolve = |path: &mut PathBuf| {
            if path.as_os_str() != CONTEXTS {
                *path = absolute(base, path);
            }
        };
        match self {
            Self::One(path) => resolve(path),
            Self::Many(paths) => paths.iter_mut().for_each(resolve),
        }
    }
}

/// The corpus source that means the questions' own candidates.
pub const CONTEXTS: &str = "contexts";

/// A service, by kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Service {
    /// BM25 over the corpus.
    Bm25(Bm25Parameters),
    /// DrQA's hashed TF-IDF over the corpus.
    Tfidf(TfidfParameters),
    /// TF-IDF fitted on just the passages that a request allows, as PromptRank ranks the links of a passage.
    LinkTfidf {},
    /// The corpus's links, each to another passage than it leads to: a control.
    ShuffledLinks(ShuffledLinksSettings),
    /// Exact inner products of vectors that a language model makes.
    Dense(DenseSettings),
    /// A language model: what it answers is what its checkpoint offers.
    Lm(LmSettings),
}

impl Service {
    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bm25(_) => "bm25",
            Self::Tfidf(_) => "tfidf",
            Self::LinkTfidf {} => "link_tfidf",
            Self::ShuffledLinks(_) => "shuffled_links",
            Self::Dense(_) => "dense",
            Self::Lm(_) => "lm",
        }
    }
}

/// A method with its parameters and its sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MethodEntry {
    /// Which method.
    pub kind: String,
    /// What it is a control of, in words; tables show controls apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// Parameters that each take several values; they multiply.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<serde_json::Value>>,
    /// Parameters whose values tell replicates apart: the first values of all make the first replicate, and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replicates: BTreeMap<String, Vec<serde_json::Value>>,
    /// The other parameters; the method itself judges them.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, serde_json::Value>,
}

/// How a job is run. Nothing here can change a number.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Questions in flight on each worker; by the number of configurations when left out, since each question has a
    /// machine under each of them.
    pub in_flight: Option<usize>,
    /// Questions that share a timestamp and a commit; by the size of the dataset when left out.
    pub chunk: Option<u64>,
    /// Most requests that a retriever takes in one batch.
    pub batch: usize,
    /// Share of failed outcomes up to which the run counts as done without reservation.
    pub allowed_failed: f64,
    /// What it is timed for.
    pub mode: Mode,
    /// Price of an hour of a device, in whatever currency; money is not known without it.
    pub price_per_device_hour: Option<f64>,
    /// Temperatures that scores are kept at beside those that methods name, so that a later run finds them in the journal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub temperatures: Vec<f64>,
}

/// What a run is timed for: the same figures, in another time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// All outcomes together, soon: many questions are in flight, and share batches, answers and the journal.
    #[default]
    Throughput,
    /// Each outcome as for a single user: one question is in flight in the whole run, under one configuration at a time,
    /// and everything is computed for it alone.
    Latency,
}

impl Mode {
    /// Its name in jobs and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Throughput, Self::Latency]
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| format!("`{name}`; allowed: throughput, latency"))
    }
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            in_flight: None,
            chunk: None,
            batch: 64,
            allowed_failed: 0.0,
            mode: Mode::default(),
            price_per_device_hour: None,
            temperatures: Vec::new(),
        }
    }
}

fn absolute(base: &Path, path: &Path) -> PathBuf {
    if path.is_absolute() { path.to_path_buf() } else { base.join(path) }
}

impl Job {
    /// Reads a job file and applies `KEY=VALUE` overrides.
    ///
    /// # Errors
    /// [`JobError`] that names the file, and line and key where they are known.
    pub fn load(path: &Path, sets: &[String]) -> Result<Self, JobError> {
        let text = std::fs::read_to_string(path).map_err(|source| JobError::Read { path: path.into(), source })?;
        Self::parse(&text, path, sets)
    }

    /// Reads the text of a job; `path` is what its own paths resolve against and what errors name.
    ///
    /// # Errors
    /// As [`Job::load`].
    pub fn parse(text: &str, path: &Path, sets: &[String]) -> Result<Self, JobError> {
        let syntax = |source: toml::de::Error| JobError::Syntax {
            path: path.into(),
            message: source.to_string().trim_end().to_owned(),
        };
        let mut document: toml::Table = text.parse().map_err(syntax)?;
        // Without overrides the text itself is read, because only then do errors know their line.
        let mut job: Job = if sets.is_empty() {
            toml::from_str(text).map_err(syntax)?
        } else {
            sets.iter().try_for_each(|set| apply(&mut document, set))?;
            document.try_into().map_err(|error: toml::de::Error| match toml::from_str::<Self>(text) {
                // The file itself is wrong, and knows where.
                Err(in_file) if in_file.message() == error.message() => syntax(in_file),
                _ => {
                    let message = error.to_string().trim_end().replace('\n', "; ");
                    JobError::Override { sets: sets.join(" --set "), message }
                }
            })?
        };
        // Made absolute first: a bare file name has the empty path as its parent, which cannot be.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let base = absolute.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        job.dataset.questions.resolve(&base);
        job.corpus.source.resolve(&base);
        for service in job.service.values_mut() {
            if let Service::Lm(settings) = service {
                settings.resolve(&base);
            }
        }
        if let Some(tune) = &mut job.tune {
            tune.questions.resolve(&base);
        }
        job.check(path)?;
        early::check(&job, path)?;
        job.dataset.draw = job.evaluated();
        Ok(job)
    }

    fn check(&self, path: &Path) -> Result<(), JobError> {
        let wrong = |key: &str, found: String, allowed: &'static str| {
            Err(JobError::Value { path: path.into(), key: key.into(), found, allowed })
        };
        if self.method.is_empty() {
            return wrong("method", "no method".into(), "at least one [method.NAME]");
        }
        match (&self.dataset.world, self.dataset.questions.paths()) {
            (None, []) => return wrong("dataset.questions", "nothing".into(), "a file, several, or [dataset.world]"),
            (Some(_), [_, ..]) => {
                return wrong("dataset", "both `questions` and `world`".into(), "one of `questions` and `world`");
            }
            _ => {}
        }
        if self.dataset.world.is_none() && self.corpus.source.paths().is_empty() {
            return wrong("corpus.source", "nothing".into(), "files, folders, \"contexts\" or a built corpus");
        }
        if let Some((key, found, allowed)) = self.dataset.world.as_ref().and_then(WorldEntry::wrong) {
            return wrong(&format!("dataset.world.{key}"), found, allowed);
        }
        if self.dataset.limit == Some(0) {
            return wrong("dataset.limit", "0".into(), "at least 1");
        }
        if self.dataset.draw.is_some_and(|draw| draw.questions == 0) {
            return wrong("dataset.draw.questions", "0".into(), "at least 1");
        }
        if let Some((key, found, allowed)) = self.tune.as_ref().and_then(|tune| tune.wrong(self)) {
            return wrong(&key, found, allowed);
        }
        for (name, method) in &self.method {
            for (parameter, values) in &method.sweep {
                let key = format!("method.{name}.sweep.{parameter}");
                if let Some(fixed) = method.parameters.get(parameter) {
                    let allowed = "a value in `method.NAME` or values in `method.NAME.sweep`, not both";
                    return wrong(&key, format!("swept, and {fixed} in `method.{name}`"), allowed);
                }
                if values.is_empty() {
                    return wrong(&key, "[]".into(), "at least one value");
                }
                // Configurations are named by their values, and names are unique.
                if let Some(twice) = values.iter().enumerate().find_map(|(i, v)| values[..i].contains(v).then_some(v)) {
                    return wrong(&key, format!("{twice} twice"), "values that each occur once");
                }
            }
            let mut lengths = method.replicates.iter().map(|(parameter, values)| (parameter, values.len()));
            if let Some((parameter, length)) = method.replicates.first_key_value().map(|(p, values)| (p, values.len()))
            {
                if length < 2 {
                    let key = format!("method.{name}.replicates.{parameter}");
                    return wrong(&key, format!("{length} values"), "at least two values, one for each replicate");
                }
                if let Some((other, found)) = lengths.find(|(_, found)| *found != length) {
                    let key = format!("method.{name}.replicates.{other}");
                    return wrong(
                        &key,
                        format!("{found} values"),
                        "as many values as the other parameters of [replicates]",
                    );
                }
                if let Some(parameter) =
                    method.replicates.keys().find(|parameter| method.sweep.contains_key(*parameter))
                {
                    let key = format!("method.{name}.replicates.{parameter}");
                    return wrong(&key, "a swept parameter".into(), "parameters that are not in [sweep]");
                }
            }
        }
        if self.run.chunk == Some(0) {
            return wrong("run.chunk", "0".into(), "at least 1");
        }
        for (key, number) in [("run.in_flight", self.run.in_flight), ("run.batch", Some(self.run.batch))] {
            if number == Some(0) {
                return wrong(key, "0".into(), "at least 1");
            }
        }
        if let Some(bad) = self.run.temperatures.iter().find(|t| !(t.is_finite() && **t > 0.0)) {
            return wrong("run.temperatures", bad.to_string(), "numbers above 0");
        }
        if !(0.0..=1.0).contains(&self.run.allowed_failed) {
            return wrong("run.allowed_failed", self.run.allowed_failed.to_string(), "a share between 0 and 1");
        }
        if let Some(price) = self.run.price_per_device_hour.filter(|price| !(price.is_finite() && *price >= 0.0)) {
            return wrong("run.price_per_device_hour", price.to_string(), "a number, at least 0");
        }
        for (name, service) in &self.service {
            if name == crate::services::CORPUS {
                return wrong(&format!("service.{name}"), name.clone(), "another name: `corpus` is the corpus itself");
            }
            let checked = match service {
                Service::Bm25(parameters) => parameters.check(),
                Service::Tfidf(parameters) => parameters.check(),
                Service::LinkTfidf {} | Service::ShuffledLinks(_) => Ok(()),
                Service::Dense(settings) => {
                    if !matches!(self.service.get(&settings.encoder), Some(Service::Lm(_))) {
                        let key = format!("service.{name}.encoder");
                        return wrong(&key, settings.encoder.clone(), "the name of a service of kind \"lm\"");
                    }
                    Ok(())
                }
                Service::Lm(settings) => {
                    if let Some((key, found, allowed)) = settings.wrong() {
                        return wrong(&format!("service.{name}.{key}"), found, allowed);
                    }
                    Ok(())
                }
            };
            checked.map_err(|source| JobError::Service { path: path.into(), name: name.clone(), source })?;
        }
        Ok(())
    }

    /// Which questions are evaluated: those that the dataset's table says, or all but the sample that choices are made on.
    fn evaluated(&self) -> Option<Draw> {
        match &self.tune {
            Some(tune) if tune.takes_own() => Some(Draw { rest: true, ..tune.draw() }),
            _ => self.dataset.draw,
        }
    }

    /// What makes a passage gold: the job's word, else the dataset's custom.
    pub fn gold_by(&self, format: Format) -> GoldBy {
        self.dataset.gold.unwrap_or(match format {
            Format::HotpotQa | Format::TwoWiki => GoldBy::Title,
            Format::Musique => GoldBy::TitleAndText,
            _ => GoldBy::Id,
        })
    }
}

/// Applies `a.b.c=VALUE`; the value is TOML, or a string where it does not parse as TOML.
fn apply(document: &mut toml::Table, set: &str) -> Result<(), JobError> {
    let malformed = |reason: &'static str| JobError::Set { set: set.into(), reason };
    let (key, value) = set.split_once('=').ok_or_else(|| malformed("expected KEY=VALUE"))?;
    let (key, value) = (key.trim(), value.trim());
    let parsed = format!("value = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let parsed = match parsed {
        parsed if names_paths(key) => against_working_directory(parsed),
        toml::Value::String(model) if names_model(key) => toml::Value::String(models::resolved(Path::new(""), model)),
        parsed => parsed,
    };
    let mut names: Vec<&str> = key.split('.').collect();
    let last = names.pop().filter(|name| !name.is_empty()).ok_or_else(|| malformed("expected KEY=VALUE"))?;
    let mut table = document;
    for name in names {
        let entry = table.entry(name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        table = entry.as_table_mut().ok_or_else(|| malformed("a key on the way is a value, not a table"))?;
    }
    table.insert(last.to_owned(), parsed);
    Ok(())
}

fn names_paths(key: &str) -> bool {
    matches!(key, "dataset.questions" | "corpus.source" | "tune.questions")
}

fn names_model(key: &str) -> bool {
    key.starts_with("service.") && key.ends_with(".model")
}

fn against_working_directory(value: toml::Value) -> toml::Value {
    match value {
        toml::Value::String(path) if path != CONTEXTS => {
            let path = std::path::absolute(&path).unwrap_or_else(|_| PathBuf::from(path));
            toml::Value::String(path.display().to_string())
        }
        toml::Value::Array(paths) => toml::Value::Array(paths.into_iter().map(against_working_directory).collect()),
        other => other,
    }
}
