//! The list of public files: entries by name, read from TOML and checked.

use crate::address::{shown_address, shown_message};
use crate::error::PublicFilesError;
use hopeval_datasets::Format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The project's own list.
const OWN: &str = include_str!("../data.toml");

/// A file, or the folder of an unpacked archive, or of a model. What is `None` or empty is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PublicFile {
    /// Its place in the data folder, with `/` between names.
    pub path: String,
    /// Addresses, tried in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// The entry of the archive that it is unpacked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// The command that unpacks it, run in the data folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpack: Option<String>,
    /// A model's repository on the Hugging Face hub, ORG/NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The dataset that it belongs to, by its usual name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The split of its questions: `train`, `dev` or `test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The format of its questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// The number of its questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub questions: Option<u64>,
    /// The number of its passages, duplicates included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passages: Option<u64>,
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Its SHA-256, in 64 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The origin of size, digest and counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// A note for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The list, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicFiles {
    /// Its file; `None` of the project's own list.
    origin: Option<PathBuf>,
    files: BTreeMap<String, PublicFile>,
}

impl PublicFile {
    /// Its place in the data folder `folder`.
    pub fn place(&self, folder: &Path) -> PathBuf {
        folder.join(&self.path)
    }

    /// The entry as it may be printed: without names and passwords in its addresses.
    pub fn shown(&self) -> Self {
        Self { from: self.from.iter().map(|address| shown_address(address)).collect(), ..self.clone() }
    }
}

impl PublicFiles {
    /// The project's own list.
    ///
    /// # Errors
    /// None, as the tests show: the list is part of the program.
    pub fn own() -> Result<Self, PublicFilesError> {
        Self::parse(OWN, Path::new("data.toml")).map(|list| Self { origin: None, ..list })
    }

    /// Reads another list.
    ///
    /// # Errors
    /// The file cannot be read, or is no such list; the error names entry and key.
    pub fn load(path: &Path) -> Result<Self, PublicFilesError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| PublicFilesError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, PublicFilesError> {
        let syntax = |source: toml::de::Error| PublicFilesError::Syntax {
            path: path.to_owned(),
            message: shown_message(source.to_string().trim_end()),
        };
        let list = Self { origin: Some(path.to_owned()), files: toml::from_str(text).map_err(syntax)? };
        list.check_entries().map_err(|(name, reason)| PublicFilesError::Entry {
            path: path.to_owned(),
            name,
            reason,
        })?;
        Ok(list)
    }

    /// The first wrong entry, with the reason.
    fn check_entries(&self) -> Result<(), (String, String)> {
        for (name, file) in &self.files {
            self.check_entry(file).map_err(|reason| (name.clone(), reason))?;
        }
        Ok(())
    }

    fn check_entry(&self, file: &PublicFile) -> Result<(), String> {
        let plain = |component: Component<'_>| matches!(component, Component::Normal(_));
        if file.path.is_empty() || !Path::new(&file.path).components().all(plain) {
            return Err(format!("`path` = {:?}; allowed: a place below the data folder, without `..`", file.path));
        }
        let is_digest = |text: &String| {
            text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        if let Some(digest) = file.sha256.as_ref().filter(|digest| !is_digest(digest)) {
            return Err(format!("`sha256` = {digest:?}; allowed: 64 hexadecimal digits, small letters"));
        }
        if file.from.is_empty() && file.archive.is_none() && file.repository.is_none() {
            return Err("no origin; needed: `from`, `archive` or `repository`".to_owned());
        }
        let Some(archive) = &file.archive else { return Ok(()) };
        match self.files.get(archive) {
            None => Err(format!("`archive` = {archive:?} is no entry of the list")),
            Some(entry) if entry.archive.is_some() => Err(format!(
                "`archive` = {archive:?} has an `archive` itself; allowed: an entry that is fetched as it is"
            )),
            Some(_) if file.unpack.is_none() => Err("`archive` without `unpack`, the command to unpack it".to_owned()),
            _ => Ok(()),
        }
    }

    /// The list's file; `None` of the project's own list.
    pub fn origin(&self) -> Option<&Path> {
        self.origin.as_deref()
    }

    /// All entries, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PublicFile)> {
        self.files.iter().map(|(name, file)| (name.as_str(), file))
    }

    /// The entry of this name.
    pub fn get(&self, name: &str) -> Option<&PublicFile> {
        self.files.get(name)
    }

    /// The entries of these names: of files, of datasets (`hotpotqa` means all its files), or `models`. All, if there
    /// is no name. They come in the list's order, each once.
    ///
    /// # Errors
    /// A name is unknown; the error lists the allowed ones.
    pub fn select(&self, names: &[String]) -> Result<Vec<(&str, &PublicFile)>, PublicFilesError> {
        if let Some(unknown) = names.iter().find(|name| !self.iter().any(|entry| is_of(entry, name))) {
            return Err(PublicFilesError::Unknown { name: unknown.clone(), allowed: self.allowed_names() });
        }
        Ok(self.iter().filter(|&entry| names.is_empty() || names.iter().any(|name| is_of(entry, name))).collect())
    }

