//! A JSON value with strings borrowed from the record, and readers of its fields that track their path.
//!
//! Every format's reader uses these functions. On success only the question's own data is copied. On failure the error
//! names the field's path, the value found and the allowed values.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::error::FieldError;

/// A JSON value. Keys keep their order. Of equal keys the last wins, as in Python.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JsonValue<'a> {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    String(Cow<'a, str>),
    List(Vec<JsonValue<'a>>),
    Object(FieldList<'a>),
    /// A value of a table's file that has no JSON form, by its kind: `a date`.
    Opaque(&'static str),
}

/// The fields of an object, and which of them a reader has looked at.
#[derive(Clone, Debug)]
pub(crate) struct FieldList<'a> {
    entries: Vec<(Cow<'a, str>, JsonValue<'a>)>,
    /// Bit i stands for entry i. Entries from the 64th on count as read.
    read: Cell<u64>,
}

impl<'a> FieldList<'a> {
    pub(crate) fn new(entries: Vec<(Cow<'a, str>, JsonValue<'a>)>) -> Self {
        Self { entries, read: Cell::new(0) }
    }

    /// All entries. They count as read.
    pub(crate) fn entries(&self) -> &[(Cow<'a, str>, JsonValue<'a>)] {
        self.read.set(u64::MAX);
        &self.entries
    }

    /// The last entry with this key. It counts as read, and so do earlier ones, which it hides.
    fn get(&self, key: &str) -> Option<&JsonValue<'a>> {
        let mut found = None;
        for (at, (name, value)) in self.entries.iter().enumerate() {
            if name == key {
                found = Some(value);
                self.read.set(self.read.get() | 1u64.checked_shl(at as u32).unwrap_or(0));
            }
        }
        found
    }

    fn unread(&self) -> impl Iterator<Item = &str> {
        let is_unread = |at: usize| at < 64 && self.read.get() >> at & 1 == 0;
        let entries = self.entries.iter().enumerate();
        let unread = entries.filter(move |(at, (_, value))| is_unread(*at) && *value != JsonValue::Null);
        unread.map(|(_, (name, _))| name.as_ref())
    }
}

impl PartialEq for FieldList<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

pub(crate) type FieldResult<T> = Result<T, FieldError>;

impl<'a> JsonValue<'a> {
    /// Parses one record.
    pub(crate) fn parse(record: &'a [u8]) -> FieldResult<Self> {
        let text = std::str::from_utf8(record).map_err(|error| {
            FieldError::new(format!("bytes that are not UTF-8 at byte {} of the record", error.valid_up_to()), "UTF-8")
        })?;
        serde_json::from_str(text).map_err(|error| {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            // serde_json counts lines within the record. One-line records, the usual case, need only the column.
            let place = match error.line() {
                0 | 1 => format!("column {}", error.column()),
                line => format!("line {line}, column {} of the record", error.column()),
            };
            FieldError::new(format!("invalid JSON ({message}, {place})"), "one JSON value")
        })
    }

