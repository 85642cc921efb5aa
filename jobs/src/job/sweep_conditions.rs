//! `[method.NAME.sweep_when]`: parameters that are swept only where others have certain values.
//!
//! A parameter with a condition that does not hold is left out of the point: the method takes its default, and the
//! configuration's name has no value of it. So points of the grid that differ in it alone are one point. A parameter
//! that is left out fits no condition itself.

use crate::bad_value::{BadValue, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Conditions by the parameters that have them: the values that other swept parameters must have.
pub type SweepConditions = BTreeMap<String, BTreeMap<String, Vec<Value>>>;

/// The values of a sweep's parameters.
pub(crate) type SweepValues = BTreeMap<String, Vec<Value>>;

/// The parameters that are left out of a point with these values.
pub(super) fn left_out<'a>(conditions: &'a SweepConditions, point: &BTreeMap<&str, &Value>) -> BTreeSet<&'a str> {
    let mut left_out: BTreeSet<&str> = BTreeSet::new();
    // What is left out may leave out more. Each round but the last leaves out at least one.
    loop {
        let known = left_out.len();
        for (parameter, condition) in conditions {
            let holds = condition.iter().all(|(other, allowed)| {
                !left_out.contains(other.as_str())
                    && point.get(other.as_str()).is_some_and(|value| allowed.contains(value))
            });
            if !holds {
                left_out.insert(parameter);
            }
        }
        if left_out.len() == known {
            return left_out;
        }
    }
}

/// Checks the conditions of a sweep.
///
/// # Errors
/// A condition of or on what is not swept, on values that the sweep has not, or on itself.
pub(super) fn check_conditions(conditions: &SweepConditions, sweep: &SweepValues) -> Result<(), BadValue> {
    for (parameter, condition) in conditions {
        let table = format!("sweep_when.{parameter}");
        let swept = || sweep.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        ensure(sweep.contains_key(parameter), || {
            let found = format!("a condition of what is not swept: [sweep] has {}", swept());
            BadValue::new(&table, found, "conditions of parameters in [sweep]")
        })?;
        for (other, allowed) in condition {
            let key = format!("{table}.{other}");
            let Some(values) = sweep.get(other) else {
                let found = format!("a condition on what is not swept: [sweep] has {}", swept());
                return Err(BadValue::new(key, found, "parameters in [sweep]"));
            };
            ensure(!allowed.is_empty(), || BadValue::new(&key, "[]", "at least one value"))?;
            if let Some(unknown) = allowed.iter().find(|value| !values.contains(value)) {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                let found = format!("{unknown}, and [sweep] has {}", values.join(", "));
                return Err(BadValue::new(key, found, "values of that parameter in [sweep]"));
            }
        }
        ensure(!depends_on(conditions, parameter, parameter, &mut BTreeSet::new()), || {
            BadValue::new(&table, "a condition that depends on itself", "conditions without a circle")
        })?;
    }
    Ok(())
}

/// Whether the condition of `from` leads to `to`.
fn depends_on<'a>(conditions: &'a SweepConditions, from: &'a str, to: &str, seen: &mut BTreeSet<&'a str>) -> bool {
    let others = conditions.get(from).into_iter().flat_map(BTreeMap::keys);
    let mut found = false;
    for other in others {
        found = found || other == to || (seen.insert(other) && depends_on(conditions, other, to, seen));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn conditions(value: Value) -> SweepConditions {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_condition_needs_a_swept_parameter_that_is_itself_swept_there() {
        let conditions = conditions(json!({"c": {"b": [1, 2]}, "b": {"a": ["x"]}}));
        let is_swept = |a: &str, b: u64| {
            let (a, b) = (json!(a), json!(b));
            !left_out(&conditions, &BTreeMap::from([("a", &a), ("b", &b)])).contains("c")
        };
        assert!(is_swept("x", 1) && is_swept("x", 2));
        assert!(!is_swept("x", 3), "another value");
        assert!(!is_swept("y", 1), "`b` is left out of this point");
    }

    #[test]
    fn conditions_that_make_no_sense_are_refused() {
        let sweep = serde_json::from_value(json!({"a": [1, 2], "b": [3], "c": [4]})).unwrap();
        let message = |value: Value| {
            let BadValue { key, found, .. } = check_conditions(&conditions(value), &sweep).unwrap_err();
            format!("{key} = {found}")
        };
        check_conditions(&conditions(json!({"b": {"a": [1]}, "c": {"b": [3], "a": [1, 2]}})), &sweep).unwrap();
        for (value, expected) in [
            (json!({"d": {"a": [1]}}), "sweep_when.d = a condition of what is not swept"),
            (json!({"a": {"d": [1]}}), "sweep_when.a.d = a condition on what is not swept"),
            (json!({"a": {"b": []}}), "sweep_when.a.b = []"),
            (json!({"b": {"a": [1, 3]}}), "sweep_when.b.a = 3"),
            (json!({"a": {"a": [1]}}), "sweep_when.a = a condition that depends on itself"),
            (json!({"a": {"b": [3]}, "b": {"c": [4]}, "c": {"a": [1]}}), "sweep_when.a = a condition that depends"),
        ] {
            let message = message(value);
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