    fn allowed_names(&self) -> String {
        let datasets = self.files.values().filter_map(|file| Some(file.dataset.as_ref()?.to_lowercase()));
        let mut groups: Vec<String> = datasets.chain([MODELS.to_owned()]).collect();
        groups.sort();
        groups.dedup();
        let files: Vec<&str> = self.files.keys().map(String::as_str).collect();
        format!("{}; or one of {}", groups.join(", "), files.join(", "))
    }

    /// The file with this SHA-256.
    pub fn find_digest(&self, sha256: &str) -> Option<(&str, &PublicFile)> {
        self.iter().find(|(_, file)| file.sha256.as_deref() == Some(sha256))
    }
}

/// The name of all models.
const MODELS: &str = "models";

/// Whether an entry is meant by `name`: its own, its dataset's, or that of all models.
fn is_of((entry, file): (&str, &PublicFile), name: &str) -> bool {
    entry == name
        || file.dataset.as_ref().is_some_and(|dataset| dataset.eq_ignore_ascii_case(name))
        || (name == MODELS && file.repository.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        PublicFiles::parse(text, Path::new("list.toml")).unwrap_err().to_string()
    }

    #[test]
    fn the_own_list_is_well_formed_and_says_where_its_digests_come_from() {
        let list = PublicFiles::own().unwrap();
        for (name, file) in list.iter() {
            assert!(file.sha256.is_none() || file.evidence.is_some(), "{name}: a digest without evidence");
            assert!(file.from.len() < 2 || file.sha256.is_some(), "{name}: a mirror without a digest");
        }
        for dataset in ["hotpotqa", "2wikimultihopqa", "musique", "iirc", "strategyqa"] {
            let files = list.select(&[dataset.to_owned()]).unwrap();
            assert!(files.iter().any(|(_, file)| file.questions.is_some()), "{dataset}");
        }
        let mut paths: Vec<&str> = list.iter().map(|(_, file)| file.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), list.iter().count(), "two entries have one place");
    }

    #[test]
    fn names_select_files_datasets_and_models() {
        let list = PublicFiles::own().unwrap();
        let names = |of: &[&str]| -> Vec<String> {
            let of: Vec<String> = of.iter().map(|name| (*name).to_owned()).collect();
            list.select(&of).unwrap().into_iter().map(|(name, _)| name.to_owned()).collect()
        };
        assert_eq!(names(&["musique-ans-dev", "iirc-dev", "iirc-dev"]), ["iirc-dev", "musique-ans-dev"]);
        assert_eq!(names(&["HotpotQA"]).len(), 6);
        assert!(names(&["models"]).contains(&"gpt2-xl".to_owned()));
        assert_eq!(names(&[]).len(), list.iter().count());
        let error = list.select(&["hotpot".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`hotpot`") && error.contains("hotpotqa, iirc, models"), "{error}");
        let digest = list.get("musique-ans-dev").unwrap().sha256.clone().unwrap();
        assert_eq!(list.find_digest(&digest).unwrap().0, "musique-ans-dev");
    }

    #[test]
    fn a_wrong_entry_is_named_with_its_key() {
        let from = "from = [\"http://a/b\"]";
        for (text, says) in [
            (format!("[a]\npath = \"../b\"\n{from}"), "[a]: `path` = \"../b\""),
            (format!("[a]\npath = \"/b\"\n{from}"), "below the data folder"),
            (format!("[a]\npath = \"b\"\nsha256 = \"AB\"\n{from}"), "64 hexadecimal digits"),
            ("[a]\npath = \"b\"".to_owned(), "no origin"),
            ("[a]\npath = \"b\"\narchive = \"c\"\nunpack = \"tar\"".to_owned(), "\"c\" is no entry"),
            ("[a]\npath = \"b\"\narchive = \"a\"\nunpack = \"tar\"".to_owned(), "\"a\" has an `archive` itself"),
            (
                format!(
                    "[a]\npath = \"b\"\narchive = \"c\"\nunpack = \"tar\"\n\
                     [c]\npath = \"d\"\narchive = \"e\"\nunpack = \"tar\"\n[e]\npath = \"f\"\n{from}"
                ),
                "\"c\" has an `archive` itself",
            ),
            (format!("[a]\npath = \"b\"\nsha265 = \"\"\n{from}"), "sha265"),
        ] {
            let error = refused(&text);
            assert!(error.contains("list.toml") && error.contains(says), "{error}");
        }
        let error = refused("[a]\npath = \"b\"\nfrom = \"http://user:sekret@host/b\"");
        assert!(error.contains("http://host/b") && !error.contains("sekret"), "{error}");
    }
}
