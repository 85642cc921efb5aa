//! Log-probabilities of a given text: completions that repeat their prompt.
//!
//! Prompt and target are token ids, so that both are split exactly as the caller's tokenizer does. The one token that
//! servers insist on writing is not read.

use super::body::{BodyWriter, RequestBody};
use super::envelope::{EnvelopeFields, ReadingFault, ReplyFacts, read_json};
use crate::answer::CallAnswer;
use crate::call::ScoreCall;
use crate::dialect::ScoreForm;
use crate::settings::EndpointSettings;
use crate::verdict::AttemptCause;
use serde::Deserialize;
use std::collections::HashMap;

#[derive(Deserialize)]
struct ScoreReply {
    #[serde(default)]
    choices: Option<Vec<ScoreChoice>>,
}

#[derive(Deserialize)]
struct ScoreChoice {
    #[serde(default)]
    logprobs: Option<EchoLogprobs>,
    /// For each prompt token the log-probabilities of some tokens by id, that token's among them.
    #[serde(default)]
    prompt_logprobs: Option<Vec<Option<HashMap<String, PromptLogprob>>>>,
}

#[derive(Deserialize)]
struct EchoLogprobs {
    token_logprobs: Vec<Option<f32>>,
}

#[derive(Deserialize)]
struct PromptLogprob {
    logprob: f32,
}

/// The body of a score.
pub(super) fn score_body(settings: &EndpointSettings, call: &ScoreCall, form: ScoreForm) -> RequestBody {
    let tokens: Vec<u32> = call.prompt.iter().chain(&call.target).copied().collect();
    let mut body = BodyWriter::for_model(&settings.model, 7 * tokens.len());
    body.add("prompt", &tokens);
    body.add("max_tokens", &1);
    body.add("temperature", &0.0);
    match form {
        ScoreForm::Echo => {
            body.add("echo", &true);
            body.add("logprobs", &1);
        }
        ScoreForm::PromptLogprobs => body.add("prompt_logprobs", &1),
    }
    body.finish_body(&settings.body, None)
}

/// The log-probability of each target token.
pub(super) fn read_scores(
    body: &[u8],
    prompt: usize,
    target: &[u32],
    form: ScoreForm,
    model_known: bool,
) -> Result<(CallAnswer, ReplyFacts), ReadingFault> {
    let facts = read_json::<EnvelopeFields>(body)?.into_facts(model_known)?;
    let reply: ScoreReply = read_json(body)?;
    let Some(choice) = reply.choices.into_iter().flatten().next() else {
        return Err(ReadingFault::new(AttemptCause::NoChoices, "the answer has no choices").with_facts(facts));
    };
    let scores: Option<Vec<f32>> = match form {
        ScoreForm::Echo => {
            let logprobs = choice.logprobs.map(|logprobs| logprobs.token_logprobs).unwrap_or_default();
            logprobs.get(prompt..prompt + target.len()).and_then(|found| found.iter().copied().collect())
        }
        ScoreForm::PromptLogprobs => {
            let logprobs = choice.prompt_logprobs.unwrap_or_default();
            let found = logprobs.get(prompt..prompt + target.len());
            found.and_then(|found| {
                let of_token = |(entry, id): (&Option<HashMap<String, PromptLogprob>>, &u32)| {
                    entry.as_ref()?.get(&id.to_string()).map(|found| found.logprob)
                };
                found.iter().zip(target).map(of_token).collect()
            })
        }
    };
    match scores {
        Some(scores) if scores.iter().all(|score| score.is_finite()) => Ok((CallAnswer::Scored(scores), facts)),
        _ => {
            let message = format!("no log-probability for each of {} prompt tokens", prompt + target.len());
            Err(ReadingFault::new(AttemptCause::WrongShape, message).with_facts(facts))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: ([u32; 2], [u32; 2]) = ([5, 6], [7, 8]);

    fn read(body: &str, form: ScoreForm) -> Result<Vec<f32>, AttemptCause> {
        match read_scores(body.as_bytes(), CALL.0.len(), &CALL.1, form, false) {
            Ok((CallAnswer::Scored(scores), _)) => Ok(scores),
            Ok(_) => panic!("another kind of answer"),
            Err(fault) => Err(fault.cause),
        }
    }

    #[test]
    fn bodies_ask_for_the_prompts_scores() {
        let settings = EndpointSettings::new("m", "http://a/v1");
        let call = ScoreCall { prompt: CALL.0.to_vec(), target: CALL.1.to_vec() };
        let text =
            |form| String::from_utf8(score_body(&settings, &call, form).chunks_for(1, 0).to_bytes().to_vec()).unwrap();
        let head = r#"{"model":"m","prompt":[5,6,7,8],"max_tokens":1,"temperature":0.0,"#;
        assert_eq!(text(ScoreForm::Echo), format!("{head}\"echo\":true,\"logprobs\":1}}"));
        assert_eq!(text(ScoreForm::PromptLogprobs), format!("{head}\"prompt_logprobs\":1}}"));
    }

    #[test]
    fn echoes_and_prompt_logprobs() {
        let echo = r#"{"choices":[{"text":"x","logprobs":{"tokens":["a","b","c","d","e"],
            "token_logprobs":[null,-1,-2,-3,-9],"top_logprobs":[null,{},{},{},{}]}}]}"#;
        assert_eq!(read(echo, ScoreForm::Echo), Ok(vec![-2.0, -3.0]));
        let by_id = r#"{"choices":[{"text":"x","prompt_logprobs":[null,{"6":{"logprob":-1,"rank":1}},
            {"9":{"logprob":-0.1},"7":{"logprob":-2.5,"rank":3}},{"8":{"logprob":-3.5,"decoded_token":"d"}}]}]}"#;
        assert_eq!(read(by_id, ScoreForm::PromptLogprobs), Ok(vec![-2.5, -3.5]));
    }

    #[test]
    fn scores_that_are_missing() {
        let other = r#"{"choices":[{"prompt_logprobs":[null,{},{"7":{"logprob":-2}},{"9":{"logprob":-3}}]}]}"#;
        assert_eq!(read(other, ScoreForm::PromptLogprobs), Err(AttemptCause::WrongShape));
        let short = r#"{"choices":[{"logprobs":{"token_logprobs":[null,-1,-2]}}]}"#;
        assert_eq!(read(short, ScoreForm::Echo), Err(AttemptCause::WrongShape));
        let ignored = r#"{"choices":[{"text":"x","logprobs":null}]}"#;
        assert_eq!(read(ignored, ScoreForm::Echo), Err(AttemptCause::WrongShape));
        assert_eq!(read(r#"{"choices":[]}"#, ScoreForm::Echo), Err(AttemptCause::NoChoices));
    }
}
