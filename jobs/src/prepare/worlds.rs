//! Generated worlds as datasets: written into the cache on first use, named by what they were made from.

use crate::error::JobError;
use crate::job::{Job, OneOrMany};
use crate::prepare::corpora::{Cache, Report};
use hopeval_datasets::Format;
use hopeval_world::{Split, WorldSettings, generate};
use serde::{Deserialize, Serialize};

/// Rises when the generator makes another world of the same settings.
const GENERATOR: &str = "w2";

/// A world that a job evaluates: `[dataset.world]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldEntry {
    /// How many questions.
    pub questions: u64,
    /// How many passages.
    pub passages: u64,
    /// The seed.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// `train` or `eval`.
    #[serde(default = "eval")]
    pub split: String,
}

impl WorldEntry {
    /// The key that makes no sense, what it is, and what is allowed.
    pub(crate) fn wrong(&self) -> Option<(&'static str, String, &'static str)> {
        if self.questions == 0 {
            return Some(("questions", "0".to_owned(), "at least 1"));
        }
        if !(WorldSettings::LEAST_PASSAGES..=WorldSettings::MOST_PASSAGES).contains(&self.passages) {
            return Some(("passages", self.passages.to_string(), "400 to 3000000"));
        }
        let split = self.split.parse::<Split>();
        split.is_err().then(|| ("split", format!("{:?}", self.split), "\"train\" or \"eval\""))
    }
}

fn first_seed() -> u64 {
    1
}

fn eval() -> String {
    Split::Eval.name().to_owned()
}

impl Cache {
    /// Makes the job's world, if it has one and it is not there yet, and has the job read it.
    ///
    /// # Errors
    /// Sizes that no world can have, a full disk.
    pub fn world(&self, job: &mut Job, report: Report<'_>) -> Result<(), JobError> {
        let Some(entry) = &job.dataset.world else { return Ok(()) };
        let split: Split = entry.split.parse()?;
        let settings = WorldSettings::new(entry.questions, entry.passages, entry.seed, split);
        let name = format!("{}-{}-q{}-p{}-s{}", GENERATOR, entry.split, entry.questions, entry.passages, entry.seed);
        let dir = self.folder("worlds")?.join(&name);
        if !dir.is_dir() {
            let aside = self.folder("worlds")?.join(format!(".{name}.{}", std::process::id()));
            generate(&settings, &aside, |progress| report(&format!("world {}", progress.stage), progress.done))?;
            let moved = std::fs::rename(&aside, &dir);
            // Another process may have made the same world meanwhile: the same bytes.
            if moved.is_err() && dir.is_dir() {
                let _ = std::fs::remove_dir_all(&aside);
            } else {
                moved.map_err(|source| JobError::Io {
                    path: dir.clone(),
                    operation: "cannot finish the world",
                    source,
                })?;
            }
        }
        job.dataset.format = Some(Format::World);
        job.dataset.questions = OneOrMany::One(dir.join("questions.jsonl"));
        if job.corpus.source.paths().is_empty() {
            job.corpus.source = OneOrMany::One(dir.join("corpus.jsonl"));
        }
        Ok(())
    }
}
