//! The pages that a retrieval is restricted to, named by a language model (IRCoT, appendix B, for IIRC).
//!
//! ```text
//! responses              | asks or gives
//! -----------------------+------------------------------------------------------------------------
//! none                   | generator: Generate(demonstrations, the question's text, "name N pages")
//! a list of titles       | title retriever: Retrieve(title, 1) for each of the first N
//! no title in the text   | no restriction
//! hits with their titles | the titles in the corpus; no restriction if there is none
//! a failure              | that failure
//! ```

use crate::demonstration::{Demonstration, DemonstrationSet};
use crate::few_shot::{self, FewShotForm, ShownPassage};
use crate::fragment::Fragment;
use crate::machine::MethodError;
use crate::registry::{ParameterInfo, at_least_one};
use crate::request::{
    GeneratePayload, PassageSet, Request, RetrievalRestriction, RetrievePayload, Sampling, ServiceName, Statistics,
    TextFormat,
};
use crate::response::{Failure, Response};
use crate::template::{PromptBuilder, PromptTemplate, TemplatePiece};
use std::collections::BTreeSet;

/// The project's own words for the paper's request.
const WORDS: &str = include_str!("../prompts/ircot/titles.txt").trim_ascii_end();

const QUESTION: &str = "question";
const COUNT: &str = "count";

/// Asks for titles and looks them up.
#[derive(Clone, Debug)]
pub(crate) struct TitleScope {
    retriever: ServiceName,
    generator: ServiceName,
    titles: u32,
    words: PromptTemplate,
    shots: Vec<Fragment>,
    form: FewShotForm,
}

impl TitleScope {
    /// `None` without a retriever of titles. `prompt` replaces the project's own words.
    ///
    /// # Errors
    /// A count of 0; a prompt without its fields.
    pub(crate) fn new(
        kind: &'static str,
        services: (Option<&ServiceName>, &ServiceName),
        (titles, prompt): (u32, Option<&str>),
        (set, ids): (&DemonstrationSet, Option<&[String]>),
        form: &FewShotForm,
    ) -> Result<Option<Self>, MethodError> {
        let (Some(retriever), generator) = services else { return Ok(None) };
        at_least_one(kind, "titles", titles)?;
        let words = prompt.unwrap_or(WORDS);
        let words = PromptTemplate::parse(words, &[QUESTION, COUNT]).map_err(|mistake| MethodError::Value {
            kind,
            parameter: "title_prompt",
            found: format!("a text with {{{}}} {} times", mistake.field, mistake.places),
            allowed: "must have {question} and {count}, each once",
        })?;
        let mut scope = Self {
            retriever: retriever.clone(),
            generator: generator.clone(),
            titles,
            words,
            shots: Vec::new(),
            form: form.clone(),
        };
        let chosen = few_shot::chosen_rows(kind, set, ids)?;
        let shown = chosen.into_iter().filter(|row| row.main.is_some() && !row.titles.is_empty());
        scope.shots = shown.map(|row| Fragment::new(scope.written_demonstration(row))).collect();
        Ok(Some(scope))
    }

    /// The service that finds titles.
    pub(crate) fn retriever(&self) -> &ServiceName {
        &self.retriever
    }

