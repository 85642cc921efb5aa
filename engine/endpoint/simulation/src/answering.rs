//! Writes the answer of a prompt in the form that it asks for: short, as a chain of thought, as Self-Ask's questions,
//! as JSON.
//!
//! | a prompt has | form |
//! | --- | --- |
//! | `decomposed_questions` as a list of strings | JSON with the single-hop questions |
//! | a contract of MIGRES's modules ([`crate::contract`]) | what it says |
//! | `response_format` of the request, or the words `JSON object` and the key `"answer"` | JSON |
//! | `Thought 1:` and `Search[` | ReAct: a thought and an action (`acting.rs`) |
//! | `Are follow up questions needed here:` | Self-Ask: `Follow up:`, `Intermediate answer:`, a final answer |
//! | `So the answer is`, `step by step`, `chain of thought` | the facts as sentences, then `So the answer is: ..` |
//! | `JSON object and nothing else: {..}` with keys of FSM's steps | that object (`objects.rs`) |
//! | `Prediction:`, `Correct answer:`, and `Yes or No:` or `{"response": "yes"}` | a judge's word (`judged.rs`) |
//! | anything else | the answer alone |
//!
//! Where a fact is missing, the short answer is `unknown` and the others name the next thing to look up. Sentences that
//! the prompt already has after its question are not written again, so that a chain of thought can be continued step by
//! step. A prompt without a question of the world is answered by its sentence that shares most words with its last
//! line.

use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use crate::acting::next_action;
use crate::asking::find_question;
use crate::contract::{ReplyContract, ReplyWords};
use crate::decomposing::{ReferenceStyle, single_hop_questions};
use crate::draw::{draw_bits, unit_draw};
use crate::grammar::WorldGrammar;
use crate::judged::JudgedPrediction;
use crate::objects::{DescribedObject, described_object};
use crate::reading::PassageReader;
use crate::schema::SchemaTexts;
use crate::settings::SimulationSettings;
use crate::solving::{FoundAnswer, MissingFact, PromptFacts, UsedFact};

/// The format that a request demands.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum AnswerFormat {
    #[default]
    Text,
    /// Any JSON object.
    Json,
    /// A document of a schema.
    Schema(Value),
}

/// The form that a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptForm {
    Short,
    Thought,
    SelfAsk,
    React,
    Decomposition(ReferenceStyle),
}

/// A prompt that was read, ready to be answered any number of times.
pub(crate) struct ReadPrompt {
    form: PromptForm,
    /// The prediction that the prompt asks about, if a judge asks.
    judged: Option<JudgedPrediction>,
    /// The object that the prompt describes in words.
    object: Option<DescribedObject>,
    /// `None` if no template of the world fits a question.
    found: Option<FoundAnswer>,
    /// The single-hop questions, in a prompt that asks for them.
    parts: Vec<String>,
    /// The words after the question.
    prior: String,
    /// Whether the prompt's words ask for JSON with the key `answer`.
    wants_json: bool,
    /// Whether the prompt calls the reasoning in JSON `thought`.
    names_thought: bool,
    /// The answer of a prompt without such a question.
    fallback: String,
    titles: Vec<String>,
    /// The contract of the reply, with the prompt, if programs read it.
    contract: Option<(ReplyContract, String)>,
}

/// The draw of an answer: what makes it differ from others of its prompt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerDraw<'a> {
    /// A hash of the prompt and, if it is sampled, of the sampling fields.
    pub(crate) identity: &'a [u8],
    /// Temperature above 0.
    pub(crate) is_sampled: bool,
    /// The number of the choice.
    pub(crate) choice: usize,
}

/// An answer's text and the thought before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenAnswer {
    pub(crate) text: String,
    pub(crate) thought: String,
}

/// The answer where facts are missing.
const UNKNOWN: &str = "unknown";

