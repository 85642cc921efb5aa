//! Reads `config.json` by type. A missing or unsupported value is an error with the field, the allowed values and the
//! value found. `null` counts as missing.

use crate::LmError;
use hopeval_checkpoint::Checkpoint;
use hopeval_device::Activation;
use serde_json::{Map, Value};
use std::path::Path;

/// Element-wise functions by transformers' names (`transformers/activations.py`). `gelu_fast` and `gelu_accurate` are
/// other spellings of `gelu_new`.
const ACTIVATIONS: [(&str, Activation); 12] = [
    ("gelu", Activation::Gelu),
    ("gelu_python", Activation::Gelu),
    ("gelu_new", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("gelu_python_tanh", Activation::GeluTanh),
    ("gelu_fast", Activation::GeluTanh),
    ("gelu_accurate", Activation::GeluTanh),
    ("linear", Activation::Identity),
    ("relu", Activation::Relu),
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
    ("tanh", Activation::Tanh),
];

/// The fields of a checkpoint's `config.json`, or of an object in it.
#[derive(Clone, Debug)]
pub struct ModelConfig<'a> {
    folder: &'a Path,
    fields: &'a Map<String, Value>,
    section: String,
}

impl<'a> ModelConfig<'a> {
    /// All of `config.json`.
    pub fn new(checkpoint: &'a Checkpoint) -> Self {
        Self::from_fields(checkpoint.folder(), checkpoint.config())
    }

    /// Uses the given fields, as if from the `config.json` of `folder`.
    pub fn from_fields(folder: &'a Path, fields: &'a Map<String, Value>) -> Self {
        Self { folder, fields, section: String::new() }
    }

    /// The object under a field, if there is one. Messages name its fields `section.field`.
    ///
    /// # Errors
    /// [`LmError::Config`] if it is not an object.
    pub fn section(&self, field: &str) -> Result<Option<Self>, LmError> {
        self.get(field, "an object", |value| {
            let fields = value.as_object()?;
            Some(Self { folder: self.folder, fields, section: format!("{}{field}.", self.section) })
        })
    }

