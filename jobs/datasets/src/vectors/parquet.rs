//! The rows of a Parquet file with a column of names and a column of vectors, each a list of numbers.

use std::path::Path;

use super::error::{VectorError, file_error};
use super::names::RowName;
use super::number::{self, check_number};
use crate::parquet_file::ParquetRows;
use crate::value::{FieldResult, JsonValue, quoted};

/// The most numbers of a vector.
const WIDEST: usize = number::WIDEST as usize;

/// The rows that are still to come.
pub(super) struct ParquetVectors {
    rows: ParquetRows,
    vector_column: String,
    name_column: String,
    /// Numbers of the first vector.
    width: Option<usize>,
}

impl ParquetVectors {
    /// Opens the file. It must have both columns.
    pub(super) fn open(path: &Path, vector_column: &str, name_column: &str) -> Result<Self, VectorError> {
        let rows = ParquetRows::open(path)?;
        let columns = rows.column_names();
        for column in [name_column, vector_column] {
            if !columns.contains(&column) {
                let columns = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
                let found = format!("no such column, but {columns}");
                return Err(file_error(
                    path,
                    column,
                    found,
                    "a column of this name, or the name of another in the job",
                ));
            }
        }
        let (vector_column, name_column) = (vector_column.to_owned(), name_column.to_owned());
        Ok(Self { rows, vector_column, name_column, width: None })
    }

    /// The column of vectors.
    pub(super) fn column(&self) -> &str {
        &self.vector_column
    }

    pub(super) fn row_count(&self) -> u64 {
        self.rows.row_count()
    }

    /// Reads the next vector into `row`, and returns its name; `None` after the last one.
    pub(super) fn read_row(&mut self, row: &mut Vec<f32>) -> Result<Option<RowName>, VectorError> {
        let Self { rows, vector_column, name_column, width } = self;
        let path = rows.path().to_owned();
        let Some((position, value)) = rows.next()? else { return Ok(None) };
        let read = value.required(name_column, JsonValue::id).and_then(|text| {
            value.required(vector_column, |vector| read_vector(vector, width, row))?;
            Ok(RowName { text, line: 0 })
        });
        Ok(Some(read.map_err(|error| error.in_row(&path, position))?))
    }
}

/// Reads a vector of `width` numbers; the first one says how many all have.
fn read_vector(vector: &JsonValue<'_>, width: &mut Option<usize>, row: &mut Vec<f32>) -> FieldResult<()> {
    let items = vector.items()?;
    let wanted = *width.get_or_insert(items.len());
    if items.len() != wanted {
        return Err(vector.type_error(&format!("a list of {wanted} numbers, as in the first row")));
    }
    if !(1..=WIDEST).contains(&wanted) {
        return Err(vector.type_error("lists of 1 to 65536 numbers"));
    }
    row.clear();
    for (index, item) in items.iter().enumerate() {
        let number = match item {
            JsonValue::Number(number) => number.as_f64(),
            _ => None,
        };
        let number = number.ok_or_else(|| item.type_error("finite numbers")).and_then(check_number);
        row.push(number.map_err(|error| error.at_index(index))?);
    }
    Ok(())
}