/// Reads a prompt.
pub(crate) fn read_prompt(reader: &mut PassageReader, prompt: &str) -> ReadPrompt {
    let contract = ReplyContract::of_prompt(prompt);
    let known = contract.map(|contract| contract.known_text(prompt));
    let facts = PromptFacts::new(&reader.read_text(known.as_deref().unwrap_or(prompt)));
    let asked = match contract {
        Some(contract) => contract.question(prompt),
        None => find_question(WorldGrammar::shared(), prompt),
    };
    let found = asked.as_ref().map(|question| facts.solve(&question.readings));
    let form = prompt_form(prompt);
    let parts = match (form, &asked) {
        (PromptForm::Decomposition(style), Some(question)) => {
            question.readings.first().map(|reading| single_hop_questions(reading, style)).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let fallback = if found.is_some() { String::new() } else { nearest_sentence(prompt) };
    let prior = asked.map_or("", |question| prompt.get(question.end..).unwrap_or_default()).to_owned();
    let wants_json = prompt.contains("JSON object") && prompt.contains("\"answer\"");
    let names_thought = prompt.contains("\"thought\"");
    let object = described_object(prompt);
    let contract = contract.map(|contract| (contract, prompt.to_owned()));
    let (judged, titles) = (JudgedPrediction::of_prompt(prompt), facts.titles());
    ReadPrompt { form, judged, object, found, parts, prior, wants_json, names_thought, fallback, titles, contract }
}

fn prompt_form(prompt: &str) -> PromptForm {
    const THOUGHT: [&str; 6] =
        ["o the answer is", "tep by step", "tep-by-step", "hain of thought", "hain-of-thought", "hought:"];
    if prompt.contains("\"decomposed_questions\"") && prompt.contains("list of strings") {
        let style = if prompt.contains("#1") { ReferenceStyle::Numbers } else { ReferenceStyle::Phrases };
        PromptForm::Decomposition(style)
    } else if prompt.contains("Thought 1:") && prompt.contains("Search[") {
        PromptForm::React
    } else if prompt.contains("Are follow up questions needed here:") {
        PromptForm::SelfAsk
    } else if THOUGHT.iter().any(|words| prompt.contains(words)) {
        PromptForm::Thought
    } else {
        PromptForm::Short
    }
}

impl ReadPrompt {
    /// Writes an answer.
    pub(crate) fn write_answer(
        &self,
        settings: &SimulationSettings,
        format: &AnswerFormat,
        draw: AnswerDraw<'_>,
    ) -> WrittenAnswer {
        let format = if self.wants_json && *format == AnswerFormat::Text { &AnswerFormat::Json } else { format };
        let choice = if draw.is_sampled { draw.choice as u64 } else { 0 }.to_le_bytes();
        let parts = [draw.identity, &choice];
        let happens = |label: &str, rate: f64| unit_draw(settings.seed, label, &parts) < rate;
        let is_mistaken = happens("mistake", settings.mistake_rate)
            || draw.is_sampled && happens("sampled mistake", settings.sampled_mistake_rate);
        let is_misformed = happens("format", settings.format_error_rate);
        if let Some(judged) = self.judged {
            return WrittenAnswer { text: judged.write_reply(is_mistaken, is_misformed), thought: String::new() };
        }
        let nothing = FoundAnswer::default();
        let found = match (&self.found, &self.contract) {
            (Some(found), _) => found,
            (None, Some(_)) => &nothing,
            (None, None) => return self.write_fallback(format),
        };
        let bits = draw_bits(settings.seed, "answer", &parts);
        let answer = match &found.answer {
            Some(answer) if is_mistaken => wrong_answer(answer, &found.rivals, bits),
            Some(answer) => answer.clone(),
            None => UNKNOWN.to_owned(),
        };
        let wording = if draw.is_sampled { (bits >> 32) as usize % 2 } else { 0 };
        let sentences: Vec<String> = found.facts.iter().map(|fact| fact_sentence(fact, wording)).collect();
        let thought = sentences.join(" ");
        if let (Some((contract, prompt)), false) = (&self.contract, is_misformed) {
            let text = contract.write_reply(prompt, &reply_words(found, &sentences, &answer));
            return WrittenAnswer { text, thought };
        }
        let described = self.object.as_ref().filter(|_| !matches!(format, AnswerFormat::Schema(_)));
        if let Some(object) = described {
            let text = match is_misformed {
                true => format!("I believe that it may be {answer}."),
                false => object.fill(Some(found), &answer, &thought).to_string(),
            };
            return WrittenAnswer { text, thought };
        }
        let text = match (format, self.form) {
            (AnswerFormat::Text | AnswerFormat::Json, PromptForm::Decomposition(_)) if !is_misformed => {
                json!({ "decomposed_questions": self.parts }).to_string()
            }
            (AnswerFormat::Text, PromptForm::Decomposition(_)) => self.parts.join("\n"),
            (AnswerFormat::Text, PromptForm::React) if is_misformed => format!(" I believe that it may be {answer}."),
            (AnswerFormat::Text, PromptForm::React) => {
                let next = found.missing.as_ref().filter(|_| found.answer.is_none());
                let thought = next.map_or_else(|| format!("So the answer is {answer}."), next_sentence);
                next_action(&self.prior, next.map(|missing| missing.subject.as_str()), &answer, &thought)
            }
            (AnswerFormat::Text, PromptForm::Short) if is_misformed => format!("I believe that it may be {answer}."),
            (AnswerFormat::Text, PromptForm::Short) => answer,
            (AnswerFormat::Text, PromptForm::Thought) => self.write_thought(found, sentences, &answer, is_misformed),
            (AnswerFormat::Text, PromptForm::SelfAsk) => self.write_follow_ups(found, &answer, is_misformed),
            (AnswerFormat::Json | AnswerFormat::Schema(_), _) if is_misformed => format!("Answer: {answer}"),
            (AnswerFormat::Json, _) => {
                let texts = self.schema_texts(found, &thought, &answer);
                texts.plain_object(self.names_thought).to_string()
            }
            (AnswerFormat::Schema(schema), _) => {
                self.schema_texts(found, &thought, &answer).fill_schema(schema).to_string()
            }
        };
        WrittenAnswer { text, thought }
    }

    fn write_fallback(&self, format: &AnswerFormat) -> WrittenAnswer {
        if let Some(object) = self.object.as_ref().filter(|_| !matches!(format, AnswerFormat::Schema(_))) {
            let text = object.fill(None, &self.fallback, "").to_string();
            return WrittenAnswer { text, thought: String::new() };
        }
        let texts = || SchemaTexts {
            answer: self.fallback.clone(),
            reasoning: String::new(),
            query: String::new(),
            titles: self.titles.clone(),
            is_answered: true,
        };
        let text = match (format, self.form) {
            (AnswerFormat::Text, PromptForm::Short) => self.fallback.clone(),
            (AnswerFormat::Text, _) => format!("So the answer is: {}", self.fallback),
            (AnswerFormat::Json, _) => texts().plain_object(self.names_thought).to_string(),
            (AnswerFormat::Schema(schema), _) => texts().fill_schema(schema).to_string(),
        };
        WrittenAnswer { text, thought: String::new() }
    }

    /// The facts as sentences, then the answer or the next thing to look up.
    fn write_thought(
        &self,
        found: &FoundAnswer,
        mut sentences: Vec<String>,
        answer: &str,
        is_misformed: bool,
    ) -> String {
        let conclusion = if is_misformed { format!("It is {answer}.") } else { format!("So the answer is: {answer}.") };
        let next = found.missing.as_ref().filter(|_| found.answer.is_none()).map(next_sentence);
        sentences.push(next.unwrap_or_else(|| conclusion.clone()));
        sentences.retain(|sentence| !self.prior.contains(sentence.as_str()));
        // Nothing is left to say: it was said before that a fact is missing, and the fact did not come.
        let text = if sentences.is_empty() { conclusion } else { sentences.join(" ") };
        self.with_space(text)
    }

    /// Self-Ask: a question and its answer for each fact, in the prompt's own form. What the prompt has already is not
    /// written again, and an answer or an ending that was begun is gone on with.
    fn write_follow_ups(&self, found: &FoundAnswer, answer: &str, is_misformed: bool) -> String {
        let ask = question_for;
        let begun = self.prior.trim_end();
        if begun.ends_with("So the final answer is:") {
            return format!(" {answer}.");
        }
        let answered = |line: &str| self.prior.contains(&format!("{line}\nIntermediate answer:"));
        let mut lines: Vec<String> = vec![];
        for fact in &found.facts {
            let question = format!("Follow up: {}", ask(fact.relation, &fact.subject));
            if begun.ends_with(&format!("{question}\nIntermediate answer:")) {
                lines = vec![format!("{}.", fact.object)];
            } else if !answered(&question) {
                lines.extend([question, format!("Intermediate answer: {}.", fact.object)]);
            }
        }
        let missing = found.missing.as_ref().filter(|_| found.answer.is_none());
        let missing = missing.map(|missing| format!("Follow up: {}", ask(missing.relation, &missing.subject)));
        match missing {
            Some(question) if begun.ends_with(&format!("{question}\nIntermediate answer:")) => {
                lines.extend([format!("{UNKNOWN}."), format!("So the final answer is: {answer}.")]);
            }
            Some(question) if !answered(&question) => lines.push(question),
            None if is_misformed => lines.push(format!("It is {answer}.")),
            _ => lines.push(format!("So the final answer is: {answer}.")),
        }
        let text = lines.join("\n");
        match begun {
            begun if begun.ends_with("Intermediate answer:") => format!(" {text}"),
            begun if begun.contains("Follow up:") && !self.prior.ends_with('\n') => format!("\n{text}"),
            begun if begun.contains("Follow up:") => text,
            _ => self.with_space(format!("Yes.\n{text}")),
        }
    }

    /// A continued text goes on after a space.
    fn with_space(&self, text: String) -> String {
        let is_continued = self.prior.ends_with(|c: char| !c.is_whitespace() && c != '>');
        if is_continued && self.prior.len() > 1 { format!(" {text}") } else { text }
    }

    fn schema_texts(&self, found: &FoundAnswer, thought: &str, answer: &str) -> SchemaTexts {
        let titles: Vec<String> = found.facts.iter().filter_map(|fact| fact.title.clone()).collect();
        let query = found.missing.as_ref().filter(|_| found.answer.is_none()).map(missing_phrase).unwrap_or_default();
        SchemaTexts {
            answer: answer.to_owned(),
            reasoning: thought.to_owned(),
            query,
            titles,
            is_answered: found.answer.is_some(),
        }
    }
}

/// The words of a reply that programs read.
fn reply_words<'a>(found: &'a FoundAnswer, sentences: &'a [String], answer: &'a str) -> ReplyWords<'a> {
    let missing = found.missing.as_ref().filter(|_| found.answer.is_none());
    ReplyWords {
        answer: found.answer.as_ref().map(|_| answer),
        guess: answer,
        sentences,
        facts: &found.facts,
        missing: missing.map(missing_phrase).unwrap_or_default(),
        query: missing.map(|missing| question_for(missing.relation, &missing.subject)).unwrap_or_default(),
    }
}

