//! The reported runs, their configurations, and which of them stand beside each other.

use crate::cli::tables::SHORT_MARK;
use anyhow::{Result, bail};
use hopeval_jobs::JobError;
use hopeval_jobs::job::sweep::{Configuration, SweptName, swept_names};
use hopeval_jobs::mode::TimingMode;
use hopeval_jobs::places::Places;
use hopeval_jobs::report::accounting::{ConfigurationCosts, RunCosts, read_run_costs};
use hopeval_jobs::report::show::{RunFigures, read_figures};
use hopeval_jobs::run::open::OpenRun;
use hopeval_results::run::resolve_run;
use hopeval_results::tables::MeasureRow;
use hopeval_results::{Log, layout};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The most series of one plot; tables have all.
pub(super) const MOST_SERIES: usize = 8;

/// A run with everything that the page says of it.
pub(super) struct ReportedRun {
    pub(super) open: OpenRun,
    pub(super) figures: RunFigures,
    /// `None` for an unfinished run.
    pub(super) costs: Option<RunCosts>,
    /// A letter where several runs are reported.
    pub(super) letter: Option<char>,
    /// Whether the passages of its outcomes are known: those of a run that an earlier version finished may not be.
    pub(super) has_passages: bool,
    /// The first run with the same questions.
    questions_of: usize,
    swept: HashMap<String, SweptName>,
    /// Rows of `figures.measures`, by configuration, stratum and measure.
    rows: HashMap<String, usize>,
}

/// A configuration of a reported run.
#[derive(Clone, Copy)]
pub(super) struct ReportedSide<'a> {
    pub(super) run: &'a ReportedRun,
    pub(super) configuration: &'a Configuration,
    position: usize,
}

/// Configurations whose figures stand beside each other: of one context mode, over the same questions.
pub(super) struct RankedGroup<'a> {
    pub(super) title: String,
    /// Part of the names of its plots.
    pub(super) name: String,
    /// In the job's order; controls, too.
    pub(super) sides: Vec<ReportedSide<'a>>,
}

/// Opens the runs.
///
/// # Errors
/// An unknown run; one that is named twice; a run that has no question of the first one, other gold, or another corpus.
pub(super) fn open_runs(places: &Places, names: &[String]) -> Result<Vec<ReportedRun>> {
    let mut runs: Vec<ReportedRun> = Vec::new();
    let mut questions: Vec<BTreeMap<String, String>> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let id = resolve_run(&places.store, name)?;
        if runs.iter().any(|run| run.open.id() == id) {
            bail!("run {id} is named twice");
        }
        let (open, has_passages) = match OpenRun::open_outcomes(places, &id, &|_, _| ()) {
            Ok(open) => (open, true),
            // A run that an earlier version finished has figures, and no titles of passages.
            Err(JobError::NoPassages { .. }) => (OpenRun::open_figures(places, &id, &|_, _| ())?, false),
            Err(error) => return Err(error.into()),
        };
        let own = question_golds(&open)?;
        if let Some((first, of_first)) = runs.first().zip(questions.first()) {
            refuse_unlike(&first.open, of_first, &open, &own)?;
        }
        let questions_of = questions.iter().position(|known| known.keys().eq(own.keys())).unwrap_or(at);
        questions.push(own);
        let figures = read_figures(&open)?;
        let costs = figures.finished.then(|| read_run_costs(&places.store, &id)).transpose()?;
        let letter = (names.len() > 1).then(|| char::from(b'A' + (at % 26) as u8));
        let rows = figures
            .measures
            .iter()
            .enumerate()
            .map(|(at, row)| (key(&row.configuration, &row.stratum, &row.measure), at));
        let rows = rows.collect();
        let swept = swept_names(&open.resolved.job);
        runs.push(ReportedRun { open, figures, costs, letter, has_passages, questions_of, swept, rows });
    }
    Ok(runs)
}

fn key(configuration: &str, stratum: &str, measure: &str) -> String {
    format!("{configuration}\0{stratum}\0{measure}")
}

