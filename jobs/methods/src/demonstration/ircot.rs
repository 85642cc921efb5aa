//! Reads the prompt files of IRCoT's repository (`prompts/DATASET/*.txt`).
//!
//! ```text
//! # METADATA: {"qid": "5ab92dba"}
//! Wikipedia Title: TITLE
//! TEXT
//!
//! Q: QUESTION
//! A: CHAIN OF THOUGHT, OR THE ANSWER ALONE
//! ```
//!
//! The files of titles (`no_context_open_llm_retrieval_codex.txt`) ask for pages by `The question is: 'QUESTION'.
//! Generate titles of N ..`, where N counts the titles of the answer. There the passage is the text that belongs to the
//! question, the question stands alone, and the words around it are given by themselves. The file of titles for Flan-T5
//! puts commas between titles, which titles have, too: its rows stay as they are.
//!
//! A block goes on to the next `# METADATA`. Its passages are kept in their order: the files do not tell gold passages
//! from distractors. In files for Flan-T5 an instruction stands before each question, on a line of its own. It is taken
//! off where every block has the same one, and given by itself.

use super::{Demonstration, DemonstrationPassage};
use crate::reasoning::stated_answer;
use serde_json::Value;

/// A file that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IrcotPrompts {
    /// Its demonstrations, in order.
    pub demonstrations: Vec<Demonstration>,
    /// The instruction before every question, if there is one, with the line break behind it.
    pub instruction: Option<String>,
    /// The words that ask for pages, with `{question}` and `{count}`, of a file of titles.
    pub title_prompt: Option<String>,
}

/// A file that is none of IRCoT's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {found}; allowed: {allowed}")]
pub struct IrcotPromptError {
    /// The line, from 1.
    pub line: usize,
    /// The mistake.
    pub found: String,
    /// The allowed contents.
    pub allowed: &'static str,
}

const METADATA: &str = "# METADATA:";
const TITLE: &str = "Wikipedia Title:";
/// A question that asks for titles of pages begins so.
const ASKS_TITLES: &str = "The question is:";

/// Reads the text of a file.
///
/// # Errors
/// The first line that is not of the form, and a file without a block.
pub fn read_prompts(text: &str) -> Result<IrcotPrompts, IrcotPromptError> {
    let mut blocks: Vec<PromptBlock<'_>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end_matches('\r');
        if let Some(metadata) = line.strip_prefix(METADATA) {
            blocks.push(PromptBlock { line: number, id: read_id(metadata, number)?, lines: Vec::new() });
        } else if let Some(block) = blocks.last_mut() {
            block.lines.push(line);
        } else if !line.trim().is_empty() {
            return Err(mistake(number, line, "`# METADATA: {\"qid\": ..}` before everything else"));
        }
    }
    if blocks.is_empty() {
        return Err(mistake(1, "no `# METADATA:`", "a file with at least one block of it"));
    }
    let mut demonstrations = blocks.iter().map(PromptBlock::demonstration).collect::<Result<Vec<_>, _>>()?;
    let instruction = take_instruction(&mut demonstrations);
    let title_prompt = take_title_prompt(&mut demonstrations);
    Ok(IrcotPrompts { demonstrations, instruction, title_prompt })
}

fn mistake(line: usize, found: &str, allowed: &'static str) -> IrcotPromptError {
    let found = match found.char_indices().nth(80) {
        Some((end, _)) => format!("{}..", &found[..end]),
        None => found.to_owned(),
    };
    IrcotPromptError { line, found, allowed }
}

fn read_id(metadata: &str, line: usize) -> Result<String, IrcotPromptError> {
    let known = serde_json::from_str::<Value>(metadata.trim()).ok();
    let id = known.as_ref().and_then(|known| known.get("qid")).and_then(Value::as_str);
    id.map(str::to_owned).ok_or_else(|| mistake(line, metadata.trim(), "JSON with the key `qid`"))
}

/// The lines of a block.
struct PromptBlock<'a> {
    /// The line of its metadata.
    line: usize,
    id: String,
    lines: Vec<&'a str>,
}

