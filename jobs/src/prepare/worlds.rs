//! Generated worlds as datasets: written into the cache on first use, and named by their settings.

use crate::cache::{Cache, ProgressReporter};
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::paths::OneOrMany;
use crate::job::world::WorldEntry;
use hopeval_datasets::Format;
use hopeval_world::{WorldSettings, WorldSplit, generate_world};

/// Version of the generator. It rises when the same settings give another world.
const GENERATOR: &str = "w2";

impl Cache {
    /// Makes the job's world, if it has one and it is missing, and points the job to its files.
    ///
    /// # Errors
    /// Impossible sizes, a full disk.
    pub fn prepare_world(&self, job: &mut Job, report: ProgressReporter<'_>) -> Result<(), JobError> {
        let Some(entry) = &job.dataset.world else { return Ok(()) };
        let split: WorldSplit = entry.split.parse()?;
        let settings = WorldSettings::new(entry.questions, entry.passages, entry.seed, split);
        let name = world_name(entry);
        let dir = self.ensure_folder("worlds")?.join(&name);
        if !dir.is_dir() {
            let aside = self.ensure_folder("worlds")?.join(format!(".{name}.{}", std::process::id()));
            generate_world(&settings, &aside, |progress| report(&format!("world {}", progress.stage), progress.done))?;
            let moved = std::fs::rename(&aside, &dir);
            // Another process may have made the same world meanwhile, with the same bytes.
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

/// The name of a world's folder in the cache.
pub fn world_name(entry: &WorldEntry) -> String {
    format!("{}-{}-q{}-p{}-s{}", GENERATOR, entry.split, entry.questions, entry.passages, entry.seed)
}
