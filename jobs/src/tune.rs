//! `[tune]`: choosing values of parameters on questions that are not evaluated.
//!
//! ```text
//!   for each [[tune.select]], in order:
//!   candidates, given or filled in by a T5 --> a job of them over the sample --> an ordinary run --> the best: selections/NAME.json
//!                                      (`infill`)               (`search`)
//! ```
//!
//! A search is an ordinary run: its requests are journalled, shared by its candidates and with every other run of the
//! store, and a search that was killed begins again without computing anything twice. What it chose is a record that no
//! other replaces ([`crate::choices`]); a method names it as `parameter = { selection = "NAME" }`. While a parameter is
//! searched, selections of earlier searches hold, and those of later ones are left at the method's defaults.
//!
//! Ties go to the candidate that stands earlier. Nothing here draws at random but by seeds that are in the job.

pub mod infill;
pub mod search;

use crate::draw::Draw;
use crate::job::{Job, OneOrMany};
use crate::scoring::profile_of;
use crate::worlds::WorldEntry;
use hopeval_datasets::Format;
use hopeval_measures::MeasureSet;
use infill::Infill;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// What is chosen, and on which questions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// The files' format; told from the first file when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Files that the sample is drawn from. Without these and without a world it is drawn from the job's own dataset, whose
    /// other questions are then the evaluated ones.
    #[serde(default)]
    pub questions: OneOrMany,
    /// A generated world to draw from, with its own passages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<WorldEntry>,
    /// Questions drawn (PromptRank, section 3: 128).
    #[serde(default = "usual_sample")]
    pub sample: u64,
    /// Another seed draws others.
    #[serde(default)]
    pub seed: u64,
    /// What the best is best at (PromptRank, section 3: R@2).
    #[serde(default = "usual_measure")]
    pub measure: String,
    /// The searches, in order.
    #[serde(default)]
    pub select: Vec<Select>,
}

/// One search: the values of one parameter of one method.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Select {
    /// The selection's name in the store.
    pub name: String,
    /// The method, by its name in the job.
    pub method: String,
    /// The parameter.
    pub parameter: String,
    /// In place of the sample's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<String>,
    /// Values to choose from.
    #[serde(default)]
    pub candidates: Vec<Value>,
    /// More values, which a language model fills in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<Infill>,
}

fn usual_sample() -> u64 {
    128
}

fn usual_measure() -> String {
    "recall_all@2".to_owned()
}

/// A key, what it is, what is allowed.
type Wrong = (String, String, &'static str);

impl Tune {
    /// Whether the sample is drawn from the job's own dataset.
    pub fn takes_own(&self) -> bool {
        self.world.is_none() && self.questions.paths().is_empty()
    }

    /// The sample.
    pub fn draw(&self) -> Draw {
        Draw { questions: self.sample, seed: self.seed, rest: false }
    }

    /// What the best of a search is best at.
    pub fn measure_of<'a>(&'a self, select: &'a Select) -> &'a str {
        select.measure.as_deref().unwrap_or(&self.measure)
    }

    /// A job over the sample alone, with everything else as `job` has it.
    pub fn over_sample(&self, job: &Job) -> Job {
        let mut sampled = job.clone();
        if !self.takes_own() {
            sampled.dataset.format = self.format;
            sampled.dataset.questions = self.questions.clone();
            sampled.dataset.world = self.world.clone();
        }
        if self.world.is_some() {
            sampled.corpus.source = OneOrMany::default();
        }
        sampled.dataset.limit = None;
        sampled.dataset.draw = Some(self.draw());
        sampled.tune = None;
        sampled
    }

    /// The first thing that makes no sense.
    pub(crate) fn wrong(&self, job: &Job) -> Option<Wrong> {
        if self.sample == 0 {
            return Some(("tune.sample".into(), "0".into(), "at least 1"));
        }
        match (&self.world, self.questions.paths()) {
            (Some(_), [_, ..]) => {
                return Some(("tune".into(), "both `questions` and `world`".into(), "one of `questions` and `world`"));
            }
            (None, [_, ..]) if job.corpus.source.paths().is_empty() => {
                let allowed = "a world, since the job's passages are a world's, or files with a `corpus.source`";
                return Some(("tune.questions".into(), "files without passages".into(), allowed));
            }
            _ => {}
        }
        if let Some((key, found, allowed)) = self.world.as_ref().and_then(WorldEntry::wrong) {
            return Some((format!("tune.world.{key}"), found, allowed));
        }
        if self.takes_own()
            && let Some(draw) = job.dataset.draw
            && draw != (Draw { rest: true, ..self.draw() })
        {
            let allowed = "nothing: all questions but the sample of [tune] are evaluated, unless [tune] names others to draw from";
            return Some(("dataset.draw".into(), format!("{} questions", draw.questions), allowed));
        }
        let mut names = BTreeSet::new();
        self.select.iter().enumerate().find_map(|(n, select)| {
            let (key, found, allowed) = select.wrong(self, job).or_else(|| {
                let twice = !names.insert(select.name.as_str());
                twice.then(|| ("name".to_owned(), select.name.clone(), "names that each occur once"))
            })?;
            Some((format!("tune.select[{n}].{key}"), found, allowed))
        })
    }
}

impl Select {
    fn wrong(&self, tune: &Tune, job: &Job) -> Option<Wrong> {
        let wrong = |key: &str, found: &str, allowed| Some((key.to_owned(), found.to_owned(), allowed));
        if !is_name(&self.name) {
            return wrong("name", &self.name, "letters, digits, `-`, `_` and `.`, beginning with a letter or digit");
        }
        let Some(method) = job.method.get(&self.method) else {
            return wrong("method", &self.method, "the name of a [method.NAME] of this job");
        };
        if !(method.sweep.is_empty() && method.replicates.is_empty()) {
            return wrong("method", &self.method, "a method without [sweep] and [replicates]");
        }
        if ["kind", "sweep", "replicates", "control"].contains(&self.parameter.as_str()) {
            return wrong("parameter", &self.parameter, "a parameter of the method");
        }
        if self.candidates.is_empty() && self.generate.is_none() {
            return wrong("candidates", "[]", "at least one value, or a table `generate`");
        }
        if let Some(twice) = self.candidates.iter().enumerate().find(|(n, value)| self.candidates[..*n].contains(value))
        {
            return wrong("candidates", &format!("{} twice", twice.1), "values that each occur once");
        }
        if let Some((key, found, allowed)) = self.generate.as_ref().and_then(|infill| infill.wrong(job)) {
            return Some((format!("generate.{key}"), found, allowed));
        }
        let measure = tune.measure_of(self);
        let format = tune.format.or(job.dataset.format).unwrap_or(Format::World);
        let measures = MeasureSet::new(&job.measures, profile_of(format)).ok()?;
        if !measures.names().iter().any(|name| name == measure) {
            let allowed = "a measure of the job's [measures], such as recall_all@2 with 2 in `recall_at`";
            return wrong("measure", measure, allowed);
        }
        None
    }
}

/// Whether a text can name an object of a store wherever it is.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().all(plain) && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.len() <= 128
}

