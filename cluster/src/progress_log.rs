//! A file with the progress of a command, to compare what was estimated with what came.
//!
//! One JSON object a line, five times a second: the time (`unix_s`), the `phase`, the estimate of what is left of the
//! command in seconds (`left_s`; null while there is none), and the counts behind it. Processes that begin later, as
//! those of `--processes` and of `resume`, add their lines to the file.

use serde::Serialize;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file that receives the progress of a command.
#[derive(Debug)]
pub struct ProgressLog {
    file: File,
}

/// The progress of a command at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ProgressLine<'a> {
    /// The phase.
    pub phase: &'a str,
    /// The estimate of the time left.
    pub left: Option<Duration>,
    /// The counts behind it; null if the phase has none.
    pub counts: &'a Value,
}

/// A line of the file.
#[derive(Serialize)]
struct WrittenLine<'a> {
    unix_s: f64,
    phase: &'a str,
    left_s: Option<f64>,
    counts: &'a Value,
}

impl ProgressLog {
    /// The log in the file at `path`, after its earlier lines.
    ///
    /// # Errors
    /// The file cannot be made, or not be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    /// Adds a line with the present time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_line(&mut self, line: ProgressLine<'_>) -> io::Result<()> {
        let ProgressLine { phase, left, counts } = line;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (unix_s, left_s) = (since.as_secs_f64(), left.map(|left| left.as_secs_f64()));
        let mut text = serde_json::to_string(&WrittenLine { unix_s, phase, left_s, counts })?;
        text.push('\n');
        // One write: lines of several processes stay whole.
        self.file.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_added_to_earlier_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress.jsonl");
        for (phase, left) in [("index dense", None), ("evaluate", Some(Duration::from_millis(1500)))] {
            let counts = json!({"outcomes": 3});
            let line = ProgressLine { phase, left, counts: &counts };
            ProgressLog::open(&path).unwrap().write_line(line).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["phase"], &lines[0]["left_s"]), (&json!("index dense"), &Value::Null));
        assert_eq!((&lines[1]["left_s"], &lines[1]["counts"]["outcomes"]), (&json!(1.5), &json!(3)));
        assert!(lines[0]["unix_s"].as_f64().unwrap() <= lines[1]["unix_s"].as_f64().unwrap());
    }
}
