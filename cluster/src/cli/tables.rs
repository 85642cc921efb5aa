//! Tables that commands print; all paste into Markdown.

pub(super) mod agreement;
pub(super) mod by_measure;
pub(super) mod compared;
pub(super) mod costs;
pub(super) mod differences;
pub(super) mod fitted;
pub(super) mod formats;
pub(super) mod incurred;
pub(super) mod measures;
pub(super) mod money;
mod parts;
pub(super) mod probe;
pub(super) mod question_list;
pub(super) mod raced;
pub(super) mod races;
pub(super) mod replicates;
pub(super) mod reproduced;
pub(super) mod requests;
pub(super) mod scored;
pub(super) mod selection;
mod setup_rows;
pub(super) mod view;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

/// The text for an unknown or meaningless figure.
pub(crate) const UNKNOWN: &str = "–";

/// A Markdown table.
pub(crate) fn markdown_table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    table.to_string()
}

/// Marks a figure whose cut-off is beyond what its configuration ranks; [`SHORT_NOTE`] says so beneath the table.
pub(crate) const SHORT_MARK: &str = "*";

/// The meaning of [`SHORT_MARK`].
pub(crate) const SHORT_NOTE: &str = "*: not measured to its cut-off: the configuration ranks fewer passages, and the \
                                     figure is of these";

/// A figure, marked if its configuration ranks only `ranked` passages.
fn marked(figure: String, ranked: Option<u32>) -> String {
    if ranked.is_some() { figure + SHORT_MARK } else { figure }
}

/// A p value; one that four digits would show as 0 is told by its bound.
pub(crate) fn p_value_text(p: Option<f64>) -> String {
    match p {
        Some(p) if p < 0.000_05 => "<0.0001".to_owned(),
        Some(p) => format!("{p:.4}"),
        None => UNKNOWN.to_owned(),
    }
}

/// A figure with its standard error, as far as they are known.
fn estimate_text(value: Option<f64>, stderr: Option<f64>) -> String {
    match (value, stderr) {
        (Some(value), Some(stderr)) => format!("{value:.4} ± {stderr:.4}"),
        (Some(value), None) => format!("{value:.4}"),
        _ => UNKNOWN.to_owned(),
    }
}
