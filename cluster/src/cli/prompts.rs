//! `prompts`: files of demonstrations, read from those of others.

use crate::print;
use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use hopeval_cluster::exit;
use hopeval_methods::demonstration::ircot;
use hopeval_methods::{Demonstration, DemonstrationSet};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum PromptsCommand {
    /// Reads a prompt file of a paper's repository, from your checkout of it, into a file of demonstrations. Its first
    /// row names the origin and the digests, which the tables of a run then show.
    Import(ImportArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The repository's format.
    format: PromptFormat,
    /// The prompt file.
    file: PathBuf,
    /// The file to write: JSON Lines.
    #[arg(long)]
    out: PathBuf,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PromptFormat {
    /// StonyBrookNLP/ircot: prompts/DATASET/*.txt
    Ircot,
}

pub(crate) fn prompts(command: &PromptsCommand) -> Result<u8> {
    match command {
        PromptsCommand::Import(arguments) => import(arguments),
    }
}

fn import(arguments: &ImportArguments) -> Result<u8> {
    let ImportArguments { format: PromptFormat::Ircot, file, out, json } = arguments;
    let bytes = std::fs::read(file).with_context(|| format!("{}: cannot read the prompt file", file.display()))?;
    let text = std::str::from_utf8(&bytes).with_context(|| format!("{}: allowed: UTF-8 text", file.display()))?;
    let read = ircot::read_prompts(text).with_context(|| file.display().to_string())?;
    let set = DemonstrationSet::imported("ircot", &file_name(file), &bytes, read.demonstrations);
    std::fs::write(out, set.to_lines()).with_context(|| format!("{}: cannot write", out.display()))?;
    let rows = set.demonstrations();
    let with_reasoning = rows.iter().filter(|row| !row.reasoning.is_empty()).count();
    let passages: usize = rows.iter().map(|row: &Demonstration| row.passages.len()).sum();
    if *json {
        print::line(
            &json!({"file": out, "demonstrations": rows.len(), "with_reasoning": with_reasoning, "passages": passages,
                "instruction": read.instruction, "title_prompt": read.title_prompt})
            .to_string(),
        );
        return Ok(exit::DONE);
    }
    print::line(&format!(
        "{}: {} demonstrations with {passages} passages, {with_reasoning} with a chain of thought",
        out.display(),
        rows.len()
    ));
    if let Some(instruction) = read.instruction {
        print::line(&format!(
            "every question has this instruction before it; give it as `instruction`: {instruction:?}"
        ));
    }
    if let Some(prompt) = read.title_prompt {
        print::line(&format!(
            "they name pages; give the file as `title_demonstrations`, with `title_prompt`: {prompt:?}"
        ));
    }
    Ok(exit::DONE)
}

/// The file's name with its folder's, as in `hotpotqa/gold_with_1_distractors_context_cot_qa_codex.txt`.
fn file_name(file: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let folder = file.parent().and_then(name).map(|folder| format!("{folder}/")).unwrap_or_default();
    format!("{folder}{}", name(file).unwrap_or_default())
}
