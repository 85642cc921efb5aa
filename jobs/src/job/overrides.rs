//! `--set KEY=VALUE`: overrides of a job's file.
//!
//! Paths of an override resolve against the working directory, those of the file against the file.

use super::parameter_files;
use super::paths::CONTEXTS;
use super::rankings;
use crate::error::JobError;
use crate::services::ServiceEntry;
use std::path::PathBuf;

/// Applies `a.b.c=VALUE`. The value is TOML, or a string if it does not parse as TOML.
pub(super) fn apply_override(document: &mut toml::Table, set: &str) -> Result<(), JobError> {
    let malformed = |reason: &'static str| JobError::Set { set: set.into(), reason };
    let (key, value) = set.split_once('=').ok_or_else(|| malformed("expected KEY=VALUE"))?;
    let (key, value) = (key.trim(), value.trim());
    let parsed = format!("value = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let parsed = if names_paths(key) {
        against_working_directory(parsed)
    } else if key.starts_with("method.") || key.starts_with("judge.") {
        parameter_files::against_folder(parsed, &std::path::absolute(".").unwrap_or_default())
    } else {
        parsed
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

/// Refuses an override of a method, a judge or a service that the job does not have.
///
/// # Errors
/// [`JobError::Override`] names those that it has.
pub(super) fn refuse_unknown_tables(document: &toml::Table, sets: &[String]) -> Result<(), JobError> {
    for set in sets {
        let mut names = set.split('=').next().unwrap_or_default().trim().split('.');
        let (Some(kind @ ("method" | "judge" | "service")), Some(name)) = (names.next(), names.next()) else {
            continue;
        };
        let tables = document.get(kind).and_then(toml::Value::as_table);
        let is_known = |table: &toml::Value| table.get("kind").is_some();
        if tables.and_then(|tables| tables.get(name)).is_some_and(|table| !is_known(table)) {
            let known = tables.into_iter().flatten().filter(|(_, table)| is_known(table));
            let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
            let message = format!("the job has no {kind} `{name}`; it has {}", known.join(", "));
            return Err(JobError::Override { sets: set.clone(), message });
        }
    }
    Ok(())
}

/// Resolves the overridden settings of services as their kinds do, but against the working directory. It runs after all
/// overrides, because one of them may set the kind.
pub(super) fn resolve_services(document: &mut toml::Table, sets: &[String]) {
    for set in sets {
        let key = set.split('=').next().unwrap_or_default().trim();
        let Some((name, key)) = key.strip_prefix("service.").and_then(|key| key.split_once('.')) else { continue };
        let service = document.get_mut("service").and_then(|services| services.get_mut(name));
        // A service without a table is refused when the whole job is read.
        let Some(table) = service.and_then(toml::Value::as_table_mut) else { continue };
        if let Some(resolved) = resolved_value(table, key) {
            table.insert(key.to_owned(), resolved);
        }
    }
}

/// The resolved value of a service's key, if resolving changes it.
fn resolved_value(table: &toml::Table, key: &str) -> Option<toml::Value> {
    let mut entry: ServiceEntry = table.clone().try_into().ok()?;
    let value = |entry: &ServiceEntry| serde_json::to_value(entry).ok()?.get(key).cloned();
    let before = value(&entry)?;
    entry.settings_mut().resolve_paths(&std::path::absolute(".").unwrap_or_default());
    let after = value(&entry)?;
    if before == after { None } else { toml::Value::try_from(after).ok() }
}

fn names_paths(key: &str) -> bool {
    let names_rankings = || {
        let parameter = key.strip_prefix("method.").and_then(|key| key.split_once('.'));
        parameter.is_some_and(|(_, parameter)| parameter == rankings::FILE)
    };
    matches!(key, "dataset.questions" | "dataset.only" | "corpus.source" | "tune.questions") || names_rankings()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_of_what_the_job_has_not_names_what_it_has() {
        let mut document: toml::Table =
            "[method.bm25]\nkind = \"one_step\"\n[method.tfidf]\nkind = \"one_step\"".parse().unwrap();
        let sets = ["method.bm26.k=5".to_owned()];
        apply_override(&mut document, &sets[0]).unwrap();
        let message = refuse_unknown_tables(&document, &sets).unwrap_err().to_string();
        assert!(message.contains("the job has no method `bm26`; it has bm25, tfidf"), "{message}");
        // A table of its own is new.
        let sets = ["method.new.kind=one_step".to_owned(), "method.new.k=5".to_owned()];
        sets.iter().try_for_each(|set| apply_override(&mut document, set)).unwrap();
        refuse_unknown_tables(&document, &sets).unwrap();
    }

    #[test]
    fn model_of_an_override_is_a_folder_of_the_working_directory() {
        let model = |sets: &[&str]| {
            let mut document: toml::Table = "[service.t5]\nkind = \"bm25\"".parse().unwrap();
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            sets.iter().try_for_each(|set| apply_override(&mut document, set)).unwrap();
            resolve_services(&mut document, &sets);
            document["service"]["t5"]["model"].as_str().unwrap().to_owned()
        };
        let folder = std::env::current_dir().unwrap().join("src").display().to_string();
        assert_eq!(model(&["service.t5.model=src", "service.t5.kind=lm"]), folder);
        assert_eq!(model(&["service.t5.kind = lm", "service.t5.model = google/flan-t5-xl"]), "google/flan-t5-xl");
        assert_eq!(model(&["service.t5.model=src"]), "src", "no setting of the kind, which is refused later");
    }
}