/// The digest of the gold of each question.
fn question_golds(run: &OpenRun) -> Result<BTreeMap<String, String>> {
    let log = Log::open(&run.places.store, run.id())?;
    let rows = run.questions_from(&log, 0)?.map(|row| row.map(|row| (row.id, row.gold_digest)));
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Refuses a run whose figures mean nothing beside those of the first one.
fn refuse_unlike(
    first: &OpenRun,
    of_first: &BTreeMap<String, String>,
    other: &OpenRun,
    of_other: &BTreeMap<String, String>,
) -> Result<()> {
    let (known, id) = (first.id(), other.id());
    if first.resolved.corpus_digest != other.resolved.corpus_digest {
        bail!("run {id} is over another corpus than run {known}: figures of one page are over one corpus");
    }
    let shared = of_other.iter().filter_map(|(question, gold)| Some((question, gold, of_first.get(question)?)));
    let shared: Vec<_> = shared.collect();
    if shared.is_empty() {
        bail!("run {id} has no question of run {known}: they have nothing in common");
    }
    if let Some((question, ..)) = shared.iter().find(|(_, gold, known)| gold != known) {
        bail!("run {id} has other gold than run {known}, the first of such questions is `{question}`");
    }
    Ok(())
}

/// The name of a configuration, with a mark if it is a control.
pub(super) fn marked_control(name: &str, is_control: bool) -> String {
    format!("{name}{}", if is_control { " (control)" } else { "" })
}

/// The configurations of all runs, by what may stand beside each other.
pub(super) fn ranked_groups(runs: &[ReportedRun]) -> Vec<RankedGroup<'_>> {
    let mut groups: BTreeMap<(usize, &str), Vec<ReportedSide<'_>>> = BTreeMap::new();
    for run in runs {
        for (position, configuration) in run.open.resolved.configurations.iter().enumerate() {
            let mode = run.open.methods[position].context_mode().name();
            groups.entry((run.questions_of, mode)).or_default().push(ReportedSide { run, configuration, position });
        }
    }
    let has_one = groups.keys().map(|(of, _)| of).collect::<BTreeSet<_>>().len() == 1;
    let titled = groups.into_iter().map(|((of, mode), sides)| {
        let of_run = |run: &ReportedRun| run.letter.map_or(String::new(), |letter| format!(", questions of {letter}"));
        let questions = if has_one { String::new() } else { of_run(&runs[of]) };
        let suffix = if has_one { String::new() } else { format!("-{}", of + 1) };
        RankedGroup { title: format!("context mode {mode}{questions}"), name: format!("{mode}{suffix}"), sides }
    });
    titled.collect()
}

impl ReportedRun {
    /// Whether its questions were timed one at a time.
    pub(super) fn is_latency_run(&self) -> bool {
        self.open.resolved.job.run.mode == TimingMode::Latency
    }

    /// The devices of its models, as its job names them.
    pub(super) fn devices(&self) -> BTreeSet<String> {
        let services = self.open.resolved.job.service.values();
        let tables = services.filter_map(|service| serde_json::to_value(service).ok());
        tables.filter_map(|table| Some(table.get("device")?.as_str()?.to_owned())).collect()
    }

    /// The folder of its tables.
    pub(super) fn folder(&self) -> String {
        self.open.places.store.full_name(&layout::run_folder(self.open.id()))
    }
}

impl<'a> ReportedSide<'a> {
    /// Its name, with the letter of its run and a mark if it is a control.
    pub(super) fn label(&self) -> String {
        let name = marked_control(&self.configuration.name, self.is_control());
        self.run.letter.map_or_else(|| name.clone(), |letter| format!("{letter}:{name}"))
    }

    /// The label beside a figure of a measure, with the star of a figure that is not measured to its cut-off.
    pub(super) fn label_of(&self, measure: &str) -> String {
        let star = if self.is_short(measure) { SHORT_MARK } else { "" };
        format!("{}{star}", self.label())
    }

    /// Whether it ranks fewer passages than the cut-off of a measure.
    pub(super) fn is_short(&self, measure: &str) -> bool {
        self.row("all", measure).is_some_and(|row| row.value.is_some() && row.ranked.is_some())
    }

