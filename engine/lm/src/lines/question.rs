//! Turns a line into a request.

use super::fields::LineFields;
use super::{BadLine, Task};
use crate::architectures::ModelFamily;
use crate::request::{EncodeRequest, EncoderOutput, GenerateRequest, Request, ScoreRequest, TokenIds};
use crate::session::Session;
use crate::tokenise::{TokeniseError, TokenisedText, Tokenizer};
use serde_json::{Map, Value};
use std::ops::Range;

/// Data of the line, needed to format the answer.
#[derive(Debug)]
pub(super) enum AnswerContext {
    /// Nothing.
    None,
    /// The target's tokens.
    Target(TokenIds),
    /// The tokens of a text, as strings.
    Tokens(Vec<String>),
    /// The range of possible answers; the text, and each token's characters in it.
    Reading { allowed: Range<usize>, source: Option<(String, Vec<(usize, usize)>)> },
}

/// A line's request, and the context of its answer.
type LineQuestion = (Request, AnswerContext);

impl Task {
    /// The request of a line.
    pub(super) fn question(&self, session: &Session, fields: &Map<String, Value>) -> Result<LineQuestion, BadLine> {
        let line = InputLine { session, fields: LineFields(fields) };
        line.fields.are_of(self.name(), self.fields())?;
        match self {
            Self::Score { temperatures, target_eos } => {
                let prompt = line.prompt_ids()?;
                let target = line.target_ids(*target_eos)?;
                let context = AnswerContext::Target(target.clone());
                let temperatures = temperatures.iter().map(|(_, value)| *value).collect();
                Ok((Request::Score(ScoreRequest { prompt, target, temperatures }), context))
            }
            Self::Label => line.encode_question(EncoderOutput::Labels),
            Self::Classify | Self::Rerank => line.encode_question(EncoderOutput::Logits),
            Self::Embed { pooling, .. } => line.encode_question(*pooling),
            Self::Read { .. } => line.read_question(),
            Self::Generate { max_tokens, ignore_eos, sampling, stop } => {
                let generate = GenerateRequest {
                    prompt: line.prompt_ids()?,
                    max_tokens: *max_tokens,
                    sampling: sampling.for_draw(line.fields.draw()?),
                    stop: stop.clone(),
                    ends: if *ignore_eos { Vec::new() } else { session.ends.clone() },
                };
                Ok((Request::Generate(generate), AnswerContext::None))
            }
        }
    }
}

/// The token ids of a line of `tokenize`.
pub(super) fn token_ids(tokenizer: &Tokenizer, fields: &Map<String, Value>) -> Result<TokenIds, BadLine> {
    let fields = LineFields(fields);
    fields.are_of("tokenize", &["text", "text_pair", "ids"])?;
    fields.refuse_both(&["text", "text_pair"], "ids")?;
    if let Some(ids) = fields.ids("ids")? {
        return Ok(ids);
    }
    let text = fields.required("text", "ids")?;
    match fields.text("text_pair")? {
        None => tokenizer.ids(text, true).map_err(tokenizer_error),
        Some(pair) => tokenizer.encode_pair(text, pair).map(|encoded| encoded.ids.into()).map_err(tokenizer_error),
    }
}

/// The text of a line without other fields.
pub(super) fn single_text(fields: &Map<String, Value>) -> Result<String, BadLine> {
    let fields = LineFields(fields);
    fields.are_of("this measurement", &["text"])?;
    fields.text("text")?.map(str::to_owned).ok_or_else(|| BadLine::new("field", "text is missing".into()))
}

struct InputLine<'a> {
    session: &'a Session,
    fields: LineFields<'a>,
}

