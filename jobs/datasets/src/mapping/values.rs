//! Values of mapped fields, which files of others write in several ways: a text or a list, pairs or objects, JSON or a
//! Python literal inside a cell.

use std::borrow::Cow;

use crate::error::FieldError;
use crate::formats::hotpotqa::{SentenceJoin, join_sentences};
use crate::literal;
use crate::passage::PassageRecord;
use crate::value::{FieldResult, JsonValue};

/// A text that is a list or an object, written as JSON or as a Python list of texts; any other value as it is.
pub(super) fn opened<'v>(value: &'v JsonValue<'_>) -> Cow<'v, JsonValue<'v>> {
    let JsonValue::String(text) = value else { return Cow::Borrowed(value) };
    if !text.trim_start().starts_with(['[', '{', '(']) {
        return Cow::Borrowed(value);
    }
    if let Ok(parsed @ (JsonValue::List(_) | JsonValue::Object(_))) = JsonValue::parse(text.trim().as_bytes()) {
        return Cow::Owned(parsed);
    }
    match literal::parse_strings(text) {
        Some(items) => {
            Cow::Owned(JsonValue::List(items.into_iter().map(|item| JsonValue::String(item.into())).collect()))
        }
        None => Cow::Borrowed(value),
    }
}

/// Reads each item of a list; any other value is the only item.
pub(super) fn each_item<T>(
    value: &JsonValue<'_>,
    mut read: impl FnMut(&JsonValue<'_>) -> FieldResult<T>,
) -> FieldResult<Vec<T>> {
    let value = opened(value);
    match &*value {
        JsonValue::List(items) => {
            items.iter().enumerate().map(|(index, item)| read(item).map_err(|error| error.at_index(index))).collect()
        }
        value => Ok(vec![read(value)?]),
    }
}

/// Answers: a list of them, also in lists, or one. Empty ones and nulls are none.
pub(super) fn answers(value: &JsonValue<'_>) -> FieldResult<Vec<String>> {
    let lists = each_item(value, |item| match item {
        JsonValue::Null => Ok(Vec::new()),
        JsonValue::List(_) => each_item(item, scalar_text),
        item => Ok(vec![scalar_text(item)?]),
    })?;
    let mut answers: Vec<String> = Vec::new();
    crate::formats::extend_distinct(&mut answers, lists.into_iter().flatten().filter(|answer| !answer.is_empty()));
    Ok(answers)
}

/// A text as it is, a boolean as `yes` or `no`, a number as its digits.
pub(super) fn scalar_text(value: &JsonValue<'_>) -> FieldResult<String> {
    crate::formats::answer_text(value)
}

/// A label of a stratum: a text that is not empty, a number or a boolean.
pub(super) fn label(value: &JsonValue<'_>) -> FieldResult<String> {
    match value {
        JsonValue::String(_) => value.text(),
        JsonValue::Number(_) | JsonValue::Bool(_) => Ok(value.note_text()),
        _ => Err(FieldError::new(value.describe(), "a text, a number, true or false")),
    }
}

/// A whole number, or its digits in a cell.
pub(super) fn count(value: &JsonValue<'_>) -> FieldResult<u32> {
    match value {
        JsonValue::String(text) => {
            let wrong = || FieldError::new(value.describe(), "a whole number from 0");
            text.trim().parse().map_err(|_| wrong())
        }
        // A column of counts with gaps is one of floating-point numbers where pandas has written it.
        JsonValue::Number(number) => {
            let whole =
                number.as_f64().filter(|count| count.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(count));
            whole.map_or_else(|| value.index(), |count| Ok(count as u32))
        }
        value => value.index(),
    }
}

/// True or false, also as a cell.
pub(super) fn truth(value: &JsonValue<'_>) -> FieldResult<bool> {
    match value {
        JsonValue::String(text) if text.trim().eq_ignore_ascii_case("true") => Ok(true),
        JsonValue::String(text) if text.trim().eq_ignore_ascii_case("false") => Ok(false),
        value => value.bool(),
    }
}

/// The text of a passage, or its sentences: then with the end of each.
pub(super) fn passage_text(title: String, value: &JsonValue<'_>) -> FieldResult<PassageRecord> {
    match value {
        JsonValue::String(text) => {
            Ok(PassageRecord { title, text: text.clone().into_owned(), ..PassageRecord::default() })
        }
        JsonValue::List(_) => join_sentences(title, value, SentenceJoin::Guess),
        _ => Err(FieldError::new(value.describe(), "a text, or a list of sentences")),
    }
}

/// A passage: a text, a pair `[title, text or sentences]`, or an object with `title`, `id`, and `text` or `sentences`.
pub(super) fn passage(value: &JsonValue<'_>) -> FieldResult<PassageRecord> {
    match value {
        JsonValue::String(_) => passage_text(String::new(), value),
        JsonValue::List(_) => {
            let [title, text] = value.tuple("a text, a pair [title, text], or an object with `text`")?;
            let title = title.string().map_err(|error| error.at_index(0))?;
            passage_text(title, text).map_err(|error| error.at_index(1))
        }
        JsonValue::Object(_) => {
            let holds_texts = |key: &str| match value.get(key) {
                Some(JsonValue::List(items)) => items.iter().all(|item| matches!(item, JsonValue::String(_))),
                _ => false,
            };
            // `sentences` of numbers are the ends of sentences in `text`.
            let key = if !value.has("text") && holds_texts("sentences") { "sentences" } else { "text" };
            if key == "text" && !holds_texts("text") {
                return PassageRecord::read(value);
            }
            let title = value.optional("title", JsonValue::string)?.unwrap_or_default();
            let id = value.optional("id", JsonValue::id)?;
            Ok(PassageRecord { id, ..value.required(key, |text| passage_text(title, text))? })
        }
        _ => Err(FieldError::new(value.describe(), "a text, a pair [title, text], or an object with `text`")),
    }
}

/// As [`JsonValue::id`].
pub(super) fn id(value: &JsonValue<'_>) -> FieldResult<String> {
    value.id()
}

/// As [`JsonValue::text`].
pub(super) fn text(value: &JsonValue<'_>) -> FieldResult<String> {
    value.text()
}

/// As [`JsonValue::string`].
pub(super) fn string(value: &JsonValue<'_>) -> FieldResult<String> {
    value.string()
}
