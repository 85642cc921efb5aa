//! The paragraphs that the dataset gives with a question: their texts in prompts, and the sentences that models name.

use crate::outcome::{NamedSentence, SupportingSentence};
use crate::prompt::PassageForm;
use crate::request::{PassageId, PassageSet, PassagesPayload, Request, ServiceName};
use crate::response::{Failure, FailureKind, PassageText, Response};
use crate::template::PromptBuilder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The comparison of titles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TitleMatch {
    /// Every character, as the official scripts compare.
    Exact,
    /// Whatever the case, underscores and runs of spaces.
    Folded,
}

/// Paragraphs in the dataset's order, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenParagraphs {
    texts: Vec<PassageText>,
}

impl GivenParagraphs {
    /// Requests the texts of the question's candidates.
    ///
    /// # Errors
    /// The dataset gives none.
    pub(crate) fn request(service: &ServiceName, candidates: &[PassageId]) -> Result<Request, Failure> {
        let mut ids: Vec<PassageId> = Vec::with_capacity(candidates.len());
        for id in candidates {
            if !ids.contains(id) {
                ids.push(*id);
            }
        }
        if ids.is_empty() {
            let message = "the dataset gives no passages with this question".to_owned();
            return Err(Failure { kind: FailureKind::Refused, message });
        }
        Ok(Request::new(service, PassagesPayload { passages: PassageSet::Ids(ids), read: true }).at_step("paragraphs"))
    }

    /// From the response.
    ///
    /// # Errors
    /// The request's failure, or no text.
    pub(crate) fn from_responses(responses: Vec<Response>, candidates: &[PassageId]) -> Result<Self, Failure> {
        let mut response = Response::only(responses)?;
        let mut texts = std::mem::take(&mut response.passages);
        response.found()?;
        let mut seen = Vec::new();
        texts.retain(|text| {
            let is_new = candidates.contains(&text.passage) && !seen.contains(&text.passage);
            seen.push(text.passage);
            is_new
        });
        if texts.is_empty() {
            let message = "no passage of the question is in the corpus".to_owned();
            return Err(Failure { kind: FailureKind::Refused, message });
        }
        Ok(Self { texts })
    }

    /// All of them.
    pub(crate) fn ids(&self) -> Vec<PassageId> {
        self.texts.iter().map(|text| text.passage).collect()
    }

    /// Appends those of `shown`; with `numbers` each sentence stands with its index.
    pub(crate) fn append_to(&self, builder: &mut PromptBuilder, shown: &[PassageId], numbers: bool) {
        let mut between = "";
        for text in self.texts.iter().filter(|text| shown.contains(&text.passage)) {
            builder.text(between);
            between = "\n\n";
            builder.text(&format!("Title: {}", text.title));
            if !numbers {
                builder.text("\n");
                builder.passage(text.passage, PassageForm::Text, None);
                continue;
            }
            // A corpus without sentences cannot look one up: those of the splitter are literal.
            let is_known = !text.sentences.is_empty();
            for (index, sentence) in text.sentence_texts().into_iter().enumerate() {
                builder.text(&format!("\n[{index}] "));
                if is_known {
                    builder.sentence(text.passage, index as u32);
                } else {
                    builder.text(sentence);
                }
            }
        }
    }

    /// The title of one of them.
    pub(crate) fn title(&self, passage: PassageId) -> &str {
        self.texts.iter().find(|text| text.passage == passage).map_or("", |text| &text.title)
    }

    /// The first with this title.
    pub(crate) fn with_title(&self, title: &str, titles: TitleMatch) -> Option<&PassageText> {
        self.texts.iter().find(|text| is_same_title(&text.title, title, titles))
    }

    /// Divides named sentences into those that exist and those that do not. Each stands once. An index as a text names
    /// no sentence: the official scripts compare numbers.
    pub(crate) fn find_support(
        &self,
        named: &[Value],
        titles: TitleMatch,
    ) -> (Vec<SupportingSentence>, Vec<NamedSentence>) {
        let (mut found, mut other) = (Vec::new(), Vec::new());
        for entry in named {
            let (title, index) = title_and_index(entry);
            match self.sentence(&title, &index, titles) {
                Some(sentence) if !found.contains(&sentence) => found.push(sentence),
                Some(_) => {}
                None => {
                    let sentence = NamedSentence { title, sentence: index.map(|i| written(&i)).unwrap_or_default() };
                    if !other.contains(&sentence) {
                        other.push(sentence);
                    }
                }
            }
        }
        (found, other)
    }

    fn sentence(&self, title: &str, index: &Option<Value>, titles: TitleMatch) -> Option<SupportingSentence> {
        let index = whole_number(index.as_ref()?)?;
        let texts = self.texts.iter().filter(|text| is_same_title(&text.title, title, titles));
        let text = texts.into_iter().find(|text| (index as usize) < text.sentence_texts().len())?;
        Some(SupportingSentence { passage: text.passage, sentence: index as u32 })
    }
}

/// The number, also if it is written with a fraction of zero, which Python's scripts compare as equal.
fn whole_number(index: &Value) -> Option<u64> {
    index.as_u64().or_else(|| {
        let number = index.as_f64()?;
        (number.fract() == 0.0 && (0.0..1e9).contains(&number)).then_some(number as u64)
    })
}

fn is_same_title(own: &str, named: &str, titles: TitleMatch) -> bool {
    let folded = |title: &str| {
        let words: Vec<String> = title.replace('_', " ").split_whitespace().map(str::to_lowercase).collect();
        words.join(" ")
    };
    own == named || (titles == TitleMatch::Folded && folded(own) == folded(named))
}

/// The title and the index of a named sentence, in the forms that models write: a pair, or an object of two members.
fn title_and_index(entry: &Value) -> (String, Option<Value>) {
    let mut parts: Vec<Value> = match entry {
        Value::Array(items) => items.clone(),
        Value::Object(members) => {
            let member = |names: &[&str]| names.iter().find_map(|name| members.get(*name).cloned());
            [member(&["title", "paragraph title"]), member(&["sentence id", "sentence_id", "index", "sentence"])]
                .into_iter()
                .flatten()
                .collect()
        }
        other => vec![other.clone()],
    };
    parts.reverse();
    let title = parts.pop().map(|title| written(&title)).unwrap_or_default();
    (title, parts.pop())
}

/// A value as a text.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_names_no_sentence_is_kept_in_the_models_words() {
        let text = |id, title: &str, sentences| PassageText {
            sentences,
            ..PassageText::new(PassageId(id), title, "A b. C d.")
        };
        let paragraphs = GivenParagraphs { texts: vec![text(4, "Up", vec![5, 9]), text(7, "UP", vec![9])] };
        let named =
            json!([["Up", 1], ["Up", 1], ["Up", "1"], ["UP", 1], ["Down", 0], {"title": "UP", "index": 0}, "Up"]);
        let named: Vec<Value> = named.as_array().unwrap().clone();
        let found = |passage, sentence| SupportingSentence { passage: PassageId(passage), sentence };
        let other = |title: &str, sentence: &str| NamedSentence { title: title.into(), sentence: sentence.into() };
        let (exact, unknown) = paragraphs.find_support(&named, TitleMatch::Exact);
        assert_eq!(exact, [found(4, 1), found(7, 0)]);
        assert_eq!(unknown, [other("Up", "1"), other("UP", "1"), other("Down", "0"), other("Up", "")]);
        let (folded, _) = paragraphs.find_support(&[json!(["uP", 1])], TitleMatch::Folded);
        assert_eq!(folded, [found(4, 1)]);
    }
}
