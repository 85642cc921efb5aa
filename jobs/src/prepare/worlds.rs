//! Generated worlds as datasets: written into the cache on first use, and named by their settings.
//!
//! A world's folder has the digests of its files (`digests.json`), which are compared before a world is used: a damaged
//! question would be another question.

use crate::cache::{Cache, ProgressReporter};
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::paths::OneOrMany;
use crate::job::world::WorldEntry;
use crate::prepare::corpora::digest_path;
use hopeval_datasets::Format;
use hopeval_world::{GenerationProgress, WorldSplit, generate_world};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Version of the generator. It rises when the same settings give another world.
const GENERATOR: &str = "w2";

/// The file with the digests of a world's files.
const DIGESTS: &str = "digests.json";

/// A world's files.
const FILES: [&str; 2] = ["corpus.jsonl", "questions.jsonl"];

impl Cache {
    /// Makes the job's world, if it has one and it is missing, and points the job to its files.
    ///
    /// # Errors
    /// Impossible sizes, a full disk, a damaged file.
    pub fn prepare_world(&self, job: &mut Job, report: ProgressReporter<'_>) -> Result<(), JobError> {
        let Some(entry) = &job.dataset.world else { return Ok(()) };
        let split: WorldSplit = entry.split.parse()?;
        let settings = entry.settings(split);
        let name = world_name(entry);
        let worlds = self.ensure_folder("worlds")?;
        let dir = worlds.join(&name);
        if !dir.is_dir() {
            let unfinished = UnfinishedWorld::create(&worlds, &name)?;
            let shown = |progress: GenerationProgress| report(&format!("world {}", progress.stage), progress.done);
            generate_world(&settings, &unfinished.path, shown)?;
            write_digests(&unfinished.path)?;
            match std::fs::rename(&unfinished.path, &dir) {
                // Its old name may be another process's by now.
                Ok(()) => std::mem::forget(unfinished),
                // Another process may have made the same world meanwhile, with the same bytes.
                Err(_) if dir.is_dir() => {}
                Err(source) => return Err(JobError::Io { path: dir, operation: "cannot finish the world", source }),
            }
        }
        compare_digests(&dir)?;
        job.dataset.format = Some(Format::World);
        job.dataset.questions = OneOrMany::One(dir.join("questions.jsonl"));
        if job.corpus.source.paths().is_empty() {
            job.corpus.source = OneOrMany::One(dir.join("corpus.jsonl"));
        }
        Ok(())
    }
}

/// The folder of a world that is being made, of this process alone. What is left of it at the end is removed.
struct UnfinishedWorld {
    path: PathBuf,
}

impl UnfinishedWorld {
    fn create(worlds: &Path, name: &str) -> Result<Self, JobError> {
        let mut number = 0_u32;
        loop {
            let path = worlds.join(format!(".{name}.{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                // Processes of two containers can have one number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(source) => return Err(JobError::Io { path, operation: "cannot make the folder", source }),
            }
        }
    }
}

impl Drop for UnfinishedWorld {
    fn drop(&mut self) {
        // Nobody reads it, so a failure is not reported.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The name of a world's folder in the cache.
pub fn world_name(entry: &WorldEntry) -> String {
    let rivals = if entry.rivals == 0 { String::new() } else { format!("-r{}", entry.rivals) };
    format!("{}-{}-q{}-p{}-s{}{rivals}", GENERATOR, entry.split, entry.questions, entry.passages, entry.seed)
}

/// Writes the digests of the files in `dir`.
fn write_digests(dir: &Path) -> Result<(), JobError> {
    let digests = FILES.map(|name| Ok((name, digest_path(&dir.join(name))?)));
    let digests = digests.into_iter().collect::<Result<BTreeMap<_, _>, JobError>>()?;
    let path = dir.join(DIGESTS);
    let failed = |source| JobError::Io { path: path.clone(), operation: "cannot write", source };
    let text = serde_json::to_vec_pretty(&digests).map_err(|error| failed(error.into()))?;
    std::fs::write(&path, text).map_err(failed)
}

/// Compares the files in `dir` with their digests. Worlds of earlier versions have none.
fn compare_digests(dir: &Path) -> Result<(), JobError> {
    let path = dir.join(DIGESTS);
    let failed = |source| JobError::Io { path: path.clone(), operation: "cannot read", source };
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        text => text.map_err(failed)?,
    };
    let digests: BTreeMap<String, String> = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    for name in FILES {
        let (path, expected) = (dir.join(name), digests.get(name).cloned().unwrap_or_default());
        let found = digest_path(&path)?;
        if found != expected {
            return Err(JobError::DamagedWorld { path, found, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_world_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().to_owned());
        let text = "name = \"a\"\n[dataset.world]\nquestions = 5\npassages = 400\n[method.oracle]\nkind = \"oracle\"\n";
        let mut job = Job::parse(text, Path::new("job.toml"), &[]).unwrap();
        cache.prepare_world(&mut job, &|_, _| ()).unwrap();
        let questions = job.dataset.questions.paths()[0].clone();
        let mut bytes = std::fs::read(&questions).unwrap();
        bytes[100] ^= 1;
        std::fs::write(&questions, &bytes).unwrap();
        let error = cache.prepare_world(&mut job, &|_, _| ()).unwrap_err();
        assert!(matches!(&error, JobError::DamagedWorld { path, .. } if *path == questions), "{error:?}");
        // Worlds of earlier versions have no digests.
        std::fs::remove_file(questions.with_file_name(DIGESTS)).unwrap();
        cache.prepare_world(&mut job, &|_, _| ()).unwrap();
    }

    #[test]
    fn a_world_with_rivals_is_another_one_and_a_job_without_them_is_as_before() {
        let job = |rivals: &str| {
            let text = format!("name = \"a\"\n[dataset.world]\nquestions = 5\npassages = 400\n{rivals}");
            Job::parse(&format!("{text}[method.oracle]\nkind = \"oracle\"\n"), Path::new("job.toml"), &[])
        };
        let entry = |rivals: &str| job(rivals).unwrap().dataset.world.unwrap();
        assert_eq!(serde_json::to_value(entry("rivals = 0\n")).unwrap(), serde_json::to_value(entry("")).unwrap());
        assert!(serde_json::to_value(entry("")).unwrap().get("rivals").is_none());
        assert_eq!(world_name(&entry("")), "w2-eval-q5-p400-s1");
        assert_eq!(world_name(&entry("rivals = 6\n")), "w2-eval-q5-p400-s1-r6");
        assert_eq!(entry("rivals = 6\n").settings(WorldSplit::Eval).rivals, 6);
        let error = job("rivals = 51\n").unwrap_err().to_string();
        assert!(error.contains("rivals") && error.contains("0 to 50"), "{error}");
    }
}
