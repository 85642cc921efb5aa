//! The methods and judges by kind, as jobs name them. Turns a job's parameters into a [`Method`].
//!
//! A method's parameters are a serde struct. It refuses unknown fields and has the paper's defaults. This file's tests
//! check [`MethodInfo`] against that struct.

use crate::machine::{Method, MethodError, MethodSetting};
use crate::{judges, methods};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A method, as `--show-settings` and the documentation present it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodInfo {
    /// The name in a job's `kind`.
    pub kind: &'static str,
    /// One line.
    pub description: &'static str,
    /// Its source: paper and section, or the word `control`.
    pub paper: &'static str,
    /// Its parameters, in the order of documentation.
    pub parameters: &'static [ParameterInfo],
}

/// A parameter of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Its name in a job.
    pub name: &'static str,
    /// Allowed values, for people: `integer, at least 1`, `"corpus" or "restriction"`, `name of a service`.
    pub values: &'static str,
    /// Its default as JSON; `None` for a required parameter.
    pub default: Option<&'static str>,
    /// One line.
    pub documentation: &'static str,
}

/// A method with its documentation and parameters, as the registry needs them.
pub(crate) trait ConfigurableMethod: Method + Sized + 'static {
    /// Its documentation.
    const INFO: MethodInfo;

    /// Its parameters, with defaults for the optional ones.
    type Parameters: DeserializeOwned + Serialize;

    /// The parameter that is the length of its rankings, and its default in a job whose measures' largest cut-off is
    /// this one; `None` for a method without such a parameter. Without measures that have a cut-off, the default of
    /// [`Self::INFO`] holds.
    fn ranking_length(_largest_cut_off: u32) -> Option<(&'static str, u32)> {
        None
    }

    /// The parameters in which the authors' code differs from their paper, with the code's values as JSON. A job that
    /// says `as = "code"` gets them in place of the defaults; what it sets itself still counts. Empty for a method
    /// without such parameters, which does not know `as`.
    const AS_CODE: &'static [(&'static str, &'static str)] = &[];

    /// Fills in defaults that depend on other parameters. Records show them.
    fn complete_parameters(_: &mut Self::Parameters) {}

    /// Checks the values.
    fn new(parameters: Self::Parameters, setting: &MethodSetting) -> Result<Self, MethodError>;
}

/// All methods, by kind in alphabetical order.
pub fn method_kinds() -> &'static [MethodInfo] {
    methods::INFOS
}

/// All judges, by kind in alphabetical order.
pub fn judge_kinds() -> &'static [MethodInfo] {
    judges::INFOS
}

/// The parameters in which the authors' code of the method `kind` differs from the paper, with the code's values as
/// JSON: `as = "code"` sets them. Empty for a method that does not know `as`.
pub fn authors_code(kind: &str) -> &'static [(&'static str, &'static str)] {
    let mut known = methods::INFOS.iter().zip(methods::AS_CODES);
    known.find(|(info, _)| info.kind == kind).map_or(&[], |(_, values)| values)
}

/// A configuration of the method or judge `kind`; `parameters` is an object, or null for no parameters.
///
/// # Errors
/// Unknown kinds and parameters, with the known ones; missing parameters; bad values.
pub fn build_method(kind: &str, parameters: &Value, setting: &MethodSetting) -> Result<Box<dyn Method>, MethodError> {
    Ok(configure_kind(kind, parameters, setting)?.0)
}

/// `parameters` with every default filled in, for a configuration's record and `--show-settings`.
///
/// # Errors
/// As [`build_method`].
pub fn resolve_parameters(kind: &str, parameters: &Value, setting: &MethodSetting) -> Result<Value, MethodError> {
    Ok(configure_kind(kind, parameters, setting)?.1)
}

/// A configuration and its parameters with every default filled in.
pub(crate) type BuiltMethod = (Box<dyn Method>, Value);

/// Configures a method from its parameters.
pub(crate) type ConfigureMethod = fn(&Value, &MethodSetting) -> Result<BuiltMethod, MethodError>;

fn configure_kind(kind: &str, parameters: &Value, setting: &MethodSetting) -> Result<BuiltMethod, MethodError> {
    let methods = methods::INFOS.iter().zip(methods::CONFIGURES);
    let mut known = methods.chain(judges::INFOS.iter().zip(judges::CONFIGURES));
    match known.find(|(info, _)| info.kind == kind) {
        Some((_, configure)) => configure(parameters, setting),
        None => {
            let allowed = methods::INFOS.iter().map(|info| info.kind).collect::<Vec<_>>().join(", ");
            Err(MethodError::UnknownKind { found: kind.to_owned(), allowed })
        }
    }
}

