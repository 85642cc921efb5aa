//! The choice of tokens as methods' parameters name it: a temperature, or nothing, so that the server chooses.

use crate::machine::MethodError;
use crate::request::Sampling;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The value of a parameter `temperature`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub(crate) enum TemperatureChoice {
    /// This temperature; 0 is greedy.
    Fixed(f64),
    /// Whatever the server does by itself.
    Server,
}

/// The word for the server's own sampling.
const SERVER: &str = "server";

impl Default for TemperatureChoice {
    fn default() -> Self {
        Self::Fixed(0.0)
    }
}

impl TryFrom<Value> for TemperatureChoice {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match (value.as_f64(), value.as_str()) {
            (Some(number), _) => Ok(Self::Fixed(number)),
            (_, Some(SERVER)) => Ok(Self::Server),
            _ => Err(format!("`temperature` = {value}: must be a number or \"{SERVER}\"")),
        }
    }
}

impl From<TemperatureChoice> for Value {
    fn from(choice: TemperatureChoice) -> Self {
        match choice {
            TemperatureChoice::Fixed(number) => number.into(),
            TemperatureChoice::Server => SERVER.into(),
        }
    }
}

impl TemperatureChoice {
    /// Refuses what devices cannot compute with: they divide logits by it in single precision.
    pub(crate) fn check(self, kind: &'static str) -> Result<(), MethodError> {
        match self {
            Self::Fixed(number) if number != 0.0 && !(1e-3..=1e3).contains(&number) => Err(MethodError::Value {
                kind,
                parameter: "temperature",
                found: number.to_string(),
                allowed: "must be 0 (greedy), from 0.001 to 1000, or \"server\"",
            }),
            Self::Fixed(_) | Self::Server => Ok(()),
        }
    }

    /// The choice in a request.
    pub(crate) fn sampling(self) -> Sampling {
        match self {
            Self::Server => Sampling::Server,
            Self::Fixed(0.0) => Sampling::Greedy,
            Self::Fixed(temperature) => Sampling::sample(temperature, 1.0, 0),
        }
    }

    /// The most requests for one text that must parse, if `attempts` are allowed. A greedy text is requested once,
    /// since it would be the same again.
    pub(crate) fn most_draws(self, attempts: u32) -> u32 {
        if self == Self::Fixed(0.0) { 1 } else { attempts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_temperature_is_a_number_or_the_servers() {
        let read = |value: Value| serde_json::from_value::<TemperatureChoice>(value).map_err(|error| error.to_string());
        assert_eq!(read(json!(0)), Ok(TemperatureChoice::Fixed(0.0)));
        assert_eq!(read(json!("server")), Ok(TemperatureChoice::Server));
        assert_eq!(read(json!("hot")).unwrap_err(), "`temperature` = \"hot\": must be a number or \"server\"");
        assert_eq!(json!([TemperatureChoice::Fixed(0.5), TemperatureChoice::Server]), json!([0.5, "server"]));
        for bad in [-1.0, f64::NAN, 1e-4] {
            let error = TemperatureChoice::Fixed(bad).check("m").unwrap_err().to_string();
            assert!(error.contains("must be 0 (greedy), from 0.001 to 1000"), "{error}");
        }
    }

    #[test]
    fn only_what_may_differ_is_asked_for_again() {
        let draws = [TemperatureChoice::Fixed(0.0), TemperatureChoice::Fixed(0.7), TemperatureChoice::Server];
        assert_eq!(draws.map(|choice| choice.most_draws(3)), [1, 3, 3]);
        assert_eq!(TemperatureChoice::Server.sampling(), Sampling::Server);
        assert_eq!(TemperatureChoice::default().sampling(), Sampling::Greedy);
    }
}
