//! The differences between the set-ups of two sides, and those that are refused.

use super::side::{ComparedSide, SideScores, unfit};
use crate::error::JobError;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A difference in set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetupDifference {
    /// The setting, such as `parameter k` or `service llm: model`.
    pub setting: String,
    /// Its value in `against`; a dash where it has none.
    pub against: String,
    /// Its value in the other.
    pub compared: String,
}

/// Stands for a value that a side does not have.
const NONE: &str = "–";

/// Refuses sides whose figures are never set beside each other.
pub(super) fn refuse_different_contexts(base: &ComparedSide, other: &ComparedSide) -> Result<(), JobError> {
    let (own, theirs) = (&base.configuration.context_mode, &other.configuration.context_mode);
    if own != theirs {
        let reason = format!(
            "{} finds its passages in the context mode `{theirs}`, and {} in `{own}`: their figures are never ranked \
             together",
            other.title(),
            base.title()
        );
        return Err(unfit(&other.run.id, reason));
    }
    let corpora = [base, other].map(|side| side.run.settings.corpus_digest.as_str());
    if corpora[0] != corpora[1] {
        let passages = [base, other].map(|side| side.run.settings.passages);
        let reason = format!(
            "its corpus is another one than that of run {}: {} passages (digest {}) there, {} (digest {}) here",
            base.run.id,
            passages[0],
            short(corpora[0]),
            passages[1],
            short(corpora[1])
        );
        return Err(unfit(&other.run.id, reason));
    }
    Ok(())
}

/// The positions of the questions that both runs have, in the order of `base`.
///
/// # Errors
/// No such question, or one with different gold.
pub(super) fn shared_questions(
    base: &ComparedSide,
    other: &ComparedSide,
    own: &SideScores,
    theirs: &SideScores,
) -> Result<Vec<(u64, u64)>, JobError> {
    let mut shared = Vec::new();
    let mut differing = BTreeMap::new();
    for (question, (position, gold)) in &own.questions {
        let Some((other_position, other_gold)) = theirs.questions.get(question) else { continue };
        shared.push((*position, *other_position));
        if gold != other_gold {
            differing.insert(*position, question);
        }
    }
    if let Some(question) = differing.values().next() {
        let edits = [base, other].map(|side| side.run.row.gold_edit);
        let reason = format!(
            "{} of the {} questions that it shares with run {} have other gold, the first is `{question}`; edits of \
             gold: {} there, {} here",
            differing.len(),
            shared.len(),
            base.run.id,
            edits[0],
            edits[1]
        );
        return Err(unfit(&other.run.id, reason));
    }
    if shared.is_empty() {
        let reason = format!("it has no question of run {}", base.run.id);
        return Err(unfit(&other.run.id, reason));
    }
    shared.sort_unstable();
    Ok(shared)
}

/// The differences in job, data, models, prompts and program.
pub(super) fn setup_differences(base: &ComparedSide, other: &ComparedSide) -> Vec<SetupDifference> {
    let sides = [base, other].map(side_settings);
    let names: BTreeSet<&String> = sides.iter().flat_map(BTreeMap::keys).collect();
    let value = |side: &BTreeMap<String, String>, name: &String| side.get(name).cloned().unwrap_or(NONE.to_owned());
    names
        .into_iter()
        .map(|name| SetupDifference {
            setting: name.clone(),
            against: value(&sides[0], name),
            compared: value(&sides[1], name),
        })
        .filter(|found| found.against != found.compared)
        .collect()
}

/// The settings of a side, by name. The names sort by subject.
fn side_settings(side: &ComparedSide) -> BTreeMap<String, String> {
    let (run, configuration) = (&side.run, &side.configuration);
    let settings = &run.settings;
    let mut all = BTreeMap::from([
        ("data: format".to_owned(), run.row.dataset.clone()),
        ("data: digest of the questions".to_owned(), short(&settings.dataset_digest)),
        ("data: questions".to_owned(), settings.prepared.questions.to_string()),
        ("data: origin of links".to_owned(), settings.links.clone()),
        ("method".to_owned(), format!("{} version {}", configuration.method, configuration.method_version)),
        ("program".to_owned(), run.row.program_version.clone()),
        ("run: mode".to_owned(), settings.job.run.mode.name().to_owned()),
    ]);
    let dataset = &settings.job.dataset;
    if let Some(limit) = dataset.limit {
        all.insert("data: limit".to_owned(), limit.to_string());
    }
    if let Some(draw) = &dataset.draw {
        let draw = serde_json::to_value(draw).unwrap_or_default();
        all.extend(
            draw.as_object().into_iter().flatten().map(|(key, value)| (format!("data: draw.{key}"), shown(value))),
        );
    }
    if let Some(only) = &dataset.only {
        all.insert("data: only (path)".to_owned(), only.display().to_string());
    }
    if let Some(judged) = &settings.judged {
        all.insert("judged: run".to_owned(), judged.run.clone());
        all.insert("judged: digest of its settings".to_owned(), short(&judged.job_digest));
    }
    if let Some(price) = settings.job.run.price_per_device_hour {
        all.insert("run: price_per_device_hour".to_owned(), price.to_string());
    }
    if let Some(digest) = &configuration.prompt_digest {
        let origin = configuration.prompt_origin.as_deref().unwrap_or_default();
        all.insert("prompts".to_owned(), format!("{origin} {}", short(digest)).trim_start().to_owned());
    }
    let parameters: Value = serde_json::from_str(&configuration.parameters).unwrap_or_default();
    for (name, value) in parameters.as_object().into_iter().flatten() {
        all.insert(format!("parameter {name}"), shown(value));
    }
    for (service, used) in services_of(side) {
        let name = format!("service {service}");
        all.insert(format!("{name}: fingerprint"), used.fingerprint.map_or(NONE.to_owned(), |digest| short(&digest)));
        for (key, value) in used.settings.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            all.insert(format!("{name}: {key}"), shown(value));
        }
    }
    all
}

/// A service that a configuration uses.
pub(super) struct UsedService {
    /// The keys of its `[service.NAME]` table, defaults included.
    pub(super) settings: Value,
    fingerprint: Option<String>,
}

/// The services that a configuration uses, by name.
pub(super) fn services_of(side: &ComparedSide) -> BTreeMap<String, UsedService> {
    let settings = &side.run.settings;
    let names = side.configuration.services.iter().filter_map(|used| Some(used.split_once('=')?.1));
    let used = names.map(|name| {
        let table = settings.job.service.get(name).and_then(|service| serde_json::to_value(service).ok());
        let fingerprint = settings.services.get(name).cloned();
        (name.to_owned(), UsedService { settings: table.unwrap_or_default(), fingerprint })
    });
    used.collect()
}

/// A value in a few words: long texts, such as prompts, by their digest.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= LONGEST && !text.contains('\n') {
        return text;
    }
    format!("a text, digest {}", short(blake3::hash(text.as_bytes()).to_hex().as_str()))
}

/// The beginning of a digest.
fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_texts_are_shown_by_their_digest() {
        assert_eq!(shown(&json!("BM25")), "BM25");
        assert_eq!(shown(&json!(0.9)), "0.9");
        let (one, other) = (shown(&json!("a\nb")), shown(&json!("a\nc")));
        assert!(one.starts_with("a text, digest ") && one.len() == "a text, digest ".len() + 12, "{one}");
        assert_ne!(one, other);
    }
}
