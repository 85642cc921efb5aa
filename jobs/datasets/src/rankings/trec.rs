//! TREC runs: `qid Q0 document rank score tag`, a line for each ranked passage.
//!
//! The order is trec_eval's: by score, the highest first, in single precision; equal scores by the document's name, the
//! last in the order of bytes first. The rank is checked for its form and not used, as in trec_eval.

use std::path::Path;

use super::{RankedName, RankingsRow, RowCost, refuse_repeats};
use crate::error::{FieldError, RecordPosition, RowError};
use crate::value::{FieldResult, quoted};

/// The field of the question's id.
pub(super) const ID: &str = "qid";

/// The field of the passage.
pub(super) const DOCUMENT: &str = "document";

/// The field of the run's name.
pub(super) const TAG: &str = "tag";

const FIELDS: [&str; 6] = [ID, "Q0", DOCUMENT, "rank", "score", TAG];

/// The fields of a line that are used.
struct TrecLine<'l> {
    id: &'l str,
    document: &'l str,
    score: f64,
    tag: &'l str,
}

/// The first field of a line; `None` for an empty line.
pub(super) fn line_id(line: &[u8]) -> Option<&[u8]> {
    line.split(u8::is_ascii_whitespace).find(|field| !field.is_empty())
}

/// Reads the lines of one question, which may stand in several places, in the order of trec_eval. Returns the tag, too.
pub(super) fn read_row(path: &Path, parts: &[(Vec<u8>, RecordPosition)]) -> Result<(RankingsRow, String), RowError> {
    let (mut id, mut tag) = (String::new(), String::new());
    let mut ranked: Vec<RankedName> = Vec::new();
    for (bytes, begin) in parts {
        let mut record = begin.record;
        for (line, text) in (begin.line..).zip(bytes.split(|&byte| byte == b'\n')) {
            if text.trim_ascii().is_empty() {
                continue;
            }
            let position = RecordPosition { record, line };
            record += 1;
            let found = read_line(text).map_err(|error| error.in_row(path, position))?;
            if ranked.is_empty() {
                (id, tag) = (found.id.to_owned(), found.tag.to_owned());
            }
            if found.tag != tag {
                let found = format!("{}, another run than {}", quoted(found.tag), quoted(&tag));
                let error = FieldError::new(found, "the lines of one run").under_key(TAG);
                return Err(error.in_row(path, position));
            }
            let (name, score) = (found.document.to_owned(), Some(found.score));
            ranked.push(RankedName { name, score, position: Some(position) });
        }
    }
    refuse_repeats(ranked.iter().map(|entry| entry.name.as_str())).map_err(|(index, error)| {
        error.under_key(DOCUMENT).in_row(path, ranked[index].position.unwrap_or(parts[0].1))
    })?;
    let key = |entry: &RankedName| entry.score.unwrap_or(f64::NEG_INFINITY) as f32;
    ranked.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| b.name.as_bytes().cmp(a.name.as_bytes())));
    let row = RankingsRow {
        id,
        position: parts[0].1,
        answer: None,
        ranked,
        supporting: Vec::new(),
        cost: RowCost::default(),
    };
    Ok((row, tag))
}

fn read_line(line: &[u8]) -> FieldResult<TrecLine<'_>> {
    let text = std::str::from_utf8(line).map_err(|error| {
        let field = line[..error.valid_up_to()].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let inside = line[..error.valid_up_to()].last().is_some_and(|byte| !byte.is_ascii_whitespace());
        let index = field.count().saturating_sub(usize::from(inside)).min(FIELDS.len() - 1);
        FieldError::new("bytes that are not UTF-8", "UTF-8").under_key(FIELDS[index])
    })?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    if let Some(missing) = FIELDS.get(fields.len()) {
        return Err(FieldError::new("nothing", "six fields: qid Q0 document rank score tag").under_key(missing));
    }
    let [id, _, document, rank, score, tag] = fields[..] else {
        let found = format!("{} fields", fields.len());
        return Err(FieldError::new(found, "six fields: qid Q0 document rank score tag").under_key(TAG));
    };
    if rank.parse::<i64>().is_err() {
        return Err(FieldError::new(quoted(rank), "a whole number").under_key("rank"));
    }
    match score.parse::<f64>() {
        // `inf` and `nan` are numbers for Rust.
        Ok(number) if number.is_finite() => Ok(TrecLine { id, document, score: number, tag }),
        _ => Err(FieldError::new(quoted(score), "a finite number").under_key("score")),
    }
}