impl PromptBlock<'_> {
    fn demonstration(&self) -> Result<Demonstration, IrcotPromptError> {
        let missing = |allowed| mistake(self.line, &format!("the block of `{}`", self.id), allowed);
        let answer_at = self.lines.iter().rposition(|line| line.starts_with("A:"));
        let answer_at = answer_at.ok_or_else(|| missing("a block with a line `A: ..`"))?;
        let question_at = self.lines[..answer_at].iter().rposition(|line| line.starts_with("Q:"));
        let question_at = question_at.ok_or_else(|| missing("a block with a line `Q: ..` before `A: ..`"))?;
        let field = |lines: &[&str], name| lines.join("\n").trim_start_matches(name).trim().to_owned();
        let question = field(&self.lines[question_at..answer_at], "Q:");
        let answer = field(&self.lines[answer_at..], "A:");
        let (reasoning, answer) = match stated_answer(&answer) {
            Some(stated) => (answer.clone(), stated.to_owned()),
            None => (String::new(), answer),
        };
        let titles = if question.contains(ASKS_TITLES) { serde_json::from_str(&answer).ok() } else { None };
        Ok(Demonstration {
            id: self.id.clone(),
            passages: self.passages(&self.lines[..question_at])?,
            question,
            reasoning,
            answer,
            titles: titles.unwrap_or_default(),
            ..Demonstration::default()
        })
    }

    fn passages(&self, lines: &[&str]) -> Result<Vec<DemonstrationPassage>, IrcotPromptError> {
        let mut passages: Vec<DemonstrationPassage> = Vec::new();
        for (number, line) in (self.line + 1..).zip(lines) {
            if let Some(title) = line.strip_prefix(TITLE) {
                passages.push(DemonstrationPassage { title: title.trim().to_owned(), text: String::new() });
            } else if let Some(passage) = passages.last_mut() {
                passage.text.push_str(line);
                passage.text.push('\n');
            } else if !line.trim().is_empty() {
                return Err(mistake(number, line, "`Wikipedia Title: ..` before a text"));
            }
        }
        passages.iter_mut().for_each(|passage| passage.text = passage.text.trim().to_owned());
        Ok(passages)
    }
}

/// Takes the first line off every question, if all have the same one before another.
fn take_instruction(demonstrations: &mut [Demonstration]) -> Option<String> {
    let (instruction, _) = demonstrations.first()?.question.split_once('\n')?;
    let instruction = format!("{instruction}\n");
    let questions: Option<Vec<String>> =
        demonstrations.iter().map(|row| row.question.strip_prefix(&instruction).map(str::to_owned)).collect();
    for (row, question) in demonstrations.iter_mut().zip(questions?) {
        row.question = question;
    }
    Some(instruction)
}

/// Takes the words that ask for pages off every question, if all have the same ones, and makes the one passage of each
/// row its main one.
fn take_title_prompt(demonstrations: &mut [Demonstration]) -> Option<String> {
    let asked: Option<Vec<(String, String)>> = demonstrations.iter().map(asked_titles).collect();
    let asked = asked?;
    let prompt = asked.first()?.1.clone();
    if asked.iter().any(|(_, other)| *other != prompt) {
        return None;
    }
    for (row, (question, _)) in demonstrations.iter_mut().zip(asked) {
        row.question = question;
        row.main = row.passages.pop();
    }
    Some(prompt)
}

