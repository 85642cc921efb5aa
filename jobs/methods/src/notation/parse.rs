//! Reads responses back from their one-line notation.

use crate::request::PassageId;
use crate::response::{
    Answer, AnswerSpan, AnswerWork, CallFacts, ChunkLabels, Failure, FailureKind, FinishReason, Generation,
    MoneyAmount, PassageText, PromptReport, Response, RetrievalHit, TargetScores,
};
use std::iter::Peekable;
use std::str::FromStr;
use std::vec::IntoIter;

/// A line in another notation than a response's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct NotationError {
    /// The allowed text.
    pub expected: &'static str,
    /// The text found.
    pub found: String,
}

/// A word, or a JSON string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotationToken {
    Word(String),
    Text(String),
}

impl NotationToken {
    fn describe_token(token: Option<Self>) -> String {
        match token {
            None => "the end of the line".to_owned(),
            Some(NotationToken::Word(word)) => format!("`{word}`"),
            Some(NotationToken::Text(text)) => format!("{text:?}"),
        }
    }
}

/// The tokens of a line, in order.
pub(crate) struct NotationTokens(Peekable<IntoIter<NotationToken>>);

impl NotationTokens {
    pub(crate) fn from_line(line: &str) -> Result<Self, NotationError> {
        let mut tokens = Vec::new();
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            if rest.starts_with('"') {
                let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let text = strings
                    .next()
                    .and_then(Result::ok)
                    .ok_or_else(|| NotationError { expected: "a JSON string", found: rest.to_owned() })?;
                rest = &rest[strings.byte_offset()..];
                tokens.push(NotationToken::Text(text));
            } else {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                tokens.push(NotationToken::Word(rest[..end].to_owned()));
                rest = &rest[end..];
            }
            rest = rest.trim_start();
        }
        Ok(Self(tokens.into_iter().peekable()))
    }

    fn unexpected_token<T>(expected: &'static str, token: Option<NotationToken>) -> Result<T, NotationError> {
        Err(NotationError { expected, found: NotationToken::describe_token(token) })
    }

    pub(crate) fn next_word(&mut self, expected: &'static str) -> Result<String, NotationError> {
        match self.0.next() {
            Some(NotationToken::Word(word)) => Ok(word),
            token => Self::unexpected_token(expected, token),
        }
    }

    pub(crate) fn next_text(&mut self, expected: &'static str) -> Result<String, NotationError> {
        match self.0.next() {
            Some(NotationToken::Text(text)) => Ok(text),
            token => Self::unexpected_token(expected, token),
        }
    }

    /// The next token, if it is a word accepted by `accept`.
    fn word_if(&mut self, accept: impl Fn(&str) -> bool) -> Option<String> {
        match self.0.next_if(|token| matches!(token, NotationToken::Word(word) if accept(word))) {
            Some(NotationToken::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// The value of `name=value`, if it is next.
    pub(crate) fn next_field(&mut self, name: &str) -> Option<String> {
        let value = |word: &str| word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')).map(str::to_owned);
        self.word_if(|word| value(word).is_some()).and_then(|word| value(&word))
    }

    /// The text behind `word`, if that is next.
    fn text_after(&mut self, word: &str, expected: &'static str) -> Result<Option<String>, NotationError> {
        match self.word_if(|next| next == word) {
            None => Ok(None),
            Some(_) => self.next_text(expected).map(Some),
        }
    }

    /// All words up to the next bar or the end, each read by `read`.
    fn words_until_bar<T>(&mut self, read: impl Fn(&str) -> Result<T, NotationError>) -> Result<Vec<T>, NotationError> {
        let mut items = Vec::new();
        while let Some(word) = self.word_if(|word| word != "|") {
            items.push(read(&word)?);
        }
        Ok(items)
    }

    pub(crate) fn expect_end(&mut self) -> Result<(), NotationError> {
        match self.0.next() {
            None => Ok(()),
            token => Self::unexpected_token("the end of the line", token),
        }
    }

    /// The remaining words and texts.
    pub(crate) fn remaining_tokens(self) -> impl Iterator<Item = NotationToken> {
        self.0
    }
}

/// A number, or another type with a text form.
pub(crate) fn read_number<T: FromStr>(word: &str) -> Result<T, NotationError> {
    word.parse().map_err(|_| NotationError { expected: "a number", found: format!("`{word}`") })
}

/// Numbers with commas between them; an empty list for the empty text.
pub(crate) fn read_numbers<T: FromStr>(words: &str) -> Result<Vec<T>, NotationError> {
    words.split(',').filter(|word| !word.is_empty()).map(read_number).collect()
}

pub(crate) fn read_passage(word: &str) -> Result<PassageId, NotationError> {
    read_number(word).map(PassageId)
}

fn read_hit(word: &str) -> Result<RetrievalHit, NotationError> {
    let Some((id, score)) = word.split_once(':') else {
        return Err(NotationError { expected: "PASSAGE:SCORE", found: format!("`{word}`") });
    };
    Ok(RetrievalHit { passage: read_passage(id)?, score: read_number(score)? })
}

impl FromStr for Response {
    type Err = NotationError;

    fn from_str(line: &str) -> Result<Self, NotationError> {
        let mut tokens = NotationTokens::from_line(line)?;
        let result = read_result(&mut tokens)?;
        let mut response = match result {
            Ok(answer) => Response::answer(answer, AnswerWork::default()),
            Err(failure) => Response::from_failure(failure),
        };
        if response.result.is_err() && tokens.word_if(|word| word == "run_only").is_some() {
            response = response.for_this_run();
        }
        while tokens.word_if(|word| word == "|").is_some() {
            const PARTS: &str = "`work`, `prompt`, `facts` or `text`";
            match tokens.next_word(PARTS)?.as_str() {
                "work" => response.work = read_work(&mut tokens)?,
                "prompt" => response.prompt = Some(read_report(&mut tokens)?),
                "facts" => response.facts = Some(Box::new(read_facts(&mut tokens)?)),
                "text" => response.passages.push(read_passage_text(&mut tokens)?),
                other => {
                    return NotationTokens::unexpected_token(PARTS, Some(NotationToken::Word(other.to_owned())));
                }
            }
        }
        tokens.expect_end()?;
        Ok(response)
    }
}

fn read_result(tokens: &mut NotationTokens) -> Result<Result<Answer, Failure>, NotationError> {
    const WORDS: &str = "`hits`, `passages`, `links`, `scores`, `labels`, `query`, `relevances`, `entailment`, \
                         `spans`, `vector`, `generation` or `failed`";
    let answer = match tokens.next_word(WORDS)?.as_str() {
        "hits" => Answer::Retrieve(tokens.words_until_bar(read_hit)?),
        "passages" => Answer::Passages(tokens.words_until_bar(read_passage)?),
        "links" => Answer::Links(tokens.words_until_bar(read_passage)?),
        "scores" => Answer::Score(read_scores(tokens)?),
        "labels" => Answer::Label(ChunkLabels {
            information: tokens.next_text("the information")?,
            tag_logits: read_numbers(&tokens.next_field("tags").unwrap_or_default())?,
        }),
        "query" => Answer::Filter(tokens.next_text("the next query")?),
        "relevances" => Answer::Rerank(tokens.words_until_bar(read_number)?),
        "entailment" => Answer::Entail(read_number(&tokens.next_word("a probability")?)?),
        "spans" => Answer::Read(read_spans(tokens)?),
        "vector" => Answer::Embed(tokens.words_until_bar(read_number)?),
        "generation" => Answer::Generate(read_generation(tokens)?),
        "failed" => return read_failure(tokens).map(Err),
        other => return NotationTokens::unexpected_token(WORDS, Some(NotationToken::Word(other.to_owned()))),
    };
    Ok(Ok(answer))
}

fn read_failure(tokens: &mut NotationTokens) -> Result<Failure, NotationError> {
    const KINDS: &str = "refused, context_overflow, parse_failure, timed_out, unavailable, device_lost or dropped";
    let word = tokens.next_word(KINDS)?;
    let kind = FailureKind::ALL.into_iter().find(|kind| kind.name() == word);
    let kind = kind.ok_or_else(|| NotationError { expected: KINDS, found: format!("`{word}`") })?;
    Ok(Failure { kind, message: tokens.next_text("a message")? })
}

fn read_scores(tokens: &mut NotationTokens) -> Result<TargetScores, NotationError> {
    let logits = read_numbers(&tokens.next_field("logits").unwrap_or_default())?;
    let mut log_sum_exps = Vec::new();
    while tokens.word_if(|word| word == "at").is_some() {
        let word = tokens.next_word("TEMPERATURE=SUMS")?;
        let Some((temperature, sums)) = word.split_once('=') else {
            return NotationTokens::unexpected_token("TEMPERATURE=SUMS", Some(NotationToken::Word(word)));
        };
        log_sum_exps.push((read_number(temperature)?, read_numbers(sums)?));
    }
    Ok(TargetScores { logits, log_sum_exps, ends: tokens.word_if(|word| word == "ends").is_some() })
}

fn read_spans(tokens: &mut NotationTokens) -> Result<Vec<AnswerSpan>, NotationError> {
    let mut spans = Vec::new();
    while let Some(NotationToken::Text(text)) = tokens.0.next_if(|token| matches!(token, NotationToken::Text(_))) {
        let Some(score) = tokens.next_field("score") else {
            return NotationTokens::unexpected_token("score=NUMBER", tokens.0.next());
        };
        let rank = tokens.next_field("rank").map(|rank| read_number(&rank)).transpose()?;
        let at = tokens.next_field("at").map(|at| read_numbers(&at)).transpose()?;
        let at = match at.as_deref() {
            None => None,
            Some(&[part, from, to]) => Some((part, from, to)),
            Some(other) => return Err(NotationError { expected: "at=PART,FROM,TO", found: format!("{other:?}") }),
        };
        spans.push(AnswerSpan { text, score: read_number(&score)?, rank, at });
    }
    Ok(spans)
}

fn read_generation(tokens: &mut NotationTokens) -> Result<Generation, NotationError> {
    let text = tokens.next_text("the text")?;
    const FINISHES: &str = "`stop`, `length` or `filtered`";
    let finish = match tokens.next_word(FINISHES)?.as_str() {
        "stop" => FinishReason::Stop,
        "length" => FinishReason::Length,
        "filtered" => FinishReason::Filtered,
        other => return NotationTokens::unexpected_token(FINISHES, Some(NotationToken::Word(other.to_owned()))),
    };
    let stop = tokens.text_after("at", "the stop string")?;
    let reasoning = tokens.text_after("reasoning", "the reasoning")?.unwrap_or_default();
    let logprobs = read_numbers(&tokens.next_field("logprobs").unwrap_or_default())?;
    Ok(Generation { text, finish, stop, logprobs, reasoning })
}

fn read_passage_text(tokens: &mut NotationTokens) -> Result<PassageText, NotationError> {
    Ok(PassageText {
        passage: read_passage(&tokens.next_word("a passage")?)?,
        title: tokens.next_text("a title")?,
        text: tokens.next_text("a text")?,
        sentences: read_numbers(&tokens.next_field("sentences").unwrap_or_default())?,
    })
}

fn read_facts(tokens: &mut NotationTokens) -> Result<CallFacts, NotationError> {
    let Some(attempts) = tokens.next_field("attempts") else {
        return NotationTokens::unexpected_token("attempts=NUMBER", tokens.0.next());
    };
    let cached_prompt_tokens = tokens.next_field("cached").map(|tokens| read_number(&tokens)).transpose()?;
    let reasoning_tokens = tokens.next_field("reasoning").map(|tokens| read_number(&tokens)).transpose()?;
    let tokens_measured = tokens.word_if(|word| word == "measured").is_some();
    let money = match tokens.word_if(|word| word == "money") {
        None => None,
        Some(_) => {
            let nanos = read_number(&tokens.next_word("billionths of the currency's unit")?)?;
            Some(MoneyAmount { nanos, currency: tokens.next_text("a currency")? })
        }
    };
    Ok(CallFacts {
        attempts: read_number(&attempts)?,
        tokens_measured,
        cached_prompt_tokens,
        reasoning_tokens,
        money,
        model: tokens.text_after("model", "a model")?,
        system_fingerprint: tokens.text_after("system", "a fingerprint")?,
    })
}

fn read_work(tokens: &mut NotationTokens) -> Result<AnswerWork, NotationError> {
    let mut count = |name| tokens.next_field(name).map_or(Ok(0), |value| read_number(&value));
    Ok(AnswerWork {
        prompt_tokens: count("prompt")?,
        completion_tokens: count("completion")?,
        scored_tokens: count("scored")?,
        operations: count("operations")?,
    })
}

fn read_report(tokens: &mut NotationTokens) -> Result<PromptReport, NotationError> {
    let mut report = PromptReport::default();
    if let Some(tokens) = tokens.next_field("tokens") {
        report.tokens = read_number(&tokens)?;
    }
    report.dropped = read_numbers(&tokens.next_field("dropped").unwrap_or_default())?;
    while let Some(cut) = tokens.next_field("cut") {
        match read_numbers(&cut)?[..] {
            [part, lost] => report.cut.push((part, lost)),
            _ => return Err(NotationError { expected: "cut=PART,TOKENS", found: format!("`{cut}`") }),
        }
    }
    report.part_tokens = read_numbers(&tokens.next_field("parts").unwrap_or_default())?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_what_was_written_gives_the_same() {
        for line in [
            "hits",
            "hits 4:2.5 7:-0.125",
            "passages 1 2",
            "links 3 | work operations=4 | text 3 \"A \\\"title\\\"\" \"Two\\nlines | bar.\"",
            "scores logits=-1.5,2 at 1=0.5,0.25 at 2=0.1,0.2 ends | work prompt=10 scored=2 | prompt tokens=12 \
             dropped=1,2 cut=0,3 cut=4,5",
            "labels \"Kubrick\" tags=0.5,-0.5",
            "query \"\"",
            "relevances 1 -3.25",
            "entailment 0.75",
            "spans \"yes\" score=1.5 \"1999\" score=0.5 rank=2 at=0,3,7",
            "vector 0.1 -0.2",
            "generation \"So the answer is: x\" length logprobs=-0.1,-0.2 | work prompt=3 completion=2",
            "generation \"So\" stop at \"\\n\" reasoning \"Let me think.\" | prompt tokens=9 cut=1,2 parts=4,0,5",
            "generation \"\" filtered | facts attempts=2",
            "query \"a\" | work prompt=3 | facts attempts=1 cached=128 reasoning=0 measured money 1500 \"USD\" \
             model \"m 1\" system \"fp\"",
            "hits 4:2.5 | text 4 \"T\" \"One. Two.\" sentences=5,9",
            "failed timed_out \"after 60 s\"",
            "failed refused \"too long\" run_only",
        ] {
            let response: Response = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(response.to_string(), line);
        }
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let message = |line: &str| line.parse::<Response>().unwrap_err().to_string();
        assert_eq!(message("hits 4"), "expected PASSAGE:SCORE, found `4`");
        assert_eq!(message("links 3 x"), "expected a number, found `x`");
        assert_eq!(message("query \"a"), "expected a JSON string, found \"a");
        assert_eq!(message("query \"a\" b"), "expected the end of the line, found `b`");
        assert!(message("failed lost \"\"").contains("timed_out, unavailable"));
        assert!(message("").starts_with("expected `hits`, `passages`"));
    }
}
