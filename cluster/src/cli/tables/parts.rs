//! The shown figures of a run in parts: one for each stratum and context mode, and controls apart. Figures of different
//! modes are never ranked together.

use super::differences::has_better;
use super::measures::MeasureChoice;
use super::view::{NamedConfiguration, filtered};
use anyhow::{Result, bail};
use hopeval_jobs::job::sweep::{SweptName, swept_names};
use hopeval_jobs::report::show::RunFigures;
use hopeval_jobs::run::open::OpenRun;
use hopeval_results::tables::MeasureRow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A part of the figures.
pub(crate) struct FigurePart<'a> {
    /// The source of the passages.
    pub(crate) context_mode: &'a str,
    /// Whether the rows are controls.
    pub(crate) has_controls: bool,
    /// Columns, by their headings.
    pub(crate) columns: FigureColumns<'a>,
    /// Configurations with their figures.
    pub(crate) rows: Vec<FigureRow<'a>>,
    /// Rows that `--top` leaves out.
    pub(crate) left_out: usize,
}

/// The columns of a part.
#[derive(Clone, Debug)]
pub(crate) enum FigureColumns<'a> {
    /// Measures over one stratum.
    Measures { stratum: &'a str, measures: Vec<&'a str> },
    /// Strata of one measure.
    Strata { measure: &'a str, strata: Vec<&'a str> },
}

impl<'a> FigureColumns<'a> {
    /// The headings.
    pub(crate) fn names(&self) -> &[&'a str] {
        match self {
            Self::Measures { measures, .. } => measures,
            Self::Strata { strata, .. } => strata,
        }
    }
}

/// The figures of a configuration.
pub(crate) struct FigureRow<'a> {
    pub(crate) named: NamedConfiguration<'a>,
    /// By column; `None` where the configuration has no such figure.
    pub(crate) figures: Vec<Option<&'a MeasureRow>>,
}

impl FigureRow<'_> {
    /// The name without swept values.
    pub(crate) fn name(&self) -> &str {
        self.named.parts.map_or(&self.named.configuration.name, |parts| &parts.method)
    }

    /// The label of a swept parameter's value.
    pub(crate) fn swept_value(&self, parameter: &str) -> Option<&str> {
        let values = &self.named.parts?.values;
        values.iter().find(|(name, _)| name == parameter).map(|(_, label)| label.as_str())
    }
}

impl<'a> FigurePart<'a> {
    /// The swept parameters of the rows, in the order of their appearance.
    pub(crate) fn swept_parameters(&self) -> Vec<&'a str> {
        let mut found: Vec<&str> = Vec::new();
        for (name, _) in self.rows.iter().filter_map(|row| row.named.parts).flat_map(|parts| &parts.values) {
            if !found.contains(&name.as_str()) {
                found.push(name);
            }
        }
        found
    }

    /// The best value of each column; `None` for a measure that has no better and worse.
    pub(crate) fn best_values(&self, run: &OpenRun) -> Vec<Option<f64>> {
        let set = run.evaluator.measure_set();
        let best = |column: usize| {
            let rows =
                self.rows.iter().filter_map(move |row| row.figures[column]).filter(|row| has_better(set, &row.measure));
            rows.filter_map(|row| row.value).max_by(f64::total_cmp)
        };
        (0..self.columns.names().len()).map(best).collect()
    }
}

/// All figures of a run, for look-ups by configuration, stratum and measure.
struct FigureIndex<'a>(HashMap<(&'a str, &'a str, &'a str), &'a MeasureRow>);

impl<'a> FigureIndex<'a> {
    fn new(shown: &'a RunFigures) -> Self {
        let key = |row: &'a MeasureRow| (row.configuration.as_str(), row.stratum.as_str(), row.measure.as_str());
        Self(shown.measures.iter().map(|row| (key(row), row)).collect())
    }

