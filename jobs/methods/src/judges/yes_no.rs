//! `yes_no`: a language model says whether a prediction is right.
//!
//! MIGRES (arXiv 2402.14382), section 4 and table 15: whether the prediction implies the answer. EfficientRAG (arXiv
//! 2408.04259), appendix B.1: whether the response is correct, as JSON.
//!
//! ```text
//! state | response                      | next  | asks or ends with
//! ------+-------------------------------+-------+---------------------------------------------------------
//! Start | none; the judged one failed   | end   | failure of the same kind
//! Start | none; no gold answer          | end   | no word
//! Start | none; no answer to judge      | end   | no
//! Start | none; an answer               | Asked | Generate: the prompt with question, prediction, answers
//! Asked | a text with the word          | end   | yes or no
//! Asked | another text                  | Asked | the next draw; after the last one a parse failure
//! Asked | failure                       | end   | that failure
//! ```
//!
//! A gold answer of several spans (IIRC: a JSON array) is shown as its spans with `and` between them, as in `Ali and
//! Frazier`. Version 1 showed the array.
//!
//! The word of a text is its first one, if that is yes or no in any case. Else it is the one of the two that the text
//! has; a text with both has no word.

mod parameters;

use crate::fragment::Fragment;
use crate::machine::{
    ContextMode, JudgeTarget, JudgingRule, Machine, MachineStep, Method, MethodError, MethodSetting, PromptWording,
    Question, ServiceUse,
};
use crate::outcome::{Outcome, OutcomeStatus};
use crate::python_text::{normalized_answer, python_list};
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::reply_prompt::{JsonRule, ReplyPrompt, all_words, parse_template, short_text};
use crate::request::{Request, RequestKind, TextFormat};
use crate::response::{Failure, FailureKind, Response};
use hopeval_pytext::words;
use parameters::{AnswersForm, PredictionForm, ReplyForm, YesNoParameters, own_prompt};
use std::sync::Arc;

const KIND: &str = "yes_no";

/// The step of its requests.
const STEP: &str = "judge";

/// The longest part of an unreadable reply in a message, in characters.
const SHOWN: usize = 200;

/// One configuration.
pub(crate) struct YesNoJudge {
    settings: Arc<YesNoSettings>,
}

struct YesNoSettings {
    parameters: YesNoParameters,
    prompt: ReplyPrompt,
    wording: PromptWording,
}

impl ConfigurableMethod for YesNoJudge {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model says whether a prediction is right",
        paper: "MIGRES (Wang et al., 2024), table 15; EfficientRAG (Zhuang et al., 2024), appendix B.1",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = YesNoParameters;

    fn complete_parameters(parameters: &mut YesNoParameters) {
        let (text, reply) = own_prompt(parameters.rule);
        parameters.prompt.get_or_insert_with(|| text.to_owned());
        parameters.reply.get_or_insert(reply);
    }

    fn new(parameters: YesNoParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        at_least_one(KIND, "max_tokens", parameters.max_tokens)?;
        at_least_one(KIND, "attempts", parameters.attempts)?;
        parameters.temperature.check(KIND)?;
        let (own, _) = own_prompt(parameters.rule);
        let text = parameters.prompt.clone().unwrap_or_else(|| own.to_owned());
        let allowed = "must have {question}, {prediction} and {answers}, each once";
        let template = parse_template(KIND, "prompt", &text, &["question", "prediction", "answers"], allowed)?;
        let prompt = ReplyPrompt {
            generator: parameters.generator.clone(),
            system: parameters.system.clone(),
            template,
            max_tokens: parameters.max_tokens,
            temperature: parameters.temperature,
            attempts: parameters.attempts,
            format: TextFormat::Text,
        };
        let origin = if text == own { "hopeval" } else { "job" };
        let text = all_words(parameters.system.as_deref(), &text);
        let wording = PromptWording { origin: origin.into(), text };
        Ok(Self { settings: Arc::new(YesNoSettings { parameters, prompt, wording }) })
    }
}

impl Method for YesNoJudge {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        2
    }

    fn context_mode(&self) -> ContextMode {
        self.settings.parameters.context_mode
    }

    fn gives_answers(&self) -> bool {
        // Its answer is a word about another one.
        false
    }

    fn gives_ranking(&self) -> bool {
        false
    }

    fn most_ranked(&self) -> Option<u32> {
        Some(0)
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        Some(vec![(RequestKind::Generate, self.settings.prompt.most_draws().into())])
    }

    fn reads_gold(&self) -> bool {
        true
    }

    fn wording(&self) -> Option<PromptWording> {
        Some(self.settings.wording.clone())
    }

    fn fragments(&self) -> Vec<Fragment> {
        self.settings.prompt.template.fragments().cloned().collect()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let YesNoParameters { generator, temperature, .. } = &self.settings.parameters;
        vec![ServiceUse::new("generator", generator, RequestKind::Generate).with_sampling(&temperature.sampling())]
    }

    fn judging(&self) -> Option<JudgeTarget<'_>> {
        let YesNoParameters { configuration, rule, open_domain, .. } = &self.settings.parameters;
        let is_open_domain = *open_domain && *rule == JudgingRule::Migres;
        Some(JudgeTarget { configuration, rule: *rule, is_open_domain })
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        let settings = Arc::clone(&self.settings);
        let subject = settings.read_subject(question);
        Box::new(YesNoMachine { settings, question: question.text.clone(), subject, asked: None })
    }
}

/// The texts of the prompt, or the end of a question without a prompt.
enum JudgedSubject {
    /// Prediction and gold answers, as shown.
    Shown { prediction: String, answers: String },
    /// There is nothing to ask.
    Settled(Outcome),
}

