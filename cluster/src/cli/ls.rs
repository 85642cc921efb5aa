//! `ls`: the runs of a store, and its journal.

mod best;

use super::options::PlaceArguments;
use super::tables::UNKNOWN;
use super::tables::fitted::FigureTable;
use crate::print;
use anyhow::{Error, Result, bail};
use best::BestFigure;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::run::settings::ResolvedSettings;
use hopeval_results::log::finished_generations;
use hopeval_results::{Log, RunNote, RunRecord, Store, layout, parallel};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(crate) struct LsArguments {
    /// Shows the seconds that each finished run took, and its best configuration by this measure: recall_all@10.
    #[arg(long, value_name = "MEASURE")]
    best: Option<String>,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

/// A run in the list.
#[derive(Clone, Debug, Default)]
struct ListedRun {
    run: String,
    job: String,
    state: &'static str,
    outcomes: u64,
    expected: u64,
    generations: u64,
    /// The format of its dataset, questions and configurations; `None` if its settings cannot be read.
    size: Option<RunSize>,
    /// The run whose answers it judges.
    judged: Option<String>,
    /// A person's note.
    note: Option<String>,
    /// Its best figure, if that is asked for and it is finished.
    best: Option<BestFigure>,
}

/// The extent of a run.
#[derive(Clone, Debug)]
struct RunSize {
    dataset: String,
    questions: u64,
    configurations: usize,
}

/// Measures of which neither direction is better.
const COUNTS: [&str; 2] = ["chunks", "chunks_with_repeats"];

/// Runs read together.
const TOGETHER: usize = 512;

impl ListedRun {
    /// The runs of a store, oldest first.
    fn read_all(store: &Store) -> Result<Vec<Self>> {
        let folders = store.list_folders(layout::RUNS)?;
        let together: Vec<&[String]> = folders.chunks(TOGETHER).collect();
        let mut listed = parallel::map(&together, |runs| Self::read_runs(store, runs)).concat();
        for runs in listed.chunks_mut(TOGETHER) {
            Self::read_notes(store, runs)?;
        }
        Ok(listed)
    }

    /// Adds the runs' notes. One that cannot be read is told, and does not hide its run.
    fn read_notes(store: &Store, listed: &mut [Self]) -> Result<()> {
        let names: Vec<String> = listed.iter().map(|run| run.run.clone()).collect();
        for (run, note) in listed.iter_mut().zip(RunNote::load_many(store, &names)?) {
            match note {
                Some(Ok(note)) => run.note = Some(note.text),
                Some(Err(error)) => print::note(&format!("warning: {:#}", Error::from(error))),
                None => {}
            }
        }
        Ok(())
    }

    /// Those of `runs` that have a record.
    fn read_runs(store: &Store, runs: &[String]) -> Vec<Self> {
        match (Self::try_read_runs(store, runs), runs) {
            (Ok(listed), _) => listed,
            (Err(error), [run]) => vec![Self::not_readable(run, &error)],
            // One that cannot be read does not hide the others.
            (Err(_), _) => runs.iter().flat_map(|run| Self::read_runs(store, std::slice::from_ref(run))).collect(),
        }
    }

    fn try_read_runs(store: &Store, runs: &[String]) -> Result<Vec<Self>> {
        let records = RunRecord::load_many(store, runs)?.into_iter().zip(finished_generations(store, runs)?).zip(runs);
        let listed = records.filter_map(|((record, finished), run)| {
            let listed = record?.map_err(Error::from).and_then(|record| Self::read_run(store, run, record, finished?));
            Some(listed.unwrap_or_else(|error| Self::not_readable(run, &error)))
        });
        Ok(listed.collect())
    }

    fn read_run(store: &Store, run: &str, record: RunRecord, finished: Option<u64>) -> Result<Self> {
        let resolved: Option<ResolvedSettings> = serde_json::from_value(record.settings).ok();
        let expected = resolved.as_ref().map_or(0, ResolvedSettings::outcome_count);
        let size = resolved.as_ref().map(|resolved| RunSize {
            dataset: resolved.format().to_string(),
            questions: resolved.prepared.questions,
            configurations: resolved.configurations.len(),
        });
        let judged = resolved.and_then(|resolved| Some(resolved.judged?.run));
        let listed = Self { run: run.to_owned(), job: record.job, expected, size, judged, ..Self::default() };
        // Tables are written of all outcomes alone.
        if let Some(generations) = finished {
            return Ok(Self { state: "finished", outcomes: expected, generations, ..listed });
        }
        let log = Log::open(store, run)?;
        let state = log.state();
        Ok(Self {
            state: if state.finished.is_some() { "finished" } else { "not finished" },
            outcomes: state.total_outcomes(),
            generations: state.generation,
            ..listed
        })
    }

    /// The entry of an unreadable run, as of another version: such a run does not hide the others.
    fn not_readable(run: &str, error: &Error) -> Self {
        print::note(&format!("warning: {error:#}"));
        Self { run: run.to_owned(), state: "not readable", ..Self::default() }
    }

    fn document(&self) -> Value {
        let Self { run, job, state, outcomes, expected, generations, size, judged, note, best: _ } = self;
        json!({
            "run": run, "job": job, "state": state, "outcomes": outcomes, "expected": expected,
            "generations": generations, "judged": judged, "note": note,
            "dataset": size.as_ref().map(|size| &size.dataset),
            "questions": size.as_ref().map(|size| size.questions),
            "configurations": size.as_ref().map(|size| size.configurations),
        })
    }

    /// Adds the best figures of finished runs. One that cannot be read is told, and does not hide its run.
    fn read_best(store: &Store, listed: &mut [Self], measure: &str) {
        let names: Vec<String> = listed.iter().map(|run| run.run.clone()).collect();
        let found = parallel::map(&names, |run| BestFigure::read(store, run, measure));
        for (run, best) in listed.iter_mut().zip(found).filter(|(run, _)| run.state == "finished") {
            match best {
                Ok(best) => run.best = best,
                Err(error) => print::note(&format!("warning: {error:#}")),
            }
        }
    }

    /// The cells of its row; with `best` those of its best figure, and the note is the last one where `noted`.
    fn row(self, best: bool, noted: bool) -> Vec<String> {
        let outcomes = format!("{} of {}", self.outcomes, self.expected);
        let job = self.judged.map_or(self.job.clone(), |judged| format!("{}, judges {judged}", self.job));
        let of_size = |text: &dyn Fn(&RunSize) -> String| self.size.as_ref().map_or(UNKNOWN.to_owned(), text);
        let note = noted.then(|| self.note.map_or_else(|| UNKNOWN.to_owned(), |note| note.replace('|', "\\|")));
        let best = best.then(|| BestFigure::cells(self.best.as_ref())).into_iter().flatten();
        let names = [self.run, job, self.state.to_owned()];
        let cells = [
            outcomes,
            of_size(&|size| size.dataset.clone()),
            of_size(&|size| size.questions.to_string()),
            of_size(&|size| size.configurations.to_string()),
        ];
        names.into_iter().chain(best).chain(cells).chain(note).collect()
    }
}

pub(crate) fn list_runs(places: &PlaceArguments, arguments: LsArguments) -> Result<u8> {
    let store = places.open_existing()?.store;
    let mut runs = ListedRun::read_all(&store)?;
    if let Some(measure) = &arguments.best {
        if COUNTS.contains(&measure.as_str()) {
            bail!("--best: `{measure}` is a count, of which neither direction is better");
        }
        ListedRun::read_best(&store, &mut runs, measure);
        if runs.iter().any(|run| run.state == "finished")
            && !runs.iter().any(|run| run.best.as_ref().is_some_and(BestFigure::is_known))
        {
            bail!("--best: no finished run has a figure of `{measure}`; `hopeval show RUN` shows the measures of one");
        }
    }
    let journal = hopeval_results::journal::journal_summary(&store)?;
    let (segments, entries, bytes) = (journal.segments, journal.entries, journal.bytes);
    for error in &journal.damaged {
        print::note(&format!("warning: {error}; its answers are computed again"));
    }
    if arguments.json {
        let mut documents: Vec<Value> = runs.iter().map(ListedRun::document).collect();
        if let Some(measure) = &arguments.best {
            for (document, run) in documents.iter_mut().zip(&runs) {
                document["best"] = json!(run.best.as_ref().map(|best| best.document(measure)));
            }
        }
        let journal = json!({"segments": segments, "entries": entries, "bytes": bytes, "damaged": journal.damaged});
        print::line(&json!({"runs": documents, "journal": journal}).to_string());
        return Ok(exit::DONE);
    }
    let mut header = vec!["run", "job", "state"];
    let best = arguments.best.as_ref().map(|measure| format!("best {measure}"));
    header.extend(best.iter().flat_map(|best| ["seconds", best.as_str()]));
    header.extend(["outcomes", "dataset", "questions", "configurations"]);
    let has_notes = runs.iter().any(|run| run.note.is_some());
    if has_notes {
        header.push("note");
    }
    let rows = runs.into_iter().map(|run| run.row(best.is_some(), has_notes));
    print::line(&FigureTable { names: 2, ..FigureTable::new(&header, rows) }.to_text());
    print::line(&format!("journal: {segments} segments, {entries} entries, {bytes} bytes"));
    Ok(exit::DONE)
}
