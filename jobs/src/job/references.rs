//! Values of parameters to be filled in from the store or a sample: `{ selection = "NAME" }` and `{ draw = 2 }`.

use super::sweep::Configuration;
use crate::error::JobError;
use serde::Deserialize;
use serde_json::Value;

/// A reference to a selection as a parameter's value: `{ selection = "NAME", best = 5 }`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SelectionReference {
    pub(crate) selection: String,
    /// Takes a list of this many best values; left out, the best value by itself.
    #[serde(default)]
    pub(crate) best: Option<usize>,
}

impl SelectionReference {
    /// Whether a value is meant as a reference.
    pub(crate) fn is_one(value: &Value) -> bool {
        value.get("selection").is_some()
    }

    /// Reads a parameter's value as a reference, if it is one.
    ///
    /// # Errors
    /// [`JobError::Choice`] for a malformed reference.
    pub(crate) fn from_value(configuration: &str, parameter: &str, value: &Value) -> Result<Option<Self>, JobError> {
        if !Self::is_one(value) {
            return Ok(None);
        }
        Self::deserialize(value).map(Some).map_err(|error| JobError::Choice {
            configuration: configuration.to_owned(),
            parameter: parameter.to_owned(),
            reason: error.to_string(),
        })
    }
}

/// A draw of demonstrations as a parameter's value: `{ draw = 2, sets = 1, seed = 0 }`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DemonstrationDraw {
    /// Demonstrations of a set.
    pub(crate) draw: u32,
    /// Sets: the members of an ensemble.
    #[serde(default = "one")]
    pub(crate) sets: u32,
    /// Another seed draws others.
    #[serde(default)]
    pub(crate) seed: u64,
}

fn one() -> u32 {
    1
}

impl DemonstrationDraw {
    /// Whether a value is meant as a draw.
    pub(crate) fn is_one(value: &Value) -> bool {
        value.get("draw").is_some()
    }

    /// Reads a parameter's value as a draw, if it is one.
    ///
    /// # Errors
    /// [`JobError::Choice`] for a nonsensical draw.
    pub(crate) fn from_value(configuration: &str, parameter: &str, value: &Value) -> Result<Option<Self>, JobError> {
        if !Self::is_one(value) {
            return Ok(None);
        }
        let wrong = |reason: String| JobError::Choice {
            configuration: configuration.to_owned(),
            parameter: parameter.to_owned(),
            reason,
        };
        if parameter != PARAMETER {
            return Err(wrong(format!("a draw is for `{PARAMETER}` alone")));
        }
        let wanted = Self::deserialize(value).map_err(|error| wrong(error.to_string()))?;
        if wanted.draw == 0 || wanted.sets == 0 {
            return Err(wrong("draw and sets must be at least 1".to_owned()));
        }
        Ok(Some(wanted))
    }
}

/// The one parameter whose value can be drawn.
pub(crate) const PARAMETER: &str = "demonstrations";

/// Removes values to be filled in from a store or a sample, so the parameters keep their defaults. For inspecting a job
/// by itself.
pub fn leave_open(configurations: &mut [Configuration]) {
    for configuration in configurations {
        if let Some(parameters) = configuration.parameters.as_object_mut() {
            parameters.retain(|_, value| !(SelectionReference::is_one(value) || DemonstrationDraw::is_one(value)));
        }
    }
}
