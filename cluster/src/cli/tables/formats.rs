//! The measures of a run for a document: Markdown, LaTeX, HTML with the best figure of each column bold, or CSV.

use super::fitted::FigureTable;
use super::measures::{
    MeasureChoice, caption, cell_text, coverage, coverage_text, left_out_note, most_questions, name_columns,
    question_count, unfinished_note,
};
use super::parts::{FigureColumns, FigurePart, figure_parts, swept_parts};
use super::view::TableFormat;
use super::{SHORT_MARK, SHORT_NOTE, UNKNOWN, markdown_table};
use crate::print;
use anyhow::Result;
use hopeval_jobs::job::sweep::Configuration;
use hopeval_jobs::report::compare::{Comparison, ComparisonResults};
use hopeval_jobs::report::show::RunFigures;
use hopeval_jobs::run::open::OpenRun;
use hopeval_measures::MeasureSet;
use hopeval_results::tables::MeasureRow;

/// The level below which a difference has a mark.
const LEVEL: f64 = 0.05;
/// The mark of a figure that differs from that of `--against`.
const DIFFERENCE_MARK: &str = "\u{2020}";

/// A run's measures in a format for documents. `compared` has the differences from the configuration of `--against`,
/// for each stratum.
///
/// # Errors
/// A filter or a kind of strata that fits nothing; a table that cannot be written.
pub(crate) fn document_tables(
    run: &OpenRun,
    shown: &RunFigures,
    choice: &MeasureChoice,
    format: TableFormat,
    compared: &[ComparisonResults],
) -> Result<String> {
    let names = swept_parts(run);
    let parts = figure_parts(run, shown, &names, choice)?;
    let differences: Vec<&Comparison> = compared.iter().flat_map(|found| &found.differences).collect();
    let mut notes: Vec<String> = unfinished_note(shown).into_iter().collect();
    if !shown.replicates.is_empty() {
        notes.push("means over replicates are not here: without --format, or with --json, they are shown".to_owned());
    }
    if format == TableFormat::Csv {
        notes.iter().for_each(|note| print::note(note));
        return csv_table(&parts);
    }
    let mut text = format!("{}\n", comment(format, &format!("run {}: {}", run.id(), run.record.job)));
    for note in &notes {
        text.push_str(&format!("\n{}\n", comment(format, note)));
    }
    for part in &parts {
        let marks = FigureMarks { best: part.best_values(run), differences: &differences };
        let table = document_table(part, choice, format, &marks, run.evaluator.measure_set());
        let caption = [Some(caption(part, choice)), left_out_note(part)].into_iter().flatten().collect::<Vec<_>>();
        text.push_str(&format!("\n{}\n", comment(format, &caption.join("; "))));
        text.push_str(&match format {
            TableFormat::Latex => latex_table(&table),
            TableFormat::Html => html_table(&table),
            TableFormat::Md | TableFormat::Csv => {
                let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
                format!("\n{}\n", markdown_table(&header, table.rows.iter().cloned()))
            }
        });
    }
    if let Some(found) = compared.first() {
        let against = &found.against;
        let mut note = format!(
            "{DIFFERENCE_MARK}: differs from {against} at the 5 % level, paired by question, Holm over the rows"
        );
        if !shown.replicates.is_empty() {
            note.push_str("; single replicates are not tested");
        }
        if !found.left_out.is_empty() {
            note.push_str(&format!("; of another context mode, and not tested: {}", found.left_out.join(", ")));
        }
        text.push_str(&format!("\n{}\n", comment(format, &note)));
    }
    let figures = || parts.iter().flat_map(|part| &part.rows).flat_map(|row| row.figures.iter().flatten());
    if figures().any(|figure| figure.value.is_some() && figure.ranked.is_some()) {
        text.push_str(&format!("\n{}\n", comment(format, SHORT_NOTE)));
    }
    Ok(text.trim_end().to_owned())
}

/// The figures to stand out.
struct FigureMarks<'a> {
    /// The best value of each column.
    best: Vec<Option<f64>>,
    differences: &'a [&'a Comparison],
}

impl FigureMarks<'_> {
    fn is_best(&self, column: usize, figure: &MeasureRow) -> bool {
        figure.value.is_some() && figure.value == self.best[column]
    }

    /// Replicates are tested as one configuration: the test of their mean is none of a single one.
    fn is_different(&self, configuration: &Configuration, figure: &MeasureRow) -> bool {
        if configuration.replicate.is_some() {
            return false;
        }
        let same = |found: &&&Comparison| {
            found.configuration == configuration.name
                && found.measure == figure.measure
                && found.stratum == figure.stratum
        };
        self.differences.iter().find(same).is_some_and(|found| found.p_holm.is_some_and(|p| p < LEVEL))
    }
}

/// The cells of a part, in the format's own characters.
fn document_table(
    part: &FigurePart<'_>,
    choice: &MeasureChoice,
    format: TableFormat,
    marks: &FigureMarks<'_>,
    set: &MeasureSet,
) -> FigureTable {
    let mut table = name_columns(part);
    let is_over_strata = matches!(part.columns, FigureColumns::Strata { .. });
    if !is_over_strata {
        table.push_column("n", part.rows.iter().map(|row| question_count(row).to_string()).collect());
        let coverages = part.rows.iter().map(|row| coverage_text(coverage(row, set)));
        table.push_column("coverage", coverages.collect());
    }
    table.names = table.header.len();
    let escape = |text: &mut String| *text = escaped(format, text);
    table.header.iter_mut().for_each(escape);
    table.rows.iter_mut().flatten().for_each(escape);
    for (column, name) in part.columns.names().iter().enumerate() {
        let most = most_questions(part, column);
        let cells = part.rows.iter().map(|row| {
            let Some(figure) = row.figures[column] else { return escaped(format, UNKNOWN) };
            let mut text = cell_text(figure, row, choice, is_over_strata.then_some(most));
            if marks.is_different(row.named.configuration, figure) {
                text.push_str(DIFFERENCE_MARK);
            }
            let text = escaped(format, &text);
            if marks.is_best(column, figure) { bold(format, &text) } else { text }
        });
        let cells = cells.collect();
        let heading = if is_over_strata { format!("{name} (n = {most})") } else { (*name).to_owned() };
        table.push_column(&escaped(format, &heading), cells);
    }
    table
}

