//! CSV (RFC 4180) with the columns `id`, `answer`, `ranked`, `supporting` and `cost`, in any order; all but `id` may be
//! left out.
//!
//! An empty cell says nothing. `ranked` is names between spaces, best first, or a JSON list as in JSON Lines.
//! `supporting` is a JSON list, `cost` a number or a JSON object, as there.

use std::borrow::Cow;

use super::json_lines::{FIELDS, read_cost, read_ranked, read_supporting};
use super::{RankedName, RankingsRow, refuse_repeats, without_mark};
use crate::error::{FieldError, RecordPosition};
use crate::value::{FieldResult, JsonValue, quoted};

/// A column: one of [`FIELDS`].
pub(super) type Column = &'static str;

/// Whether a first line names a column `id`.
pub(super) fn names_id(line: &[u8]) -> bool {
    let cells = std::str::from_utf8(without_mark(line)).ok().and_then(|line| split_cells(line, &FIELDS).ok());
    cells.is_some_and(|cells| cells.iter().any(|cell| cell.trim() == "id"))
}

/// Reads the first line.
pub(super) fn read_header(record: &[u8]) -> FieldResult<Vec<Column>> {
    let names = split_cells(utf8_text(record)?, &[])?;
    let mut columns: Vec<Column> = Vec::with_capacity(names.len());
    for name in &names {
        let name = name.trim();
        let Some(column) = FIELDS.into_iter().find(|field| *field == name) else {
            let found = format!("the column {}", quoted(name));
            return Err(FieldError::new(found, FIELDS.join(", ")).under_key(name));
        };
        if columns.contains(&column) {
            return Err(FieldError::new("a second column of this name", "each column once").under_key(name));
        }
        columns.push(column);
    }
    match columns.contains(&"id") {
        true => Ok(columns),
        false => Err(FieldError::new("no such column", "a first line with the column `id`").under_key("id")),
    }
}

/// Reads a row.
pub(super) fn read_row(columns: &[Column], record: &[u8], position: RecordPosition) -> FieldResult<RankingsRow> {
    let cells = split_cells(utf8_text(record)?, columns)?;
    if let Some(missing) = columns.get(cells.len()) {
        let found = format!("a row of {} cells", cells.len());
        return Err(FieldError::new(found, format!("{} cells", columns.len())).under_key(missing));
    }
    if cells.len() > columns.len() {
        let found = format!("a row of {} cells", cells.len());
        let last = columns.last().copied().unwrap_or("id");
        return Err(FieldError::new(found, format!("{} cells", columns.len())).under_key(last));
    }
    let cell = |name: &str| {
        let found = columns.iter().zip(&cells).find(|(column, _)| **column == name);
        found.map(|(_, cell)| &**cell).filter(|cell| !cell.trim().is_empty())
    };
    let id = cell("id").ok_or_else(|| FieldError::new("nothing", "this field is required").under_key("id"))?;
    Ok(RankingsRow {
        id: id.to_owned(),
        position,
        answer: cell("answer").map(str::to_owned),
        ranked: in_cell("ranked", cell("ranked"), read_ranked_cell)?,
        supporting: in_cell("supporting", cell("supporting"), |text| read_json(text, read_supporting))?,
        cost: in_cell("cost", cell("cost"), |text| read_json(text, read_cost))?,
    })
}

/// Reads the cell of a column; nothing of an empty one.
fn in_cell<T: Default>(column: &str, cell: Option<&str>, read: impl Fn(&str) -> FieldResult<T>) -> FieldResult<T> {
    cell.map_or_else(|| Ok(T::default()), |text| read(text).map_err(|error| error.under_key(column)))
}

fn read_ranked_cell(text: &str) -> FieldResult<Vec<RankedName>> {
    if text.trim_start().starts_with('[') {
        return read_json(text, read_ranked);
    }
    let name = |name: &str| RankedName { name: name.to_owned(), score: None, position: None };
    let ranked: Vec<RankedName> = text.split_whitespace().map(name).collect();
    refuse_repeats(ranked.iter().map(|entry| entry.name.as_str())).map_err(|(index, error)| error.at_index(index))?;
    Ok(ranked)
}

fn read_json<T>(text: &str, read: impl Fn(&JsonValue<'_>) -> FieldResult<T>) -> FieldResult<T> {
    read(&JsonValue::parse(text.trim().as_bytes())?)
}

fn utf8_text(record: &[u8]) -> FieldResult<&str> {
    std::str::from_utf8(record).map_err(|error| {
        let found = format!("bytes that are not UTF-8 at byte {} of the row", error.valid_up_to());
        FieldError::new(found, "UTF-8").under_key("id")
    })
}

/// The cells of a record. Errors name the column of `columns`.
fn split_cells<'r>(record: &'r str, columns: &[Column]) -> FieldResult<Vec<Cow<'r, str>>> {
    let record = record.strip_suffix('\n').map_or(record, |line| line.strip_suffix('\r').unwrap_or(line));
    let (mut cells, mut rest) = (Vec::new(), record);
    loop {
        let wrong = |found: String, allowed: &str| {
            let column = columns.get(cells.len()).or(columns.last()).copied().unwrap_or("id");
            Err(FieldError::new(found, allowed).under_key(column))
        };
        let Some(quoted_part) = rest.strip_prefix('"') else {
            let end = rest.find(',').unwrap_or(rest.len());
            if rest[..end].contains('"') {
                let allowed = "quotes around the whole cell, and two for each one inside";
                return wrong(format!("a quote within {}", quoted(&rest[..end])), allowed);
            }
            cells.push(Cow::Borrowed(&rest[..end]));
            match rest.get(end + 1..) {
                Some(more) => rest = more,
                None => return Ok(cells),
            }
            continue;
        };
        let Some(end) = closing_quote(quoted_part) else {
            return wrong("a quote without its end".to_owned(), "a quote at the end of a cell that begins with one");
        };
        let cell = Cow::Borrowed(&quoted_part[..end]);
        let cell = if cell.contains("\"\"") { Cow::Owned(cell.replace("\"\"", "\"")) } else { cell };
        let after = &quoted_part[end + 1..];
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => {}
            None => {
                let found = format!("{} after a quoted cell", quoted(after));
                return wrong(found, "a comma or the end of the line");
            }
        }
        cells.push(cell);
        if after.is_empty() {
            return Ok(cells);
        }
    }
}

/// The place of the quote that ends a cell, after its first quote.
fn closing_quote(text: &str) -> Option<usize> {
    let (bytes, mut at) = (text.as_bytes(), 0);
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == b'"')?;
        if bytes.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}
