//! JSON Lines in, JSON Lines out: the work of `hopeval lm score|label|...`, streaming and in the order of the input.
//!
//! ```text
//!   reader --parse, tokenise--> engine --completions--> writer: puts lines in order
//!      ^------------------- at most `window` lines under way --------------+
//! ```
//!
//! Every line has one line of output. A bad line gives `{"id", "error": {"code", "message"}}` in its place. `tokenize`
//! needs no engine, and answers each line before it reads the next.

mod answer;
mod fields;
mod question;
mod task;

pub use task::{SamplingOptions, Task};

use crate::request::Request;
use crate::session::Session;
use crate::tokenise::Tokenizer;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, channel, sync_channel};

/// Lines under way at most: enough for passages to meet, few enough to hold in memory.
pub const WINDOW: usize = 8192;

/// Counts of answered lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineTally {
    /// All lines except blank ones.
    pub lines: u64,
    /// Lines that ended in an error.
    pub errors: u64,
}

/// The reason for the end of the stream.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// The input broke off.
    #[error("cannot read line {line}")]
    Read {
        /// From 1.
        line: u64,
        /// The system's message.
        #[source]
        source: std::io::Error,
    },
    /// A line is wrong, and every line must be right.
    #[error("line {line}: {message}")]
    Line {
        /// From 1.
        line: u64,
        /// The error in the line.
        message: String,
    },
    /// The output could not be written.
    #[error("cannot write a line")]
    Write(#[source] std::io::Error),
}

/// An error in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl BadLine {
    fn new(code: &'static str, message: String) -> Self {
        Self { code, message }
    }

    /// The line of output in place of line `at`, from 1.
    fn error_line(&self, id: Value, at: u64) -> String {
        let message = format!("line {at}: {}", self.message);
        answer::output_line(id, vec![("error", serde_json::json!({ "code": self.code, "message": message }))])
    }
}

/// A finished line.
struct FinishedLine {
    number: u64,
    text: String,
    failed: bool,
}

/// Answers every line of `input`.
///
/// # Errors
/// [`LinesError`] if input or output fails; the lines read before are answered first.
pub fn run(
    session: &Session,
    task: &Task,
    input: impl BufRead,
    output: impl Write + Send,
    window: usize,
) -> Result<LineTally, LinesError> {
    let (finished, done) = channel::<FinishedLine>();
    let (enter, leave) = sync_channel::<()>(window.max(1));
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || write_in_order(&done, &leave, output));
        let mut broken = None;
        for (number, line) in (0u64..).zip(numbered_lines(input)) {
            let (at, line) = match line {
                Ok(line) => line,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            };
            // Waits while the window is full. The writer is gone if the output failed: its error is returned below.
            if enter.send(()).is_err() {
                break;
            }
            let finished = finished.clone();
            ask_line(session, task, at, &line, move |text, failed| {
                // If the output failed, the receiver is gone.
                drop(finished.send(FinishedLine { number, text, failed }));
            });
        }
        drop(finished);
        let tally = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        broken.map_or(Ok(tally), Err)
    })
}

/// The requests of all lines, for callers without line output. A bad line is an error.
///
/// # Errors
/// [`LinesError`].
pub fn parse_requests(session: &Session, task: &Task, input: impl BufRead) -> Result<Vec<Request>, LinesError> {
    let mut requests = Vec::new();
    for line in numbered_lines(input) {
        let (at, line) = line?;
        let bad = |bad: BadLine| LinesError::Line { line: at, message: bad.message };
        let fields = parse_fields(&line).map_err(bad)?;
        let (request, _) = task.question(session, &fields).map_err(bad)?;
        requests.push(request);
    }
    Ok(requests)
}

