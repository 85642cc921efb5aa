//! A model that writes nonsense: every generation is random text, or random JSON with the keys that prompts ask for.
//!
//! All other requests are answered by [`ScriptedServices`]. Methods must end with an outcome whatever they read.

use super::services::{ScriptedServices, SeededNoise};
use crate::request::{Request, RequestKind};
use crate::response::{Answer, FinishReason, Generation, Response};

/// Answers every request; a pure function of the request and the seed.
#[derive(Clone, Copy, Debug)]
pub struct NonsenseServices {
    /// Answers what is not generated, and seeds the texts.
    pub services: ScriptedServices,
    /// Whether texts are objects with keys of prompts, and mostly values of the right type.
    pub objects: bool,
}

const WORDS: &[&str] = &[
    "the",
    "Passage 3",
    "Passage 1",
    "of",
    "1997",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "'",
    "\n",
    "\\",
    "So the answer is:",
    "Thought 2:",
    "Action: Search[",
    "Finish[",
    "Question:",
    "```",
    "é",
    "🙂",
    "\u{0}",
    "null",
    "-1",
    "#2",
    "Follow up:",
    "</s>",
];
const KEYS: &[&str] = &[
    "simple",
    "subquestion",
    "identical",
    "question",
    "relation",
    "paragraph title",
    "answer",
    "explain",
    "supporting-facts",
    "evidences",
    "decomposed_questions",
    "extracted_words",
    "filtered_query",
    "thought",
    "action",
    "score",
    "citation",
    "summary",
];
const VALUES: &[&str] = &[
    "true",
    "false",
    "null",
    "0",
    "3",
    "-1.5e9",
    "\"\"",
    "\"yes\"",
    "\"Who made it?\"",
    "\"Passage 3\"",
    "\"Passage 1\"",
    "[]",
    "{}",
    "[[\"Passage 3\", 0], [\"Passage 9\", \"1\"]]",
    "[[\"a\", \"b\", \"c\"]]",
    "{\"1\": {\"sub_question\": \"Who?\"}}",
];

impl NonsenseServices {
    /// The response to `request`.
    pub fn answer(&self, request: &Request) -> Response {
        let mut response = self.services.answer(request);
        if request.ask.kind() == RequestKind::Generate
            && let Ok(answer) = &mut response.result
        {
            let mut noise = self.services.noise(request);
            let text = if self.objects { random_object(&mut noise) } else { random_words(&mut noise) };
            let finish = if noise.below(4) == 0 { FinishReason::Length } else { FinishReason::Stop };
            *answer = Answer::Generate(Generation::new(text, finish));
        }
        response
    }
}

fn pick<'a>(from: &[&'a str], noise: &mut SeededNoise) -> &'a str {
    from[noise.below(from.len() as u64) as usize]
}

fn random_words(noise: &mut SeededNoise) -> String {
    let words: Vec<&str> = (0..noise.below(30)).map(|_| pick(WORDS, noise)).collect();
    words.join(" ")
}

/// An object with most of the keys, so that methods go on for a while.
fn random_object(noise: &mut SeededNoise) -> String {
    let mut members = Vec::new();
    for key in KEYS {
        if noise.below(8) > 0 {
            members.push(format!("\"{key}\": {}", pick(VALUES, noise)));
        }
    }
    format!("{{{}}}", members.join(", "))
}
