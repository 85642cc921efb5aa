//! The two ways in which a run is timed.

use serde::{Deserialize, Serialize};

/// What a run is timed for: the same figures, in another time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// All outcomes together, soon: many questions are in flight, and share batches, answers and the journal.
    #[default]
    Throughput,
    /// Each outcome as for a single user: one question is in flight in the whole run, under one configuration at a time,
    /// and everything is computed for it alone.
    Latency,
}

impl Mode {
    /// Its name in jobs and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Throughput, Self::Latency]
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| format!("`{name}`; allowed: throughput, latency"))
    }
}
