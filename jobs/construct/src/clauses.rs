//! Divides the words of a question among its hops.
//!
//! The words of a question are cut into stretches, each of one depth. The words of a stretch of depth d are answered at
//! hop d and not needed afterwards. Stretches are found by dynamic programming over the words; the states are the
//! depths:
//!
//! * A word shared with a step counts for that step's depth: 3 in a run of words shared by question and sub-question
//!   (or subject), if the run has two content words or a name; 2 alone, or as a form of a word of the sub-question, or
//!   as a cue for the relation; 1.5 for function words inside such a run. A word with equal counts for several depths
//!   counts for the deepest, since it is needed longest.
//! * A change of depth costs 1. Inwards, to a smaller depth, it costs 0.9 before a content word and 0.8 before an
//!   article: "the mayor of | the city where | the author of X | was born". Of equal paths, the one with the earliest
//!   change wins, so unmatched words belong to the words after them. Outwards, a change costs 0.9 behind a comma or a
//!   closing parenthesis, and the last of these wins: a set-off phrase describes the words before it, "the film X,
//!   known for mazes, | born".
//! * Questions begin at the deepest hop: it counts 1 for their first word.
//!
//! If no word counts for the deepest hop, the words behind the last matched one belong to it, unless a comma or a
//! parenthesis sets them off. Closing punctuation belongs to no hop: it stays.

use crate::cues::{asks_for, relation_cues};
use crate::steps::QuestionStep;
use crate::words::{TextWord, is_content, is_form_of, lower_case, split_words};
use std::cmp::Ordering;

/// The depth of closing punctuation, never answered.
pub(crate) const ALWAYS: u32 = u32::MAX;

const RUN: f64 = 3.0;
const ALONE: f64 = 2.0;
const INSIDE: f64 = 1.5;
const CHANGE: f64 = 1.0;
const INWARDS_BEFORE_CONTENT: f64 = 0.9;
const INWARDS_BEFORE_ARTICLE: f64 = 0.8;
const OUTWARDS_BEHIND_BREAK: f64 = 0.9;
const FIRST: f64 = 1.0;
/// Makes an earlier change cheaper than a later one.
const LATER: f64 = 1e-6;

/// The hop that answers each word of the question, from 1; [`ALWAYS`] for closing punctuation.
pub(crate) fn word_depths(question: &str, steps: &[QuestionStep]) -> Vec<u32> {
    let found = split_words(question);
    let deepest = steps.iter().map(|step| step.depth).max().unwrap_or(1) as usize;
    let open = found.iter().rposition(|word| word.text.chars().any(hopeval_pytext::is_word)).map_or(0, |last| last + 1);
    let counts = depth_counts(&found[..open], steps, deepest);
    let mut depths = best_path(question, &found[..open], &counts, deepest);
    if counts.iter().all(|counts| counts[deepest - 1] == 0.0) {
        give_the_rest_to_the_deepest(question, &found[..open], &counts, &mut depths, deepest);
    }
    depths.resize(found.len(), ALWAYS);
    depths
}

