//! JSON Lines of `{id, answer, ranked, supporting, cost}`: all but `id` may be absent or null.
//!
//! `ranked` is a list of names, or of `[name, score]`, best first. `supporting` is a list of `[name, sentence]`. `cost`
//! is an object of figures, or a number, which is money.

use super::{RankedName, RankingsRow, RowCost, refuse_repeats};
use crate::error::{FieldError, RecordPosition};
use crate::value::{FieldResult, JsonValue};

/// The fields of a row.
pub(super) const FIELDS: [&str; 5] = ["id", "answer", "ranked", "supporting", "cost"];

/// Reads a row.
pub(super) fn read_row(record: &[u8], position: RecordPosition) -> FieldResult<RankingsRow> {
    let value = JsonValue::parse(record.trim_ascii())?;
    refuse_others(&value, &FIELDS)?;
    Ok(RankingsRow {
        id: value.required("id", JsonValue::id)?,
        position,
        answer: value.optional("answer", JsonValue::string)?,
        ranked: value.optional("ranked", read_ranked)?.unwrap_or_default(),
        supporting: value.optional("supporting", read_supporting)?.unwrap_or_default(),
        cost: value.optional("cost", read_cost)?.unwrap_or_default(),
    })
}

/// Refuses a field that is not among `names`, which may be a slip.
fn refuse_others(value: &JsonValue<'_>, names: &[&str]) -> FieldResult<()> {
    match value.entries()?.iter().find(|(name, _)| !names.contains(&&**name)) {
        Some((name, _)) => Err(FieldError::new("an unknown field", names.join(", ")).under_key(name)),
        None => Ok(()),
    }
}

/// Reads ranked passages: all of them have scores, or none has.
pub(super) fn read_ranked(value: &JsonValue<'_>) -> FieldResult<Vec<RankedName>> {
    let ranked = value.read_each(read_entry)?;
    let wrong = |index: usize, found: &str, allowed: &str| Err(FieldError::new(found, allowed).at_index(index));
    for (index, pair) in (1..).zip(ranked.windows(2)) {
        match (pair[0].score, pair[1].score) {
            (Some(_), None) => return wrong(index, "no score", "scores of all passages, or of none"),
            (None, Some(_)) => return wrong(index, "a score", "scores of all passages, or of none"),
            (Some(before), Some(score)) if score > before => {
                return wrong(index, &format!("the score {score} after {before}"), "the best passage first");
            }
            _ => {}
        }
    }
    refuse_repeats(ranked.iter().map(|entry| entry.name.as_str())).map_err(|(index, error)| error.at_index(index))?;
    Ok(ranked)
}

fn read_entry(value: &JsonValue<'_>) -> FieldResult<RankedName> {
    let (name, score) = match value {
        JsonValue::List(_) => {
            let [name, score] = value.tuple("a name, or a pair [name, score]")?;
            let score = read_number(score).map_err(|error| error.at_index(1))?;
            (name.id().map_err(|error| error.at_index(0))?, Some(score))
        }
        _ => (value.id()?, None),
    };
    Ok(RankedName { name, score, position: None })
}

/// Reads supporting sentences.
pub(super) fn read_supporting(value: &JsonValue<'_>) -> FieldResult<Vec<(String, u32)>> {
    value.read_each(|item| {
        let [name, sentence] = item.tuple("a pair [name, index of a sentence]")?;
        let name = name.id().map_err(|error| error.at_index(0))?;
        Ok((name, sentence.index().map_err(|error| error.at_index(1))?))
    })
}

/// Reads the cost of a question.
pub(super) fn read_cost(value: &JsonValue<'_>) -> FieldResult<RowCost> {
    if let JsonValue::Number(_) = value {
        return Ok(RowCost { money: Some(read_amount(value)?), ..RowCost::default() });
    }
    refuse_others(value, &RowCost::NAMES)?;
    Ok(RowCost {
        calls: value.optional("calls", read_count)?,
        prompt_tokens: value.optional("prompt_tokens", read_count)?,
        completion_tokens: value.optional("completion_tokens", read_count)?,
        seconds: value.optional("seconds", read_amount)?,
        money: value.optional("money", read_amount)?,
    })
}

fn read_number(value: &JsonValue<'_>) -> FieldResult<f64> {
    let number = if let JsonValue::Number(number) = value { number.as_f64() } else { None };
    number.filter(|number| number.is_finite()).ok_or_else(|| FieldError::new(value.describe(), "a number"))
}

fn read_amount(value: &JsonValue<'_>) -> FieldResult<f64> {
    let number = read_number(value).ok().filter(|number| *number >= 0.0);
    number.ok_or_else(|| FieldError::new(value.describe(), "a number, at least 0"))
}

/// A count of calls or tokens. Sums of counts over any dataset fit 64 bits.
fn read_count(value: &JsonValue<'_>) -> FieldResult<u64> {
    value.index().map(u64::from).map_err(|_| FieldError::new(value.describe(), "a whole number from 0 to 4294967295"))
}
