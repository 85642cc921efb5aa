//! From a line to a request.

use super::{BadLine, Task, kind_of};
use crate::architectures::Family;
use crate::request::{Encode, Generate, Ids, Request, Score, Want};
use crate::session::Session;
use crate::tokenise::{Encoded, Tokenizer};
use serde_json::{Map, Value};
use std::ops::Range;
use std::sync::Arc;

/// What a line comes to.
pub(super) enum Question {
    /// Something for the engine, and what the answer will be told with.
    Ask(Request, Context),
    /// Nothing for the engine: the output's fields.
    Known(Vec<(&'static str, Value)>),
}

/// What is needed to tell an answer.
#[derive(Debug)]
pub(super) enum Context {
    /// Nothing.
    None,
    /// The target's tokens.
    Target(Ids),
    /// The tokens of a text, as strings.
    Tokens(Vec<String>),
    /// Where answers may lie, and which characters of which text the tokens are.
    Reading { allowed: Range<usize>, source: Option<(String, Vec<(usize, usize)>)> },
}

impl Task {
    /// The request of a line.
    pub(super) fn question(&self, session: &Session, fields: &Map<String, Value>) -> Result<Question, BadLine> {
        let line = Line { session, fields };
        match self {
            Self::Score { temperatures, target_eos } => {
                let prompt = line.prompt()?;
                let target: Ids = match line.ids("target_ids")? {
                    Some(ids) => ids,
                    None => line.target(*target_eos)?,
                };
                let context = Context::Target(target.clone());
                let temperatures = temperatures.iter().map(|(_, value)| *value).collect();
                Ok(Question::Ask(Request::Score(Score { prompt, target, temperatures }), context))
            }
            Self::Label => line.encode(Want::Labels),
            Self::Classify | Self::Rerank => line.encode(Want::Logits),
            Self::Embed { pooling, .. } => line.encode(*pooling),
            Self::Read { .. } => line.read(),
            Self::Generate { max_tokens, ignore_eos, sampling, stop } => {
                let draw = match fields.get("draw") {
                    None => 0,
                    Some(draw) => draw.as_u64().and_then(|d| u32::try_from(d).ok()).ok_or_else(|| {
                        bad("field", format!("draw: expected a number from 0 to {}, found {draw}", u32::MAX))
                    })?,
                };
                let generate = Generate {
                    prompt: line.prompt()?,
                    max_tokens: *max_tokens,
                    sampling: sampling.sampling(draw),
                    stop: stop.clone(),
                    ends: if *ignore_eos { Vec::new() } else { session.ends.clone() },
                };
                Ok(Question::Ask(Request::Generate(generate), Context::None))
            }
            Self::Tokenize => {
                let (tokenizer, encoded) = line.text()?;
                let tokens = tokenizer.tokens(&encoded.ids);
                Ok(Question::Known(vec![("ids", encoded.ids.into()), ("tokens", tokens.into())]))
            }
        }
    }
}

struct Line<'a> {
    session: &'a Session,
    fields: &'a Map<String, Value>,
}

impl Line<'_> {
    /// A text field that may be missing.
    fn optional(&self, name: &str) -> Result<Option<&str>, BadLine> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(bad("field", format!("{name}: expected a string, found {}", kind_of(other)))),
        }
    }

    /// A text field; `or` is the field that may stand in its place.
    fn required(&self, name: &str, or: &str) -> Result<&str, BadLine> {
        self.optional(name)?.ok_or_else(|| bad("field", format!("{name} is missing: {name} or {or} is needed")))
    }

    /// A list of token ids that may be missing.
    fn ids(&self, name: &str) -> Result<Option<Ids>, BadLine> {
        let expected = |found: String| bad("field", format!("{name}: expected a list of token ids, found {found}"));
        let list = match self.fields.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(expected(kind_of(other).into())),
        };
        let id = |value: &Value| {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            id.ok_or_else(|| expected(format!("{value} in it")))
        };
        list.iter().map(id).collect::<Result<Vec<_>, _>>().map(|ids| Some(ids.into()))
    }

    fn tokenizer(&self) -> Result<&Arc<Tokenizer>, BadLine> {
        let missing =
            || bad("tokenizer", "the model's folder has no tokenizer.json: give token ids instead of text".into());
        self.session.tokenizer.as_ref().ok_or_else(missing)
    }

    fn prompt(&self) -> Result<Ids, BadLine> {
        match self.ids("prompt_ids")? {
            Some(ids) => Ok(ids),
            None => {
                let text = self.required("prompt", "prompt_ids")?;
                // A prompt comes with many targets, and a target with many prompts: each is tokenised once.
                self.tokenizer()?.ids(text, true).map_err(untokenised)
            }
        }
    }

    /// A text target: no special tokens, but an encoder-decoder's ends in its end token.
    fn target(&self, target_eos: bool) -> Result<Ids, BadLine> {
        let text = self.required("target", "target_ids")?;
        let tokenizer = self.tokenizer()?;
        let ids = tokenizer.ids(text, false).map_err(untokenised)?;
        if !target_eos || self.session.family != Family::EncoderDecoder {
            return Ok(ids);
        }
        let end = tokenizer.eos().map_err(untokenised)?;
        Ok(ids.iter().copied().chain([end]).collect())
    }

    /// `text` and, if there is one, `text_pair`.
    fn text(&self) -> Result<(&Arc<Tokenizer>, Encoded), BadLine> {
        let text = self.required("text", "ids")?;
        let tokenizer = self.tokenizer()?;
        let encoded = match self.optional("text_pair")? {
            Some(pair) => tokenizer.encode_pair(text, pair),
            None => tokenizer.encode(text, true),
        };
        Ok((tokenizer, encoded.map_err(untokenised)?))
    }

    fn encode(&self, want: Want) -> Result<Question, BadLine> {
        let (request, context) = match self.ids("ids")? {
            Some(ids) => {
                let type_ids = self.ids("token_type_ids")?.unwrap_or_default();
                (Encode { ids, type_ids, want }, Context::None)
            }
            None => {
                let (tokenizer, encoded) = self.text()?;
                let context = match want {
                    Want::Labels => Context::Tokens(tokenizer.tokens(&encoded.ids)),
                    _ => Context::None,
                };
                (Encode { ids: encoded.ids.into(), type_ids: self.type_ids(encoded.type_ids), want }, context)
            }
        };
        Ok(Question::Ask(Request::Encode(request), context))
    }

    fn read(&self) -> Result<Question, BadLine> {
        if let Some(ids) = self.ids("ids")? {
            let type_ids = self.ids("token_type_ids")?.unwrap_or_default();
            // Answers lie in the second part where types tell the parts apart.
            let first = type_ids.iter().position(|t| *t == 1).unwrap_or(0);
            // The last of them is the separator that ends the sequence.
            let last = type_ids.iter().rposition(|t| *t == 1).unwrap_or(ids.len());
            let context = Context::Reading { allowed: first..last, source: None };
            return Ok(Question::Ask(Request::Encode(Encode { ids, type_ids, want: Want::Span }), context));
        }
        let question = self.required("question", "ids")?;
        let text = self.required("context", "ids")?;
        let encoded = self.tokenizer()?.encode_pair(question, text).map_err(untokenised)?;
        let allowed = encoded.second.clone();
        let context = Context::Reading { allowed, source: Some((text.to_owned(), encoded.offsets)) };
        let type_ids = self.type_ids(encoded.type_ids);
        let request = Encode { ids: encoded.ids.into(), type_ids, want: Want::Span };
        Ok(Question::Ask(Request::Encode(request), context))
    }

    /// Types as the tokenizer gives them, where the model has more than one.
    fn type_ids(&self, type_ids: Vec<u32>) -> Ids {
        if self.session.token_types > 1 { type_ids.into() } else { Ids::default() }
    }
}

fn bad(code: &'static str, message: String) -> BadLine {
    BadLine { code, message }
}

fn untokenised(error: impl std::fmt::Display) -> BadLine {
    bad("tokenizer", error.to_string())
}
