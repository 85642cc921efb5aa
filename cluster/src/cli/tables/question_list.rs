//! Questions with what configurations made of them.

use super::UNKNOWN;
use hopeval_jobs::report::question_list::{ListedQuestion, QuestionChoice, QuestionList, QuestionSide};

/// The list as text: a heading, then a paragraph for each question.
pub(crate) fn question_list_text(choice: &QuestionChoice, list: &QuestionList) -> String {
    let QuestionList { measure, found, questions, listed } = list;
    let of = format!("{found} of {questions} questions");
    let mut text = match (choice, measure) {
        (QuestionChoice::Lost { by, to }, Some(measure)) => {
            format!("{of}: `{by}` has a lower {measure} than `{to}`")
        }
        (QuestionChoice::Lost { by, to }, None) => format!("{of}: `{by}` lost to `{to}`"),
        (QuestionChoice::Failing(configuration), _) => format!("{of}: `{configuration}` failed"),
    };
    if (listed.len() as u64) < *found {
        text.push_str(&format!("; the first {} are listed (--limit)", listed.len()));
    }
    text.push('\n');
    for question in listed {
        text.push_str(&question_text(question, measure.as_deref()));
    }
    text
}

fn question_text(question: &ListedQuestion, measure: Option<&str>) -> String {
    let ListedQuestion { question: id, text, kind, hops, answers, gold, sides } = question;
    let hops = hops.map(|hops| format!("{hops} hops"));
    let facts: Vec<String> = kind.clone().into_iter().chain(hops).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    let mut said = format!("\n{id}{facts}: {text}\n");
    said.push_str(&format!("  gold answer: {}\n", listed(answers, " | ")));
    said.push_str(&format!("  gold passages: {}\n", listed(gold, "; ")));
    for side in sides {
        said.push_str(&format!("  {}\n", side_text(side, measure)));
    }
    said
}

fn side_text(side: &QuestionSide, measure: Option<&str>) -> String {
    let QuestionSide { configuration, status, message, answer, value, gold_ranks, ranked } = side;
    let mut parts = Vec::new();
    if let Some(measure) = measure {
        parts.push(format!("{measure} {}", value.map_or(UNKNOWN.to_owned(), |value| format!("{value:.4}"))));
    }
    if status != "ok" {
        let message = message.as_ref().map_or(String::new(), |message| format!(": {message}"));
        parts.push(format!("{status}{message}"));
    }
    if let Some(answer) = answer {
        parts.push(format!("answer {answer:?}"));
    }
    if *ranked > 0 {
        let rank = |rank: &Option<usize>| rank.map_or(UNKNOWN.to_owned(), |rank| rank.to_string());
        let ranks: Vec<String> = gold_ranks.iter().map(rank).collect();
        parts.push(format!("gold at ranks {} of {ranked}", listed(&ranks, ", ")));
    }
    format!("{configuration}: {}", parts.join("; "))
}

fn listed(texts: &[String], between: &str) -> String {
    if texts.is_empty() { UNKNOWN.to_owned() } else { texts.join(between) }
}