/// A configuration of the method `M`. Parses, completes and checks its parameters.
pub(crate) fn configure<M: ConfigurableMethod>(
    parameters: &Value,
    setting: &MethodSetting,
) -> Result<BuiltMethod, MethodError> {
    let wrong = |source| MethodError::Parameters { kind: M::INFO.kind, source };
    let mut given = if parameters.is_null() { Value::Object(serde_json::Map::new()) } else { parameters.clone() };
    if let (Some((name, length)), Some(given)) =
        (setting.largest_cut_off.and_then(M::ranking_length), given.as_object_mut())
    {
        given.entry(name).or_insert_with(|| length.into());
    }
    if !M::AS_CODE.is_empty()
        && let Some(given) = given.as_object_mut()
    {
        apply_authors_code::<M>(given)?;
    }
    let mut parsed = M::Parameters::deserialize(given).map_err(wrong)?;
    M::complete_parameters(&mut parsed);
    let resolved = serde_json::to_value(&parsed).map_err(wrong)?;
    Ok((Box::new(M::new(parsed, setting)?), resolved))
}

/// Replaces `as` by the parameters that it stands for. Records show these, so they mean the same after a change of
/// [`ConfigurableMethod::AS_CODE`].
fn apply_authors_code<M: ConfigurableMethod>(given: &mut serde_json::Map<String, Value>) -> Result<(), MethodError> {
    let kind = M::INFO.kind;
    let bad = |found: &Value| MethodError::Value {
        kind,
        parameter: "as",
        found: found.to_string(),
        allowed: "must be \"paper\" or \"code\"",
    };
    match given.remove("as") {
        None => Ok(()),
        Some(Value::String(source)) if source == "paper" => Ok(()),
        Some(Value::String(source)) if source == "code" => {
            for (name, json) in M::AS_CODE {
                let value = serde_json::from_str(json).map_err(|source| MethodError::Parameters { kind, source })?;
                given.entry(*name).or_insert(value);
            }
            Ok(())
        }
        Some(other) => Err(bad(&other)),
    }
}

