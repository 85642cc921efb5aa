//! Parameters for tests of a method, from its documentation alone.

use crate::registry::{MethodInfo, ParameterInfo};
use serde_json::{Map, Value, json};

/// The required parameters, each with an example.
pub fn required_parameters(info: &MethodInfo) -> Value {
    let required = info.parameters.iter().filter(|parameter| parameter.default.is_none());
    required.map(|parameter| (parameter.name.to_owned(), example(parameter))).collect::<Map<_, _>>().into()
}

/// The required parameters, and these with one parameter set to another documented value: each word in quotes, both
/// booleans, the least integer, a service. Some combinations make no sense, so a method may refuse them.
pub fn parameter_variants(info: &MethodInfo) -> Vec<Value> {
    let required = required_parameters(info);
    let mut variants = vec![required.clone()];
    for parameter in info.parameters {
        for value in alternatives(parameter) {
            let mut variant = required.clone();
            variant[parameter.name] = value;
            variants.push(variant);
        }
    }
    variants
}

/// A value of a parameter: the first in its documentation, else the name of a service.
pub(crate) fn example(parameter: &ParameterInfo) -> Value {
    alternatives(parameter).into_iter().next().unwrap_or_else(|| "sparse".into())
}

/// The values in the documentation of a parameter.
fn alternatives(parameter: &ParameterInfo) -> Vec<Value> {
    let values = parameter.values;
    if values == "true or false" || values == "boolean" {
        return vec![json!(true), json!(false)];
    }
    if let Some(least) = values.strip_prefix("integer, at least ") {
        let digits = least.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        return digits.parse::<u64>().into_iter().map(Value::from).collect();
    }
    if values.starts_with("name of ") {
        return vec!["sparse".into()];
    }
    // Every second part stands in quotes.
    values.split('"').skip(1).step_by(2).map(Value::from).collect()
}