    /// True if the field exists and is not `null`.
    pub fn has(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|value| !value.is_null())
    }

    /// True if the field is explicitly `null`; some defaults differ from `null`.
    pub fn is_null(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(Value::is_null)
    }

    /// The fields' names, in order.
    pub fn fields(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.fields.keys().map(String::as_str)
    }

    /// A whole number, not negative, if the field exists.
    ///
    /// # Errors
    /// [`LmError::Config`] for any other value.
    pub fn optional_integer(&self, field: &str) -> Result<Option<usize>, LmError> {
        self.get(field, "a whole number", |value| value.as_u64().and_then(|number| usize::try_from(number).ok()))
    }

    /// A whole number, or transformers' default if it is missing.
    ///
    /// # Errors
    /// [`LmError::Config`] for any other value.
    pub fn integer_or(&self, field: &str, default: usize) -> Result<usize, LmError> {
        Ok(self.optional_integer(field)?.unwrap_or(default))
    }

    /// A required whole number.
    ///
    /// # Errors
    /// [`LmError::Config`].
    pub fn integer(&self, field: &str) -> Result<usize, LmError> {
        self.optional_integer(field)?.ok_or_else(|| self.field_error(field, "expected a whole number, found nothing"))
    }

    /// A size: a required whole number above 0 and below 2³¹, so products of two cannot overflow.
    ///
    /// # Errors
    /// [`LmError::Config`].
    pub fn size(&self, field: &str) -> Result<usize, LmError> {
        self.check_positive(field, self.integer(field)?)
    }

    /// A size, or transformers' default if it is missing.
    ///
    /// # Errors
    /// [`LmError::Config`].
    pub fn size_or(&self, field: &str, default: usize) -> Result<usize, LmError> {
        self.check_positive(field, self.integer_or(field, default)?)
    }

    /// Divides one size by another without remainder; both were read before.
    ///
    /// # Errors
    /// [`LmError::Config`] if there is a remainder.
    pub fn divide_exactly(&self, field: &str, size: usize, by: &str, divisor: usize) -> Result<usize, LmError> {
        if size.is_multiple_of(divisor) {
            return Ok(size / divisor);
        }
        Err(self.field_error(field, &format!("expected a multiple of {by}, {divisor}, found {size}")))
    }

    /// A finite number, if the field exists.
    ///
    /// # Errors
    /// [`LmError::Config`] for any other value.
    pub fn optional_number(&self, field: &str) -> Result<Option<f64>, LmError> {
        self.get(field, "a number", |value| value.as_f64().filter(|number| number.is_finite()))
    }

    /// A number, or transformers' default if it is missing.
    ///
    /// # Errors
    /// [`LmError::Config`] for any other value.
    pub fn number_or(&self, field: &str, default: f64) -> Result<f64, LmError> {
        Ok(self.optional_number(field)?.unwrap_or(default))
    }

    /// A required number.
    ///
    /// # Errors
    /// [`LmError::Config`].
    pub fn number(&self, field: &str) -> Result<f64, LmError> {
        self.optional_number(field)?.ok_or_else(|| self.field_error(field, "expected a number, found nothing"))
    }

    /// The epsilon that a normalisation adds to the variance: a number above 0.
    ///
    /// # Errors
    /// [`LmError::Config`].
    pub fn epsilon(&self, field: &str, default: f64) -> Result<f32, LmError> {
        let number = self.number_or(field, default)?;
        if number > 0.0 {
            return Ok(number as f32);
        }
        Err(self.field_error(field, &format!("expected a number above 0, found {number}")))
    }

    /// True or false, or transformers' default if it is missing.
    ///
    /// # Errors
    /// [`LmError::Config`] for any other value.
    pub fn flag_or(&self, field: &str, default: bool) -> Result<bool, LmError> {
        Ok(self.get(field, "true or false", Value::as_bool)?.unwrap_or(default))
    }

    /// A text, if the field exists.
    ///
    /// # Errors
    /// [`LmError::Config`] for any other value.
    pub fn text(&self, field: &str) -> Result<Option<&'a str>, LmError> {
        self.get(field, "a text", Value::as_str)
    }

    /// A list of texts, if the field exists.
    ///
    /// # Errors
    /// [`LmError::Config`] for any other value.
    pub fn texts(&self, field: &str) -> Result<Option<Vec<&'a str>>, LmError> {
        self.get(field, "a list of texts", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// One of the given texts, or the default if the field is missing.
    ///
    /// # Errors
    /// [`LmError::Config`] for any other text.
    pub fn one_of(
        &self,
        field: &str,
        allowed: &[&'static str],
        default: &'static str,
    ) -> Result<&'static str, LmError> {
        let Some(name) = self.text(field)? else { return Ok(default) };
        allowed
            .iter()
            .copied()
            .find(|known| *known == name)
            .ok_or_else(|| self.field_error(field, &format!("expected one of {}, found {name:?}", allowed.join(", "))))
    }

    /// An element-wise function by transformers' name, or the one named `default` if the field is missing.
    ///
    /// # Errors
    /// [`LmError::Config`] for an unsupported name.
    pub fn activation(&self, field: &str, default: &str) -> Result<Activation, LmError> {
        self.activation_named(field, self.text(field)?.unwrap_or(default))
    }

    /// An element-wise function by transformers' name, found in `field` or in a part of it.
    ///
    /// # Errors
    /// [`LmError::Config`] for an unsupported name.
    pub fn activation_named(&self, field: &str, name: &str) -> Result<Activation, LmError> {
        let known = ACTIVATIONS.iter().find(|(known, _)| *known == name);
        known.map(|(_, activation)| *activation).ok_or_else(|| {
            let allowed = ACTIVATIONS.map(|(known, _)| known).join(", ");
            self.field_error(field, &format!("expected one of {allowed}, found {name:?}"))
        })
    }

    /// Accepts only the given value of a flag; a missing flag has this value in transformers, too.
    ///
    /// # Errors
    /// [`LmError::Config`].
    pub fn require_flag(&self, field: &str, supported: bool) -> Result<(), LmError> {
        if self.flag_or(field, supported)? == supported {
            return Ok(());
        }
        Err(self.field_error(field, &format!("only {supported} is supported, found {}", !supported)))
    }

    /// An error about a field; `reason` says which values are allowed and which value was found.
    pub fn field_error(&self, field: &str, reason: &str) -> LmError {
        LmError::Config {
            folder: self.folder.to_owned(),
            field: format!("{}{field}", self.section),
            reason: reason.into(),
        }
    }

    fn check_positive(&self, field: &str, number: usize) -> Result<usize, LmError> {
        if (1..1 << 31).contains(&number) {
            return Ok(number);
        }
        Err(self.field_error(field, &format!("expected a whole number above 0 and below 2^31, found {number}")))
    }

    fn get<T>(
        &self,
        field: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, LmError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(self.field_error(field, &format!("expected {expected}, found {value}"))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(json: &str, test: impl FnOnce(&ModelConfig<'_>) -> T) -> T {
        let fields = serde_json::from_str(json).unwrap();
        test(&ModelConfig::from_fields(Path::new("model"), &fields))
    }

    #[test]
    fn null_is_missing_and_defaults_stand_in() {
        with(r#"{"n_inner": null, "n_head": 12}"#, |config| {
            assert!(!config.has("n_inner"));
            assert_eq!(config.optional_integer("n_inner").unwrap(), None);
            assert_eq!(config.size("n_head").unwrap(), 12);
            assert_eq!(config.epsilon("eps", 1e-5).unwrap(), 1e-5);
            assert_eq!(config.activation("hidden_act", "gelu_new").unwrap(), Activation::GeluTanh);
        });
    }

    #[test]
    fn errors_name_field_allowed_and_found() {
        with(r#"{"n_head": "twelve", "zero": 0, "act": "quick_gelu", "rope": {"kind": "longrope"}}"#, |config| {
            let message = |error: LmError| error.to_string();
            assert_eq!(
                message(config.size("n_head").unwrap_err()),
                "model: config.json: n_head: expected a whole number, found \"twelve\""
            );
            assert!(message(config.size("zero").unwrap_err()).contains("zero: expected a whole number above 0"));
            assert!(
                message(config.size("n_embd").unwrap_err()).contains("n_embd: expected a whole number, found nothing")
            );
            let refused = message(config.activation("act", "relu").unwrap_err());
            assert!(refused.contains("gelu_new") && refused.contains("found \"quick_gelu\""), "{refused}");
            let section = config.section("rope").unwrap().unwrap();
            assert_eq!(
                message(section.one_of("kind", &["default", "linear"], "default").unwrap_err()),
                "model: config.json: rope.kind: expected one of default, linear, found \"longrope\""
            );
        });
    }
}
