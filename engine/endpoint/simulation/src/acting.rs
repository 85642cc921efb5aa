//! The next turn of a ReAct episode: looks up the page of what is missing, or finishes.
//!
//! A page that was not found is looked up again under the first similar title that begins alike. A page that was seen
//! and does not state the fact leaves the question without an answer.

/// The text that goes on behind `prior`, the episode so far: a thought with its action, or an action alone if its
/// thought stands already. `missing` is the entity whose page is wanted.
pub(crate) fn next_action(prior: &str, missing: Option<&str>, answer: &str, thought: &str) -> String {
    let action = match missing {
        None => format!("Finish[{answer}]"),
        Some(subject) => match page_to_search(prior, subject) {
            Some(title) => format!("Search[{title}]"),
            None => format!("Finish[{answer}]"),
        },
    };
    let last = prior.trim_end().rsplit('\n').next().unwrap_or_default();
    let number = last.strip_suffix(':').and_then(|begun| begun.split_once(' '));
    match number {
        Some(("Thought", number)) => format!(" {thought}\nAction {number}: {action}"),
        _ => format!(" {action}"),
    }
}

/// The title to look up for an entity; `None` if every way was tried.
fn page_to_search(prior: &str, subject: &str) -> Option<String> {
    let searched = |title: &str| prior.contains(&format!("Search[{title}]"));
    if !searched(subject) {
        return Some(subject.to_owned());
    }
    let (_, found) = prior.rsplit_once(&format!("Could not find {subject}. Similar: ["))?;
    let list = found.split('\n').next()?;
    let titles = list.split(['\'', '"']).filter(|title| title.starts_with(subject));
    titles.map(str::to_owned).find(|title| !searched(title))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_looked_up_until_the_answer_is_there() {
        let missing = Some("Pale Harbor");
        let begun = "\nThought 1:";
        assert_eq!(next_action(begun, missing, "unknown", "Look."), " Look.\nAction 1: Search[Pale Harbor]");
        let similar = "\nThought 1: Look.\nAction 1: Search[Pale Harbor]\nObservation 1: Could not find Pale Harbor. \
                       Similar: ['Harbor', 'Pale Harbor (film)'].\nThought 2:";
        assert_eq!(next_action(similar, missing, "unknown", "So."), " So.\nAction 2: Search[Pale Harbor (film)]");
        let seen = format!("{similar} So.\nAction 2: Search[Pale Harbor (film)]\nObservation 2: A film.\nThought 3:");
        assert_eq!(next_action(&seen, missing, "unknown", "So."), " So.\nAction 3: Finish[unknown]");
        assert_eq!(next_action("\nThought 1: So.\nAction 1:", None, "Rome", ""), " Finish[Rome]");
    }
}
