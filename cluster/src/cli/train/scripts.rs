//! The training scripts of `ops/train`, embedded in the program and written to a folder for the interpreter.
//!
//! Only the modules imported by the five trainings are here. Scripts for rows, vocabularies, measurements and checks
//! are left out.

use anyhow::{Context, Result};
use std::path::Path;

macro_rules! carried {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../../ops/train/", $name)))),+]
    };
}

/// Each file's name and text.
const FILES: [(&str, &str); 16] = carried![
    "checkpoints.py",
    "encoder.py",
    "encoders.py",
    "filter.py",
    "fitting.py",
    "folder.py",
    "labeler.py",
    "measure.py",
    "reader.py",
    "released.py",
    "renaming.py",
    "retrieval.py",
    "rows.py",
    "scorer.py",
    "wiring.py",
    "worlds.py",
];

/// The packages imported by the scripts, with their versions.
const REQUIREMENTS: &str = include_str!("../../../../ops/train/requirements.txt");

/// A package imported by the scripts. Its name is the same for import and installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    /// Its name.
    pub(super) name: &'static str,
    /// The requirement for pip: the name, with a version if it is fixed.
    pub(super) pinned: &'static str,
}

/// The packages of `requirements.txt`, in its order.
pub(super) fn requirements() -> Vec<Requirement> {
    let lines = REQUIREMENTS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|pinned| Requirement { name: pinned.split("==").next().unwrap_or(pinned), pinned }).collect()
}

/// A temporary folder with the scripts, removed on drop.
#[derive(Debug)]
pub(super) struct EmbeddedScripts(tempfile::TempDir);

impl EmbeddedScripts {
    /// Writes the scripts into a new folder below the system's temporary folder. Other users cannot write to it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn write() -> Result<Self> {
        let cannot = || format!("cannot write the scripts to {}", std::env::temp_dir().display());
        let folder = tempfile::Builder::new().prefix("hopeval-train-").tempdir().with_context(cannot)?;
        for (name, text) in FILES.iter().chain([&("requirements.txt", REQUIREMENTS)]) {
            std::fs::write(folder.path().join(name), text).with_context(cannot)?;
        }
        Ok(Self(folder))
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::TrainableModel;
    use super::*;
    use clap::ValueEnum;
    use std::collections::BTreeSet;

    /// The modules of `ops/train` imported by a script, as file names.
    fn siblings(script: &str) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/train");
        let modules = script.lines().map(str::trim).flat_map(|line| {
            let of_import = line.strip_prefix("import ").map(|names| names.split(',').collect::<Vec<_>>());
            let of_from = line.strip_prefix("from ").filter(|rest| rest.contains(" import ")).map(|rest| vec![rest]);
            of_import.or(of_from).unwrap_or_default()
        });
        let named = modules.filter_map(|text| text.split_whitespace().next()).map(|module| format!("{module}.py"));
        named.filter(|file| folder.join(file).is_file()).collect()
    }

    #[test]
    fn exactly_the_imported_scripts_are_embedded() {
        let mut needed: BTreeSet<String> =
            TrainableModel::value_variants().iter().map(|model| model.script()).collect();
        let carried = |name: &str| FILES.iter().find(|(file, _)| *file == name).map(|(_, text)| *text);
        let mut open: Vec<String> = needed.iter().cloned().collect();
        while let Some(script) = open.pop() {
            let text = carried(&script).unwrap_or_else(|| panic!("{script} is imported and not in FILES"));
            let new: Vec<String> = siblings(text).into_iter().filter(|file| needed.insert(file.clone())).collect();
            open.extend(new);
        }
        assert_eq!(needed, FILES.iter().map(|(file, _)| (*file).to_owned()).collect::<BTreeSet<_>>());
    }

    #[test]
    fn requirements_are_names_and_versions() {
        let found = requirements();
        assert_eq!(found[0].name, "torch");
        assert!(found[0].pinned.starts_with("torch=="), "{found:?}");
        let word = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        assert!(found.iter().all(|requirement| word(requirement.name)), "each is imported by its name: {found:?}");
    }

    #[test]
    fn the_folder_is_gone_when_it_is_dropped() {
        let carried = EmbeddedScripts::write().unwrap();
        let path = carried.path().to_owned();
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), FILES.len() + 1);
        drop(carried);
        assert!(!path.exists());
    }
}
