//! Questions that one configuration won and lost against another one, with transcripts.

use super::html::HtmlPiece;
use super::runs::{RankedGroup, ReportedSide};
use anyhow::Result;
use hopeval_corpus::PassageId;
use hopeval_jobs::report::question_list::{ListedQuestion, QuestionChoice, QuestionSide, list_questions};
use hopeval_jobs::run::open::{OpenRun, missing_corpus};
use hopeval_jobs::run::transcript::transcripts;
use hopeval_results::Log;
use hopeval_results::tables::QuestionRow;
use std::collections::{BTreeSet, HashMap};

/// The most questions of a page.
const MOST_QUESTIONS: usize = 50;

/// The most lines of a round, and of an outcome, in a transcript.
const MOST_LINES: usize = 14;

/// Two configurations of one run, and the measure in which they are compared.
struct QuestionDuel<'a> {
    base: ReportedSide<'a>,
    other: ReportedSide<'a>,
    measure: String,
}

/// Questions of a duel with what was won or lost.
struct DuelQuestions<'a> {
    duel: QuestionDuel<'a>,
    /// Heading, number of all such questions, and the listed ones.
    lists: Vec<(String, u64, Vec<ListedQuestion>)>,
}

/// The section's content.
///
/// # Errors
/// Outcomes cannot be read.
pub(super) fn question_section(groups: &[RankedGroup<'_>]) -> Result<HtmlPiece> {
    let duels: Vec<QuestionDuel<'_>> = groups.iter().filter_map(duel).collect();
    if duels.is_empty() {
        return Ok(HtmlPiece::default());
    }
    let each = MOST_QUESTIONS / (2 * duels.len()).max(1);
    let mut content = HtmlPiece::paragraph(&format!(
        "In each context mode, the best configuration of the first run that has any, beside the one from which the \
         paired differences are: at most {each} questions that it won and {each} that it lost, those with the largest \
         difference first, then in the dataset's order. A round of a transcript has its first {MOST_LINES} lines; \
         hopeval show RUN --question ID has all."
    ));
    for duel in duels {
        let found = duel_questions(duel, each)?;
        content.push(found_html(&found)?);
    }
    Ok(content)
}

/// [`RankedGroup::base`] and the best other configuration of its run. Only finished runs have duels.
fn duel<'a>(group: &RankedGroup<'a>) -> Option<QuestionDuel<'a>> {
    let measure = group.headline_measures().into_iter().next()?;
    let is_known = |side: &&ReportedSide<'_>| {
        let can_be_read = side.run.figures.finished && side.run.has_passages;
        can_be_read && !side.is_control() && side.value("all", &measure).is_some()
    };
    let run = group.sides.iter().find(is_known)?.run;
    let base = group.base(run, &measure)?;
    let others = group
        .sides
        .iter()
        .filter(is_known)
        .filter(|side| side.run.open.id() == run.open.id() && side.configuration.name != base.configuration.name);
    let value = |side: &ReportedSide<'_>| side.value("all", &measure).unwrap_or(f64::NEG_INFINITY);
    let other = others.copied().reduce(|best, next| if value(&next) > value(&best) { next } else { best })?;
    Some(QuestionDuel { base, other, measure })
}

