//! Finds the object that a reply holds, whatever stands around it.

use super::literal::parse_literal;
use serde_json::Value;

/// The first object in `text` with `key`, and whether it took more than reading the text as JSON.
pub(super) fn find_object(text: &str, key: &str) -> Option<(Value, bool)> {
    let has_key = |value: &Value| value.get(key).is_some();
    if let Some(value) = serde_json::from_str::<Value>(text).ok().filter(has_key) {
        return Some((value, false));
    }
    let inner = text.match_indices('{').find_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        values.next()?.ok().filter(has_key)
    });
    let literal = || {
        let (begin, end) = (text.find('{')?, text.rfind('}')?);
        parse_literal(text.get(begin..=end)?).filter(has_key)
    };
    inner.or_else(literal).map(|value| (value, true))
}