/// The question of a row that asks for as many pages as its answer names, and the words around it.
fn asked_titles(row: &Demonstration) -> Option<(String, String)> {
    let (question, rest) = row.question.strip_prefix(ASKS_TITLES)?.strip_prefix(" '")?.rsplit_once("'. ")?;
    let count = row.titles.len().to_string();
    let mut words: Vec<&str> = rest.split(' ').collect();
    let place = words.iter().position(|word| *word == count)?;
    words[place] = "{count}";
    let prompt = format!("{ASKS_TITLES} '{{question}}'. {}", words.join(" "));
    (row.passages.len() == 1).then(|| (question.to_owned(), prompt))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# METADATA: {\"qid\": \"a1\"}\nWikipedia Title: Ann\nAnn was born in Rome.\n\n\
                        Wikipedia Title: Rome\nRome is old.\nIt has hills.\n\nQ: How old is it?\n\
                        A: Ann was born in Rome. So the answer is: old.\n\n\n\
                        # METADATA: {\"qid\": \"b2\"}\nQ: Who?\nA: Bea\n";

    #[test]
    fn blocks_are_read() {
        let read = read_prompts(FILE).unwrap();
        let [first, second] = &read.demonstrations[..] else { panic!("{read:?}") };
        assert_eq!(
            (first.id.as_str(), first.question.as_str(), first.answer.as_str()),
            ("a1", "How old is it?", "old")
        );
        assert_eq!(first.reasoning, "Ann was born in Rome. So the answer is: old.");
        let passages: Vec<_> = first.passages.iter().map(|p| (p.title.as_str(), p.text.as_str())).collect();
        assert_eq!(passages, [("Ann", "Ann was born in Rome."), ("Rome", "Rome is old.\nIt has hills.")]);
        assert_eq!((second.reasoning.as_str(), second.answer.as_str(), second.passages.len()), ("", "Bea", 0));
        assert_eq!(read.instruction, None);
    }

    #[test]
    fn an_instruction_of_all_questions_stands_by_itself() {
        let file = FILE.replace("Q: ", "Q: Think first.\n");
        let read = read_prompts(&file).unwrap();
        assert_eq!(read.instruction.as_deref(), Some("Think first.\n"));
        assert_eq!(read.demonstrations, read_prompts(FILE).unwrap().demonstrations);
        let once = FILE.replacen("Q: ", "Q: Think first.\n", 1);
        assert_eq!(read_prompts(&once).unwrap().demonstrations[0].question, "Think first.\nHow old is it?");
    }

    #[test]
    fn titles_that_are_asked_for_are_a_list() {
        let file = "# METADATA: {\"qid\": \"c\"}\nQ: The question is: 'Who?'. Name pages.\nA: [\"Ann\", \"Bea\"]\n";
        assert_eq!(read_prompts(file).unwrap().demonstrations[0].titles, ["Ann", "Bea"]);
        let block = |question: &str, count: usize, titles: &str| {
            format!(
                "# METADATA: {{\"qid\": \"{question}\"}}\nWikipedia Title: T\nText.\n\n\
                 Q: The question is: '{question}'. Name {count} pages.\nA: {titles}\n\n\n"
            )
        };
        let file = block("Who's he?", 1, "[\"Ann\"]") + &block("Who?", 2, "[\"Ann\", \"Bea\"]");
        let read = read_prompts(&file).unwrap();
        assert_eq!(read.title_prompt.as_deref(), Some("The question is: '{question}'. Name {count} pages."));
        let [first, second] = &read.demonstrations[..] else { panic!("{read:?}") };
        assert_eq!((first.question.as_str(), second.titles.len()), ("Who's he?", 2));
        assert_eq!(first.main.as_ref().map(|main| (main.title.as_str(), main.text.as_str())), Some(("T", "Text.")));
        assert!(first.passages.is_empty());
        let other = read_prompts(&(file + &block("Why?", 3, "[\"Ann\"]"))).unwrap();
        assert_eq!((other.title_prompt, other.demonstrations[0].passages.len()), (None, 1), "another count");
    }

    #[test]
    fn mistakes_name_their_line() {
        for (file, expected) in [
            ("", "line 1: no `# METADATA:`"),
            ("\nQ: Who?", "line 2: Q: Who?; allowed: `# METADATA"),
            ("# METADATA: {}\n", "line 1: {}; allowed: JSON with the key `qid`"),
            ("# METADATA: {\"qid\": \"x\"}\nA: B\n", "line 1: the block of `x`; allowed: a block with a line `Q: ..`"),
            ("# METADATA: {\"qid\": \"x\"}\ntext\nQ: Who?\nA: B\n", "line 2: text; allowed: `Wikipedia Title"),
        ] {
            let message = read_prompts(file).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
