//! Runs scenario files: events, `----`, the machine's reaction.
//!
//! `ops/docs/scenarios.md` describes the format. Running a file renders it anew with the machines' real reactions. A
//! test compares the result with the file; blessing writes it to the file.

use crate::machine::{GivenContext, Machine, MachineStep, Method, MethodError, MethodSetting, Question};
use crate::notation::NotationError;
use crate::notation::parse::{NotationToken, NotationTokens, read_number, read_numbers, read_passage};
use crate::outcome::Outcome;
use crate::ranking;
use crate::request::PassageId;
use crate::response::Response;
use serde_json::Value;

/// A mistake in a scenario file, with its line.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {source}")]
pub struct ScenarioError {
    /// The line in the file, from 1.
    pub line: usize,
    /// The mistake.
    #[source]
    pub source: ScenarioFault,
}

/// A mistake in a scenario file.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioFault {
    /// A line is not in the notation.
    #[error(transparent)]
    Notation(#[from] NotationError),
    /// A method's parameters are not JSON.
    #[error("the method's parameters are no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A method could not be configured.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// Events and `----` out of order, or events without a waiting machine.
    #[error("{0}")]
    Order(&'static str),
    /// More or fewer responses than requests.
    #[error("{found} responses to {expected} requests")]
    Count {
        /// Requests of the last round.
        expected: usize,
        /// Responses in this block.
        found: usize,
    },
}

/// Builds the methods of a file.
type BuildFunction<'a> = &'a dyn Fn(&str, &Value, &MethodSetting) -> Result<Box<dyn Method>, MethodError>;

/// Runs all scenarios of a file and renders it with the machines' reactions.
///
/// # Errors
/// The first bad line.
pub fn run_scenarios(file: &str, build: BuildFunction<'_>) -> Result<String, ScenarioError> {
    let mut rendered = Vec::new();
    let mut scenario = Scenario::default();
    let mut expecting = false;
    let mut events = 0;
    for (number, line) in (1..).zip(file.lines()) {
        let at = |source: ScenarioFault| ScenarioError { line: number, source };
        if expecting {
            // The old reaction is replaced; a blank line ends it.
            expecting = !line.trim().is_empty();
            if !expecting {
                rendered.push(String::new());
            }
            continue;
        }
        rendered.push(line.trim_end().to_owned());
        if line.trim() == "----" {
            if events == 0 {
                return Err(at(ScenarioFault::Order("nothing happens before this `----`")));
            }
            rendered.push(scenario.run_step(build).map_err(at)?);
            (expecting, events) = (true, 0);
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            scenario.read_event(line).map_err(at)?;
            events += 1;
        }
    }
    if events > 0 {
        let source = ScenarioFault::Order("the last event has no `----`");
        return Err(ScenarioError { line: file.lines().count(), source });
    }
    Ok(rendered.join("\n") + "\n")
}

#[derive(Default)]
struct Scenario {
    method: Option<(String, Value)>,
    setting: Option<MethodSetting>,
    question: Question,
    machine: Option<Box<dyn Machine>>,
    /// Requests of the last round.
    waiting: usize,
    responses: Vec<Response>,
}

impl Scenario {
    fn read_event(&mut self, line: &str) -> Result<(), ScenarioFault> {
        let word = line.split_whitespace().next().unwrap_or_default();
        let rest = line.trim_start()[word.len()..].trim();
        if word == "method" {
            let (kind, parameters) = rest.split_once(' ').unwrap_or((rest, "{}"));
            *self = Self::default();
            self.method = Some((kind.to_owned(), serde_json::from_str(parameters)?));
            return Ok(());
        }
        if self.method.is_none() {
            self.responses.push(line.parse()?);
            return Ok(());
        }
        let mut tokens = NotationTokens::from_line(rest)?;
        match word {
            "corpus" => {
                self.setting = Some(MethodSetting::of_corpus(read_number(&tokens.next_word("number of passages")?)?));
                tokens.expect_end()?;
            }
            "question" => {
                self.question.id = tokens.next_word("an id")?;
                self.question.text = tokens.next_text("the question")?;
                tokens.expect_end()?;
            }
            "kind" => self.question.kind = Some(tokens.next_word("a kind")?),
            "candidates" => {
                self.question.candidates = token_texts(tokens).map(|w| read_passage(&w)).collect::<Result<_, _>>()?
            }
            "gold" => {
                let slot = |word: String| Ok(read_numbers::<u32>(&word)?.into_iter().map(PassageId).collect());
                self.question.gold = token_texts(tokens).map(slot).collect::<Result<_, NotationError>>()?;
            }
            "answers" => self.question.answers = token_texts(tokens).collect(),
            "sub_question" => {
                let text = tokens.next_text("a question")?;
                self.question.decomposition.push((text, token_texts(tokens).next()));
            }
            "evidence" => {
                let mut part = || tokens.next_text("subject, relation and object");
                let triple = [part()?, part()?, part()?];
                tokens.expect_end()?;
                self.question.evidences.push(triple);
            }
            "context" => {
                let title = tokens.next_text("a title")?;
                let text = tokens.next_text("a text")?;
                let passage = token_texts(tokens).next().map(|word| read_passage(&word)).transpose()?;
                self.question.context = Some(GivenContext { title, text, passage });
            }
            "prediction" => {
                let answer = Some(tokens.next_text("an answer")?);
                let passages: Vec<PassageId> =
                    token_texts(tokens).map(|word| read_passage(&word)).collect::<Result<_, _>>()?;
                let ranked = ranking::by_position(passages);
                self.question.prediction = Some(Box::new(Outcome { answer, ranked, ..Outcome::default() }));
            }
            other => {
                const EXPECTED: &str = "`method`, `corpus`, `question`, `kind`, `candidates`, `gold`, `answers`, \
                                        `sub_question`, `evidence`, `context` or `prediction`";
                return Err(NotationError { expected: EXPECTED, found: format!("`{other}`") }.into());
            }
        }
        Ok(())
    }

    fn run_step(&mut self, build: BuildFunction<'_>) -> Result<String, ScenarioFault> {
        if let Some((kind, parameters)) = self.method.take() {
            let setting = self.setting.take().unwrap_or(MethodSetting::of_corpus(100));
            self.machine = Some(build(&kind, &parameters, &setting)?.start(&self.question));
        } else if self.responses.len() != self.waiting {
            return Err(ScenarioFault::Count { expected: self.waiting, found: self.responses.len() });
        }
        let Some(machine) = &mut self.machine else {
            return Err(ScenarioFault::Order("no machine waits for this; begin with `method`"));
        };
        match machine.step(std::mem::take(&mut self.responses)) {
            MachineStep::Ask(requests) => {
                self.waiting = requests.len();
                let lines: Vec<String> = requests.iter().map(ToString::to_string).collect();
                Ok(lines.join("\n"))
            }
            MachineStep::Done(outcome) => {
                self.machine = None;
                self.waiting = 0;
                Ok(outcome.to_string())
            }
        }
    }
}

/// Words and texts alike.
fn token_texts(tokens: NotationTokens) -> impl Iterator<Item = String> {
    tokens.remaining_tokens().map(|token| match token {
        NotationToken::Word(text) | NotationToken::Text(text) => text,
    })
}
