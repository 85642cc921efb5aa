//! The report of a probe: plain data, for a table or JSON.

use serde::Serialize;

/// The report on one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeReport {
    /// The address.
    pub address: String,
    /// The model asked for.
    pub model: String,
    /// The dialect of the settings.
    pub dialect: &'static str,
    /// The model's own name for itself, by an answer.
    pub answered_model: Option<String>,
    /// The fingerprint of software and weights.
    pub system_fingerprint: Option<String>,
    /// The models that the server lists.
    pub models: Vec<String>,
    /// The longest context, in tokens, if the server says it.
    pub context_tokens: Option<u64>,
    /// HTTP requests of the probe.
    pub requests: u32,
    /// Tokens of the probe, by the server's count: read, written.
    pub tokens: (u64, u64),
    /// The checks, in order.
    pub checks: Vec<ProbeCheck>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeCheck {
    /// The field or path.
    pub name: &'static str,
    /// The finding.
    pub finding: ProbeFinding,
    /// Whether the dialect promises it; `None` where dialects say nothing.
    pub promised: Option<bool>,
    /// The reason for the finding, for people.
    pub detail: String,
}

/// The finding of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeFinding {
    /// The server does it.
    Supported,
    /// The server answers as if the field were not there.
    Ignored,
    /// The server refuses the request.
    Refused,
    /// The path does not exist.
    Absent,
    /// The answers do not tell.
    Unclear,
    /// The server failed or did not answer.
    Failed,
}

impl ProbeFinding {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
            Self::Absent => "absent",
            Self::Unclear => "unclear",
            Self::Failed => "failed",
        }
    }
}

impl ProbeReport {
    /// The finding of a check.
    pub fn finding_of(&self, name: &str) -> Option<ProbeFinding> {
        self.checks.iter().find(|check| check.name == name).map(|check| check.finding)
    }

    /// Checks in which the server does not do what the dialect promises: a job that relies on them gets wrong answers.
    pub fn broken_promises(&self) -> impl Iterator<Item = &ProbeCheck> {
        let broken = |finding| matches!(finding, ProbeFinding::Ignored | ProbeFinding::Refused | ProbeFinding::Absent);
        self.checks.iter().filter(move |check| check.promised == Some(true) && broken(check.finding))
    }
}
