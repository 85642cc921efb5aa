//! One file per dataset: from a row to the question model.

pub(crate) mod beir;
mod flashrag;
mod hotpotqa;
mod iirc;
mod musique;
pub(crate) mod open;
mod strategyqa;
mod two_wiki;
mod world;

use crate::format::Format;
use crate::question::Question;
use crate::value::{Field, Value};

/// Reads the questions of one row. `n` is its position in the dataset, for datasets without ids.
pub(crate) fn questions(format: Format, row: &Value<'_>, n: u64) -> Field<Vec<Question>> {
    Ok(vec![match format {
        Format::HotpotQa => hotpotqa::question(row)?,
        Format::TwoWiki => two_wiki::question(row)?,
        Format::Musique => musique::question(row)?,
        Format::StrategyQa => strategyqa::question(row)?,
        Format::Iirc => return iirc::questions(row, n),
        Format::Nq | Format::TriviaQa => open::question(row, format, n)?,
        Format::FlashRag => flashrag::question(row)?,
        Format::Beir => beir::question(row)?,
        Format::World => world::question(row)?,
    }])
}

/// An answer: a string as it is, a boolean as `yes` or `no`, a number as its digits.
fn answer(value: &Value<'_>) -> Field<String> {
    match value {
        Value::Bool(true) => Ok("yes".to_owned()),
        Value::Bool(false) => Ok("no".to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        value => value.string(),
    }
}

/// The answers of a dataset with one; the empty answer of a test set is none.
fn single_answer(row: &Value<'_>) -> Field<Vec<String>> {
    let answer = row.optional("answer", Value::string)?;
    Ok(answer.filter(|answer| !answer.is_empty()).into_iter().collect())
}

/// The answers of a dataset with lists: a list, or a string that holds one answer or a list's literal.
fn answer_list(value: &Value<'_>) -> Field<Vec<String>> {
    match value {
        Value::String(text) => Ok(crate::literal::strings(text).unwrap_or_else(|| vec![text.clone().into_owned()])),
        Value::List(_) => value.each(answer),
        Value::Bool(_) | Value::Number(_) => Ok(vec![answer(value)?]),
        _ => Err(crate::error::FieldError::new(value.describe(), "a string, or a list of strings")),
    }
}

/// Appends what `items` has and `list` has not, in order.
fn extend_distinct<T: PartialEq>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) {
    for item in items {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}
