//! A run's figures beside published ones: those that compare, and the others by the conditions that differ.

use super::UNKNOWN;
use super::fitted::FigureTable;
use hopeval_jobs::report::reproduce::{FigureDifference, ReproducedFigure, Reproduction};

/// The tables of a reproduction.
pub(crate) fn reproduction_text(found: &Reproduction) -> String {
    let Reproduction { job, run, comparable, figures } = found;
    let mut text = format!(
        "run {run} of the job {job}: {comparable} of {} published figures compare\n\
         differences are the run's figure less the published one, with the 95 % interval of the run's questions; the \
         published figure is taken as exact\n",
        figures.len()
    );
    let comparable: Vec<&ReproducedFigure> = figures.iter().filter(|figure| figure.is_comparable).collect();
    if !comparable.is_empty() {
        text.push_str(&format!("\ncomparable\n\n{}\n", figure_table(&comparable)));
    }
    for (conditions, figures) in by_conditions(figures) {
        text.push_str(&format!("\nnot comparable: {}\n\n{}\n", conditions.join("; "), figure_table(&figures)));
    }
    text
}

/// The figures that do not compare, by their conditions, in order of first appearance.
fn by_conditions(figures: &[ReproducedFigure]) -> Vec<(Vec<String>, Vec<&ReproducedFigure>)> {
    let mut groups: Vec<(Vec<String>, Vec<&ReproducedFigure>)> = Vec::new();
    for figure in figures.iter().filter(|figure| !figure.is_comparable) {
        let conditions: Vec<String> = figure.conditions.iter().map(ToString::to_string).collect();
        match groups.iter_mut().find(|(found, _)| *found == conditions) {
            Some((_, figures)) => figures.push(figure),
            None => groups.push((conditions, vec![figure])),
        }
    }
    groups
}

fn figure_table(figures: &[&ReproducedFigure]) -> String {
    let header =
        ["item", "system", "measure", "published", "run", "difference [95 %]", "n", "unit", "dataset", "setting"];
    FigureTable { names: 3, ..FigureTable::new(&header, figures.iter().map(|figure| cells(figure))) }.to_text()
}

fn cells(figure: &ReproducedFigure) -> Vec<String> {
    let row = &figure.published;
    let system = [row.system.as_str(), row.model.as_str()].join(" ");
    let printed = match row.std {
        Some(std) => format!("{} (std {std})", row.value),
        None => row.value.to_string(),
    };
    vec![
        row.item.clone(),
        system.trim_end().to_owned(),
        row.measure.clone(),
        printed,
        figure.value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.2}")),
        difference_text(figure.difference),
        figure.questions.map_or_else(|| UNKNOWN.to_owned(), |questions| questions.to_string()),
        row.unit.clone(),
        row.dataset.clone(),
        row.setting.clone(),
    ]
}

fn difference_text(difference: Option<FigureDifference>) -> String {
    match difference {
        None => UNKNOWN.to_owned(),
        Some(FigureDifference { value, low: Some(low), high: Some(high) }) => {
            format!("{value:+.2} [{low:+.2}, {high:+.2}]")
        }
        Some(FigureDifference { value, .. }) => format!("{value:+.2}"),
    }
}