impl YesNoSettings {
    fn read_subject(&self, question: &Question) -> JudgedSubject {
        let Some(prediction) = &question.prediction else {
            let message = "there is no outcome to judge".to_owned();
            return JudgedSubject::Settled(Outcome::failed(Failure { kind: FailureKind::Dropped, message }));
        };
        if let OutcomeStatus::Failed(failure) = &prediction.status {
            let message = format!("the judged outcome failed: {}", failure.message);
            return JudgedSubject::Settled(Outcome::failed(Failure { kind: failure.kind, message }));
        }
        if prediction.status == OutcomeStatus::NotInFile {
            return JudgedSubject::Settled(Outcome { status: OutcomeStatus::NotInFile, ..Outcome::default() });
        }
        let golds: Vec<String> = question.answers.iter().map(|answer| shown_gold(answer)).collect();
        let Some(first) = golds.first() else {
            return JudgedSubject::Settled(Outcome::default());
        };
        let Some(answer) = &prediction.answer else {
            return JudgedSubject::Settled(Outcome { answer: Some("no".to_owned()), ..Outcome::default() });
        };
        JudgedSubject::Shown {
            prediction: match self.parameters.prediction {
                PredictionForm::AsGiven => answer.clone(),
                PredictionForm::Normalized => migres_answer(answer),
            },
            answers: match self.parameters.answers {
                AnswersForm::First => first.clone(),
                AnswersForm::All => golds.join(" or "),
                AnswersForm::PythonList => python_list(&golds),
            },
        }
    }

    fn read_word(&self, text: &str) -> Option<bool> {
        match self.parameters.reply {
            Some(ReplyForm::Json) => JsonRule::Object.find(text, |value| only_word(&short_text(value, "response")?)),
            Some(ReplyForm::Word) | None => said_word(text),
        }
    }
}

/// A gold answer in words: spans of a JSON array with `and` between them.
fn shown_gold(answer: &str) -> String {
    let spans = Some(answer).filter(|answer| answer.starts_with('['));
    match spans.and_then(|spans| serde_json::from_str::<Vec<String>>(spans).ok()) {
        Some(spans) => spans.join(" and "),
        None => answer.to_owned(),
    }
}

/// An answer as MIGRES's script compares it: `true` and `false` are yes and no.
fn migres_answer(text: &str) -> String {
    match normalized_answer(text) {
        truth if truth == "true" => "yes".to_owned(),
        truth if truth == "false" => "no".to_owned(),
        other => other,
    }
}

/// Whether a value is the word yes; `None` if it is neither yes nor no.
fn only_word(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    }
}

/// The word that a text says.
fn said_word(text: &str) -> Option<bool> {
    let lowered = text.to_lowercase();
    let word = |word: &str| match word {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    };
    if let Some(first) = words(&lowered).next().and_then(word) {
        return Some(first);
    }
    let mut said = words(&lowered).filter_map(word);
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

struct YesNoMachine {
    settings: Arc<YesNoSettings>,
    question: String,
    subject: JudgedSubject,
    /// Draws that were of no use, once one is asked for.
    asked: Option<u32>,
}

impl Machine for YesNoMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        match self.asked {
            None => self.ask(0),
            Some(useless) => self
                .take_reply(useless, responses)
                .unwrap_or_else(|failure| MachineStep::Done(Outcome { repairs: useless, ..Outcome::failed(failure) })),
        }
    }
}

impl YesNoMachine {
    fn ask(&mut self, useless: u32) -> MachineStep {
        let (prediction, answers) = match &self.subject {
            JudgedSubject::Settled(outcome) => return MachineStep::Done(outcome.clone()),
            JudgedSubject::Shown { prediction, answers } => (prediction, answers),
        };
        self.asked = Some(useless);
        let request = self.settings.prompt.request(STEP, useless, |field, builder| {
            builder.text(match field {
                "question" => &self.question,
                "prediction" => prediction,
                _ => answers,
            });
        });
        let YesNoParameters { draw, attempts, .. } = self.settings.parameters;
        let draw = draw.saturating_mul(attempts).saturating_add(useless);
        MachineStep::Ask(vec![Request { draw, ..request }])
    }

    fn take_reply(&mut self, useless: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        if let Some(is_right) = self.settings.read_word(&text) {
            let word = if is_right { "yes" } else { "no" };
            let mut outcome = Outcome { answer: Some(word.to_owned()), repairs: useless, ..Outcome::default() };
            outcome.iterations = 1;
            outcome.add_note("reply", text.trim());
            return Ok(MachineStep::Done(outcome));
        }
        if useless + 1 < self.settings.prompt.most_draws() {
            return Ok(self.ask(useless + 1));
        }
        let shown: String = text.chars().take(SHOWN).collect();
        let message = format!("the judge says neither yes nor no in its form: {shown:?}");
        Err(Failure { kind: FailureKind::ParseFailure, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_counts_or_the_only_one() {
        for (text, said) in [
            ("Yes", Some(true)),
            (" no.\n", Some(false)),
            ("**YES**, since it names the city, no doubt", Some(true)),
            ("Output: Yes", Some(true)),
            ("It does not. No", Some(false)),
            ("It may be yes or no", None),
            ("nothing, yesterday", None),
            ("", None),
        ] {
            assert_eq!(said_word(text), said, "{text:?}");
        }
    }

    #[test]
    fn a_value_is_one_of_the_words() {
        let read = |text: &str| JsonRule::Object.find(text, |value| only_word(&short_text(value, "response")?));
        assert_eq!(read("```json\n{\"response\": \"Yes\"}\n```"), Some(true));
        assert_eq!(read("{\"response\": false}"), Some(false));
        assert_eq!(read("{\"response\": \"yes, it is\"}"), None);
        assert_eq!(read("yes"), None);
    }
}