    pub(super) fn is_control(&self) -> bool {
        self.configuration.control.is_some()
    }

    pub(super) fn position(&self) -> u32 {
        self.position as u32
    }

    pub(super) fn row(&self, stratum: &str, measure: &str) -> Option<&'a MeasureRow> {
        let at = self.run.rows.get(&key(&self.configuration.name, stratum, measure))?;
        self.run.figures.measures.get(*at)
    }

    pub(super) fn value(&self, stratum: &str, measure: &str) -> Option<f64> {
        self.row(stratum, measure)?.value
    }

    pub(super) fn costs(&self) -> Option<&'a ConfigurationCosts> {
        let costs = self.run.costs.as_ref()?;
        costs.configurations.iter().find(|found| found.configuration == self.configuration.name)
    }

    pub(super) fn swept(&self) -> Option<&'a SweptName> {
        self.run.swept.get(&self.configuration.name).filter(|swept| !swept.values.is_empty())
    }
}

impl<'a> RankedGroup<'a> {
    /// The measures that plots show: of answers EM or an accuracy, and of rankings the recall of all gold at the
    /// largest k; those of them that a configuration has.
    pub(super) fn headline_measures(&self) -> Vec<String> {
        let names = self.measures();
        let cut_off = |name: &&String| name.strip_prefix("recall_all@").and_then(|k| k.parse::<u32>().ok());
        let of_answers = names.iter().find(|name| *name == "em" || *name == "has_answer");
        let of_judges = names.iter().find(|name| *name == "accuracy" || name.starts_with("acc_"));
        let deepest = names.iter().filter(|name| cut_off(name).is_some()).max_by_key(cut_off);
        let chosen: Vec<String> = [of_judges, of_answers, deepest].into_iter().flatten().cloned().collect();
        if chosen.is_empty() { names.into_iter().take(1).collect() } else { chosen.into_iter().take(2).collect() }
    }

    /// All measures of which a configuration has a value, in the order of the table `measures`.
    pub(super) fn measures(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let runs = self.sides.iter().map(|side| side.run);
        for name in runs.flat_map(|run| run.open.evaluator.measure_set().names()) {
            if !names.contains(name) && self.sides.iter().any(|side| side.value("all", name).is_some()) {
                names.push(name.clone());
            }
        }
        names
    }

    /// The configuration of a run with which the others are compared: the first one that is no control and is measured
    /// to the cut-off of the measure, or else the first one that is no control and has a value.
    pub(super) fn base(&self, run: &ReportedRun, measure: &str) -> Option<ReportedSide<'a>> {
        let is_known = |side: &&ReportedSide<'_>| {
            side.run.open.id() == run.open.id() && !side.is_control() && side.value("all", measure).is_some()
        };
        let mut known = self.sides.iter().filter(is_known).copied();
        let first = known.clone().next()?;
        Some(known.find(|side| !side.is_short(measure)).unwrap_or(first))
    }

    /// The configurations of a plot, in the job's order: those with a value, at most [`MOST_SERIES`], the best ones.
    pub(super) fn best_sides(&self, measure: &str) -> Vec<ReportedSide<'a>> {
        let known = self.sides.iter().enumerate().filter_map(|(at, side)| Some((at, side.value("all", measure)?)));
        let mut ranked: Vec<(usize, f64)> = known.collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked.truncate(MOST_SERIES);
        ranked.sort_by_key(|(at, _)| *at);
        ranked.into_iter().map(|(at, _)| self.sides[at]).collect()
    }

    /// The rule of [`RankedGroup::best_sides`] in words, where it leaves configurations out.
    pub(super) fn choice_note(&self, measure: &str) -> String {
        let known = self.sides.iter().filter(|side| side.value("all", measure).is_some()).count();
        if known <= MOST_SERIES {
            return String::new();
        }
        format!("Shown are the {MOST_SERIES} configurations with the highest {measure} of {known}; tables have all. ")
    }
}