/// Writes the ids of every line's `text`, or of its `text` and `text_pair`, with their spellings in the vocabulary.
/// Lines with `ids` in place of texts get the spellings only.
///
/// # Errors
/// [`LinesError`] if input or output fails.
pub fn tokenize(tokenizer: &Tokenizer, input: impl BufRead, mut output: impl Write) -> Result<LineTally, LinesError> {
    let mut tally = LineTally::default();
    for line in numbered_lines(input) {
        let (at, line) = line?;
        let text = match parse_fields(&line) {
            Err(bad) => Err(bad.error_line(Value::Null, at)),
            Ok(fields) => {
                let id = fields.get("id").cloned().unwrap_or(Value::Null);
                match question::token_ids(tokenizer, &fields) {
                    Ok(ids) => {
                        let tokens = tokenizer.tokens(&ids);
                        Ok(answer::output_line(id, vec![("ids", ids.to_vec().into()), ("tokens", tokens.into())]))
                    }
                    Err(bad) => Err(bad.error_line(id, at)),
                }
            }
        };
        tally.lines += 1;
        tally.errors += u64::from(text.is_err());
        let (Ok(text) | Err(text)) = text;
        writeln!(output, "{text}").and_then(|()| output.flush()).map_err(LinesError::Write)?;
    }
    Ok(tally)
}

/// The `text` of every line, to measure tokenising alone. A bad line is an error.
///
/// # Errors
/// [`LinesError`].
pub fn parse_texts(input: impl BufRead) -> Result<Vec<String>, LinesError> {
    let mut texts = Vec::new();
    for line in numbered_lines(input) {
        let (at, line) = line?;
        let text = parse_fields(&line).and_then(|fields| question::single_text(&fields));
        texts.push(text.map_err(|bad| LinesError::Line { line: at, message: bad.message })?);
    }
    Ok(texts)
}

/// Lines with their numbers, from 1; blank ones count and are left out.
fn numbered_lines(input: impl BufRead) -> impl Iterator<Item = Result<(u64, Vec<u8>), LinesError>> {
    let lines = (1..).zip(input.split(b'\n'));
    lines.filter_map(|(at, line)| match line {
        Ok(line) if line.trim_ascii().is_empty() => None,
        Ok(line) => Some(Ok((at, line))),
        Err(source) => Some(Err(LinesError::Read { line: at, source })),
    })
}

/// A line's fields.
fn parse_fields(line: &[u8]) -> Result<Map<String, Value>, BadLine> {
    match serde_json::from_slice::<Value>(line) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(BadLine::new("json", format!("expected an object, found {}", kind_of(&other)))),
        Err(error) => {
            // The error's own text ends in a position, always in line 1.
            let (said, column) = (error.to_string(), error.column());
            let said = said.strip_suffix(&format!(" at line {} column {column}", error.line())).unwrap_or(&said);
            Err(BadLine::new("json", format!("column {column}: {said}")))
        }
    }
}

/// Answers one line, now or on the engine's thread.
fn ask_line(session: &Session, task: &Task, at: u64, line: &[u8], reply: impl FnOnce(String, bool) + Send + 'static) {
    let fields = match parse_fields(line) {
        Ok(fields) => fields,
        Err(bad) => return reply(bad.error_line(Value::Null, at), true),
    };
    let id = fields.get("id").cloned().unwrap_or(Value::Null);
    let (request, context) = match task.question(session, &fields) {
        Ok(question) => question,
        Err(bad) => return reply(bad.error_line(id, at), true),
    };
    let answering = task.answer_formatter(session);
    session.engine.submit(request, move |completion| match completion.result {
        Ok(answer) => reply(answer::output_line(id, answering.fields(&context, answer)), false),
        Err(refusal) => reply(BadLine::new(refusal.code(), refusal.to_string()).error_line(id, at), true),
    });
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

/// Writes lines in the order of their numbers; they may finish in any order.
fn write_in_order(
    done: &Receiver<FinishedLine>,
    leave: &Receiver<()>,
    mut output: impl Write,
) -> Result<LineTally, LinesError> {
    let mut tally = LineTally::default();
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