impl InputLine<'_> {
    fn tokenizer(&self) -> Result<&Tokenizer, BadLine> {
        self.session.tokenizer().map_err(tokenizer_error)
    }

    fn prompt_ids(&self) -> Result<TokenIds, BadLine> {
        self.fields.refuse_both(&["prompt"], "prompt_ids")?;
        match self.fields.ids("prompt_ids")? {
            Some(ids) => Ok(ids),
            None => {
                let text = self.fields.required("prompt", "prompt_ids")?;
                // A prompt comes with many targets, and a target with many prompts: each is tokenised once.
                self.tokenizer()?.ids(text, true).map_err(tokenizer_error)
            }
        }
    }

    /// A target; token ids are taken as they are. A text gets no special tokens, except for the end token of an
    /// encoder-decoder.
    fn target_ids(&self, target_eos: bool) -> Result<TokenIds, BadLine> {
        self.fields.refuse_both(&["target"], "target_ids")?;
        if let Some(ids) = self.fields.ids("target_ids")? {
            return Ok(ids);
        }
        let text = self.fields.required("target", "target_ids")?;
        let tokenizer = self.tokenizer()?;
        let ids = tokenizer.ids(text, false).map_err(tokenizer_error)?;
        if !target_eos || self.session.family != ModelFamily::EncoderDecoder {
            return Ok(ids);
        }
        let end = tokenizer.eos().map_err(tokenizer_error)?;
        Ok(ids.iter().copied().chain([end]).collect())
    }

    /// `text` and, if there is one, `text_pair`.
    fn encode_text(&self) -> Result<(&Tokenizer, TokenisedText), BadLine> {
        let text = self.fields.required("text", "ids")?;
        let tokenizer = self.tokenizer()?;
        let encoded = match self.fields.text("text_pair")? {
            Some(pair) => tokenizer.encode_pair(text, pair),
            None => tokenizer.encode(text, true),
        };
        Ok((tokenizer, encoded.map_err(tokenizer_error)?))
    }

    fn encode_question(&self, want: EncoderOutput) -> Result<LineQuestion, BadLine> {
        let (request, context) = match self.given_ids(&["text", "text_pair"])? {
            Some((ids, type_ids)) => (EncodeRequest { ids, type_ids, want }, AnswerContext::None),
            None => {
                let (tokenizer, encoded) = self.encode_text()?;
                let context = match want {
                    EncoderOutput::Labels => AnswerContext::Tokens(tokenizer.tokens(&encoded.ids)),
                    _ => AnswerContext::None,
                };
                (EncodeRequest { ids: encoded.ids.into(), type_ids: self.type_ids(encoded.type_ids), want }, context)
            }
        };
        Ok((Request::Encode(request), context))
    }

    /// Token ids in place of `texts`, and their types; the types are empty if they are missing.
    fn given_ids(&self, texts: &[&str]) -> Result<Option<(TokenIds, TokenIds)>, BadLine> {
        self.fields.refuse_both(texts, "ids")?;
        self.fields.types_go_with_ids()?;
        let Some(ids) = self.fields.ids("ids")? else { return Ok(None) };
        Ok(Some((ids, self.fields.ids("token_type_ids")?.unwrap_or_default())))
    }

    fn read_question(&self) -> Result<LineQuestion, BadLine> {
        if let Some((ids, type_ids)) = self.given_ids(&["question", "context"])? {
            // If types tell the parts apart, answers lie in the second part.
            let first = type_ids.iter().position(|t| *t == 1).unwrap_or(0);
            // The last of them is the separator at the end of the sequence.
            let last = type_ids.iter().rposition(|t| *t == 1).unwrap_or(ids.len());
            let context = AnswerContext::Reading { allowed: first..last, source: None };
            return Ok((Request::Encode(EncodeRequest { ids, type_ids, want: EncoderOutput::Span }), context));
        }
        let question = self.fields.required("question", "ids")?;
        let text = self.fields.required("context", "ids")?;
        let encoded = self.tokenizer()?.encode_pair(question, text).map_err(tokenizer_error)?;
        let allowed = encoded.second.clone();
        let context = AnswerContext::Reading { allowed, source: Some((text.to_owned(), encoded.offsets)) };
        let type_ids = self.type_ids(encoded.type_ids);
        let request = EncodeRequest { ids: encoded.ids.into(), type_ids, want: EncoderOutput::Span };
        Ok((Request::Encode(request), context))
    }

    /// The tokenizer's types, if the model has more than one type.
    fn type_ids(&self, type_ids: Vec<u32>) -> TokenIds {
        if self.session.token_types > 1 { type_ids.into() } else { TokenIds::default() }
    }
}

fn tokenizer_error(error: TokeniseError) -> BadLine {
    BadLine::new("tokenizer", error.to_string())
}