    /// The texts that requests name by digest.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = &Fragment> {
        self.shots.iter()
    }

    /// All words that do not come from a question or the corpus.
    pub(crate) fn words(&self) -> String {
        let shots: String = self.shots.iter().map(|shot| &**shot.text()).collect();
        format!("{shots}{}", self.question_line("{question}", self.titles))
    }

    /// Asks for titles.
    pub(crate) fn ask(&self, pinned: &ShownPassage, question: &str) -> Request {
        let mut builder = PromptBuilder::new();
        self.form.append_shots(&mut builder, &self.shots);
        self.form.append_passage(&mut builder, pinned);
        builder.separate_text(format!("Q: {}\nA:", self.question_line(question, self.titles)), None);
        let ask = GeneratePayload {
            prompt: builder.finish(),
            max_tokens: self.form.max_tokens,
            stop: vec!["\n".to_owned()],
            sampling: Sampling::Greedy,
            format: TextFormat::Text,
            logprobs: false,
        };
        Request::new(&self.generator, ask).at_step("titles")
    }

    /// The titles that a text lists, and the requests that look them up.
    ///
    /// # Errors
    /// The generation's failure.
    pub(crate) fn look_up(&self, response: Response) -> Result<(Vec<String>, Vec<Request>), Failure> {
        let mut titles = listed_titles(&response.generation()?.text);
        titles.truncate(self.titles as usize);
        let request = |title: &String| {
            let ask = RetrievePayload { read: true, ..RetrievePayload::new(title, 1) };
            Request::new(&self.retriever, ask).at_step("titles")
        };
        let requests = titles.iter().map(request).collect();
        Ok((titles, requests))
    }

    /// The restriction to the titles that were found.
    ///
    /// # Errors
    /// A look-up's failure.
    pub(crate) fn restriction(responses: Vec<Response>) -> Result<Option<RetrievalRestriction>, Failure> {
        let mut titles = BTreeSet::new();
        for mut response in responses {
            let texts = std::mem::take(&mut response.passages);
            let best = response.hits()?.first().map(|hit| hit.passage);
            titles.extend(texts.into_iter().filter(|text| Some(text.passage) == best).map(|text| text.title));
        }
        let within = |titles: BTreeSet<String>| RetrievalRestriction {
            passages: PassageSet::Titles(titles.into_iter().collect()),
            statistics: Statistics::Corpus,
        };
        Ok((!titles.is_empty()).then(|| within(titles)))
    }

    fn question_line(&self, question: &str, count: u32) -> String {
        let piece = |piece: &TemplatePiece| match piece {
            TemplatePiece::Text(text) => text.clone(),
            TemplatePiece::Shared(fragment) => fragment.text().to_string(),
            TemplatePiece::Field(QUESTION) => question.to_owned(),
            TemplatePiece::Field(_) => count.to_string(),
        };
        self.words.pieces().iter().map(piece).collect()
    }

    fn written_demonstration(&self, row: &Demonstration) -> String {
        let main = row
            .main
            .as_ref()
            .map_or_else(String::new, |main| format!("{}{}\n{}\n\n", self.form.title_label, main.title, main.text));
        let titles: Vec<String> =
            row.titles.iter().map(|title| serde_json::Value::from(&title[..]).to_string()).collect();
        let question = self.question_line(&row.question, row.titles.len() as u32);
        format!("{main}Q: {question}\nA: [{}]\n\n\n", titles.join(", "))
    }
}

/// Refuses demonstrations of a request that is not made.
///
/// # Errors
/// A set without a retriever of titles.
pub(crate) fn check_demonstrations(
    kind: &'static str,
    retriever: Option<&ServiceName>,
    set: Option<&DemonstrationSet>,
) -> Result<(), MethodError> {
    match (retriever, set) {
        (None, Some(_)) => Err(MethodError::Value {
            kind,
            parameter: "title_demonstrations",
            found: "a set".to_owned(),
            allowed: "must be left out without a `title_retriever`",
        }),
        _ => Ok(()),
    }
}

/// The titles in a text such as `["A", "B"]`: a JSON list, or else what stands in double quotes.
fn listed_titles(text: &str) -> Vec<String> {
    let list = text.find('[').and_then(|from| Some(&text[from..=from + text[from..].rfind(']')?]));
    let titles: Vec<String> = match list.and_then(|list| serde_json::from_str(list).ok()) {
        Some(titles) => titles,
        None => text.split('"').skip(1).step_by(2).map(str::to_owned).collect(),
    };
    let mut seen = BTreeSet::new();
    let mut trimmed: Vec<String> = titles.into_iter().map(|title| title.trim().to_owned()).collect();
    trimmed.retain(|title| !title.is_empty() && seen.insert(title.clone()));
    trimmed
}

/// The number of titles by default.
pub(crate) fn default_titles() -> u32 {
    3
}

pub(crate) const TITLE_RETRIEVER: ParameterInfo = ParameterInfo {
    name: "title_retriever",
    values: "name of a retriever of titles, or nothing for no restriction",
    default: Some("null"),
    documentation: "Finds the pages that the generator names for a question with a text of its own (IIRC).",
};

pub(crate) const TITLE_DEMONSTRATIONS: ParameterInfo = ParameterInfo {
    name: "title_demonstrations",
    values: "as of `demonstrations`, or nothing for those",
    default: Some("null"),
    documentation: "Those of the request for pages, with the same ids: rows with `main` and `titles`.",
};

pub(crate) const TITLES: ParameterInfo = ParameterInfo {
    name: "titles",
    values: "integer, at least 1",
    default: Some("3"),
    documentation: "Pages that the generator names.",
};

pub(crate) const TITLE_PROMPT: ParameterInfo = ParameterInfo {
    name: "title_prompt",
    values: "text with {question} and {count}, or nothing for the project's own",
    default: Some("null"),
    documentation: "Asks for the pages.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_read_from_a_list_or_from_quotes() {
        assert_eq!(listed_titles(" [\"A (b)\", \"C\", \"A (b)\", \" \"]"), ["A (b)", "C"]);
        assert_eq!(listed_titles("[\"A\", \"B"), ["A", "B"]);
        assert_eq!(listed_titles("A and B"), Vec::<String>::new());
        assert_eq!(listed_titles("] ["), Vec::<String>::new());
    }
}
