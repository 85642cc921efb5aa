//! Reads the JSON that language models really write, and counts every repair by name.
//!
//! Models put fences and prose around a value, write Python's literals and quotes, forget commas and closing brackets,
//! and stop anywhere. [`read_values`] reads all of this. It depends on nothing but a type for the values.
//!
//! # Contract
//! * No repairs are counted if, and only if, the text is one JSON value by RFC 8259, without repeated keys and without
//!   numbers beyond 64 bits, and nothing but white space stands around it.
//! * Nothing is invented: every string, number and key is written in the text. A text that is cut within a string keeps
//!   the string's beginning; keys without a value are dropped. Both are counted.
//! * Time is linear in the length of the text: nothing is read twice but a window of bounded length.
//! * Containers deeper than [`MAX_DEPTH`] are refused, so that the values can be walked by recursion.

mod containers;
mod cursor;
mod failure;
mod literals;
mod lookahead;
mod repair;
mod scalars;
mod strings;
mod surroundings;

pub use containers::MAX_DEPTH;
pub use failure::{FailureReason, ParseFailure};
pub use repair::{Repair, RepairCounts};
pub use surroundings::{FoundValue, read_values};

use serde_json::Value;

/// The value that is taken of several in one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueChoice {
    /// The first.
    First,
    /// The last: of a model that thinks aloud or corrects itself.
    Last,
    /// The one with the most text; the first of several.
    Largest,
}

/// A value with the repairs that it took.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedValue {
    /// The value.
    pub value: Value,
    /// The repairs. Empty: the text was JSON.
    pub repairs: RepairCounts,
}

/// Reads the chosen value of `text`.
///
/// ```
/// use hopeval_loosejson::{Repair, ValueChoice, parse};
/// let parsed = parse("Sure! {'simple': True,}", ValueChoice::Largest).unwrap();
/// assert_eq!(parsed.value, serde_json::json!({"simple": true}));
/// assert_eq!(parsed.repairs.count(Repair::Literal), 1);
/// assert_eq!(parsed.repairs.count(Repair::TrailingComma), 1);
/// ```
///
/// # Errors
/// A text without a readable value.
pub fn parse(text: &str, choice: ValueChoice) -> Result<ParsedValue, ParseFailure> {
    choose(text, read_values(text)?, choice, FailureReason::NoValue)
}

/// Reads the chosen object of `text` among those with at least one of `keys`; among all objects if `keys` is empty.
///
/// # Errors
/// A text without such an object.
pub fn parse_object(text: &str, keys: &[&str], choice: ValueChoice) -> Result<ParsedValue, ParseFailure> {
    let mut found = read_values(text)?;
    let values = found.len();
    found.retain(|found| match &found.value {
        Value::Object(members) => keys.is_empty() || keys.iter().any(|key| members.contains_key(*key)),
        _ => false,
    });
    let passed_over = values - found.len();
    let mut parsed = choose(text, found, choice, FailureReason::NoObject)?;
    parsed.repairs.add_times(Repair::SeveralValues, passed_over as u32);
    Ok(parsed)
}

/// The chosen value; those not chosen are counted.
fn choose(
    text: &str,
    found: Vec<FoundValue>,
    choice: ValueChoice,
    reason: FailureReason,
) -> Result<ParsedValue, ParseFailure> {
    let others = found.len().saturating_sub(1);
    let chosen = match choice {
        ValueChoice::First => found.into_iter().next(),
        ValueChoice::Last => found.into_iter().next_back(),
        ValueChoice::Largest => found.into_iter().rev().max_by_key(|found| found.range.len()),
    };
    let Some(FoundValue { value, mut repairs, .. }) = chosen else {
        return Err(ParseFailure { reason, text: text.to_owned() });
    };
    repairs.add_times(Repair::SeveralValues, others as u32);
    Ok(ParsedValue { value, repairs })
}