/// A text in the characters that a format allows, on one line.
fn escaped(format: TableFormat, text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    match format {
        TableFormat::Csv => text,
        TableFormat::Md => text.replace('|', "\\|").replace(SHORT_MARK, "\\*"),
        TableFormat::Html => {
            text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
        }
        TableFormat::Latex => {
            let character = |c: char| match c {
                '\\' => "\\textbackslash{}".to_owned(),
                '&' | '%' | '$' | '#' | '_' | '{' | '}' => format!("\\{c}"),
                '~' => "\\textasciitilde{}".to_owned(),
                '^' => "\\textasciicircum{}".to_owned(),
                '±' => "$\\pm$".to_owned(),
                '–' => "--".to_owned(),
                '…' => "\\ldots{}".to_owned(),
                '†' => "$^\\dagger$".to_owned(),
                '*' => "$^*$".to_owned(),
                '|' => "\\textbar{}".to_owned(),
                '<' => "\\textless{}".to_owned(),
                '>' => "\\textgreater{}".to_owned(),
                c => c.to_string(),
            };
            text.chars().map(character).collect()
        }
    }
}

fn bold(format: TableFormat, text: &str) -> String {
    match format {
        TableFormat::Md => format!("**{text}**"),
        TableFormat::Latex => format!("\\textbf{{{text}}}"),
        TableFormat::Html => format!("<strong>{text}</strong>"),
        TableFormat::Csv => text.to_owned(),
    }
}

/// A line of text beside the tables.
fn comment(format: TableFormat, text: &str) -> String {
    match format {
        TableFormat::Latex => format!("% {}", text.replace('\n', " ")),
        TableFormat::Html => format!("<p>{}</p>", escaped(format, text)),
        TableFormat::Md => escaped(format, text),
        TableFormat::Csv => text.to_owned(),
    }
}

/// A `tabular`, with names at the left and figures in the middle.
fn latex_table(table: &FigureTable) -> String {
    let columns: String = (0..table.header.len()).map(|column| if column < table.names { 'l' } else { 'c' }).collect();
    let line = |cells: &[String]| format!("{} \\\\\n", cells.join(" & "));
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    format!(
        "\\begin{{tabular}}{{{columns}}}\n\\hline\n{}\\hline\n{rows}\\hline\n\\end{{tabular}}\n",
        line(&table.header)
    )
}

fn html_table(table: &FigureTable) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = table.rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<table>\n<thead>\n{}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n", row(&table.header, "th"))
}

/// A line for each figure: the names, swept values in columns of their own, and every number in full.
fn csv_table(parts: &[FigurePart<'_>]) -> Result<String> {
    let mut swept: Vec<&str> = Vec::new();
    for parameter in parts.iter().flat_map(FigurePart::swept_parameters) {
        if !swept.contains(&parameter) {
            swept.push(parameter);
        }
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    let figures = ["stratum", "measure", "n", "coverage", "value", "stderr", "low", "high", "ranked"];
    let names = ["context_mode", "control", "configuration", "method"];
    writer.write_record(names.iter().chain(&swept).chain(&figures))?;
    for part in parts {
        for row in &part.rows {
            let configuration = row.named.configuration;
            let mut names = vec![part.context_mode, configuration.control.as_deref().unwrap_or_default()];
            names.extend([configuration.name.as_str(), configuration.kind.as_str()]);
            names.extend(swept.iter().map(|parameter| row.swept_value(parameter).unwrap_or_default()));
            for figure in row.figures.iter().flatten().filter(|figure| figure.n > 0) {
                let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
                let ranked = figure.ranked.map_or(String::new(), |ranked| ranked.to_string());
                let mut fields: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
                fields.extend([figure.stratum.clone(), figure.measure.clone(), figure.n.to_string()]);
                fields.extend([figure.coverage, figure.value, figure.stderr, figure.low, figure.high].map(number));
                fields.push(ranked);
                writer.write_record(&fields)?;
            }
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_to_their_format() {
        assert_eq!(escaped(TableFormat::Latex, "recall_all@2 ± 5 % – {k}"), r"recall\_all@2 $\pm$ 5 \% -- \{k\}");
        assert_eq!(escaped(TableFormat::Html, "<a> & \"b\""), "&lt;a&gt; &amp; &quot;b&quot;");
        assert_eq!(escaped(TableFormat::Md, "a|b\n\n*"), r"a\|b  \*");
        assert_eq!(escaped(TableFormat::Latex, "a|b <c>"), r"a\textbar{}b \textless{}c\textgreater{}");
    }

    #[test]
    fn a_latex_table_has_its_rows() {
        let rows = [vec!["bm25".to_owned(), "0.5".to_owned()]];
        let text = latex_table(&FigureTable::new(&["configuration", "em"], rows));
        let wanted = r"\begin{tabular}{lc}
\hline
configuration & em \\
\hline
bm25 & 0.5 \\
\hline
\end{tabular}
";
        assert_eq!(text, wanted);
    }
}
