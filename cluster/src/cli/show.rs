//! `show`: a run's figures, or the transcripts of its questions.

use super::options::{OutputArguments, PlaceArguments};
use crate::print;
use crate::stages::CommandStages;
use anyhow::{Context, Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_corpus::PassageId;
use hopeval_jobs::report::show as showing;
use hopeval_jobs::run::open::{OpenRun, missing_corpus};
use hopeval_jobs::run::transcript::transcript;
use hopeval_results::Log;
use hopeval_results::tables::QuestionRow;
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The run's id, or the beginning of it, or `latest`.
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    output: OutputArguments,
    /// Shows the transcript of this question instead, with --json one document a line; may be repeated.
    #[arg(long = "question", value_name = "ID")]
    questions: Vec<String>,
    /// Of this configuration; of all when left out.
    #[arg(long, requires = "questions")]
    configuration: Option<String>,
}

pub(crate) fn show(places: &PlaceArguments, arguments: ShowArguments) -> Result<u8> {
    if arguments.questions.is_empty() {
        arguments.output.print_figures(&places.open_figures(&arguments.run)?)?;
    } else {
        print_transcripts(&open_for_transcripts(places, &arguments.run)?, &arguments)?;
    }
    Ok(exit::DONE)
}

/// Opens a run to drive its questions again, which needs its corpus, and says first what is built for it.
fn open_for_transcripts(places: &PlaceArguments, run: &str) -> Result<OpenRun> {
    let places = places.open_existing_to_compute()?;
    let run = hopeval_results::run::resolve_run(&places.store, run)?;
    if let Some(sources) = missing_corpus(&places, &run)? {
        let cache = places.cache.root().display();
        print::note(&format!(
            "a transcript drives its question again: first, the corpus of {sources} and its indexes are built in \
             {cache}"
        ));
    }
    let progress = CommandStages::new(None);
    let opened = OpenRun::open(&places, &run, &|stage, done| progress.tick(stage, done));
    progress.clear();
    Ok(opened?)
}

fn print_transcripts(run: &OpenRun, arguments: &ShowArguments) -> Result<()> {
    let names = run.configuration_names();
    if let Some(wanted) = &arguments.configuration
        && !names.contains(wanted)
    {
        bail!("no configuration `{wanted}`; the run has {}", names.join(", "));
    }
    let wanted = |name: &String| arguments.configuration.as_ref().is_none_or(|wanted| wanted == name);
    let corpus = &run.configurations()?.catalogue.corpus;
    let title = |passage: hopeval_methods::PassageId| {
        let passage = PassageId(passage.0);
        if corpus.contains(passage) { corpus.title(passage).to_owned() } else { String::new() }
    };
    for question in with_ids(run, &arguments.questions)? {
        for (position, _) in names.iter().enumerate().filter(|(_, name)| wanted(name)) {
            let transcript = transcript(run, position as u32, &question)?;
            if arguments.output.json {
                print::line(&serde_json::to_string(&showing::transcript_document(run, &transcript)?)?);
            } else {
                print::line(transcript.display(&title).to_string().trim_end());
                print::line("");
            }
        }
    }
    Ok(())
}

/// A run's questions with these ids, in the order of the ids.
fn with_ids(run: &OpenRun, ids: &[String]) -> Result<Vec<QuestionRow>> {
    let log = Log::open(&run.places.store, run.id())?;
    let mut found = BTreeMap::new();
    for row in run.questions_from(&log, 0)? {
        let row = row?;
        if ids.contains(&row.id) {
            found.insert(row.id.clone(), row);
            if found.len() == ids.len() {
                break;
            }
        }
    }
    let with_id =
        |id: &String| found.get(id).cloned().with_context(|| format!("no question `{id}` in run {}", run.id()));
    ids.iter().map(with_id).collect()
}
