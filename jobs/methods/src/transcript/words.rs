//! Requests and answers of models in words: which passages a model was asked about, and what it said of them. Their
//! numbers stand in the notation (`notation.rs`), which a raw transcript has.

use crate::prompt::{Content, Prompt};
use crate::request::{PassageId, Request, RequestPayload};
use crate::response::{Answer, TargetScores};

/// Passages shown of one answer.
const PASSAGES: usize = 10;

/// Writes requests and answers with the titles of passages.
pub(super) struct TranscriptWords<'a> {
    /// The title of a passage.
    pub(super) title: &'a dyn Fn(PassageId) -> String,
}

impl TranscriptWords<'_> {
    /// A request of which the notation shows numbers in place of titles; `None` for the others.
    pub(super) fn request(&self, request: &Request) -> Option<String> {
        let asked = match &request.ask {
            RequestPayload::Score(score) => {
                let path = self.passages(&score.prompt);
                if path.is_empty() {
                    return None;
                }
                format!(
                    "the path {}, by the likelihood of {:?} after it",
                    path.join(" > "),
                    literal_text(&score.target)
                )
            }
            RequestPayload::Label(label) => {
                format!("what {} says about {:?}", self.content(&label.chunk)?, label.query)
            }
            RequestPayload::Rerank(rerank) => {
                format!("the relevance of {} passages or texts to {:?}", rerank.items.len(), rerank.query)
            }
            _ => return None,
        };
        let draw = if request.draw > 0 { format!(", draw {}", request.draw) } else { String::new() };
        let step = if request.step.is_empty() { String::new() } else { format!(", step {}", request.step) };
        Some(format!("{} {}: {asked}{draw}{step}", request.ask.kind().name(), request.service))
    }

    /// The model's words, a line each; `None` for answers that are texts already.
    pub(super) fn answer(&self, request: &Request, answer: &Answer) -> Option<Vec<String>> {
        match (&request.ask, answer) {
            (_, Answer::Score(scores)) => Some(score_lines(scores)),
            (_, Answer::Label(labels)) => {
                let kept = &labels.information;
                let kept = if kept.is_empty() { "keeps nothing".to_owned() } else { format!("keeps {kept:?}") };
                let logits = labels.tag_logits.iter().enumerate();
                let tag = logits.max_by(|a, b| a.1.total_cmp(b.1)).map(|(tag, _)| tag + 1);
                let tag = tag.map(|tag| format!("; tag {tag} of {}", labels.tag_logits.len())).unwrap_or_default();
                Some(vec![kept + &tag])
            }
            (RequestPayload::Rerank(rerank), Answer::Rerank(relevances)) => {
                let mut items: Vec<(&Content, f64)> = rerank.items.iter().zip(relevances.iter().copied()).collect();
                items.sort_by(|a, b| b.1.total_cmp(&a.1));
                let line = |(item, relevance): &(&Content, f64)| {
                    format!("{relevance:>10.4}  {}", self.content(item).unwrap_or_else(|| item.to_string()))
                };
                let mut lines: Vec<String> = items.iter().take(PASSAGES).map(line).collect();
                if items.len() > PASSAGES {
                    lines.push(format!("and {} more", items.len() - PASSAGES));
                }
                Some(lines)
            }
            (_, Answer::Embed(vector)) => Some(vec![format!("a vector of {} numbers", vector.len())]),
            _ => None,
        }
    }

    /// The titles of a prompt's passages, in their order, each once.
    fn passages(&self, prompt: &Prompt) -> Vec<String> {
        let mut seen: Vec<PassageId> = Vec::new();
        for part in &prompt.parts {
            if let Content::Passage { passage, .. } | Content::Sentence { passage, .. } = &part.content
                && !seen.contains(passage)
            {
                seen.push(*passage);
            }
        }
        seen.into_iter().map(|passage| (self.title)(passage)).collect()
    }

    /// The title of a passage, or of the one that a sentence is of; `None` for a literal text.
    fn content(&self, content: &Content) -> Option<String> {
        match content {
            Content::Passage { passage, .. } => Some((self.title)(*passage)),
            Content::Sentence { passage, sentence } => {
                Some(format!("sentence {sentence} of {}", (self.title)(*passage)))
            }
            Content::Text(_) | Content::Fragment(_) => None,
        }
    }
}

/// The literal texts of a prompt, one behind the other.
fn literal_text(prompt: &Prompt) -> String {
    let text = |content: &Content| if let Content::Text(text) = content { Some(text.clone()) } else { None };
    prompt.parts.iter().filter_map(|part| text(&part.content)).collect::<String>().trim().to_owned()
}

/// The log-probability of the target at each temperature.
fn score_lines(scores: &TargetScores) -> Vec<String> {
    let tokens = scores.logits.len();
    let line = |temperature: f64| {
        let sum: f64 = scores.logprobs(temperature).into_iter().flatten().sum();
        let mean = if tokens > 0 { format!(", mean {:.4}", sum / tokens as f64) } else { String::new() };
        let at = if temperature == 1.0 { String::new() } else { format!(" at temperature {temperature}") };
        format!("log-probability {sum:.4} of {tokens} tokens{mean}{at}")
    };
    scores.log_sum_exps.iter().map(|&(temperature, _)| line(temperature)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_told_as_log_probabilities() {
        let scores = TargetScores {
            logits: vec![1.0, 3.0],
            log_sum_exps: vec![(1.0, vec![2.0, 4.0]), (2.0, vec![1.0, 2.0])],
            ends: false,
        };
        assert_eq!(
            score_lines(&scores),
            [
                "log-probability -2.0000 of 2 tokens, mean -1.0000",
                "log-probability -1.0000 of 2 tokens, mean -0.5000 at temperature 2"
            ]
        );
    }
}
