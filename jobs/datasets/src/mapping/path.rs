//! A path to a field of a row.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::values::opened;
use crate::value::JsonValue;

/// The name of a field in a file, or several with dots between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FieldPath(String);

impl FieldPath {
    /// The path as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value under this path; `None` if it is absent or null. The field of the row counts as read.
    pub(super) fn find_in<'v>(&self, row: &'v JsonValue<'_>) -> Option<Cow<'v, JsonValue<'v>>> {
        find(row, &self.0)
    }
}

impl TryFrom<String> for FieldPath {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        if path.split('.').any(|name| name.trim().is_empty()) {
            return Err(format!("found {path:?}; allowed: a field's name, or several with dots between them"));
        }
        Ok(Self(path))
    }
}

impl From<FieldPath> for String {
    fn from(path: FieldPath) -> Self {
        path.0
    }
}

impl From<&str> for FieldPath {
    /// For names written in this program.
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn find<'v>(value: &'v JsonValue<'_>, path: &str) -> Option<Cow<'v, JsonValue<'v>>> {
    match value {
        JsonValue::Object(_) => {
            if let Some(field) = value.get(path) {
                return Some(Cow::Borrowed(field));
            }
            // `a.b.c`: a field `a.b` may hold `c`.
            let mut dots = path.char_indices().filter(|(_, c)| *c == '.').map(|(at, _)| at);
            dots.find_map(|at| find(value.get(&path[..at])?, &path[at + 1..]))
        }
        JsonValue::List(items) => {
            // A place stays free for an item without the field, so that lists of several paths fit each other.
            let found = items.iter().map(|item| find(item, path)).collect::<Vec<_>>();
            found.iter().any(Option::is_some).then(|| {
                let items = found.into_iter().map(|item| item.map_or(JsonValue::Null, Cow::into_owned));
                Cow::Owned(JsonValue::List(items.collect()))
            })
        }
        // A cell of a table may hold JSON.
        JsonValue::String(_) => match opened(value) {
            Cow::Owned(inner) if !matches!(inner, JsonValue::String(_)) => {
                find(&inner, path).map(|found| Cow::Owned(found.detached()))
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_through_objects_lists_and_cells() {
        let text = r#"{"a":{"b":1,"c":null},"a.b.d":2,"list":[{"t":"x"},{},{"t":"y"}],"cell":"{\"k\":[3]}","s":"t"}"#;
        let row = JsonValue::parse(text.as_bytes()).unwrap();
        let found = |path: &str| FieldPath::from(path).find_in(&row).map(|value| value.note_text());
        assert_eq!(found("a.b").as_deref(), Some("1"));
        assert_eq!(found("a.b.d").as_deref(), Some("2"));
        assert_eq!(found("list.t").as_deref(), Some(r#"["x",null,"y"]"#));
        assert_eq!(found("cell.k").as_deref(), Some("[3]"));
        for absent in ["a.c", "b", "list.u", "s.t", "a.b.c"] {
            assert_eq!(found(absent), None, "{absent}");
        }
    }

    #[test]
    fn paths_have_names() {
        for path in ["", ".", "a.", " .b"] {
            assert!(FieldPath::try_from(path.to_owned()).is_err(), "{path:?}");
        }
    }
}