/// A question for the object of a relation.
fn question_for(relation: usize, subject: &str) -> String {
    let grammar = WorldGrammar::shared();
    grammar.relations[relation].asks[0].replace("{x}", &with_article(grammar, relation, subject))
}

/// A wrong answer: another of the prompt's of the same kind, or a changed number, or `unknown`.
fn wrong_answer(answer: &str, rivals: &[String], bits: u64) -> String {
    if !rivals.is_empty() {
        return rivals[bits as usize % rivals.len()].clone();
    }
    match answer.rfind(|c: char| c.is_ascii_digit()) {
        Some(at) => {
            let digit = answer.as_bytes()[at] - b'0';
            let other = (digit + 1 + (bits % 9) as u8) % 10;
            format!("{}{other}{}", &answer[..at], &answer[at + 1..])
        }
        None => UNKNOWN.to_owned(),
    }
}

/// A fact as a sentence.
fn fact_sentence(fact: &UsedFact, wording: usize) -> String {
    let grammar = WorldGrammar::shared();
    let relation = &grammar.relations[fact.relation];
    let article = relation.object_nouns.first().is_some_and(|noun| matches!(*noun, "river" | "award"));
    let object = if article { format!("the {}", fact.object) } else { fact.object.clone() };
    let subject = with_article(grammar, fact.relation, &fact.subject);
    let mut sentence = relation.says[wording].replace("{s}", &subject).replace("{o}", &object) + ".";
    if let Some(letter) = sentence.get_mut(..1) {
        letter.make_ascii_uppercase();
    }
    sentence
}

