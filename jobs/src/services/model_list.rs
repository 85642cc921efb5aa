//! Lists the models that a job can name on this machine: hopeval's own, and those in the hub's cache.
//!
//! Nothing is fetched, and no weights are read: the configuration of a model says which requests it answers. A model
//! that could not be opened is listed, too, with the reason.

use super::models::{OWN, snapshot};
use hopeval_checkpoint::Checkpoint;
use hopeval_lm::architectures;
use hopeval_methods::RequestKind;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

/// A model that a job can name.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedModel {
    /// Its name in a job: `hopeval:scorer`, `ORG/NAME`.
    pub name: String,
    /// The requests that it answers, by its configuration; empty if it cannot be opened.
    pub answers: Vec<RequestKind>,
    /// Its architecture, as its configuration names it.
    pub architecture: Option<String>,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its licence, if its card states one.
    pub licence: Option<String>,
    /// Its origin.
    pub source: String,
    /// Its folder; `None` for a model inside the program.
    pub path: Option<PathBuf>,
    /// The reason why it cannot be opened.
    pub problem: Option<String>,
}

/// hopeval's own models, in the order of their names.
pub fn own_models() -> Vec<ListedModel> {
    let listed = hopeval_models::models().map(|model| {
        let config: Value = serde_json::from_slice(model.config).unwrap_or_default();
        ListedModel {
            name: format!("{OWN}{}", model.name),
            answers: answered_kinds(&config),
            architecture: architecture(&config),
            bytes: model.bytes,
            licence: Some(env!("CARGO_PKG_LICENSE").to_owned()),
            source: "trained on generated worlds".to_owned(),
            path: None,
            problem: None,
        }
    });
    listed.collect()
}

/// The models in the hub's cache at `hub`, in the order of their names. No cache has no models.
///
/// # Errors
/// The folder cannot be read.
pub fn cached_models(hub: &Path) -> io::Result<Vec<ListedModel>> {
    let entries = match std::fs::read_dir(hub) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut models = Vec::new();
    for entry in entries {
        if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_prefix("models--")) {
            models.push(cached_model(&name.replacen("--", "/", 1), &entry.path()));
        }
    }
    models.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(models)
}

fn cached_model(name: &str, repository: &Path) -> ListedModel {
    let folder = snapshot(repository);
    let read = |file: &str| folder.as_ref().and_then(|folder| std::fs::read_to_string(folder.join(file)).ok());
    let config: Value = read("config.json").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let problem = match &folder {
        Some(folder) => open_problem(folder),
        None => Some("no snapshot, or several of which refs/main names none".to_owned()),
    };
    let commit = folder.as_ref().and_then(|folder| folder.file_name()).map(|name| name.to_string_lossy().into_owned());
    ListedModel {
        name: name.to_owned(),
        answers: if problem.is_none() { answered_kinds(&config) } else { Vec::new() },
        architecture: architecture(&config),
        bytes: folder.as_deref().map_or(0, folder_bytes),
        licence: read("README.md").and_then(|card| card_licence(&card)),
        source: match commit {
            Some(commit) => format!("the hub, {}", commit.chars().take(12).collect::<String>()),
            None => "the hub".to_owned(),
        },
        path: Some(folder.unwrap_or_else(|| repository.to_owned())),
        problem,
    }
}