fn duel_questions(duel: QuestionDuel<'_>, limit: usize) -> Result<DuelQuestions<'_>> {
    let run = &duel.base.run.open;
    let log = Log::open(&run.places.store, run.id())?;
    let (base, other) = (&duel.base.configuration.name, &duel.other.configuration.name);
    let mut lists = Vec::new();
    for (by, to, word) in [(base, other, "won"), (other, base, "lost")] {
        let choice = QuestionChoice::Lost { by: by.clone(), to: to.clone() };
        let list = list_questions(run, &log, &choice, Some(&duel.measure), limit)?;
        lists.push((format!("{} {word} against {}", duel.other.label(), duel.base.label()), list.found, list.listed));
    }
    Ok(DuelQuestions { duel, lists })
}

fn found_html(found: &DuelQuestions<'_>) -> Result<HtmlPiece> {
    let run = &found.duel.base.run.open;
    let (told, note) = told_transcripts(run, found)?;
    let mut content = HtmlPiece::default();
    if let Some(note) = note {
        content.push(HtmlPiece::note(&note));
    }
    for (heading, all, listed) in &found.lists {
        let heading = format!("{heading} in {}: {} of {all} questions", found.duel.measure, listed.len());
        content.push(HtmlPiece::element("h3", &[], &heading));
        for question in listed {
            content.push(question_html(question, &told));
        }
    }
    Ok(content)
}

/// Texts of transcripts, by question and configuration.
type TranscriptTexts = HashMap<(String, String), String>;

/// The transcripts of all listed questions; without them, the reason.
fn told_transcripts(run: &OpenRun, found: &DuelQuestions<'_>) -> Result<(TranscriptTexts, Option<String>)> {
    let left_out = |reason: String| Ok((HashMap::new(), Some(format!("There are no transcripts: {reason}."))));
    if let Some(sources) = missing_corpus(&run.places, run.id())? {
        return left_out(format!("the corpus of {sources} is not in this machine's cache"));
    }
    let rows = listed_rows(run, found)?;
    let sides = [&found.duel.base, &found.duel.other];
    let wanted: Vec<(u32, &QuestionRow)> =
        rows.iter().flat_map(|row| sides.map(|side| (side.position(), row))).collect();
    let driven = transcripts(run, &wanted)?;
    let corpus = &run.configurations()?.catalogue.corpus;
    let mut texts = HashMap::new();
    for ((position, row), driven) in wanted.iter().zip(driven) {
        let title = |passage: hopeval_methods::PassageId| {
            let passage = PassageId(passage.0);
            let title = if corpus.contains(passage) { corpus.title(passage) } else { "" };
            let is_gold = row.gold.iter().any(|good| good.contains(&passage.0));
            if is_gold { format!("{title} ✓ gold") } else { title.to_owned() }
        };
        let text = match driven {
            Ok(transcript) => shortened(&transcript.display(&title).to_string()),
            Err(error) => format!("no transcript: {error}"),
        };
        let name = run.resolved.configurations[*position as usize].name.clone();
        texts.insert((row.id.clone(), name), text);
    }
    Ok((texts, None))
}

fn listed_rows(run: &OpenRun, found: &DuelQuestions<'_>) -> Result<Vec<QuestionRow>> {
    let ids: BTreeSet<&str> =
        found.lists.iter().flat_map(|(.., listed)| listed).map(|question| question.question.as_str()).collect();
    let log = Log::open(&run.places.store, run.id())?;
    let mut rows = Vec::new();
    for row in run.questions_from(&log, 0)? {
        let row = row?;
        if ids.contains(row.id.as_str()) {
            rows.push(row);
        }
    }
    Ok(rows)
}

/// A transcript without the later lines of long rounds: its parts are set apart by empty lines.
fn shortened(text: &str) -> String {
    let part = |part: &str| {
        let lines: Vec<&str> = part.lines().collect();
        let more = lines.len().saturating_sub(MOST_LINES);
        let mut kept: Vec<String> = lines.into_iter().take(MOST_LINES).map(ToOwned::to_owned).collect();
        kept.extend((more > 0).then(|| format!("  … {more} more lines")));
        kept.join("\n")
    };
    text.split("\n\n").map(part).collect::<Vec<_>>().join("\n\n")
}

fn question_html(question: &ListedQuestion, told: &TranscriptTexts) -> HtmlPiece {
    let kind = question.kind.as_deref().map_or(String::new(), |kind| format!(" ({kind})"));
    let mut content = HtmlPiece::element("summary", &[], &format!("{}{kind}: {}", question.question, question.text));
    content.push(HtmlPiece::paragraph(&format!("gold answer: {}", joined(&question.answers))));
    content.push(HtmlPiece::paragraph(&format!("gold passages: {}", joined(&question.gold))));
    for side in &question.sides {
        content.push(HtmlPiece::paragraph(&side_text(side)));
        if let Some(text) = told.get(&(question.question.clone(), side.configuration.clone())) {
            content.push(HtmlPiece::element("pre", &[("tabindex", "0")], text));
        }
    }
    HtmlPiece::element("details", &[], content)
}

fn side_text(side: &QuestionSide) -> String {
    let value = side.value.map_or("–".to_owned(), |value| format!("{value:.4}"));
    let ranks = side.gold_ranks.iter().map(|rank| rank.map_or("–".to_owned(), |rank| rank.to_string()));
    let ranks: Vec<String> = ranks.collect();
    let answer = side.answer.as_deref().map_or(String::new(), |answer| format!(", answer: {answer}"));
    let message = side.message.as_deref().map_or(String::new(), |message| format!(" ({message})"));
    format!(
        "{}: {value}, {}{message}{answer}; ranks of gold: {} of {}",
        side.configuration,
        side.status,
        ranks.join(", "),
        side.ranked
    )
}

fn joined(texts: &[String]) -> String {
    if texts.is_empty() { "none given".to_owned() } else { texts.join(" | ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rounds_are_cut() {
        let round: Vec<String> = (0..20).map(|line| format!("  line {line}")).collect();
        let text = shortened(&format!("question\n\nround 1\n{}\n\noutcome ok\n", round.join("\n")));
        assert!(text.starts_with("question\n\nround 1\n  line 0\n"), "{text}");
        assert!(text.ends_with("  line 12\n  … 7 more lines\n\noutcome ok"), "{text}");
    }
}
