//! A table with configurations in rows and measures in columns.

use super::UNKNOWN;
use super::fitted::FigureTable;

/// A figure of a configuration in a measure.
pub(crate) struct MeasureCell<'a> {
    /// The configuration.
    pub(crate) configuration: &'a str,
    /// The measure.
    pub(crate) measure: &'a str,
    /// The number of values behind the figure.
    pub(crate) count: u64,
    /// The text of the figure.
    pub(crate) figure: String,
}

/// A table with configurations in rows and measures in columns, both in the order of appearance. The column after the
/// names has the largest count of a row; figures over fewer values show their own count.
pub(crate) fn by_measure(counted: &str, cells: &[MeasureCell<'_>]) -> String {
    let (mut rows, mut columns): (Vec<&str>, Vec<&str>) = Default::default();
    for cell in cells {
        if !rows.contains(&cell.configuration) {
            rows.push(cell.configuration);
        }
        if !columns.contains(&cell.measure) {
            columns.push(cell.measure);
        }
    }
    let body = rows.iter().map(|row| {
        let own = || cells.iter().filter(|cell| cell.configuration == *row);
        let most = own().map(|cell| cell.count).max().unwrap_or(0);
        let figure = |column: &&str| match own().find(|cell| cell.measure == *column) {
            None => UNKNOWN.to_owned(),
            Some(cell) if cell.count < most => format!("{} ({counted} = {})", cell.figure, cell.count),
            Some(cell) => cell.figure.clone(),
        };
        [(*row).to_owned(), most.to_string()].into_iter().chain(columns.iter().map(figure)).collect()
    });
    let header: Vec<&str> = ["configuration", counted].into_iter().chain(columns.iter().copied()).collect();
    FigureTable { names: 2, ..FigureTable::new(&header, body) }.to_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_over_fewer_than_its_row_says_so() {
        let cell =
            |configuration, measure, count| MeasureCell { configuration, measure, count, figure: format!("{count}") };
        let found = by_measure("n", &[cell("z", "em", 9), cell("z", "f1", 7), cell("a", "f1", 8)]);
        let rows: Vec<Vec<&str>> = found
            .lines()
            .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(rows[0], ["configuration", "n", "em", "f1"]);
        assert_eq!(rows[2..], [["z", "9", "9", "7 (n = 7)"], ["a", "8", UNKNOWN, "8"]]);
    }
}
