//! Finds a model by its name: a folder, a model in the hub's cache on this machine, or one of hopeval's own.
//!
//! Nothing is fetched. The places come from the environment (`HF_HUB_CACHE`, `HF_HOME`), as for every program of the
//! hub. The model's digest identifies its contents, in any place.

use crate::error::JobError;
use hopeval_models::ModelsError;
use std::path::{Path, PathBuf};

/// The prefix of names of hopeval's own models.
pub(super) const OWN: &str = "hopeval:";

/// The mark between the name of an own model and a seed: the same architecture with random weights, as a control.
const UNTRAINED: &str = "?untrained=";

/// A model's name for the job: the absolute path if it is a folder beside the job, else the name unchanged.
pub(crate) fn resolve_name(base: &Path, model: String) -> String {
    let folder = base.join(&model);
    match std::path::absolute(&folder) {
        Ok(whole) if !model.starts_with(OWN) && folder.is_dir() => whole.display().to_string(),
        _ => model,
    }
}

/// The reason why a name gives no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelNameError {
    /// There is no such model.
    #[error("{reason}; allowed: {}", allowed_names())]
    NotFound {
        /// The reason.
        reason: String,
    },
    /// One of hopeval's own models cannot be unpacked.
    #[error("cannot be unpacked")]
    Unpack(#[source] ModelsError),
}

/// The folder of the model of a service.
///
/// # Errors
/// [`JobError::NoModel`] with the allowed names; [`JobError::Unpack`].
pub(super) fn find_folder(service: &str, model: &str, cache: &Path) -> Result<PathBuf, JobError> {
    find_model(model, cache).map_err(|error| match error {
        ModelNameError::NotFound { reason } => {
            JobError::NoModel { name: service.to_owned(), model: model.to_owned(), reason, allowed: allowed_names() }
        }
        ModelNameError::Unpack(source) => JobError::Unpack { name: service.to_owned(), source },
    })
}

/// The folder of `model`: a folder, ORG/NAME in the hub's cache of this machine, or `hopeval:NAME`. hopeval's own
/// models, and their untrained controls, are unpacked into `cache`.
///
/// # Errors
/// See [`ModelNameError`].
pub fn find_model(model: &str, cache: &Path) -> Result<PathBuf, ModelNameError> {
    let none = |reason: String| ModelNameError::NotFound { reason };
    if let Some(own) = model.strip_prefix(OWN) {
        let (cache, (name, seed)) = (cache.join("models"), own.split_once(UNTRAINED).unwrap_or((own, "")));
        let unpacked = if name == own {
            hopeval_models::unpack(name, &cache)
        } else {
            let seed = seed.parse().map_err(|_| none(format!("`{seed}` is no seed, which is a whole number")))?;
            hopeval_models::untrained(name, seed, &cache)
        };
        return unpacked.map_err(|error| match error {
            ModelsError::Unknown { .. } => none("hopeval has no such model".to_owned()),
            source => ModelNameError::Unpack(source),
        });
    }
    let path = Path::new(model);
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    let hub = hub_folder();
    match model.split_once('/') {
        Some((organisation, name)) if !path.is_absolute() && !name.contains('/') => {
            let repository = hub.join(format!("models--{organisation}--{name}"));
            snapshot(&repository).ok_or_else(|| none(format!("no such folder, and not in {}", hub.display())))
        }
        _ => Err(none("no such folder".to_owned())),
    }
}

/// The allowed names, as a list for errors.
fn allowed_names() -> String {
    let own: Vec<String> = hopeval_models::names().map(|name| format!("{OWN}{name}")).collect();
    format!(
        "the folder of a model (in a job relative to it); ORG/NAME, if the hub's cache on this machine has it; {}, \
         each also untrained as {OWN}NAME{UNTRAINED}SEED",
        own.join(", ")
    )
}

/// The place of the hub's cache on this machine, which need not exist; found in the order of `huggingface_hub`.
pub fn hub_folder() -> PathBuf {
    let place = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    place("HF_HUB_CACHE")
        .or_else(|| Some(place("HF_HOME")?.join("hub")))
        .or_else(|| Some(place("HOME")?.join(".cache/huggingface/hub")))
        .unwrap_or_default()
}

/// The snapshot of a cached repository: the one of branch `main`, else the only one.
pub(super) fn snapshot(repository: &Path) -> Option<PathBuf> {
    let snapshots = repository.join("snapshots");
    if let Ok(commit) = std::fs::read_to_string(repository.join("refs/main")) {
        return Some(snapshots.join(commit.trim())).filter(|folder| folder.is_dir());
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir(snapshots).ok()?.flatten().map(|entry| entry.path()).collect();
    found.pop().filter(|folder| found.is_empty() && folder.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_snapshot_is_that_of_main() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("snapshots/a1"), dir.path().join("snapshots/b2"));
        std::fs::create_dir_all(&a).unwrap();
        assert_eq!(snapshot(dir.path()), Some(a));
        std::fs::create_dir_all(&b).unwrap();
        assert_eq!(snapshot(dir.path()), None, "two, and nothing says which");
        std::fs::create_dir_all(dir.path().join("refs")).unwrap();
        std::fs::write(dir.path().join("refs/main"), "b2\n").unwrap();
        assert_eq!(snapshot(dir.path()), Some(b));
    }

    #[test]
    fn an_unknown_model_s_error_says_what_is_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let error = |model: &str| find_folder("scorer", model, dir.path()).unwrap_err().to_string();
        for (model, reason) in [
            ("hopeval:nothing", "hopeval has no such model"),
            ("hopeval:nothing?untrained=1", "hopeval has no such model"),
            ("hopeval:scorer?untrained=one", "`one` is no seed"),
            ("hopeval:scorer?trained=1", "hopeval has no such model"),
            ("nowhere", "no such folder"),
            ("no-such-organisation/model", "no such folder, and not in "),
        ] {
            let error = error(model);
            assert!(error.starts_with(&format!("[service.scorer]: `model` = \"{model}\": {reason}")), "{error}");
            assert!(error.contains("in a job relative to it); ORG/NAME"), "{error}");
            assert!(error.contains("hopeval:scorer"), "{error}");
        }
        let path = dir.path().display().to_string();
        assert_eq!(find_folder("scorer", &path, dir.path()).unwrap(), dir.path());
    }

    #[test]
    fn hopeval_s_own_models_are_unpacked_into_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let found = find_folder("scorer", "hopeval:scorer", dir.path()).unwrap();
        assert!(found.starts_with(dir.path().join("models")) && found.join("config.json").is_file());
        assert_eq!(find_folder("other", "hopeval:scorer", dir.path()).unwrap(), found);
        let control = find_folder("scorer", "hopeval:scorer?untrained=1", dir.path()).unwrap();
        let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
        assert_eq!(read(&control, "tokenizer.json"), read(&found, "tokenizer.json"));
        assert_ne!(read(&control, "model.safetensors"), read(&found, "model.safetensors"));
    }

    #[test]
    fn a_folder_beside_the_job_is_kept_by_its_whole_path() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("t5")).unwrap();
        assert_eq!(resolve_name(dir.path(), "t5".into()), dir.path().join("t5").display().to_string());
        assert_eq!(resolve_name(dir.path(), "google/flan-t5-xl".into()), "google/flan-t5-xl");
        assert_eq!(resolve_name(dir.path(), "hopeval:scorer".into()), "hopeval:scorer");
    }
}
