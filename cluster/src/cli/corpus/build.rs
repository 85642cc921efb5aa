//! `corpus build`: makes a corpus of passages.

use crate::cli::options::field_pair;
use crate::print;
use crate::stages::CommandStages;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_corpus::{CorpusBuilder, CorpusSettings, CorpusSource, DuplicatePolicy, LinkSource};
use hopeval_datasets::{PassageFormat, PassageMapping, PassageSpec, Passages, RowPolicy};
use hopeval_jobs::prepare::corpora;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    /// Passages: {title,text} or {id,contents} as JSON Lines or Parquet, BEIR, DPR TSV, datasets whose contexts are the
    /// passages, folders of the HotpotQA abstracts dump, or JSON, CSV and Parquet with other names (--field).
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// The folder to make.
    #[arg(long)]
    out: PathBuf,
    /// The sources' format; told from the content when left out.
    #[arg(long)]
    format: Option<PassageFormat>,
    /// Maps a field of a passage to its name in the sources, which then are of the format `fields`: id=docid,
    /// title=name, text=body. Once for each field.
    #[arg(long = "field", value_name = "NAME=PATH", value_parser = field_pair)]
    fields: Vec<(String, String)>,
    /// What happens to passages that occur twice: keep_all, drop_exact or error.
    #[arg(long, default_value = "drop_exact")]
    duplicates: String,
    /// Where links come from: auto, hyperlinks, mentions or none.
    #[arg(long, default_value = "auto")]
    links: String,
}

pub(super) fn build_corpus(arguments: &BuildArguments) -> Result<u8> {
    let settings = CorpusSettings {
        duplicates: parse_named::<DuplicatePolicy>("duplicates", &arguments.duplicates)?,
        links: parse_named::<LinkSource>("links", &arguments.links)?,
        ..CorpusSettings::default()
    };
    let progress = CommandStages::new(None);
    let mut builder = CorpusBuilder::create(&arguments.out, settings)?;
    for path in &arguments.sources {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        builder.add_source(CorpusSource { name, digest: corpora::digest_path(path)? });
    }
    let mapping = &arguments.fields;
    let fields = if mapping.is_empty() { None } else { Some(PassageMapping::from_pairs(mapping)?) };
    let spec = PassageSpec { format: arguments.format, paths: arguments.sources.clone(), fields };
    for (done, record) in Passages::open(&spec, RowPolicy::Strict)?.enumerate() {
        corpora::push_record(&mut builder, &record?)?;
        if done % 4096 == 0 {
            progress.tick("passages", done as u64);
        }
    }
    let report = builder.finish()?;
    progress.clear();
    print::line(&serde_json::to_string_pretty(&report.info)?);
    Ok(exit::DONE)
}

/// A value by its name in job files.
fn parse_named<T: serde::de::DeserializeOwned>(option: &str, name: &str) -> Result<T> {
    match serde_json::from_value(serde_json::Value::String(name.to_owned())) {
        Ok(value) => Ok(value),
        Err(error) => bail!("--{option} {name}: {error}"),
    }
}
