//! The two ways of timing a run.

use serde::{Deserialize, Serialize};

/// The purpose of timing a run. Both modes give the same figures, in different times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimingMode {
    /// All outcomes as soon as possible: many questions are in flight, and share batches, answers and the journal.
    #[default]
    Throughput,
    /// Each outcome as for a single user: the whole run has one question in flight, under one configuration at a time,
    /// and computes everything for it alone.
    Latency,
}

impl TimingMode {
    /// Its name in jobs and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
        }
    }
}

impl std::str::FromStr for TimingMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Throughput, Self::Latency]
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| format!("`{name}`; allowed: throughput, latency"))
    }
}