    fn get(&self, configuration: &'a str, stratum: &'a str, measure: &'a str) -> Option<&'a MeasureRow> {
        self.0.get(&(configuration, stratum, measure)).copied()
    }
}

/// The names of a run's configurations, in parts where they are points of a sweep.
pub(crate) fn swept_parts(run: &OpenRun) -> HashMap<String, SweptName> {
    let mut parts = swept_names(&run.resolved.job);
    parts.retain(|_, parts| !parts.values.is_empty());
    parts
}

/// The shown parts. `parts` has the names' parts, by name.
///
/// # Errors
/// A filter that leaves no configuration; strata of a kind that the run does not have.
pub(crate) fn figure_parts<'a>(
    run: &'a OpenRun,
    shown: &'a RunFigures,
    parts: &'a HashMap<String, SweptName>,
    choice: &'a MeasureChoice,
) -> Result<Vec<FigurePart<'a>>> {
    let index = FigureIndex::new(shown);
    let configurations = run.resolved.configurations.iter().enumerate();
    let all = configurations.map(|(position, configuration)| NamedConfiguration {
        position,
        configuration,
        parts: parts.get(&configuration.name),
    });
    let kept = filtered(all.collect(), &choice.view.filters)?;
    // Without figures for the headline measures, all others are shown.
    let has_figures = |measure: &str| shown.measures.iter().any(|row| row.n > 0 && row.measure == measure);
    let names: Vec<&str> = run.evaluator.measure_set().names().iter().map(String::as_str).collect();
    let wanted: Vec<&str> = if choice.measures.is_empty() {
        let headline: Vec<&str> = names.iter().copied().filter(|name| choice.is_headline(name)).collect();
        if headline.iter().any(|name| has_figures(name)) { headline } else { names }
    } else {
        names.into_iter().filter(|name| choice.measures.iter().any(|measure| measure == name)).collect()
    };
    let mut found = Vec::new();
    if let Some(kind) = &choice.view.by {
        let strata = strata_of_kind(run, kind)?;
        for measure in wanted {
            let columns = FigureColumns::Strata { measure, strata: strata.clone() };
            found.extend(parts_of_columns(&index, &kept, &columns, choice));
        }
    } else {
        for stratum in choice.strata() {
            let columns = FigureColumns::Measures { stratum, measures: wanted.clone() };
            found.extend(parts_of_columns(&index, &kept, &columns, choice));
        }
    }
    Ok(found)
}

/// The strata `KIND=..` of a run.
fn strata_of_kind<'a>(run: &'a OpenRun, kind: &str) -> Result<Vec<&'a str>> {
    let of_kind = |name: &str| name.split_once('=').is_some_and(|(own, _)| own == kind);
    let strata = run.evaluator.strata();
    let found: Vec<&str> = strata.iter().map(String::as_str).filter(|name| of_kind(name)).collect();
    if found.is_empty() {
        let kinds: BTreeSet<&str> = strata.iter().filter_map(|name| Some(name.split_once('=')?.0)).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
        bail!("--by {kind}: the run has no strata of this kind; there are {kinds}");
    }
    Ok(found)
}

/// The parts with these columns, as far as any configuration has a value in them.
fn parts_of_columns<'a>(
    index: &FigureIndex<'a>,
    configurations: &[NamedConfiguration<'a>],
    columns: &FigureColumns<'a>,
    choice: &'a MeasureChoice,
) -> Vec<FigurePart<'a>> {
    let figures_of = |name: &'a str| -> Vec<Option<&'a MeasureRow>> {
        match columns {
            FigureColumns::Measures { stratum, measures } => {
                measures.iter().map(|measure| index.get(name, stratum, measure)).collect()
            }
            FigureColumns::Strata { measure, strata } => {
                strata.iter().map(|stratum| index.get(name, stratum, measure)).collect()
            }
        }
    };
    let rows: Vec<FigureRow<'a>> = configurations
        .iter()
        .map(|&named| FigureRow { named, figures: figures_of(&named.configuration.name) })
        .filter(|row| row.figures.iter().any(Option::is_some))
        .collect();
    let has_value = |column: usize| rows.iter().any(|row| row.figures[column].is_some_and(|figure| figure.n > 0));
    let kept: Vec<usize> = (0..columns.names().len()).filter(|&column| has_value(column)).collect();
    let only = |names: &[&'a str]| kept.iter().map(|&column| names[column]).collect::<Vec<_>>();
    let columns = match columns {
        FigureColumns::Measures { stratum, measures } => FigureColumns::Measures { stratum, measures: only(measures) },
        FigureColumns::Strata { measure, strata } => FigureColumns::Strata { measure, strata: only(strata) },
    };
    let stratum = if let FigureColumns::Measures { stratum, .. } = columns { stratum } else { "all" };
    let mut modes: BTreeMap<(&str, bool), Vec<FigureRow<'a>>> = BTreeMap::new();
    for row in rows {
        let Some(mode) = row.figures.iter().flatten().map(|figure| figure.context_mode.as_str()).next() else {
            continue;
        };
        let figures = kept.iter().map(|&column| row.figures[column]).collect();
        let is_control = row.named.configuration.control.is_some();
        modes.entry((mode, is_control)).or_default().push(FigureRow { figures, ..row });
    }
    let part = |((context_mode, has_controls), mut rows): (_, Vec<FigureRow<'a>>)| {
        if let Some(measure) = choice.view.sort.as_deref() {
            let value = |row: &FigureRow<'a>| index.get(&row.named.configuration.name, stratum, measure)?.value;
            let value = |row: &FigureRow<'a>| value(row).unwrap_or(f64::NEG_INFINITY);
            rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
        }
        let most = choice.view.top.map_or(rows.len(), |top| top.get().min(rows.len()));
        let left_out = rows.len() - most;
        rows.truncate(most);
        FigurePart { context_mode, has_controls, columns: columns.clone(), rows, left_out }
    };
    modes.into_iter().map(part).collect()
}
