//! `model`: lists the models of this machine, and converts models in older formats to the engine's format.

mod list;

use crate::print;
use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use hopeval_checkpoint::import::tokenizer::{SentencePieceRules, TokenizerSource};
use hopeval_checkpoint::import::{ImportReport, import_by};
use hopeval_cluster::exit;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Lists the models that a job can name here: hopeval's own, and those in the Hugging Face hub's cache.
    List(list::ListArguments),
    /// Imports pytorch_model.bin (nothing in it is run) and SentencePiece or vocabulary files into a folder that `lm`
    /// takes.
    Import {
        /// The model's folder.
        #[arg(value_name = "DIR")]
        from: PathBuf,
        /// The folder to write; it may not hold a model yet.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Whose reading of a SentencePiece model counts where they differ (DeBERTa-v2/v3): its own, or transformers
        /// 5's.
        #[arg(long, default_value = "model")]
        tokenizer_rules: RulesName,
        /// Prints one JSON document.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RulesName {
    Model,
    Transformers5,
}

pub(crate) fn model(command: ModelCommand) -> Result<u8> {
    let (from, out, tokenizer_rules, json) = match command {
        ModelCommand::List(arguments) => return list::list_models(&arguments),
        ModelCommand::Import { from, out, tokenizer_rules, json } => (from, out, tokenizer_rules, json),
    };
    let rules = match tokenizer_rules {
        RulesName::Model => SentencePieceRules::Model,
        RulesName::Transformers5 => SentencePieceRules::Transformers5,
    };
    let report = import_by(&from, &out, rules).with_context(|| format!("cannot import {}", from.display()))?;
    if json {
        print::line(&import_document(&report).to_string());
    } else {
        print_import(&out, &report);
    }
    Ok(exit::DONE)
}

fn tokenizer_source(report: &ImportReport) -> Option<&'static str> {
    report.tokenizer.map(|source| match source {
        TokenizerSource::TokenizerJson => "tokenizer.json",
        TokenizerSource::SentencePiece => "a SentencePiece model",
        TokenizerSource::Merges => "vocab.json and merges.txt",
        TokenizerSource::WordPiece => "vocab.txt",
    })
}

fn import_document(report: &ImportReport) -> serde_json::Value {
    let skipped = report.skipped.iter().map(|s| serde_json::json!({ "file": s.file, "name": s.name, "why": s.why }));
    let tied = report.tied.iter().map(|t| serde_json::json!({ "name": t.name, "same_as": t.same_as }));
    serde_json::json!({
        "files": report.files, "tensors": report.tensors, "bytes": report.bytes, "tokenizer": tokenizer_source(report),
        "skipped": skipped.collect::<Vec<_>>(), "tied": tied.collect::<Vec<_>>(), "narrowed": report.narrowed,
    })
}

fn print_import(out: &std::path::Path, report: &ImportReport) {
    let weights = match report.tensors {
        0 => "weights copied".to_owned(),
        tensors => format!("{tensors} tensors, {} bytes", report.bytes),
    };
    print::line(&format!("{}: {weights}; {}", out.display(), report.files.join(", ")));
    match tokenizer_source(report) {
        Some(source) => print::line(&format!("tokenizer: from {source}")),
        None => print::line("tokenizer: none in the folder; token ids work, text does not"),
    }
    for tied in &report.tied {
        print::line(&format!("left out: {}, the same as {}", tied.name, tied.same_as));
    }
    for skipped in &report.skipped {
        print::line(&format!("left out: {} of {}: {}", skipped.name, skipped.file.display(), skipped.why));
    }
    for name in &report.narrowed {
        print::line(&format!("narrowed from f64 to f32: {name}"));
    }
}
