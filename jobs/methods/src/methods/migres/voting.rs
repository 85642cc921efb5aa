//! Votes of several draws. The paper has one draw; the rules are those of the authors' code.

use super::clusters::middle_statements;
use super::parameters::MigresParameters;
use super::reply::{CitedInfo, LeafReply, MainReply};
use std::cmp::Reverse;

/// From so many characters on, the missing information of a reply speaks against its answer.
const LONG_MISSING: usize = 10;

/// The decision of the main module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MainVerdict {
    /// The answer.
    Answered(MainReply),
    /// Something is missing.
    Missing(MainReply),
}

/// Decides about the replies that could be read, of which there is at least one.
pub(super) fn decide_main(mut replies: Vec<MainReply>, parameters: &MigresParameters) -> Option<MainVerdict> {
    if parameters.draws == 1 {
        let only = replies.pop()?;
        return Some(if only.is_answerable() { MainVerdict::Answered(only) } else { MainVerdict::Missing(only) });
    }
    let least = i64::from(parameters.least_confidence);
    let is_vote = |reply: &&MainReply| {
        reply.is_answerable() && reply.confidence >= least && reply.missing.chars().count() < LONG_MISSING
    };
    let total = replies.len() as i64;
    let votes: Vec<&MainReply> = replies.iter().filter(is_vote).collect();
    let against = total - votes.len() as i64;
    // A model may write any number.
    let confidence: i128 = replies.iter().map(|reply| i128::from(reply.confidence)).sum();
    if 2 * against < total && confidence >= i128::from(least * total) {
        return commonest_answer(&votes).cloned().map(MainVerdict::Answered);
    }
    let missing = replies.iter().filter(|reply| !is_vote(reply));
    missing.max_by_key(|reply| (!reply.missing.is_empty(), !reply.is_answerable())).cloned().map(MainVerdict::Missing)
}

/// The answer of most replies; of equally many the one with the highest confidence, then the first.
pub(super) fn commonest_answer<'a>(replies: &[&'a MainReply]) -> Option<&'a MainReply> {
    let same = |a: &MainReply, b: &MainReply| a.answer.to_lowercase() == b.answer.to_lowercase();
    let support = |reply: &MainReply| replies.iter().filter(|other| same(reply, other)).count();
    replies.iter().copied().min_by_key(|reply| (Reverse(support(reply)), Reverse(reply.confidence)))
}

/// The statements of all leaf replies: with several draws the middle ones of the largest clusters.
pub(super) fn merge_leaves(replies: Vec<LeafReply>, parameters: &MigresParameters) -> Vec<CitedInfo> {
    let infos: Vec<CitedInfo> = replies.into_iter().flat_map(|reply| reply.infos).collect();
    if parameters.draws == 1 {
        return infos;
    }
    let statements: Vec<&str> = infos.iter().map(|info| info.info.as_str()).collect();
    let middle = middle_statements(&statements, parameters.clusters as usize, parameters.clusters_kept as usize);
    middle.into_iter().map(|at| infos[at].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parameters(draws: u32) -> MigresParameters {
        let json = json!({"retriever": "s", "reranker": "r", "generator": "g", "draws": draws, "sampling": "server"});
        serde_json::from_value(json).unwrap()
    }

    fn reply(answer: &str, confidence: i64, missing: &str) -> MainReply {
        MainReply { answer: answer.to_owned(), confidence, missing: missing.to_owned(), ..MainReply::default() }
    }

    #[test]
    fn one_draw_decides_by_its_word() {
        let decide = |answer| decide_main(vec![reply(answer, 1, "a long missing text")], &parameters(1)).unwrap();
        assert!(matches!(decide("Rome"), MainVerdict::Answered(_)));
        assert!(matches!(decide("It is Unanswerable."), MainVerdict::Missing(_)));
        assert_eq!(decide_main(Vec::new(), &parameters(1)), None);
    }

    #[test]
    fn several_draws_need_confident_votes() {
        let decide = |replies: &[(&str, i64, &str)]| {
            let replies = replies.iter().map(|&(answer, confidence, missing)| reply(answer, confidence, missing));
            match decide_main(replies.collect(), &parameters(3)).unwrap() {
                MainVerdict::Answered(reply) => format!("answer {}", reply.answer),
                MainVerdict::Missing(reply) => format!("missing {}", reply.missing),
            }
        };
        assert_eq!(decide(&[("Rome", 5, ""), ("rome", 5, ""), ("Paris", 5, "")]), "answer Rome");
        assert_eq!(decide(&[("Rome", 5, ""), ("unanswerable", 5, "the town"), ("Rome", 5, "")]), "answer Rome");
        assert_eq!(decide(&[("Rome", 5, ""), ("unanswerable", 1, "the town"), ("Rome", 5, "")]), "missing the town");
        assert_eq!(
            decide(&[("Rome", 5, ""), ("Rome", 3, "x"), ("Rome", 5, "the year of it")]),
            "missing the year of it"
        );
    }
}