/// A relation's subject as sentences name it.
fn with_article(grammar: &WorldGrammar, relation: usize, subject: &str) -> String {
    let nouns = &grammar.relations[relation].subject_nouns;
    let has_article = nouns.iter().any(|noun| matches!(*noun, "river" | "award")) && !subject.starts_with("the ");
    if has_article { format!("the {subject}") } else { subject.to_owned() }
}

/// The phrase for a missing fact's object.
fn missing_phrase(missing: &MissingFact) -> String {
    let grammar = WorldGrammar::shared();
    let relation = &grammar.relations[missing.relation];
    let subject = with_article(grammar, missing.relation, &missing.subject);
    match relation.phrase {
        Some(phrase) => phrase[0].replace("{x}", &subject),
        None => format!("the {} of {subject}", relation.name),
    }
}

fn next_sentence(missing: &MissingFact) -> String {
    format!("The next thing to look up is {}.", missing_phrase(missing))
}

/// The sentence before the last line that shares most of its words; the first among equals.
fn nearest_sentence(prompt: &str) -> String {
    let words = |text: &str| -> FxHashSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2);
        words.map(str::to_lowercase).collect()
    };
    let lines: Vec<&str> = prompt.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let asked = lines.iter().rposition(|line| line.ends_with('?')).unwrap_or(lines.len().saturating_sub(1));
    let Some((last, before)) = lines.get(..=asked).and_then(<[&str]>::split_last) else {
        return UNKNOWN.to_owned();
    };
    let wanted = words(last);
    let mut best = (0, UNKNOWN);
    for sentence in before.iter().flat_map(|line| line.split_inclusive(". ")) {
        let shared = words(sentence).intersection(&wanted).count();
        if shared > best.0 {
            best = (shared, sentence.trim());
        }
    }
    best.1.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: &str = "Pale Harbor is a film known for stark montage and spicy dialogue. It was directed by Margot \
                           Zimova.\nMargot Zimova is a director known for ornate dialogue and urban montage. She was \
                           born in Millford.\n";
    const QUESTION: &str = "Question: Where was the director of Pale Harbor born?\n";

    fn answer(prompt: &str, format: AnswerFormat, settings: &SimulationSettings) -> String {
        let read = read_prompt(&mut PassageReader::new(), prompt);
        read.write_answer(settings, &format, AnswerDraw { identity: prompt.as_bytes(), is_sampled: false, choice: 0 })
            .text
    }

    #[test]
    fn the_form_is_the_prompts() {
        let settings = SimulationSettings::default();
        let write = |prompt: &str, format| answer(&format!("{CONTEXT}{prompt}"), format, &settings);
        assert_eq!(write(&format!("{QUESTION}Answer:"), AnswerFormat::Text), "Millford");
        let steps = "Pale Harbor was directed by Margot Zimova. Margot Zimova was born in Millford.";
        let thought = format!("{steps} So the answer is: Millford.");
        assert_eq!(write(&format!("Think step by step.\n{QUESTION}"), AnswerFormat::Text), thought);
        let continued = format!("Think step by step.\n{QUESTION}Pale Harbor was directed by Margot Zimova.");
        let rest = " Margot Zimova was born in Millford. So the answer is: Millford.";
        assert_eq!(write(&continued, AnswerFormat::Text), rest);
        let self_ask = write(&format!("{QUESTION}Are follow up questions needed here:"), AnswerFormat::Text);
        assert_eq!(
            self_ask,
            " Yes.\nFollow up: Who directed Pale Harbor?\nIntermediate answer: Margot Zimova.\nFollow up: Where was \
             Margot Zimova born?\nIntermediate answer: Millford.\nSo the final answer is: Millford."
        );
        assert!(write(QUESTION, AnswerFormat::Json).contains("\"answer\":\"Millford\""));
    }

    #[test]
    fn a_missing_fact_is_named_once() {
        let settings = SimulationSettings::default();
        let film = CONTEXT.lines().next().unwrap_or_default();
        let prompt = format!("{film}\nThink step by step.\n{QUESTION}");
        let thought = answer(&prompt, AnswerFormat::Text, &settings);
        let next = "The next thing to look up is the birthplace of Margot Zimova.";
        assert_eq!(thought, format!("Pale Harbor was directed by Margot Zimova. {next}"));
        let again = answer(&format!("{prompt}{thought}"), AnswerFormat::Text, &settings);
        assert_eq!(again, " So the answer is: unknown.");
        assert_eq!(answer(&format!("{film}\n{QUESTION}"), AnswerFormat::Text, &settings), UNKNOWN);
    }

    #[test]
    fn mistakes_are_plausible() {
        let settings = SimulationSettings { mistake_rate: 1.0, ..SimulationSettings::default() };
        let other = "Ada Other is a writer known for urban essays and stark poems. She was born in Westham.\n";
        let wrong = answer(&format!("{CONTEXT}{other}{QUESTION}"), AnswerFormat::Text, &settings);
        assert_eq!(wrong, "Westham");
    }

    #[test]
    fn other_prompts_get_the_nearest_sentence() {
        let settings = SimulationSettings::default();
        let prompt = "Cats sleep all day. Dogs bark at night.\nWhen do dogs bark?";
        assert_eq!(answer(prompt, AnswerFormat::Text, &settings), "Dogs bark at night.");
        assert_eq!(answer("", AnswerFormat::Text, &settings), UNKNOWN);
    }
}
