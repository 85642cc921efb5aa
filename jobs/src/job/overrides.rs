//! `--set KEY=VALUE`: overrides of a job's file.
//!
//! Paths of an override resolve against the working directory, those of the file against the file.

use super::paths::CONTEXTS;
use crate::error::JobError;
use crate::services::models;
use std::path::{Path, PathBuf};

/// Applies `a.b.c=VALUE`; the value is TOML, or a string where it does not parse as TOML.
pub(super) fn apply(document: &mut toml::Table, set: &str) -> Result<(), JobError> {
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
