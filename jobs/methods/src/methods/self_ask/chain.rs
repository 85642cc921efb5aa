//! The text of Self-Ask: its markers, its follow-up questions, its final answer.

use super::parameters::ExtractionRule;

/// Stands at the beginning of the model's text.
pub(super) const OPENING: &str = "Are follow up questions needed here:";
/// Stands before an intermediate answer.
pub(super) const INTERMEDIATE: &str = "\nIntermediate answer:";
/// Stands before a follow-up question.
pub(super) const FOLLOW_UP: &str = "Follow up:";

/// The follow-up question at the end of a text: in its last line, behind the marker or the last colon. `None` if there
/// is none, or no words behind it.
pub(super) fn follow_up(text: &str, rule: ExtractionRule) -> Option<String> {
    let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
    let (_, behind) = last.rsplit_once(FOLLOW_UP)?;
    let question = match rule {
        ExtractionRule::Marker => behind,
        ExtractionRule::LastColon => last.rsplit(':').next().unwrap_or_default(),
    };
    let question = question.trim();
    (!question.is_empty()).then(|| question.to_owned())
}

/// The answer behind the final marker of a text; `None` without the marker.
pub(super) fn final_answer(text: &str, marker: &str, rule: ExtractionRule) -> Option<String> {
    let (_, behind) = text.split_once(marker.trim())?;
    Some(stated_answer(behind, rule))
}

/// The answer at the beginning of a text: its first line, or what stands behind its last colon, without a point at the
/// end.
pub(super) fn stated_answer(text: &str, rule: ExtractionRule) -> String {
    let answer = match rule {
        ExtractionRule::Marker => text.trim_start().split('\n').next().unwrap_or_default(),
        ExtractionRule::LastColon => text.rsplit(':').next().unwrap_or_default(),
    };
    let answer = answer.trim();
    answer.strip_suffix('.').unwrap_or(answer).to_owned()
}

/// A text without the spaces around it, up to the first of `stops`; `None` if it has none of them.
pub(super) fn cut_at(text: &str, stops: &[&str]) -> Option<String> {
    if !stops.iter().any(|stop| text.contains(stop)) {
        return None;
    }
    let text = text.trim();
    let end = stops.iter().filter_map(|stop| text.find(stop)).min().unwrap_or(text.len());
    Some(text[..end].trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follow_up_questions_stand_in_the_last_line() {
        let both = |text| [ExtractionRule::Marker, ExtractionRule::LastColon].map(|rule| follow_up(text, rule));
        assert_eq!(both(" Yes.\nFollow up: Who is he?"), [(); 2].map(|()| Some("Who is he?".to_owned())));
        assert_eq!(
            both("Follow up: In Dune: Part Two, who?\n"),
            [Some("In Dune: Part Two, who?".to_owned()), Some("Part Two, who?".to_owned())]
        );
        assert_eq!(both("Follow up: a?\nSo it is."), [None, None]);
        assert_eq!(both("Yes.\nFollow up: "), [None, None]);
    }

    #[test]
    fn answers_stand_behind_the_marker() {
        let marker = "\nSo the final answer is:";
        let read = |text, rule| final_answer(text, marker, rule);
        let text = " No.\nSo the final answer is: Dune: Part Two.\n\nQuestion: next";
        assert_eq!(read(text, ExtractionRule::Marker), Some("Dune: Part Two".to_owned()));
        assert_eq!(read(text, ExtractionRule::LastColon), Some("next".to_owned()));
        assert_eq!(read("So the final answer is:", ExtractionRule::Marker), Some(String::new()));
        assert_eq!(read("So the answer is: Rome", ExtractionRule::Marker), None);
    }

    #[test]
    fn texts_are_cut_as_the_authors_cut_them() {
        let stops = [INTERMEDIATE, "So the final answer is:"];
        let text = " Yes.\nFollow up: Who?\nIntermediate answer: x\nSo the final answer is: y";
        assert_eq!(cut_at(text, &stops), Some("Yes.\nFollow up: Who?".to_owned()));
        assert_eq!(cut_at(text, &["\nFollow up:"]), Some("Yes.".to_owned()));
        assert_eq!(cut_at("So it is", &stops), None);
        // The line break in front is lost with the spaces, and then no stop is found: the authors keep all of it.
        assert_eq!(cut_at("\nIntermediate answer: x", &stops), Some("Intermediate answer: x".to_owned()));
        assert_eq!(cut_at("\nRome\nmore", &["\n"]), Some("Rome".to_owned()));
    }
}
