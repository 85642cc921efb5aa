//! `show`: a run's figures, or the transcripts of its questions.

use super::options::{OutputArguments, PlaceArguments};
use super::tables::question_list::question_list_text;
use super::tables::replicates::is_wanted;
use super::tables::view::TableView;
use crate::print;
use crate::stages::CommandStages;
use anyhow::{Context, Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_corpus::PassageId;
use hopeval_jobs::job::sweep::numbered_position;
use hopeval_jobs::report::question_list::{QuestionChoice, list_questions};
use hopeval_jobs::report::show as showing;
use hopeval_jobs::run::open::{OpenRun, missing_corpus};
use hopeval_jobs::run::transcript::{transcript, transcript_values};
use hopeval_results::Log;
use hopeval_results::tables::QuestionRow;
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The run: its id or the beginning of it, its job, `latest`, or `latest~1`.
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    view: TableView,
    /// Shows the transcript of this question instead, with --json one document a line; may be repeated.
    #[arg(long = "question", value_name = "ID", conflicts_with_all = FIGURE_OPTIONS, conflicts_with = "measures")]
    questions: Vec<String>,
    /// Of this configuration; of all when left out.
    #[arg(long, requires = "questions")]
    configuration: Option<String>,
    /// Shows requests and answers as they are in the journal, whole, with all logits and log-probabilities.
    #[arg(long, requires = "questions", conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    list: ListArguments,
}

/// The most listed questions, without `--limit`.
const LISTED: usize = 10;

/// The options of tables of figures, which lists of questions and transcripts do not have.
const FIGURE_OPTIONS: [&str; 9] = ["stratum", "interval", "marks", "against", "sort", "top", "filters", "by", "format"];

/// Options for lists of questions.
#[derive(Debug, Args)]
struct ListArguments {
    /// Lists the questions in which this configuration has a lower value than that of --to: in --measure, or else in EM
    /// or all-gold recall.
    #[arg(long, value_name = "CONFIGURATION", requires = "to", group = "list", conflicts_with = "questions",
        conflicts_with_all = FIGURE_OPTIONS)]
    lost: Option<String>,
    /// The configuration that did better.
    #[arg(long, value_name = "CONFIGURATION", requires = "lost")]
    to: Option<String>,
    /// Lists the questions in which this configuration has a higher value than that of --over.
    #[arg(long, value_name = "CONFIGURATION", requires = "over", group = "list", conflicts_with = "questions",
        conflicts_with_all = FIGURE_OPTIONS)]
    won: Option<String>,
    /// The configuration that did worse.
    #[arg(long, value_name = "CONFIGURATION", requires = "won")]
    over: Option<String>,
    /// Lists the questions that failed under this configuration.
    #[arg(long, value_name = "CONFIGURATION", group = "list", conflicts_with = "questions",
        conflicts_with_all = FIGURE_OPTIONS)]
    failing: Option<String>,
    /// The most listed questions [default: 10].
    #[arg(long, value_name = "N", requires = "list")]
    limit: Option<usize>,
}

impl ListArguments {
    /// The questions to list, if any: configurations are named or numbered.
    fn choice(&self, run: &OpenRun) -> Option<QuestionChoice> {
        let names = run.configuration_names();
        let named = |text: &String| {
            let numbered = numbered_position(text).and_then(|position| names.get(position));
            if names.contains(text) { text.clone() } else { numbered.unwrap_or(text).clone() }
        };
        let pair = |worse: &Option<String>, better: &Option<String>| {
            let (worse, better) = worse.as_ref().zip(better.as_ref())?;
            Some(QuestionChoice::Lost { by: named(worse), to: named(better) })
        };
        let failing = || self.failing.as_ref().map(|text| QuestionChoice::Failing(named(text)));
        pair(&self.lost, &self.to).or_else(|| pair(&self.over, &self.won)).or_else(failing)
    }

    fn is_asked_for(&self) -> bool {
        self.lost.is_some() || self.won.is_some() || self.failing.is_some()
    }
}

pub(crate) fn show(places: &PlaceArguments, arguments: ShowArguments) -> Result<u8> {
    if arguments.list.is_asked_for() {
        print_list(&places.open_outcomes(&arguments.run)?, &arguments)?;
    } else if arguments.questions.is_empty() {
        arguments.output.print_view(&places.open_figures(&arguments.run)?, &arguments.view)?;
    } else {
        print_transcripts(&open_for_transcripts(places, &arguments.run)?, &arguments)?;
    }
    Ok(exit::DONE)
}

fn print_list(run: &OpenRun, arguments: &ShowArguments) -> Result<()> {
    let Some(choice) = arguments.list.choice(run) else { return Ok(()) };
    let log = Log::open(&run.places.store, run.id())?;
    let list =
        list_questions(run, &log, &choice, arguments.output.only_measure()?, arguments.list.limit.unwrap_or(LISTED))?;
    match arguments.output.json {
        true => print::line(&serde_json::to_string(&list)?),
        false => print::line(&print::wrapped(question_list_text(&choice, &list).trim_end())),
    }
    Ok(())
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
    for question in with_ids(run, &arguments.questions)? {
        let title = |passage: hopeval_methods::PassageId| {
            let passage = PassageId(passage.0);
            let title = if corpus.contains(passage) { corpus.title(passage) } else { "" };
            let is_gold = question.gold.iter().any(|good| good.contains(&passage.0));
            if is_gold { format!("{title} ✓ gold") } else { title.to_owned() }
        };
        for (position, _) in names.iter().enumerate().filter(|(_, name)| wanted(name)) {
            let transcript = transcript(run, position as u32, &question)?;
            if arguments.output.json {
                print::line(&serde_json::to_string(&showing::transcript_document(run, &transcript)?)?);
            } else {
                let text = match arguments.raw {
                    true => transcript.display_raw(&title).to_string(),
                    false => transcript.display(&title).to_string(),
                };
                print::line(text.trim_end());
                let values = transcript_values(run, position as u32, &question, &transcript);
                print::line(&values_text(&question, &values));
                print::line("");
            }
        }
    }
    Ok(())
}

/// The gold answers of a question, and the values of its measures.
fn values_text(question: &QuestionRow, values: &[(&str, f64)]) -> String {
    let shown = |&(name, value): &(&str, f64)| format!("{name} {value:.4}");
    let values: Vec<String> = values.iter().filter(|(name, _)| is_wanted(name, &[])).map(shown).collect();
    let values = if values.is_empty() { "no measure is defined".to_owned() } else { values.join(", ") };
    let answers = if question.answers.is_empty() { "none given".to_owned() } else { question.answers.join(" | ") };
    print::wrapped(&format!("gold answer: {answers}\nmeasures: {values}"))
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