/// The counts of each word, by depth less one.
fn depth_counts(found: &[TextWord<'_>], steps: &[QuestionStep], deepest: usize) -> Vec<Vec<f64>> {
    let folded: Vec<String> = found.iter().map(|word| lower_case(word.text)).collect();
    let mut counts = vec![vec![0.0_f64; deepest]; found.len()];
    for step in steps {
        let depth = step.depth as usize - 1;
        let mut add = |at: usize, count: f64| {
            let known = &mut counts[at][depth];
            *known = known.max(count);
        };
        let sources = [Some(step.asks.as_str()), step.subject.as_deref()];
        for source in sources.into_iter().flatten() {
            let source: Vec<String> = split_words(source).iter().map(|word| lower_case(word.text)).collect();
            shared_runs(found, &folded, &source, &mut add);
            for (at, word) in folded.iter().enumerate() {
                if is_content(word) && source.iter().any(|other| is_content(other) && is_form_of(word, other)) {
                    add(at, ALONE);
                }
            }
        }
        let cues = relation_cues(&step.relation);
        for (at, word) in folded.iter().enumerate() {
            if is_content(word) && asks_for(&cues, word) {
                add(at, ALONE);
            }
        }
    }
    for counts in &mut counts {
        let mut most = 0.0;
        for count in counts.iter_mut().rev() {
            if *count > 0.0 && *count <= most {
                *count = 0.0;
            }
            most = f64::max(most, *count);
        }
    }
    counts
}

/// Counts the longest runs of words shared by question and source.
fn shared_runs(found: &[TextWord<'_>], folded: &[String], source: &[String], add: &mut impl FnMut(usize, f64)) {
    for from in 0..folded.len() {
        for start in 0..source.len() {
            let begins = from == 0 || start == 0 || folded[from - 1] != source[start - 1];
            if !begins {
                continue;
            }
            let length = folded[from..].iter().zip(&source[start..]).take_while(|(a, b)| a == b).count();
            let content: Vec<usize> = (from..from + length).filter(|&at| is_content(&folded[at])).collect();
            let (Some(&first), Some(&last)) = (content.first(), content.last()) else { continue };
            // A capital at the beginning of a question names nobody.
            let names = |at: &usize| *at > 0 && found[*at].text.chars().next().is_some_and(|c| !c.is_lowercase());
            if content.len() < 2 && !content.iter().any(names) {
                add(first, ALONE);
                continue;
            }
            for (at, word) in folded.iter().enumerate().take(last + 1).skip(first) {
                add(at, if is_content(word) { RUN } else { INSIDE });
            }
        }
    }
}

/// The depths with the largest count, by dynamic programming from the last word to the first.
fn best_path(question: &str, found: &[TextWord<'_>], counts: &[Vec<f64>], deepest: usize) -> Vec<u32> {
    // value[d]: the largest count of the words from here on, if this one has depth d + 1.
    let mut value = vec![0.0; deepest];
    let mut following: Vec<Vec<usize>> = vec![Vec::new(); found.len()];
    for at in (0..found.len()).rev() {
        let inwards = match found.get(at + 1).map(|word| lower_case(word.text)).as_deref() {
            Some("the" | "a" | "an") => INWARDS_BEFORE_ARTICLE,
            Some(word) if is_content(word) => INWARDS_BEFORE_CONTENT,
            _ => CHANGE,
        };
        let next_word = found.get(at + 1).map_or(question.len(), |word| word.start);
        let at_break = found[at].text == ")" || question[found[at].end()..next_word].contains(',');
        let later = LATER * at as f64;
        let outwards = if at_break { OUTWARDS_BEHIND_BREAK - later } else { CHANGE + later };
        let change = |from: usize, to: usize| match to.cmp(&from) {
            Ordering::Equal => 0.0,
            Ordering::Less => inwards + later,
            Ordering::Greater => outwards,
        };
        let mut next = vec![0.0; deepest];
        for depth in 0..deepest {
            let mut best = depth;
            if at + 1 < found.len() {
                let worth = |other: usize| value[other] - change(depth, other);
                best = (0..deepest).fold(depth, |best, other| if worth(other) > worth(best) { other } else { best });
                next[depth] = worth(best);
            }
            next[depth] += counts[at][depth];
            following[at].push(best);
        }
        value = next;
    }
    if let Some(last) = value.last_mut() {
        *last += FIRST;
    }
    let mut depth = (0..deepest).rev().fold(deepest - 1, |best, d| if value[d] > value[best] { d } else { best });
    following
        .iter()
        .map(|following| {
            let here = depth;
            depth = following[here];
            here as u32 + 1
        })
        .collect()
}

fn give_the_rest_to_the_deepest(
    question: &str,
    found: &[TextWord<'_>],
    counts: &[Vec<f64>],
    depths: &mut [u32],
    deepest: usize,
) {
    let Some(last) = counts.iter().rposition(|counts| counts.iter().any(|&count| count > 0.0)) else { return };
    let set_off = found[last..].windows(2).any(|pair| question[pair[0].end()..pair[1].start].contains(','))
        || found[last..].iter().any(|word| matches!(word.text, "(" | "–" | ";"));
    if !set_off {
        depths[last + 1..].fill(deepest as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::StepPassage;

    /// Steps that each need the one before; `asks`, subject, relation.
    fn chain(parts: &[(&str, Option<&str>, &str)]) -> Vec<QuestionStep> {
        let step = |(at, &(asks, subject, relation)): (usize, &(&str, Option<&str>, &str))| QuestionStep {
            asks: asks.to_owned(),
            subject: subject.map(str::to_owned),
            about: Vec::new(),
            relation: relation.to_owned(),
            needs: Vec::new(),
            depth: at as u32 + 1,
            needed_by: Vec::new(),
            answer: String::new(),
            passage: StepPassage::default(),
        };
        parts.iter().enumerate().map(step).collect()
    }

    /// The words left after hop `hop`.
    fn rest(question: &str, steps: &[QuestionStep], hop: u32) -> String {
        let depths = word_depths(question, steps);
        let kept = split_words(question).into_iter().zip(depths).filter(|(_, depth)| *depth > hop);
        kept.map(|(word, _)| word.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_nested_clause_is_taken_out() {
        let steps = chain(&[
            ("Who stars in the 1937 film The Key and the Blanket?", Some("The Key and the Blanket"), "starring"),
            ("Where was  born?", None, "place of birth"),
        ]);
        let question =
            "What is the birthplace of the star of the 1937 film The Key and the Blanket, known for experiments?";
        assert_eq!(rest(question, &steps, 1), "What is the birthplace of ?");
    }

    #[test]
    fn three_hops_go_one_by_one() {
        let steps = chain(&[
            ("In which city is Tanford State University located?", Some("Tanford State University"), "located in"),
            ("In which country is ?", None, "country"),
            ("What is the capital of ?", None, "capital"),
            ("What is the population of ?", None, "population"),
        ]);
        let question = "How many people live in the capital of the electronic and didactic country of the lifelike and \
                        ironic home of the campus of Tanford State University, known for mosaics and gardens?";
        assert_eq!(
            rest(question, &steps, 1),
            "How many people live in the capital of the electronic and didactic country of ?"
        );
        assert_eq!(rest(question, &steps, 2), "How many people live in the capital of ?");
        assert_eq!(rest(question, &steps, 3), "How many people live in ?");
    }

    #[test]
    fn what_follows_the_clause_stays() {
        let father = [("father of John V", Some("John V, Prince of Anhalt-Zerbst"), "father")];
        let steps = chain(&[father[0], ("date of death", None, "date of death")]);
        assert_eq!(rest("When did John V, Prince Of Anhalt-Zerbst's father die?", &steps, 1), "When did die ?");
        let steps = chain(&[father[0], ("what came to pass", None, "")]);
        let question = "How did John V, Prince Of Anhalt-Zerbst's father vanish?";
        assert_eq!(rest(question, &steps, 1), "How did vanish ?", "nothing asks for the second hop but the rest");
    }

    #[test]
    fn words_of_two_hops_stay_until_the_last_of_them() {
        let steps =
            chain(&[("father of Abbas Shirvanshah", Some("Abbas Shirvanshah"), "father"), ("father", None, "father")]);
        let question = "Who is the paternal grandfather of Abbas Shirvanshah?";
        assert_eq!(rest(question, &steps, 1), "Who is the paternal grandfather of ?");
    }

    #[test]
    fn two_branches_of_one_depth_are_both_taken_out() {
        let mut steps = chain(&[
            ("Where was Laura Doroux born?", Some("Laura Doroux"), "place of birth"),
            ("In which country is ?", None, "country"),
            ("Where was Emma Doroux born?", Some("Emma Doroux"), "place of birth"),
            ("In which country is ?", None, "country"),
        ]);
        (steps[2].depth, steps[3].depth) = (1, 2);
        let question = "Are the braided birthplace of Laura Doroux and the marbled birthplace of Emma Doroux in the \
                        same country?";
        assert_eq!(rest(question, &steps, 1), "Are in the same country ?");
    }

    #[test]
    fn how_two_dates_compare_is_asked_to_the_end() {
        let mut steps = chain(&[
            ("director of Duty Is Duty", Some("Duty Is Duty"), "director"),
            ("date of death", None, "date of death"),
            ("director of Frontier Woman", Some("Frontier Woman"), "director"),
            ("date of death", None, "date of death"),
        ]);
        (steps[2].depth, steps[3].depth) = (1, 2);
        let question = "Which film has the director who died earlier, Duty Is Duty or Frontier Woman?";
        assert_eq!(rest(question, &steps, 1), "Which film has who died earlier ?");
    }

    #[test]
    fn a_single_hop_is_answered_whole() {
        let steps = chain(&[("Who wrote Bold Basket?", Some("Bold Basket"), "author")]);
        assert_eq!(rest("Who wrote Bold Basket?", &steps, 1), "?");
        assert_eq!(word_depths("", &steps), Vec::<u32>::new());
    }
}
