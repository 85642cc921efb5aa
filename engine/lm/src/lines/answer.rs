//! Turns an answer into a line.

use super::Task;
use super::question::AnswerContext;
use crate::generate::cut_at_stop;
use crate::heads::{best_span, highest_logit};
use crate::request::{Answer, EncodeResult, FinishReason, GenerateResult, ScoreResult};
use crate::session::Session;
use crate::tokenise::Tokenizer;
use serde_json::{Value, json};
use std::sync::Arc;

type OutputFields = Vec<(&'static str, Value)>;

/// A line of output: the id, then the fields.
pub(super) fn output_line(id: Value, fields: OutputFields) -> String {
    // Written by hand to put the id first and the fields in their order; their names need no escaping.
    let mut line = format!("{{\"id\":{id}");
    for (name, value) in fields {
        line.push_str(&format!(",\"{name}\":{value}"));
    }
    line.push('}');
    line
}

/// Formats the answers of one task. It travels with each request to the engine's thread.
pub(super) struct AnswerFormatter {
    task: Task,
    tokenizer: Option<Arc<Tokenizer>>,
    token_labels: Arc<[String]>,
    sequence_labels: Arc<[String]>,
}

impl Task {
    pub(super) fn answer_formatter(&self, session: &Session) -> AnswerFormatter {
        AnswerFormatter {
            task: self.clone(),
            tokenizer: session.tokenizer.clone(),
            token_labels: session.token_labels.clone(),
            sequence_labels: session.sequence_labels.clone(),
        }
    }
}

impl AnswerFormatter {
    pub(super) fn fields(&self, context: &AnswerContext, answer: Answer) -> OutputFields {
        match (answer, &self.task, context) {
            (Answer::Scored(scored), Task::Score { temperatures, .. }, AnswerContext::Target(target)) => {
                vec![("target_tokens", target.to_vec().into()), ("logprobs", log_probs(&scored, temperatures))]
            }
            (Answer::Encoded(encoded), _, _) => self.encoded_fields(context, encoded),
            (Answer::Generated(generated), Task::Generate { stop, .. }, _) => self.generated_fields(generated, stop),
            (answer, ..) => panic!("{answer:?} answers another task; this is a bug"),
        }
    }

    fn encoded_fields(&self, context: &AnswerContext, encoded: EncodeResult) -> OutputFields {
        match &self.task {
            Task::Label => self.label_fields(context, &encoded),
            Task::Classify | Task::Rerank => {
                let mut fields = vec![("logits", encoded.sequence_logits.clone().into())];
                match (&self.task, &encoded.sequence_logits[..]) {
                    (Task::Rerank, [score]) => fields.push(("score", (*score).into())),
                    (_, logits) if logits.len() > 1 => {
                        fields.push(("label", label_name(logits, &self.sequence_labels)))
                    }
                    _ => {}
                }
                fields
            }
            Task::Embed { normalize, .. } => {
                let mut embedding = encoded.embedding;
                if *normalize {
                    normalise_embedding(&mut embedding);
                }
                vec![("embedding", embedding.into())]
            }
            Task::Read { max_answer_tokens } => span_fields(context, &encoded, *max_answer_tokens),
            task => panic!("{task:?} encodes nothing; this is a bug"),
        }
    }

    fn label_fields(&self, context: &AnswerContext, encoded: &EncodeResult) -> OutputFields {
        let mut fields = Vec::new();
        if let AnswerContext::Tokens(tokens) = context {
            fields.push(("tokens", tokens.clone().into()));
        }
        let labels = encoded.token_logits.iter().map(|logits| highest_logit(logits).unwrap_or(0)).collect::<Vec<_>>();
        let names = labels.iter().map(|label| self.token_labels.get(*label).cloned()).collect::<Vec<_>>();
        fields.push(("labels", labels.into()));
        fields.push(("label_names", names.into()));
        fields.push(("token_logits", json!(encoded.token_logits.iter().collect::<Vec<_>>())));
        if !encoded.sequence_logits.is_empty() {
            fields.push(("label", label_name(&encoded.sequence_logits, &self.sequence_labels)));
            fields.push(("sequence_logits", encoded.sequence_logits.clone().into()));
        }
        fields
    }

    fn generated_fields(&self, generated: GenerateResult, stop: &[String]) -> OutputFields {
        let text = self.tokenizer.as_ref().map(|tokenizer| tokenizer.decode(&generated.ids, true));
        let text = text.map(|text| cut_at_stop(&text, stop).0.to_owned());
        let finish = match generated.finish {
            FinishReason::End | FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        };
        vec![
            ("text", text.into()),
            ("ids", generated.ids.into()),
            ("logprobs", generated.log_probs.into()),
            ("finish_reason", finish.into()),
        ]
    }
}

fn log_probs(scored: &ScoreResult, temperatures: &[(String, f32)]) -> Value {
    let at = |(t, (name, value)): (usize, &(String, f32))| (name.clone(), scored.log_probs(t, *value).into());
    Value::Object(temperatures.iter().enumerate().map(at).collect())
}

/// The name of the highest logit's label.
fn label_name(logits: &[f32], labels: &[String]) -> Value {
    highest_logit(logits).and_then(|best| labels.get(best).cloned()).into()
}

fn normalise_embedding(embedding: &mut [f32]) {
    let length = embedding.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        embedding.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
}

/// The best span: its tokens, and its text with character offsets if the context was given as text.
fn span_fields(context: &AnswerContext, encoded: &EncodeResult, max_answer_tokens: usize) -> OutputFields {
    let AnswerContext::Reading { allowed, source } = context else { panic!("a reader has a context; this is a bug") };
    let mut fields = Vec::new();
    match best_span(&encoded.start_logits, &encoded.end_logits, allowed.clone(), max_answer_tokens) {
        None => fields.push(("answer", Value::Null)),
        Some(span) => {
            if let Some((text, offsets)) = source {
                let (start, end) = (offsets[span.tokens.start].0, offsets[span.tokens.end - 1].1);
                let answer = text.chars().skip(start).take(end.saturating_sub(start)).collect::<String>();
                fields.extend([("answer", answer.into()), ("start", start.into()), ("end", end.into())]);
            }
            fields.push(("tokens", json!([span.tokens.start, span.tokens.end])));
            fields.push(("score", span.score.into()));
        }
    }
    if let Some(rank) = encoded.rank {
        fields.push(("rank", rank.into()));
    }
    fields.push(("start_logits", encoded.start_logits.clone().into()));
    fields.push(("end_logits", encoded.end_logits.clone().into()));
    fields
}