#[cfg(test)]
mod tests {
    use crate::Job;
    use std::path::Path;

    const HEAD: &str = "name = \"t\"\n[dataset]\nformat = \"hotpotqa\"\nquestions = \"dev.json\"\n[corpus]\nsource = \"contexts\"\n\
        [service.s]\nkind = \"bm25\"\n[service.t5]\nkind = \"lm\"\nmodel = \"hopeval:scorer\"\n\
        [method.m]\nkind = \"promptrank\"\nretriever = \"s\"\nscorer = \"t5\"\n";

    fn message(rest: &str) -> String {
        match Job::parse(&format!("{HEAD}{rest}"), Path::new("job.toml"), &[]) {
            Ok(_) => panic!("{rest} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_sample_of_the_dataset_itself_is_not_evaluated() {
        let job = Job::parse(&format!("{HEAD}[tune]\nsample = 9\nseed = 4\n"), Path::new("job.toml"), &[]).unwrap();
        let (draw, sample) = (job.dataset.draw.unwrap(), job.tune.as_ref().unwrap().over_sample(&job));
        assert_eq!((draw.questions, draw.seed, draw.rest), (9, 4, true));
        assert_eq!(sample.dataset.draw.map(|draw| (draw.questions, draw.seed, draw.rest)), Some((9, 4, false)));
        // What is shown is a job that means the same.
        let shown = toml::to_string_pretty(&job).unwrap();
        assert_eq!(toml::to_string_pretty(&Job::parse(&shown, Path::new("/job.toml"), &[]).unwrap()).unwrap(), shown);
        // Another source leaves the dataset whole.
        let job =
            Job::parse(&format!("{HEAD}[tune]\nquestions = \"train.json\"\n"), Path::new("/x/job.toml"), &[]).unwrap();
        assert_eq!(job.dataset.draw, None);
        assert_eq!(job.tune.unwrap().questions.paths(), [Path::new("/x/train.json")]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let select = |rest: &str| {
            format!("[tune]\n[[tune.select]]\nname = \"a\"\nmethod = \"m\"\nparameter = \"temperature\"\n{rest}")
        };
        for (rest, expected) in [
            ("[tune]\nsample = 0\n".to_owned(), "`tune.sample` = 0; allowed: at least 1"),
            (select("candidates = []\n"), "`tune.select[0].candidates` = []; allowed: at least one value"),
            (select("candidates = [1.0, 1.0]\n"), "1.0 twice"),
            (select("candidates = [1.0]\nmeasure = \"recall_all@3\"\n"), "`tune.select[0].measure` = recall_all@3"),
            (select("[tune.select.generate]\nservice = \"s\"\n"), "`tune.select[0].generate.service` = s"),
            (select("[tune.select.generate]\nservice = \"t5\"\ntemplates = [\"no blank\"]\n"), "at least one {blank}"),
            (select("candidates = [1.0]\n").replace("\"m\"", "\"n\""), "the name of a [method.NAME]"),
            (select("candidates = [1.0]\n").replace("\"a\"", "\"../a\""), "`tune.select[0].name` = ../a"),
            (select("candidates = [1.0]\n[method.m.sweep]\nhops = [1]\n"), "a method without [sweep]"),
            ("[dataset.draw]\nquestions = 3\n[tune]\n".to_owned(), "`dataset.draw` = 3 questions"),
            ("[method.m.replicates]\nhops = [1]\n".to_owned(), "`method.m.replicates.hops` = 1 values"),
            ("[run]\ntemperatures = [0.0]\n".to_owned(), "`run.temperatures` = 0"),
        ] {
            let message = message(&rest);
            assert!(message.contains(expected), "{rest}: {message}");
        }
    }
}
