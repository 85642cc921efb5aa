//! `model list`: the models that jobs can name on this machine.

use crate::cli::tables::UNKNOWN;
use crate::cli::tables::fitted::FigureTable;
use crate::print;
use anyhow::{Context, Result};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::services::model_list::{ListedModel, cached_models, own_models};
use hopeval_jobs::services::models::hub_folder;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Prints one JSON document, with all that is known.
    #[arg(long)]
    json: bool,
}

pub(super) fn list_models(arguments: &ListArguments) -> Result<u8> {
    let hub = hub_folder();
    let mut models = own_models();
    models.extend(cached_models(&hub).with_context(|| format!("cannot read the hub's cache {}", hub.display()))?);
    if arguments.json {
        let listed: Vec<Value> = models.iter().map(model_document).collect();
        print::line(&json!({ "models": listed, "hub": hub }).to_string());
        return Ok(exit::DONE);
    }
    let header = ["model", "answers", "size", "licence", "architecture", "comes from", "path"];
    let table = FigureTable::new(&header, models.iter().map(table_row));
    print::line(&table.to_text());
    for model in &models {
        if let Some(problem) = &model.problem {
            print::paragraph(&format!("{} cannot be used: {problem}", model.name));
        }
    }
    let untrained = "each of hopeval's own also as hopeval:NAME?untrained=SEED, with random weights";
    print::paragraph(&format!("A job names a model in `model`; {untrained}. The hub's cache: {}", hub.display()));
    Ok(exit::DONE)
}

fn answers(model: &ListedModel) -> Vec<&'static str> {
    model.answers.iter().map(|kind| kind.name()).collect()
}

fn table_row(model: &ListedModel) -> Vec<String> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let answers = if model.answers.is_empty() { UNKNOWN.to_owned() } else { answers(model).join(", ") };
    let path = model.path.as_ref().map_or_else(|| "in the program".to_owned(), |path| path.display().to_string());
    vec![
        model.name.clone(),
        answers,
        size_text(model.bytes),
        known(&model.licence),
        known(&model.architecture),
        model.source.clone(),
        path,
    ]
}

/// Bytes in the largest unit of which there is one.
fn size_text(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        1e9.. => format!("{:.2} GB", bytes / 1e9),
        1e6.. => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} kB", bytes / 1e3),
    }
}

fn model_document(model: &ListedModel) -> Value {
    json!({
        "name": model.name,
        "answers": answers(model),
        "architecture": model.architecture,
        "bytes": model.bytes,
        "licence": model.licence,
        "source": model.source,
        "path": model.path,
        "problem": model.problem,
    })
}
