//! The splitter of sentences on listed texts: `sentences.txt` says how.

const CASES: &str = include_str!("sentences.txt");

/// Whether the rules are known to get a case wrong, and its sentences.
fn cases() -> impl Iterator<Item = (bool, Vec<&'static str>)> {
    let lines = CASES.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| match line.strip_prefix("~ ") {
        Some(known) => (true, known.split(" | ").collect()),
        None => (false, line.split(" | ").collect()),
    })
}

#[test]
fn hard_cases_are_cut_as_listed() {
    let mut wrong = Vec::new();
    for (is_known_mistake, expected) in cases() {
        let text = expected.join(" ");
        let found: Vec<&str> = hopeval_pytext::sentences(&text).collect();
        if (found != expected) != is_known_mistake {
            wrong.push(format!("{text}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_are_three_hundred_of_them() {
    let (wrong, right): (Vec<_>, Vec<_>) = cases().partition(|(is_known_mistake, _)| *is_known_mistake);
    assert!(right.len() + wrong.len() >= 300 && wrong.len() * 20 <= right.len(), "{} {}", right.len(), wrong.len());
}