/// Refuses a `parameter` that is 0.
pub(crate) fn at_least_one(kind: &'static str, parameter: &'static str, value: u32) -> Result<(), MethodError> {
    if value > 0 {
        return Ok(());
    }
    Err(MethodError::Value { kind, parameter, found: "0".to_owned(), allowed: "must be at least 1" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parameters::{example, required_parameters};
    use serde_json::json;

    const SETTING: MethodSetting = MethodSetting::of_corpus(10);

    #[test]
    fn documentation_and_parameters_agree() {
        for info in method_kinds().iter().chain(judge_kinds()) {
            let resolved = resolve_parameters(info.kind, &required_parameters(info), &SETTING)
                .unwrap_or_else(|error| panic!("{}: documented as optional, but: {error}", info.kind));
            let documented: serde_json::Map<String, Value> = info
                .parameters
                .iter()
                .map(|parameter| {
                    let default = parameter.default.map(|json| serde_json::from_str(json).expect("a default is JSON"));
                    (parameter.name.to_owned(), default.unwrap_or_else(|| example(parameter)))
                })
                .collect();
            // A default may be documented by its name, as sets of demonstrations are.
            let documented = resolve_parameters(info.kind, &Value::Object(documented), &SETTING).unwrap();
            assert_eq!(resolved, documented, "{}", info.kind);
            assert_eq!(
                resolve_parameters(info.kind, &resolved, &SETTING).unwrap(),
                resolved,
                "resolving again changes nothing"
            );
            let built = |parameters: &Value| build_method(info.kind, parameters, &SETTING).unwrap();
            let (given, recorded) = (built(&required_parameters(info)), built(&resolved));
            assert_eq!(given.kind(), info.kind);
            assert_eq!(recorded.wording(), given.wording(), "{}: a record's prompts have the same origin", info.kind);
        }
    }

    #[test]
    fn records_show_the_prompts_in_use() {
        for (kind, prompts) in [
            ("decompose", &["decomposition_prompt", "prompt"][..]),
            ("iter_retgen", &["prompt"]),
            ("react", &["prompt"]),
            ("self_ask", &["prompt"]),
        ] {
            let info = method_kinds().iter().find(|info| info.kind == kind).unwrap();
            let resolved = resolve_parameters(kind, &required_parameters(info), &SETTING).unwrap();
            for name in prompts {
                assert!(resolved[name].as_str().is_some_and(|text| text.contains("{question}")), "{kind}: {name}");
            }
        }
    }

    #[test]
    fn a_message_of_the_system_is_part_of_the_wording() {
        let mut kinds = Vec::new();
        for info in method_kinds().iter().chain(judge_kinds()) {
            let is_known = |name: &str| info.parameters.iter().any(|parameter| parameter.name == name);
            if !is_known("system") {
                continue;
            }
            kinds.push(info.kind);
            let mut given = required_parameters(info);
            // Without these there is nobody who gets the message.
            for (name, value) in [("generator", "g"), ("evidence", "reader")] {
                if is_known(name) {
                    given[name] = value.into();
                }
            }
            let text = |given: &Value| build_method(info.kind, given, &SETTING).unwrap().wording().unwrap().text;
            let without = text(&given);
            given["system"] = "Be brief.".into();
            assert!(!without.contains("Be brief.") && text(&given).contains("Be brief."), "{}", info.kind);
        }
        assert_eq!(kinds, ["decompose", "efficientrag", "iter_retgen", "migres", "self_ask", "yes_no"]);
    }

    #[test]
    fn rankings_are_as_long_as_measures_look() {
        let cut_at = |largest| MethodSetting { largest_cut_off: largest, ..SETTING };
        let required = |kind: &str| {
            let info = method_kinds().iter().find(|info| info.kind == kind).unwrap();
            required_parameters(info)
        };
        let most = |kind: &str, parameters: &Value, largest| {
            build_method(kind, parameters, &cut_at(largest)).unwrap().most_ranked()
        };
        for (kind, without, at_2, at_50) in [
            ("one_step", 10, 2, 50),
            ("random", 10, 2, 50),
            ("iterative_title", 20, 2, 26),
            ("tfidf_bm25", 100, 100, 100),
        ] {
            let given = required(kind);
            let found = [None, Some(2), Some(50)].map(|largest| most(kind, &given, largest));
            assert_eq!(found, [without, at_2, at_50].map(Some), "{kind}");
            let mut explicit = given.clone();
            explicit["k"] = 7.into();
            assert_eq!(most(kind, &explicit, Some(50)), Some(7), "{kind}");
            let resolved = resolve_parameters(kind, &given, &cut_at(Some(50))).unwrap();
            assert_eq!(resolved["k"], if kind == "tfidf_bm25" { 100 } else { 50 }, "records show it: {kind}");
        }
        assert_eq!(most("tfidf_bm25", &required("tfidf_bm25"), Some(200)), Some(200));
        // The paper's number of chunks in an iteration, whatever is measured.
        assert_eq!(most("efficientrag", &required("efficientrag"), Some(50)), Some(40));
        assert_eq!(most("given", &json!({"order": "dataset"}), Some(50)), None);
    }

    #[test]
    fn kinds_are_in_order() {
        assert!(method_kinds().is_sorted_by_key(|info| info.kind));
        assert!(judge_kinds().is_sorted_by_key(|info| info.kind));
        let is_method = |kind| method_kinds().iter().any(|info| info.kind == kind);
        assert!(!judge_kinds().iter().any(|judge| is_method(judge.kind)), "a kind names one of them");
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let message = |kind: &str, parameters: Value| match build_method(kind, &parameters, &SETTING) {
            Ok(_) => panic!("{kind} {parameters} was accepted"),
            Err(error) => error.to_string(),
        };
        let allowed: Vec<&str> = method_kinds().iter().map(|info| info.kind).collect();
        assert_eq!(
            message("bm42", json!({})),
            format!("unknown method kind `bm42`; allowed are {}", allowed.join(", "))
        );
        assert_eq!(
            message("one_step", json!({"retriever": "s", "n": 3})),
            "method kind `one_step`: unknown field `n`, expected `retriever` or `k`"
        );
        assert_eq!(message("one_step", json!({"k": 3})), "method kind `one_step`: missing field `retriever`");
        assert_eq!(
            message("one_step", json!({"retriever": "s", "k": 0})),
            "method kind `one_step`: `k` = 0: must be at least 1"
        );
        assert_eq!(
            message("given", json!({"retriever": "s", "order": "best"})),
            "method kind `given`: unknown variant `best`, expected `retriever` or `dataset`"
        );
        assert_eq!(
            message("one_step", json!([1])),
            "method kind `one_step`: invalid type: integer `1`, expected a string"
        );
    }

    #[test]
    fn every_service_is_named_by_a_parameter_and_asked_for_one_kind() {
        for info in method_kinds() {
            let method = build_method(info.kind, &required_parameters(info), &SETTING).unwrap();
            for service in method.service_uses() {
                assert!(info.parameters.iter().any(|parameter| parameter.name == service.parameter), "{service:?}");
            }
            assert!(method.version() > 0);
        }
    }
}