    /// The kind of this value, for messages. Short strings and numbers are shown.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Number(value) => format!("the number {value}"),
            Self::String(value) => format!("the string {}", quoted(value)),
            Self::List(items) => format!("a list of {}", items.len()),
            Self::Object(_) => "an object".to_owned(),
            Self::Opaque(kind) => (*kind).to_owned(),
        }
    }

    /// The error of this value where something else is allowed.
    pub(crate) fn type_error(&self, allowed: &str) -> FieldError {
        FieldError::new(self.describe(), allowed)
    }

    /// The value under `key`. Null counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.get(key).filter(|value| **value != Self::Null),
            _ => None,
        }
    }

    /// The fields of this object that no reader has looked at. Null counts as absent.
    pub(crate) fn unread_fields(&self) -> impl Iterator<Item = &str> {
        let fields = if let Self::Object(fields) = self { Some(fields) } else { None };
        fields.into_iter().flat_map(FieldList::unread)
    }

    /// The names of this object's fields. None of them counts as read.
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &str> {
        let fields = if let Self::Object(fields) = self { Some(fields) } else { None };
        fields.into_iter().flat_map(|fields| fields.entries.iter().map(|(name, _)| name.as_ref()))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Reads the required field `key`.
    pub(crate) fn required<'v, T>(
        &'v self,
        key: &str,
        read: impl FnOnce(&'v Self) -> FieldResult<T>,
    ) -> FieldResult<T> {
        match self.get(key) {
            Some(value) => read(value).map_err(|error| error.under_key(key)),
            None if matches!(self, Self::Object(_)) => {
                Err(FieldError::new("nothing", "this field is required").under_key(key))
            }
            None => Err(self.type_error("an object")),
        }
    }

    /// Reads `key` if it is present and not null.
    pub(crate) fn optional<'v, T>(
        &'v self,
        key: &str,
        read: impl FnOnce(&'v Self) -> FieldResult<T>,
    ) -> FieldResult<Option<T>> {
        self.get(key).map(|value| read(value).map_err(|error| error.under_key(key))).transpose()
    }

    /// Reads the list under `key`. An absent list is empty.
    pub(crate) fn list<T>(&self, key: &str, read: impl FnMut(&Self) -> FieldResult<T>) -> FieldResult<Vec<T>> {
        Ok(self.optional(key, |value| value.read_each(read))?.unwrap_or_default())
    }

    /// Reads every item of this list.
    pub(crate) fn read_each<T>(&self, mut read: impl FnMut(&Self) -> FieldResult<T>) -> FieldResult<Vec<T>> {
        let items = self.items()?;
        items.iter().enumerate().map(|(index, item)| read(item).map_err(|error| error.at_index(index))).collect()
    }

    pub(crate) fn items(&self) -> FieldResult<&[Self]> {
        match self {
            Self::List(items) => Ok(items),
            _ => Err(self.type_error("a list")),
        }
    }

    pub(crate) fn entries(&self) -> FieldResult<&[(Cow<'a, str>, Self)]> {
        match self {
            Self::Object(fields) => Ok(fields.entries()),
            _ => Err(self.type_error("an object")),
        }
    }

    /// Reads this list of exactly `N` items as an array. `what` describes it in the error.
    pub(crate) fn tuple<const N: usize>(&self, what: &str) -> FieldResult<&[Self; N]> {
        match self {
            Self::List(items) => items.as_slice().try_into().map_err(|_| self.type_error(what)),
            _ => Err(self.type_error(what)),
        }
    }

    pub(crate) fn str(&self) -> FieldResult<&str> {
        match self {
            Self::String(value) => Ok(value),
            _ => Err(self.type_error("a string")),
        }
    }

    pub(crate) fn string(&self) -> FieldResult<String> {
        self.str().map(str::to_owned)
    }

    /// A string with more than white space.
    pub(crate) fn text(&self) -> FieldResult<String> {
        match self {
            Self::String(value) if !value.trim().is_empty() => Ok(value.clone().into_owned()),
            _ => Err(self.type_error("a string that is not empty")),
        }
    }

    /// An id: a string that is not empty, or a whole number (written as its digits).
    pub(crate) fn id(&self) -> FieldResult<String> {
        match self {
            Self::String(value) if !value.is_empty() => Ok(value.clone().into_owned()),
            Self::Number(value) if value.is_u64() || value.is_i64() => Ok(value.to_string()),
            _ => Err(self.type_error("a string that is not empty, or a whole number")),
        }
    }

    pub(crate) fn index(&self) -> FieldResult<u32> {
        match self {
            Self::Number(value) => value.as_u64().and_then(|value| u32::try_from(value).ok()),
            _ => None,
        }
        .ok_or_else(|| self.type_error("a whole number from 0"))
    }

    pub(crate) fn bool(&self) -> FieldResult<bool> {
        match self {
            Self::Bool(value) => Ok(*value),
            _ => Err(self.type_error("true or false")),
        }
    }

    /// A string as it is; any other value as JSON text.
    pub(crate) fn note_text(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::String(value) => value.clone().into_owned(),
            Self::List(_) | Self::Object(_) => self.to_json().to_string(),
            Self::Opaque(kind) => format!("({kind})"),
        }
    }

    /// The same value, with texts of its own.
    pub(crate) fn detached(&self) -> JsonValue<'static> {
        match self {
            Self::Null => JsonValue::Null,
            Self::Bool(value) => JsonValue::Bool(*value),
            Self::Number(value) => JsonValue::Number(value.clone()),
            Self::String(value) => JsonValue::String(Cow::Owned(value.clone().into_owned())),
            Self::List(items) => JsonValue::List(items.iter().map(Self::detached).collect()),
            Self::Object(fields) => {
                let entries = fields.entries.iter();
                let detached = entries.map(|(key, value)| (Cow::Owned(key.clone().into_owned()), value.detached()));
                JsonValue::Object(FieldList::new(detached.collect()))
            }
            Self::Opaque(kind) => JsonValue::Opaque(kind),
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number(value) => value.clone().into(),
            Self::String(value) => value.as_ref().into(),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Object(fields) => {
                fields.entries().iter().map(|(key, value)| (key.to_string(), value.to_json())).collect()
            }
            Self::Opaque(_) => self.note_text().into(),
        }
    }
}

/// `text` in quotes, shortened for a message.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonValue<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;

        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = JsonValue<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(JsonValue::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(JsonValue::Bool(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(JsonValue::Number(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(JsonValue::Number(value.into()))
            }
            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
                serde_json::Number::from_f64(value)
                    .map(JsonValue::Number)
                    .ok_or_else(|| E::custom("number out of range"))
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
                Ok(JsonValue::String(Cow::Borrowed(value)))
            }
            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(JsonValue::String(Cow::Owned(value.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(JsonValue::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<JsonValue<'de>>()? {
                    let JsonValue::String(key) = key else {
                        return Err(A::Error::custom("a key that is not a string"));
                    };
                    entries.push((key, map.next_value()?));
                }
                Ok(JsonValue::Object(FieldList::new(entries)))
            }
        }

        deserializer.deserialize_any(ValueVisitor)
    }
}
