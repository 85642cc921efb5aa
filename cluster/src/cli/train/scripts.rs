//! The scripts of `ops/train` that training needs, carried in the program and written to a folder for the interpreter.
//!
//! Only what the five trainings import is here: not what makes rows and vocabularies, measures by itself or checks.

use anyhow::{Context, Result};
use std::path::Path;

macro_rules! carried {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../../ops/train/", $name)))),+]
    };
}

/// Each file's name and text.
const FILES: [(&str, &str); 15] = carried![
    "checkpoints.py",
    "encoder.py",
    "encoders.py",
    "filter.py",
    "fitting.py",
    "folder.py",
    "labeler.py",
    "measure.py",
    "reader.py",
    "renaming.py",
    "retrieval.py",
    "rows.py",
    "scorer.py",
    "wiring.py",
    "worlds.py",
];

/// The packages that the scripts import, with the versions that they were written for.
const REQUIREMENTS: &str = include_str!("../../../../ops/train/requirements.txt");

/// A package that the scripts import under the name that it is installed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    /// Its name.
    pub(super) name: &'static str,
    /// As pip takes it: the name, and a version where one is fixed.
    pub(super) pinned: &'static str,
}

/// The packages of `requirements.txt`, in its order.
pub(super) fn requirements() -> Vec<Requirement> {
    let lines = REQUIREMENTS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|pinned| Requirement { name: pinned.split("==").next().unwrap_or(pinned), pinned }).collect()
}

/// A folder with the scripts, which goes when this is dropped.
#[derive(Debug)]
pub(super) struct Carried(tempfile::TempDir);

impl Carried {
    /// Writes the scripts into a new folder below the system's for temporary files, which nobody else can write to.
    ///
    /// # Errors
    /// It cannot be written.
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
    use super::super::model::Model;
    use super::*;
    use clap::ValueEnum;
    use std::collections::BTreeSet;

    /// The modules of `ops/train` that a script imports, as files' names.
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
    fn every_script_that_a_training_imports_is_carried_and_no_other() {
        let mut needed: BTreeSet<String> = Model::value_variants().iter().map(|model| model.script()).collect();
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
        let carried = Carried::write().unwrap();
        let path = carried.path().to_owned();
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), FILES.len() + 1);
        drop(carried);
        assert!(!path.exists());
    }
}