/// The reason why a folder is no model for the engine.
fn open_problem(folder: &Path) -> Option<String> {
    match Checkpoint::open(folder) {
        Ok(checkpoint) => architectures::identify(&checkpoint).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// The bytes of a folder's files. Links, as the hub's cache has them, count as their files.
fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |path: PathBuf| match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => folder_bytes(&path),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(|entry| size(entry.path())).sum()
}

/// The licence in the heading of a model's card: `license: mit` between two lines `---`.
fn card_licence(card: &str) -> Option<String> {
    let mut lines = card.lines();
    if lines.next()?.trim() != "---" {
        return None;
    }
    let stated = lines.take_while(|line| line.trim() != "---").find_map(|line| line.strip_prefix("license:"))?;
    let licence = stated.trim().trim_matches(['"', '\'']);
    (!licence.is_empty()).then(|| licence.to_owned())
}

fn architecture(config: &Value) -> Option<String> {
    let named = config["architectures"][0].as_str().or_else(|| config["model_type"].as_str());
    named.map(str::to_owned)
}

/// The requests that a model of this configuration answers: its heads have names in `architectures`. A classifier of
/// several labels entails only if one of them means it, which its service says.
fn answered_kinds(config: &Value) -> Vec<RequestKind> {
    let architecture = architecture(config).unwrap_or_default();
    let labels = config["id2label"].as_object().map_or(2, |labels| labels.len());
    let head = |ends: &[&str]| ends.iter().any(|end| architecture.ends_with(end));
    if head(&["ForConditionalGeneration", "ForCausalLM", "LMHeadModel"]) {
        return vec![RequestKind::Score, RequestKind::Generate];
    }
    let of_head = match () {
        () if head(&["ForSequenceTokenClassification"]) => Some(RequestKind::Label),
        () if head(&["ForTokenClassification"]) => Some(RequestKind::Filter),
        () if head(&["ForSequenceClassification"]) && labels == 1 => Some(RequestKind::Rerank),
        () if head(&["ForSequenceClassification"]) => Some(RequestKind::Entail),
        () if head(&["ForQuestionAnswering"]) => Some(RequestKind::Read),
        () => None,
    };
    of_head.into_iter().chain([RequestKind::Embed]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn own_models_answer_what_methods_ask() {
        let answers: Vec<(String, Vec<RequestKind>)> =
            own_models().into_iter().map(|model| (model.name, model.answers)).collect();
        let expected = [
            ("encoder", vec![RequestKind::Embed]),
            ("filter", vec![RequestKind::Filter, RequestKind::Embed]),
            ("labeler", vec![RequestKind::Label, RequestKind::Embed]),
            ("reader", vec![RequestKind::Read, RequestKind::Embed]),
            ("reranker", vec![RequestKind::Rerank, RequestKind::Embed]),
            ("scorer", vec![RequestKind::Score, RequestKind::Generate]),
            ("writer", vec![RequestKind::Score, RequestKind::Generate]),
        ];
        assert_eq!(answers, expected.map(|(name, kinds)| (format!("hopeval:{name}"), kinds)));
        assert!(own_models().iter().all(|model| model.bytes > 100_000 && model.problem.is_none()));
    }

    #[test]
    fn a_cache_is_listed_with_its_faults() {
        let hub = tempfile::tempdir().unwrap();
        let cached = |name: &str, commit: &str| {
            let folder = hub.path().join(name).join("snapshots").join(commit);
            std::fs::create_dir_all(&folder).unwrap();
            folder
        };
        // One of hopeval's own, as if it came from the hub.
        let unpacked = hopeval_models::unpack("reader", hub.path()).unwrap();
        let good = cached("models--lab--reader", "0123456789abcdef");
        for file in std::fs::read_dir(unpacked).unwrap().flatten() {
            std::fs::copy(file.path(), good.join(file.file_name())).unwrap();
        }
        std::fs::write(good.join("README.md"), "---\nlicense: \"mit\"\nlanguage: en\n---\n# reader\n").unwrap();
        let foreign = cached("models--lab--speech", "1");
        std::fs::write(foreign.join("config.json"), json!({"model_type": "wav2vec2"}).to_string()).unwrap();
        cached("models--gpt2", "1");
        cached("models--gpt2", "2");
        cached("datasets--lab--data", "1");
        let models = cached_models(hub.path()).unwrap();
        let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["gpt2", "lab/reader", "lab/speech"]);
        let reader = &models[1];
        assert_eq!(reader.answers, [RequestKind::Read, RequestKind::Embed]);
        assert_eq!((reader.licence.as_deref(), reader.source.as_str()), (Some("mit"), "the hub, 0123456789ab"));
        assert_eq!((reader.path.as_ref(), &reader.problem), (Some(&good), &None));
        assert!(reader.bytes > 100_000);
        assert!(models[0].problem.as_ref().unwrap().contains("refs/main"), "{:?}", models[0]);
        assert!(models[2].problem.is_some() && models[2].answers.is_empty(), "{:?}", models[2]);
        assert_eq!(cached_models(&hub.path().join("nowhere")).unwrap(), []);
    }

    #[test]
    fn heads_are_told_by_their_names() {
        let kinds = |name: &str, labels: usize| {
            let labels: serde_json::Map<_, _> = (0..labels).map(|n| (n.to_string(), json!("L"))).collect();
            answered_kinds(&json!({"architectures": [name], "id2label": labels}))
        };
        assert_eq!(kinds("LlamaForCausalLM", 2), [RequestKind::Score, RequestKind::Generate]);
        assert_eq!(kinds("BertForSequenceClassification", 1), [RequestKind::Rerank, RequestKind::Embed]);
        assert_eq!(kinds("BertForSequenceClassification", 3), [RequestKind::Entail, RequestKind::Embed]);
        assert_eq!(kinds("BertModel", 2), [RequestKind::Embed]);
    }
}
