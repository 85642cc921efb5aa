//! Training data from a run with questions annotated by its language model.

use super::TrainDataArguments;
use crate::cli::options::PlaceArguments;
use crate::print;
use anyhow::{Context, Result, bail};
use hopeval_construct::{
    AnnotationOutcome, ConstructReport, ConstructSettings, CorpusLibrary, TrainingTables, annotated_rows,
};
use hopeval_jobs::run::evaluation::evaluate_outcomes;
use hopeval_jobs::run::open::OpenRun;
use hopeval_results::Log;

/// The annotating method.
const ANNOTATES: &str = "efficientrag_data";

pub(super) fn construct_annotated(
    places: &PlaceArguments,
    arguments: &TrainDataArguments,
    run: &str,
    settings: &ConstructSettings,
) -> Result<ConstructReport> {
    let run = places.open_run(run)?;
    let log = Log::open(&run.places.store, run.id())?;
    let position = annotating_configuration(&run, arguments.configuration.as_deref())?;
    let library = CorpusLibrary::unsearched(&run.configurations()?.catalogue.corpus);
    let mut made = ConstructReport::default();
    let mut files = TrainingTables::create_for_hops(&arguments.out)?;
    let mut wrong = None;
    evaluate_outcomes(&run, &log, &mut |_, outcome, _| {
        if outcome.configuration as usize == position && wrong.is_none() {
            let ended = AnnotationOutcome {
                question: &outcome.question,
                status: &outcome.status,
                message: outcome.message.as_deref(),
                annotation: outcome.answer.as_deref(),
            };
            let rows = annotated_rows(&ended, &library, settings, &mut made);
            wrong = rows.and_then(|rows| files.extend(rows)).err();
        }
        Ok(())
    })?;
    if let Some(error) = wrong {
        return Err(error.into());
    }
    files.finish_files(&made)?;
    let expected = run.resolved.prepared.questions;
    if made.questions < expected {
        let open = expected - made.questions;
        print::note(&format!("{open} of {expected} questions have no outcome yet: `hopeval resume {}`", run.id()));
    }
    Ok(made)
}

/// The position of the annotating configuration.
fn annotating_configuration(run: &OpenRun, wanted: Option<&str>) -> Result<usize> {
    let names = run.configuration_names();
    let annotates = |at: &usize| run.methods[*at].kind() == ANNOTATES;
    let fitting: Vec<usize> = (0..names.len()).filter(annotates).collect();
    let listed = fitting.iter().map(|&at| names[at].as_str()).collect::<Vec<_>>().join(", ");
    if fitting.is_empty() {
        bail!("run {} has no configuration of `{ANNOTATES}`; it has {}", run.id(), names.join(", "));
    }
    match (wanted, fitting.as_slice()) {
        (None, [only]) => Ok(*only),
        (None, _) => bail!(
            "run {} has several configurations of `{ANNOTATES}`; name one with --configuration: {listed}",
            run.id()
        ),
        (Some(name), _) => {
            let found = fitting.iter().find(|&&at| names[at] == name);
            found
                .copied()
                .with_context(|| format!("no configuration `{name}` of `{ANNOTATES}`; run {} has {listed}", run.id()))
        }
    }
}
