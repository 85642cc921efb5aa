//! JSON Lines in, JSON Lines out: what `hopeval lm score|label|...` does, streaming and in the order of the input.
//!
//! ```text
//!   reader --parse, tokenise--> engine --completions--> writer: puts lines in order
//!      ^------------------- at most `window` lines under way --------------+
//! ```
//!
//! Every line has one line of output. A bad one yields `{"id", "error": {"code", "message"}}` in its place.

mod answer;
mod question;
mod task;

pub use task::{Sample, Task};

use crate::request::Request;
use crate::session::Session;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, channel, sync_channel};

/// Lines under way at most: enough for passages to meet, few enough to hold in memory.
pub const WINDOW: usize = 8192;

/// How lines ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All lines, blank ones left out.
    pub lines: u64,
    /// Lines that ended in an error.
    pub errors: u64,
}

/// Why the stream stopped.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// The input broke off.
    #[error("cannot read line {line}")]
    Read {
        /// From 1.
        line: u64,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A line is wrong, where every line must be right.
    #[error("line {line}: {message}")]
    Line {
        /// From 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// The output could not be written.
    #[error("cannot write a line")]
    Write(#[source] std::io::Error),
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// A finished line.
struct Done {
    number: u64,
    text: String,
    failed: bool,
}

/// Answers every line of `input`.
///
/// # Errors
/// [`LinesError`] when input or output fails; lines that were read before are answered first.
pub fn run(
    session: &Session,
    task: &Task,
    input: impl BufRead,
    output: impl Write + Send,
    window: usize,
) -> Result<Tally, LinesError> {
    let (finished, done) = channel::<Done>();
    let (enter, leave) = sync_channel::<()>(window.max(1));
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || write_in_order(&done, &leave, output));
        let mut number = 0;
        let mut broken = None;
        for (at, line) in (1..).zip(input.split(b'\n')) {
            let line = match line {
                Ok(line) if line.trim_ascii().is_empty() => continue,
                Ok(line) => line,
                Err(source) => {
                    broken = Some(LinesError::Read { line: at, source });
                    break;
                }
            };
            // Waits while the window is full. The writer is gone if the output failed: its error is returned below.
            if enter.send(()).is_err() {
                break;
            }
            let finished = finished.clone();
            ask(session, task, at, &line, move |text, failed| {
                // Nobody reads it if the output failed.
                drop(finished.send(Done { number, text, failed }));
            });
            number += 1;
        }
        drop(finished);
        let tally = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        broken.map_or(Ok(tally), Err)
    })
}

/// The requests of all lines, for those who want no lines back. A bad line is an error.
///
/// # Errors
/// [`LinesError`].
pub fn requests(session: &Session, task: &Task, input: impl BufRead) -> Result<Vec<Request>, LinesError> {
    let mut requests = Vec::new();
    for (at, line) in (1..).zip(input.lines()) {
        let line = line.map_err(|source| LinesError::Read { line: at, source })?;
        if line.trim().is_empty() {
            continue;
        }
        let bad = |message: String| LinesError::Line { line: at, message };
        let value = serde_json::from_str::<serde_json::Map<String, Value>>(&line).map_err(|e| bad(e.to_string()))?;
        match task.question(session, &value).map_err(|b| bad(b.message))? {
            question::Question::Ask(request, _) => requests.push(request),
            question::Question::Known(_) => return Err(bad("nothing to compute".into())),
        }
    }
    Ok(requests)
}

/// Answers one line, now or on the engine's thread.
fn ask(session: &Session, task: &Task, at: u64, line: &[u8], reply: impl FnOnce(String, bool) + Send + 'static) {
    let value = match serde_json::from_slice::<Value>(line) {
        Ok(Value::Object(fields)) => fields,
        Ok(other) => {
            let message = format!("line {at}: expected an object, found {}", kind_of(&other));
            return reply(error_line(&Value::Null, "json", &message), true);
        }
        Err(error) => return reply(error_line(&Value::Null, "json", &format!("line {at}: {error}")), true),
    };
    let id = value.get("id").cloned().unwrap_or(Value::Null);
    let (request, context) = match task.question(session, &value) {
        Ok(question::Question::Ask(request, context)) => (request, context),
        Ok(question::Question::Known(fields)) => return reply(answer::line(id, fields), false),
        Err(bad) => return reply(error_line(&id, bad.code, &format!("line {at}: {}", bad.message)), true),
    };
    let answering = task.answering(session);
    session.engine.submit(request, move |completion| match completion.result {
        Ok(answer) => reply(answer::line(id, answering.fields(&context, answer)), false),
        Err(refusal) => reply(error_line(&id, refusal.code(), &format!("line {at}: {refusal}")), true),
    });
}

fn error_line(id: &Value, code: &str, message: &str) -> String {
    answer::line(id.clone(), vec![("error", serde_json::json!({ "code": code, "message": message }))])
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Writes lines in the order of their numbers, whatever order they finish in.
fn write_in_order(done: &Receiver<Done>, leave: &Receiver<()>, mut output: impl Write) -> Result<Tally, LinesError> {
    let mut tally = Tally::default();
    let mut early = BTreeMap::new();
    let mut next = 0;
    while let Ok(line) = done.recv() {
        early.insert(line.number, line);
        while let Some(line) = early.remove(&next) {
            writeln!(output, "{}", line.text).map_err(LinesError::Write)?;
            tally.lines += 1;
            tally.errors += u64::from(line.failed);
            next += 1;
            let entered = leave.recv();
            assert!(entered.is_ok(), "a line that is written was let in before; this is a bug");
        }
        if early.is_empty() {
            output.flush().map_err(LinesError::Write)?;
        }
    }
    output.flush().map_err(LinesError::Write)?;
    Ok(tally)
}
